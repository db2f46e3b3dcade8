package assistance

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// snapshotVersion is the only version of snapshots that this package reads.
const snapshotVersion = 1

// ErrSnapshot says that a snapshot is damaged or of a later version. Go on with [Silent] in its
// conversation.
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

// UnmarshalJSON restores a machine from its snapshot. On error, which wraps
// [ErrSnapshot], the machine is unchanged.
func (m *Machine) UnmarshalJSON(data []byte) error {
	var s snapshot
	err := json.Unmarshal(data, &s)
	if s.Version > snapshotVersion {
		err = fmt.Errorf("it is of version %d, and this program reads %d", s.Version, snapshotVersion)
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	if s.Current == Thinking {
		s.Current = ""
	}
	*m = Machine(s.fields)
	return nil
}

// check returns an error for a machine that no sequence of events leads to.
func (s snapshot) check() error {
	if _, known := moves[s.Current]; !known {
		return fmt.Errorf("unknown state %q", s.Current)
	}
	switch {
	case s.Version < 1:
		return errors.New("it has no version")
	case s.Current == Proactive && s.Offer == nil:
		return errors.New("no offer is shown")
	case s.Dismissed < 0:
		return errors.New("the number of dismissals is negative")
	}
	for _, o := range []*offer{s.Claim, s.Offer} {
		if o != nil && (len(o.Labels) > helpdesk.MaxLabels || o.TimeoutUS < 0) {
			return errors.New("an offer is impossible")
		}
	}
	return nil
}
