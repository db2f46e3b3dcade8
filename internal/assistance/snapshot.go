package assistance

import (
	"encoding/json"
	"errors"
)

// snapshotVersion is the only version of snapshots that this package reads.
const snapshotVersion = 1

// ErrSnapshot reports that a snapshot is damaged or of a later version. Continue its
// conversation with [Silent].
var ErrSnapshot = errors.New("proactive: the snapshot cannot be read")

// Silent returns a machine that makes no offer, for a conversation whose snapshot cannot be read:
// the user may have refused earlier ones.
func Silent() Machine { return Machine{Dismissed: dismissalsForEver} }

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

// UnmarshalJSON restores a machine from its snapshot. After an error, which is
// [ErrSnapshot], the machine is unchanged.
func (m *Machine) UnmarshalJSON(data []byte) error {
	var s snapshot
	err := json.Unmarshal(data, &s)
	if err != nil || s.Version != snapshotVersion || s.Current == Proactive && s.Offer == nil {
		return ErrSnapshot
	}
	if s.Current == Thinking {
		s.Current = ""
	}
	*m = Machine(s.fields)
	return nil
}
