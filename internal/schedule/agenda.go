package schedule

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// Agenda orders values by due time. It is for keys with nothing but a due time,
// such as the conversations of a desk that is down. A value costs only its [Slot]
// and no goroutine. Either all times of an agenda have a monotonic part, or none has
// one. Its methods are not safe for concurrent use.
type Agenda[T any] struct{ slots slots[T] }

// Slot is the place of a value in one [Agenda]. A zero Slot is in none.
type Slot[T any] struct {
	Value T
	due   int64 // nanoseconds since epoch
	place int32 // counted from 1; zero if it is in no agenda
}

// epoch keeps the monotonic part of due times, so that a step of the wall clock moves none.
var epoch = time.Now()

// Due returns the time last set.
func (s *Slot[T]) Due() time.Time { return epoch.Add(time.Duration(s.due)) }

// IsSet reports whether the slot is in an agenda.
func (s *Slot[T]) IsSet() bool { return s.place > 0 }

// Set adds a slot to the agenda, or moves it. It reports whether the slot is now
// the first, so that a sleeper has to wake up earlier.
func (a *Agenda[T]) Set(s *Slot[T], due time.Time) (first bool) {
	s.due = int64(due.Sub(epoch))
	if s.place > 0 {
		heap.Fix(&a.slots, int(s.place-1))
	} else {
		heap.Push(&a.slots, s)
	}
	return s.place == 1
}

// Remove removes a slot from the agenda, if it is there.
func (a *Agenda[T]) Remove(s *Slot[T]) {
	if s.place > 0 {
		heap.Remove(&a.slots, int(s.place-1))
	}
}

// Next returns when the first slot is due, and false for an empty agenda.
func (a *Agenda[T]) Next() (due time.Time, ok bool) {
	if len(a.slots) == 0 {
		return time.Time{}, false
	}
	return a.slots[0].Due(), true
}

// Pop removes the first slot if it is due, and returns its value.
func (a *Agenda[T]) Pop(now time.Time) (value T, ok bool) {
	if len(a.slots) == 0 || a.slots[0].due > int64(now.Sub(epoch)) {
		return value, false
	}
	return heap.Pop(&a.slots).(*Slot[T]).Value, true
}

// PopBest removes a slot that is due, one of the best at random, and returns its value.
func (a *Agenda[T]) PopBest(now time.Time, better func(a, b T) bool) (value T, ok bool) {
	var best *Slot[T]
	for i, from := 0, rand.IntN(len(a.slots)+1); i < len(a.slots); i++ {
		s := a.slots[(from+i)%len(a.slots)]
		if s.due <= int64(now.Sub(epoch)) && (best == nil || better(s.Value, best.Value)) {
			best = s
		}
	}
	if best == nil {
		return value, false
	}
	a.Remove(best)
	return best.Value, true
}

// Len returns the number of slots.
func (a *Agenda[T]) Len() int { return len(a.slots) }

// slots implements [heap.Interface].
type slots[T any] []*Slot[T]

func (s slots[T]) Len() int           { return len(s) }
func (s slots[T]) Less(i, j int) bool { return s[i].due < s[j].due }
func (s slots[T]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].place, s[j].place = int32(i+1), int32(j+1)
}

func (s *slots[T]) Push(x any) {
	*s = append(*s, x.(*Slot[T]))
	x.(*Slot[T]).place = int32(len(*s))
}

// Pop frees memory if the heap has become much smaller.
func (s *slots[T]) Pop() any {
	end := len(*s) - 1
	last := (*s)[end]
	(*s)[end], *s = nil, (*s)[:end]
	last.place = 0
	if cap(*s) > 4*end+leastRoom {
		*s = append(make(slots[T], 0, 2*end), *s...)
	}
	return last
}

// leastRoom is the capacity up to which an agenda never shrinks.
const leastRoom = 64
