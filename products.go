package liveactivity

import (
	"cmp"
	"os"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/productfile"
	"github.com/liveactivity/liveactivity/internal/registry"
)

// The configuration of products.
type (
	// File is a product file: Products and Keys.
	File = productfile.File
	// Product is an app whose users' activity is separate from all other products'. It has a
	// ProductID; the WebhookSecret of webhooks; the public CaptureTokens of SDKs; the
	// AllowedOrigins of pages that may send events, empty for all; the LinkHosts to which
	// public replies may link in addition to those; an Identity; an Agent; RespectGPC, which
	// ignores requests of SDKs with Sec-GPC: 1; the custom Events that become actions; Sources
	// in formats of its own (see package activity/flat); and an IntegrationConfig. Without a
	// secret and tokens it accepts no events over HTTP.
	Product = productfile.Product
	// Identity configures the trust in users' identities: the Secrets that sign user IDs and
	// email addresses, and the use of Unverified identities: "none", "notes" (the default) or
	// "replies".
	Identity = productfile.Identity
	// Agent configures the contexts for AI agents: the Prompt precedes their text.
	Agent = productfile.Agent
	// EventRules lists the custom events of a product that become actions, by name. A name
	// that ends in "*" matches all names with that prefix. "$exception" stands for errors.
	EventRules = intake.Rules
	// EventRule lists the Properties of a custom event to show, and has a Sentence for it
	// without the subject ("sent an invoice"). The zero value shows the event's name alone.
	EventRule = intake.Rule
	// Key grants requests with the bearer token Key access to the product ExternalID, within
	// its Scopes, such as [access.MCP], nil for all. The audit log has its Name.
	Key = productfile.Key
	// IntegrationConfig has the configurations of a product's Desks, as JSON by the name of their
	// helpdesk.Kind, of the *Notes in their conversations, and of Proactive, a *[proactive.Config].
	IntegrationConfig = productfile.IntegrationConfig
	// Notes configures the notes in conversations: DebounceMS, IntervalS, BinSeconds,
	// SummaryThreshold and PreLinkWindowS, each an *int, nil for its default.
	Notes = productfile.Notes
)

// URLs are the addresses of a service, each a method: Base for SDKs, MCP, and of a product Webhook, Stream
// and LiveActivity. Without a PublicURL and a LocalURL they are paths.
type URLs = registry.URLs

// NewProduct returns a product with new secrets, and a key with all scopes for it.
func NewProduct(productID string) (Product, Key) { return registry.NewProduct(productID) }

// LoadFile reads a product file. It replaces ${NAME} inside strings by the result of lookupEnv, which is
// [os.LookupEnv] if nil. The Desks and Triggers in the options define the valid configurations; opts
// may be nil. Warnings are about probable mistakes, and the error joins all mistakes. Both name the
// file and the field.
func LoadFile(
	path string, lookupEnv func(string) (string, bool), opts *Options) (file File, warnings []string, err error,
) {
	if lookupEnv == nil {
		lookupEnv = os.LookupEnv
	}
	return productfile.Load(path, lookupEnv, cmp.Or(opts, &Options{}).extensions())
}

// warnOfConfiguration logs, once each, the valid parts of a product's configuration that have no effect or a
// surprising one.
func (s *Service) warnOfConfiguration(productID string) {
	product, known, err := s.products.Product(productID)
	if err != nil || !known {
		return // it has just been removed
	}
	var warnings []string
	for _, desk := range product.Desks {
		can := desk.Desk.Capabilities()
		switch {
		case !can.Chats:
		case len(can.SignedBy) == 0:
			warnings = append(warnings,
				"without signing_secret every webhook of the desk is accepted, and public replies are off")
		case !s.replies:
			warnings = append(warnings, "without a language model messages of users are ignored: there are no public replies")
		}
		warnings = append(warnings, can.Warnings...)
	}
	configured := s.products.Configuration(productID)
	if advice := configured.OfferAdvice(product.Desks); advice != "" {
		warnings = append(warnings, "proactive is enabled, and "+advice)
	}
	if advice := configured.Identity.Advice(); s.replies && advice != "" {
		warnings = append(warnings, advice)
	}
	for _, warning := range warnings {
		s.log.Warn(warning, "product_id", productID)
	}
}
