package bridge

// Status is the state of a vendor's compliance check.
type Status string

// The statuses of a vendor.
const (
	Pending  Status = "pending"
	InReview Status = "in_review"
	Blocked  Status = "blocked"
	Approved Status = "approved"
)

// statuses lists all statuses in the order shown to clients.
var statuses = []string{string(Pending), string(InReview), string(Blocked), string(Approved)}

// Vendor is the compliance state of a vendor, as the page last reported it.
type Vendor struct {
	ID     string `json:"id"`
	Name   string `json:"name"` // empty if the page does not state it
	Status Status `json:"status"`
	// MissingDocuments has the names that a person would use: "W-9 form". It is
	// never nil.
	MissingDocuments []string `json:"missing_documents"`
}
