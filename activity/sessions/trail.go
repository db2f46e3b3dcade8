package sessions

import (
	"encoding/binary"
	"slices"
)

// Position is where a log has an entry: its ID.
type Position struct{ Milli, Seq uint64 }

// MaxRecent is how many of a session's newest actions a [Memory] knows the
// positions of: those of all entries that hold one of them.
const MaxRecent = 50

// trail is the positions of a session's newest entries, in the order of the log,
// and how many actions each has.
type trail struct {
	newest  Position
	count   int32  // the newest one's actions
	actions int32  // of all
	older   []byte // the steps to those before, the oldest first
}

// step leads from an entry to the one after it. It takes three numbers in some five
// bytes.
type step struct {
	milli   uint64 // between the two
	seq     uint64 // of the first
	actions int32  // of the first
}

func (s step) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, s.milli)
	dst = binary.AppendUvarint(dst, s.seq)
	return binary.AppendUvarint(dst, uint64(s.actions))
}

// cutStep returns the first step and the rest.
func cutStep(steps []byte) (first step, rest []byte) {
	number := func() uint64 {
		n, size := binary.Uvarint(steps)
		steps = steps[size:]
		return n
	}
	first = step{number(), number(), int32(number())}
	return first, steps
}

// add adds an entry with so many actions, and drops the first ones that are not
// needed for the newest MaxRecent actions.
func (t *trail) add(at Position, actions int32) {
	if t.count > 0 {
		t.older = step{at.Milli - t.newest.Milli, t.newest.Seq, t.count}.append(t.older)
	}
	t.newest, t.count = at, actions
	t.actions += actions
	for len(t.older) > 0 {
		first, rest := cutStep(t.older)
		if t.actions-first.actions < MaxRecent {
			return
		}
		t.actions -= first.actions
		t.older = t.older[:copy(t.older, rest)]
	}
}

// positions returns the positions of the entries, in the order of the log.
func (t *trail) positions() []Position {
	var steps []step
	for rest := t.older; len(rest) > 0; {
		var s step
		s, rest = cutStep(rest)
		steps = append(steps, s)
	}
	all := []Position{t.newest}
	for _, s := range slices.Backward(steps) {
		all = append(all, Position{all[len(all)-1].Milli - s.milli, s.seq})
	}
	slices.Reverse(all)
	return all
}
