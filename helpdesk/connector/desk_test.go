package connector

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/helpdesk"
)

// desk is a help desk in memory.
type desk struct {
	size int // characters that fit into a note; 0 for any number
	rate int // requests in a minute that it states; 0 for none

	// refuse is asked before a request has its effect, and lose before its answer
	// is sent. Both may be nil.
	refuse, lose func(op, conversationID string) *helpdesk.APIError
	// takes is the duration of a request. The request has its effect after half of it, even if the
	// client has gone.
	takes func() time.Duration
	pause func(conversationID string) time.Duration
	lacks func(*helpdesk.Capabilities) // may be nil

	mu    sync.Mutex
	last  int
	notes map[string][]*written // by conversation, in order
	order []string              // the conversation of each note
	asked map[string]int        // requests, by operation
	most  int                   // in flight at once
	now   int
}

// written is a note.
type written struct {
	id, text string
	at       time.Time
	redacted bool
}

func newDesk() *desk {
	return &desk{notes: map[string][]*written{}, asked: map[string]int{}}
}

func (d *desk) Fits(text string) bool { return d.size == 0 || len(text) <= d.size }

func (d *desk) Webhook(http.Header, []byte, time.Time) (helpdesk.Event, error) {
	return helpdesk.Event{}, helpdesk.ErrUnrecognized
}

func (d *desk) Pause(conversationID string) time.Duration {
	d.mu.Lock()
	pause := d.pause
	d.mu.Unlock()
	if pause == nil {
		return 0
	}
	return pause(conversationID)
}

func (d *desk) Rate() (int, time.Duration) { return d.rate, time.Minute }

// refuses sets refuse while the desk is in use.
func (d *desk) refuses(refuse func(op, conversationID string) *helpdesk.APIError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuse = refuse
}

// failing fails an operation, or everything in one conversation, or all requests for "".
func failing(of string, e helpdesk.APIError) func(op, conversationID string) *helpdesk.APIError {
	return func(op, conversationID string) *helpdesk.APIError {
		if of != "" && of != op && of != conversationID {
			return nil
		}
		failed := e
		return &failed
	}
}

// pauses sets pause while the desk is in use.
func (d *desk) pauses(pause func(conversationID string) time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pause = pause
}

// lacking takes capabilities away, even while the desk is in use.
func (d *desk) lacking(lacks func(*helpdesk.Capabilities)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lacks = lacks
}

// mostAtOnce returns the most requests in flight at once since the previous call.
func (d *desk) mostAtOnce() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	most := d.most
	d.most = 0
	return most
}

// request has an effect, or fails, as a desk behind a network does.
func (d *desk) request(ctx context.Context, op, conversationID string, effect func()) error {
	d.mu.Lock()
	d.asked[op]++
	d.now++
	d.most = max(d.most, d.now)
	refuse, lose, takes := d.refuse, d.lose, d.takes
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.now--
		d.mu.Unlock()
	}()
	if refuse != nil {
		if err := refuse(op, conversationID); err != nil {
			err.Desk, err.Op = "desk", op
			return err
		}
	}
	half := time.Duration(0)
	if takes != nil {
		half = takes() / 2
	}
	applied := make(chan struct{})
	go func() { // the desk's own, which goes on when the client has gone
		time.Sleep(half)
		d.mu.Lock()
		effect()
		d.mu.Unlock()
		close(applied)
	}()
	lost := &helpdesk.APIError{Desk: "desk", Op: op, Ambiguous: true, Err: context.Cause(ctx)}
	select {
	case <-applied:
	case <-ctx.Done():
		return lost
	}
	if half > 0 { // timers of a bubble that are due at once can crash the race detector of Go 1.26
		select {
		case <-time.After(half):
		case <-ctx.Done():
			return lost
		}
	}
	if lose != nil {
		if err := lose(op, conversationID); err != nil {
			err.Desk, err.Op, err.Ambiguous = "desk", op, true
			return err
		}
	}
	return nil
}

func (d *desk) Note(ctx context.Context, conversationID, text string) (string, error) {
	var id string
	err := d.request(ctx, "note", conversationID, func() {
		d.last++
		id = fmt.Sprint(d.last)
		d.notes[conversationID] = append(d.notes[conversationID], &written{id: id, text: text, at: time.Now()})
		d.order = append(d.order, conversationID)
	})
	if err != nil {
		return "", err
	}
	return id, nil
}

func (d *desk) FindNote(ctx context.Context, conversationID, text, after string,
	since time.Time) (string, bool, error) {
	var id string
	var found bool
	err := d.request(ctx, "find", conversationID, func() {
		notes := d.notes[conversationID]
		if after != "" {
			notes = notes[1+slices.IndexFunc(notes, func(n *written) bool { return n.id == after }):]
		}
		for _, n := range notes {
			if n.text == text && (after != "" || !n.at.Before(since)) {
				id, found = n.id, true
			}
		}
	})
	if err != nil {
		return "", false, err
	}
	return id, found, nil
}

func (d *desk) Redact(ctx context.Context, conversationID, noteID string) error {
	return d.request(ctx, "redact", conversationID, func() {
		for _, n := range d.notes[conversationID] {
			if n.id == noteID {
				n.redacted = true
			}
		}
	})
}

// texts returns the bodies of a conversation's notes, without their headers.
func (d *desk) texts(conversationID string) (texts []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.notes[conversationID] {
		_, body, _ := strings.Cut(n.text, "\n\n")
		texts = append(texts, body)
	}
	return texts
}

// count returns the number of requests for an operation.
func (d *desk) count(op string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[op]
}

func (d *desk) Capabilities() helpdesk.Capabilities {
	return d.without(helpdesk.Capabilities{Finder: d, Redactor: d, Pacer: d})
}

// without returns the capabilities without the ones that the desk lacks.
func (d *desk) without(can helpdesk.Capabilities) helpdesk.Capabilities {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lacks != nil {
		d.lacks(&can)
	}
	return can
}
