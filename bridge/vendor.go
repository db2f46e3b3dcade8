package bridge

// Status is how far a vendor's compliance check has come.
type Status string

// The statuses there are.
const (
	Pending  Status = "pending"
	InReview Status = "in_review"
	Blocked  Status = "blocked"
	Approved Status = "approved"
)

// statuses are all of them, in the order listed to clients.
var statuses = []string{string(Pending), string(InReview), string(Blocked), string(Approved)}

// Vendor is the compliance state of a vendor, as the page reported it last.
type Vendor struct {
	ID     string `json:"id"`
	Name   string `json:"name"` // empty if the page does not say
	Status Status `json:"status"`
	// MissingDocuments are named as a person would: "W-9 form". Never nil.
	MissingDocuments []string `json:"missing_documents"`
}
