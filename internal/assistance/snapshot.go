package assistance

import "encoding/json"

// snapshotVersion is the only version of snapshots that this package reads.
const snapshotVersion = 1

// fields are a Machine without its methods.
type fields Machine

type snapshot struct {
	Version int `json:"version"`
	fields
}

// MarshalJSON returns the machine's snapshot: an object with its version and the
// machine's fields. Times are in microseconds since the epoch.
func (m Machine) MarshalJSON() ([]byte, error) {
	m.Current = m.State()
	return json.Marshal(snapshot{snapshotVersion, fields(m)})
}

// UnmarshalJSON restores a machine from its snapshot, and never fails. A snapshot that is damaged or
// of a later version gives a machine that makes no offer: the user may have refused earlier ones.
func (m *Machine) UnmarshalJSON(data []byte) error {
	var s snapshot
	err := json.Unmarshal(data, &s)
	if err != nil || s.Version != snapshotVersion || s.Current == Proactive && s.Offer == nil {
		*m = Machine{Dismissed: dismissalsForEver}
		return nil
	}
	if s.Current == Thinking {
		s.Current = ""
	}
	*m = Machine(s.fields)
	return nil
}
