package liveactivity

import (
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/internal/productfile"
	"github.com/liveactivity/liveactivity/internal/registry"
)

// The configuration of products.
type (
	// File is a product file: Products and Keys.
	File = productfile.File
	// Product is an app whose users' activity is kept apart from any other product's. It
	// has a ProductID, the WebhookSecret of PostHog's webhook, the CaptureTokens of
	// PostHog's SDKs, which are public, the AllowedOrigins of browsers that may report,
	// none for all, the LinkHosts that public replies may link to beside those, an
	// Identity, RespectGPC, by which nothing is taken from an SDK that sends Sec-GPC: 1,
	// the custom Events that become actions, the Sources whose form it describes (see
	// package activity/flat), and an IntegrationConfig. Without a secret and tokens
	// nothing can be reported to it by HTTP.
	Product = productfile.Product
	// Identity is the trust in a user's identity: the Secrets that sign user ids and
	// email addresses, and the use of an Unverified identity: "none", "notes", which
	// is the default, or "replies".
	Identity = productfile.Identity
	// Agent is for the AI agents that read a product's contexts: the Prompt stands above
	// the text that they are given.
	Agent = productfile.Agent
	// EventRules are the custom events of a product that become actions, by name; a name
	// that ends in "*" stands for all names that begin so. "$exception" stands for errors.
	EventRules = intake.Rules
	// EventRule says which Properties of a custom event may be shown, and has the Sentence
	// for it, without the subject ("sent an invoice"). The zero value will do.
	EventRule = intake.Rule
	// Key opens a product, its ExternalID, to requests with the Key as bearer token, for
	// its Scopes, nil for all. Its Name, if it has one, says in the audit log who reads.
	Key = productfile.Key
	// IntegrationConfig holds the Desks of a product, each as its helpdesk.Kind takes it
	// and by the kind's name, how Notes are written into their conversations, and when
	// quick replies are offered (Proactive).
	IntegrationConfig = productfile.IntegrationConfig
	// Notes is how activity is written into conversations: DebounceMS, IntervalS, BinSeconds,
	// SummaryThreshold and PreLinkWindowS, nil for their defaults.
	Notes = productfile.Notes
)

// URLs are the addresses of a service.
type URLs = registry.URLs

// NewProduct returns a product with fresh secrets, and a key of all scopes that
// opens it.
func NewProduct(productID string) (Product, Key) { return registry.NewProduct(productID) }

// LoadFile reads a product file. ${NAME} inside a string is replaced by lookupEnv, which
// is [os.LookupEnv] in most programs. The Desks and Triggers in the options define the
// configuration that products can have; opts may be nil. Warnings are about probable
// mistakes. The error, if any, joins all mistakes. Both name the file and the field.
func LoadFile(
	path string, lookupEnv func(string) (string, bool), opts *Options) (file File, warnings []string, err error,
) {
	if opts == nil {
		opts = &Options{}
	}
	return productfile.Load(path, lookupEnv, opts.extensions())
}
