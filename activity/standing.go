package activity

// Standing is whose word an identity is. The order counts: a higher standing is never
// overridden by a lower one.
type Standing uint8

// The standings, from the lowest.
const (
	Claimed  Standing = iota // by anyone: a browser, with a token that stands in every page
	Reported                 // by a webhook that proved its secret, or by a program through its own sink
	Signed                   // under one of the product's identity secrets
)

// String returns "claimed", "reported" or "signed".
func (s Standing) String() string {
	switch s {
	case Claimed:
		return "claimed"
	case Reported:
		return "reported"
	}
	return "signed"
}
