package proactive

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// snapshotVersion is the version of snapshots that this package writes and reads.
const snapshotVersion = 1

// ErrSnapshot says that a snapshot is damaged.
var ErrSnapshot = errors.New("proactive: the snapshot is damaged")

// VersionError says that a snapshot is of a version that this package does not
// know. It is not damaged: leave it as it is.
type VersionError struct{ Version int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("proactive: the snapshot is of version %d, and known is %d", e.Version, snapshotVersion)
}

// MarshalJSON returns the machine's snapshot: an object with a version, a
// checksum and the machine's fields. Times are in microseconds since the epoch.
func (m Machine) MarshalJSON() ([]byte, error) {
	fields := map[string]any{"version": snapshotVersion, "state": m.State()}
	set(fields, "since_us", m.since)
	set(fields, "dismissals", m.dismissals)
	if len(m.fired) > 0 {
		fields["fired"] = m.fired
	}
	set(fields, "claim", m.claim)
	set(fields, "offer", m.offer)
	data, err := m.extra.marshal(fields)
	if err != nil {
		return nil, err
	}
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, err
	}
	o["sum"] = o.sum()
	return json.Marshal(o)
}

// UnmarshalJSON restores a machine from its snapshot. Fields that it does not
// know are kept, and written back. The error is a *[VersionError] or wraps
// [ErrSnapshot]; then the machine is unchanged. In a conversation whose snapshot
// cannot be read no offer is made: what the user said to earlier ones is lost.
func (m *Machine) UnmarshalJSON(data []byte) error {
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	var version int
	if err := o.take("version", &version); err != nil || version < 1 {
		return fmt.Errorf("%w: it has no version", ErrSnapshot)
	}
	if version != snapshotVersion {
		return &VersionError{version}
	}
	sum := o["sum"]
	delete(o, "sum")
	o["version"] = json.RawMessage(fmt.Sprint(version))
	if string(sum) != string(o.sum()) {
		return fmt.Errorf("%w: the checksum is wrong", ErrSnapshot)
	}
	delete(o, "version")
	var restored Machine
	err := errors.Join(o.take("state", &restored.state), o.take("since_us", &restored.since), o.take("dismissals", &restored.dismissals),
		o.take("fired", &restored.fired), o.take("claim", &restored.claim), o.take("offer", &restored.offer))
	if err == nil {
		err = restored.check()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	restored.extra = o.rest()
	if restored.state == Thinking && restored.since == 0 {
		restored.state = ""
	}
	*m = restored
	return nil
}

// check returns what cannot be in a machine.
func (m Machine) check() error {
	if _, known := moves[m.state]; !known {
		return fmt.Errorf("unknown state %q", m.state)
	}
	if m.state == Proactive && m.offer == nil {
		return errors.New("no offer is shown")
	}
	if m.dismissals < 0 {
		return errors.New("the number of dismissals is negative")
	}
	for _, o := range []*offer{m.claim, m.offer} {
		if o != nil && (len(o.Labels) > helpdesk.MaxLabels || o.Timeout < 0) {
			return errors.New("an offer is not possible")
		}
	}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (f firing) MarshalJSON() ([]byte, error) {
	return f.extra.marshal(map[string]any{"at_us": f.At, "used_us": f.Used})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (f *firing) UnmarshalJSON(data []byte) error {
	var o object
	err := json.Unmarshal(data, &o)
	err = errors.Join(err, o.take("at_us", &f.At), o.take("used_us", &f.Used))
	f.extra = o.rest()
	return err
}

// MarshalJSON implements [json.Marshaler].
func (o offer) MarshalJSON() ([]byte, error) {
	fields := map[string]any{"trigger_id": o.Trigger, "body": o.Body, "timeout_us": o.Timeout.Microseconds(), "at_us": o.At, "send_by_us": o.SendBy}
	set(fields, "id", o.ID)
	set(fields, "previous", o.Previous)
	if o.Labels != nil {
		fields["labels"] = o.Labels
	}
	if o.Metadata != nil {
		fields["metadata"] = o.Metadata
	}
	return o.extra.marshal(fields)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (o *offer) UnmarshalJSON(data []byte) error {
	var fields object
	var timeout int64
	err := json.Unmarshal(data, &fields)
	err = errors.Join(err, fields.take("trigger_id", &o.Trigger), fields.take("body", &o.Body), fields.take("labels", &o.Labels),
		fields.take("metadata", &o.Metadata), fields.take("timeout_us", &timeout), fields.take("at_us", &o.At),
		fields.take("send_by_us", &o.SendBy), fields.take("id", &o.ID), fields.take("previous", &o.Previous))
	o.Timeout = time.Duration(timeout) * time.Microsecond
	o.extra = fields.rest()
	return err
}

// object is a JSON object that is being read.
type object map[string]json.RawMessage

// take decodes a field, if it is there, and removes it.
func (o object) take(name string, into any) error {
	raw, ok := o[name]
	if !ok {
		return nil
	}
	delete(o, name)
	return json.Unmarshal(raw, into)
}

// rest returns the fields that were not taken.
func (o object) rest() extra {
	if len(o) == 0 {
		return nil
	}
	return extra(o)
}

// sum returns the checksum of the object as JSON, whatever the order of its fields
// and the white space are.
func (o object) sum() json.RawMessage {
	data, err := json.Marshal(o)
	if err != nil {
		return nil // of what is not JSON
	}
	return fmt.Appendf(nil, `"%08x"`, crc32.Checksum(data, castagnoli))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// marshal returns the JSON of an object with these fields, and what is kept
// beside them.
func (x extra) marshal(fields map[string]any) ([]byte, error) {
	all := make(map[string]any, len(x)+len(fields))
	for name, raw := range x {
		all[name] = raw
	}
	maps.Copy(all, fields)
	return json.Marshal(all)
}

// set adds a field unless it has the zero value.
func set[T comparable](fields map[string]any, name string, value T) {
	var zero T
	if value != zero {
		fields[name] = value
	}
}
