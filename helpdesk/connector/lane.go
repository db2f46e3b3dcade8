package connector

import (
	"container/heap"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// lane is what is in memory of a conversation: what wakes it up, and when.
// Its partition's mutex guards it.
type lane struct {
	key      string // of the conversation
	queue    *queue
	sessions []laneSession
	from     eventlog.ID // nothing that is to be written was appended up to here; zero when all is written

	due   int64 // when it is to be worked on, in Unix nanoseconds
	since int64 // when it became due first, in Unix nanoseconds; zero when all is written
	used  int64 // when something happened last, in Unix seconds
	index int32 // in the queue; notQueued or working otherwise

	failures    uint8
	refused     bool // what is stored as being written was not
	summarizing bool // a goroutine makes a summary
}

// laneSession is a session of a lane.
type laneSession struct {
	id    string
	after eventlog.ID // everything up to here is written
}

// What index says of a lane that is not in its queue.
const (
	idle    = -1
	working = -2
)

func (l *lane) has(sessionID string) bool {
	for i := range l.sessions {
		if l.sessions[i].id == sessionID {
			return true
		}
	}
	return false
}

// readFrom records that there is something to write after the id.
func (l *lane) readFrom(id eventlog.ID) {
	if l.from == (eventlog.ID{}) || id.Compare(l.from) < 0 {
		l.from = id
	}
}

// queue holds the lanes of one desk that wait, in the order in which they are due.
type queue struct {
	desk  string
	mu    *sync.Mutex // the partition's
	lanes lanes
	wake  chan struct{} // full when the first lane may be due earlier
}

// lanes implements [heap.Interface].
type lanes []*lane

func (w lanes) Len() int           { return len(w) }
func (w lanes) Less(i, j int) bool { return w[i].due < w[j].due }
func (w lanes) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = int32(i), int32(j)
}

func (w *lanes) Push(x any) {
	l := x.(*lane)
	l.index = int32(len(*w))
	*w = append(*w, l)
}

func (w *lanes) Pop() any {
	last := len(*w) - 1
	l := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	l.index = idle
	return l
}

// put queues a lane, or moves it, to be due at that time. One that is being worked
// on stays where it is. The mutex is held.
func (q *queue) put(l *lane, due time.Time) {
	l.due = due.UnixNano()
	switch {
	case l.index >= 0:
		heap.Fix(&q.lanes, int(l.index))
	case l.index == idle:
		heap.Push(&q.lanes, l)
	}
	if len(q.lanes) > 0 && q.lanes[0] == l {
		signal(q.wake)
	}
}

// arrived records that there is something to write after the id, appended then. The
// lane is due once its sessions have been quiet for the debounce time. The mutex is
// held.
func (q *queue) arrived(l *lane, after eventlog.ID, appended, now time.Time, debounce time.Duration) {
	l.used = now.Unix()
	l.readFrom(after)
	if l.since == 0 {
		l.since = appended.UnixNano()
	}
	if l.index == working || l.failures > 0 {
		return // until that is over
	}
	due := now.Add(debounce)
	if latest := time.Unix(0, l.since).Add(max(leastMaxDelay, 3*debounce)); due.After(latest) {
		due = latest
	}
	if l.index >= 0 && l.due <= now.UnixNano() {
		return // it is due, and keeps its place
	}
	q.put(l, due)
}

// leastMaxDelay is how long an action may wait for the debounce time of a session
// that is never quiet, however short that is.
const leastMaxDelay = 10 * time.Second

// next returns when the first lane is due, and false without any.
func (q *queue) next() (time.Time, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lanes) == 0 {
		return time.Time{}, false
	}
	return time.Unix(0, q.lanes[0].due), true
}

// pop returns at most n lanes that are due, to be worked on.
func (q *queue) pop(n int) (due []*lane) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now().UnixNano()
	for len(due) < n && len(q.lanes) > 0 && q.lanes[0].due <= now {
		l := heap.Pop(&q.lanes).(*lane)
		l.index = working
		due = append(due, l)
	}
	return due
}

// isOverdue reports whether what the lane has to write should have been written
// long ago.
func (l *lane) isOverdue(now time.Time) bool {
	return l.since != 0 && (l.failures > 0 || l.due < now.Add(-parkedAfter).UnixNano())
}

// parkedAfter is by how much a note is late that counts as overdue.
const parkedAfter = 5 * time.Second
