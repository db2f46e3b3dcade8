package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Limits of a message.
const (
	maxBody    = 16 << 10 // bytes
	maxMessage = 1000     // characters
	maxContact = 320      // bytes for each field
)

// message is a visitor's message.
type message struct {
	Text    string  `json:"text"`
	Contact contact `json:"contact"`
}

// takeMessage adds a message to a conversation, or to a new one if the path names none, and
// reports it to the service as any desk does. If that fails it removes the message, so the
// visitor can send it again. The message is stored before the service learns of it, because a
// reply must find its conversation.
func (d *Demo) takeMessage(service http.Handler) httpx.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		m, err := readMessage(w, r)
		if err != nil {
			return err
		}
		id, isNew := r.PathValue("id"), r.PathValue("id") == ""
		if isNew {
			id = d.desk.open(m.Contact)
		}
		partID, err := d.desk.receive(id, m)
		if err != nil {
			return httpx.NotFound("Unknown conversation.")
		}
		if err := d.report(r.Context(), service, id, m, isNew); err != nil {
			d.desk.withdraw(id, partID)
			return httpx.Unavailable(err)
		}
		httpx.WriteJSON(w, http.StatusCreated, map[string]string{"id": id})
		return nil
	}
}

// readMessage decodes and checks a message. It replaces control characters other than line
// breaks with spaces. Its errors are answers.
func readMessage(w http.ResponseWriter, r *http.Request) (m message, err error) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return m, httpx.Errorf(http.StatusUnsupportedMediaType, "The Content-Type must be application/json.")
	}
	body, err := httpx.ReadBody(w, r, maxBody, "")
	if err != nil {
		return m, err
	}
	defer body.Release()
	if json.Unmarshal(body.Bytes(), &m) != nil {
		return m, httpx.BadRequest("The body must be a JSON object with the string text and the object contact.")
	}
	m.Text = strings.TrimSpace(strings.Map(func(c rune) rune {
		if c != '\n' && unicode.IsControl(c) {
			return ' '
		}
		return c
	}, m.Text))
	switch {
	case m.Text == "" || utf8.RuneCountInString(m.Text) > maxMessage:
		return m, httpx.BadRequest("The text must have 1 to %d characters.", maxMessage)
	case len(m.Contact.Email) > maxContact || len(m.Contact.UserID) > maxContact:
		return m, httpx.BadRequest("The email address and the user id of the contact must have at most %d bytes.", maxContact)
	}
	return m, nil
}

// report sends a message's webhooks to the service: that the conversation was opened, if it
// is new, and always the message. Each has its own ID, by which the service recognizes a
// repetition.
func (d *Demo) report(ctx context.Context, service http.Handler, conversationID string, m message, isNew bool) error {
	of := helpdesk.Event{Type: helpdesk.EventOpened, DeliveryID: uuid.NewString(), ConversationID: conversationID,
		Contact: helpdesk.Contact(m.Contact), At: time.Now()}
	if isNew {
		if err := d.send(ctx, service, "/chatbot-webhook/"+d.product.ID, of); err != nil {
			return err
		}
	}
	of.Type, of.DeliveryID, of.Message = helpdesk.EventMessage, uuid.NewString(), m.Text
	return d.send(ctx, service, "/"+Name+"/chat/"+d.product.ID, of)
}

// send posts a webhook with the desk's secret to the service by calling its handler, without a
// network. An answer other than 200 is an error.
func (d *Demo) send(ctx context.Context, service http.Handler, to string, of helpdesk.Event) error {
	body, err := json.Marshal(of)
	if err != nil {
		return fmt.Errorf("demo: encode webhook: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("demo: make webhook: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(headerSecret, d.desk.secret)
	answer := status{header: http.Header{}}
	service.ServeHTTP(&answer, r)
	if answer.code != http.StatusOK {
		return fmt.Errorf("demo: webhook %s was answered %d", to, answer.code)
	}
	return nil
}

// status is a response that keeps only the status.
type status struct {
	header http.Header
	code   int
}

func (s *status) Header() http.Header { return s.header }
func (s *status) WriteHeader(code int) {
	if s.code == 0 {
		s.code = code
	}
}
func (s *status) Write(p []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	return len(p), nil
}
