package liveactivity

import (
	"github.com/liveactivity/liveactivity/helpdesk/connector"
)

// deskWarnings returns settings of a product's desks that are valid and have consequences that
// one should know.
func deskWarnings(product connector.Product, replies bool) (warnings []string) {
	for _, desk := range product.Desks {
		chatter := desk.Desk.Capabilities().Chatter
		switch {
		case chatter == nil:
		case !chatter.Verifies():
			warnings = append(warnings,
				"without signing_secret every webhook of the desk is accepted, and public replies are off")
		case !replies:
			warnings = append(warnings, "without a language model messages of users are ignored: there are no public replies")
		}
	}
	return warnings
}
