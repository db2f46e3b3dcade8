package sessions

import "encoding/binary"

// Position is where a log has an entry: its ID.
type Position struct{ Milli, Seq uint64 }

// MaxRecent is how many of a session's newest actions a [Memory] knows the
// positions of: those of all entries that hold one of them.
const MaxRecent = 50

// trail is the positions of a session's newest entries, in the order of the log,
// and how many actions each has. An entry takes three numbers in some five bytes:
// the milliseconds since the one before, its number within the millisecond, and
// its actions.
type trail struct {
	steps   []byte
	newest  uint64 // Milli of the last one
	actions int    // of all
}

// step is an entry of a trail.
type step struct {
	after   uint64 // milliseconds since the step before, for the first since the epoch
	seq     uint64
	actions int
}

func (s step) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, s.after)
	dst = binary.AppendUvarint(dst, s.seq)
	return binary.AppendUvarint(dst, uint64(s.actions))
}

// cutStep returns the first step and what comes after it.
func cutStep(steps []byte) (first step, rest []byte) {
	number := func() uint64 {
		n, size := binary.Uvarint(steps)
		steps = steps[size:]
		return n
	}
	first = step{number(), number(), int(number())}
	return first, steps
}

// add adds an entry with so many actions, and drops the first ones that are not
// needed for the newest MaxRecent actions.
func (t *trail) add(at Position, actions int) {
	var few [3 * binary.MaxVarintLen64]byte
	t.steps = append(t.steps, step{at.Milli - t.newest, at.Seq, actions}.append(few[:0])...)
	t.newest = at.Milli
	t.actions += actions
	for {
		first, rest := cutStep(t.steps)
		if len(rest) == 0 || t.actions-first.actions < MaxRecent {
			return
		}
		t.actions -= first.actions
		second, rest := cutStep(rest)
		second.after += first.after
		head := second.append(nil)
		n := copy(t.steps, head) // no longer than the two that it replaces
		t.steps = t.steps[:n+copy(t.steps[n:], rest)]
	}
}

// positions returns the positions of the entries, in the order of the log.
func (t *trail) positions() (all []Position) {
	var milli uint64
	for steps := t.steps; len(steps) > 0; {
		var s step
		s, steps = cutStep(steps)
		milli += s.after
		all = append(all, Position{milli, s.seq})
	}
	return all
}
