package liveactivity

import (
	"context"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/internal/person"
)

type (
	// Person identifies a person by either UserID or Email, and not both.
	Person = person.Query
	// PersonExport has all of a person's data, as documented for the endpoint.
	PersonExport = person.Export
	// Erased counts the data that an erasure removes: Actions, Sessions, Conversations, and their notes
	// as NotesRedacted and NotesLeft.
	Erased = person.Erased
)

// Export returns all data about a person: activity, directory, links, conversations, offers, deliveries
// and log entries. It waits as Sessions does, and returns the errors of Erase.
func (s *Service) Export(ctx context.Context, productID string, who Person) (*PersonExport, error) {
	if _, err := s.productOf(productID); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, viewPatience)
	defer cancel()
	return s.people.Export(ctx, productID, who)
}

// Erase removes all data about a person up to now, on every server, in every view and for every
// consumer. With redact it also blanks the notes in conversations, if the desk supports that. It
// waits as Sessions does. It may be repeated; after a storage error it may have taken effect. An
// invalid Person is a *[activity.QueryError].
func (s *Service) Erase(ctx context.Context, productID string, who Person, redact bool) (Erased, error) {
	if _, err := s.productOf(productID); err != nil {
		return Erased{}, err
	}
	ctx, cancel := context.WithTimeout(s.withGeneration(ctx, productID), viewPatience)
	defer cancel()
	erased, err := s.people.Erase(ctx, productID, who, redact)
	if err == nil {
		s.log.Info("a person's data were erased", "product_id", productID)
	}
	return erased, err
}

// eraseUser erases a user at the request of a source. Notes stay.
func (s *Service) eraseUser(ctx context.Context, productID, userID string) error {
	_, err := s.Erase(ctx, productID, Person{UserID: userID}, false)
	return err
}

// adminName is the name of the admin key in the audit log.
const adminName = "admin"

// serveExport serves GET /users/{product_id}/{user_id}/export, and the same by email address. It writes
// the audit log before it responds.
func (s *Service) serveExport(w http.ResponseWriter, r *http.Request) error {
	who, err := personOf(r)
	if err != nil {
		return err
	}
	productID := r.PathValue("product_id")
	export, err := s.Export(r.Context(), productID, who)
	if err != nil {
		return queryError(err)
	}
	access.Audit(r.Context(), s.log, adminName, productID, "export")
	return httpx.WriteLive(w, export)
}

// serveErase serves DELETE /users/{product_id}/{user_id}, and the same by email address.
func (s *Service) serveErase(w http.ResponseWriter, r *http.Request) error {
	who, err := personOf(r)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	redact := query.Get("notes") == "redact"
	if query.Has("notes") && !redact { // an erasure forgets the notes, which cannot be redacted later
		return httpx.BadRequest("The query parameter notes must be redact, or left out.")
	}
	erased, err := s.Erase(r.Context(), r.PathValue("product_id"), who, redact)
	if err != nil {
		return queryError(err)
	}
	httpx.WriteJSON(w, http.StatusOK, erased)
	return nil
}

// personOf returns the person that a request identifies. Errors are responses.
func personOf(r *http.Request) (Person, error) {
	query, err := httpx.Query(r)
	if err != nil { // otherwise a part such as notes=redact would be lost
		return Person{}, err
	}
	who := Person{UserID: r.PathValue("user_id"), Email: httpx.Email(query)}
	switch {
	case len(query["email"]) > 1 || len(query["notes"]) > 1:
		return who, httpx.BadRequest("The query parameters email and notes must be given once.")
	case !utf8.ValidString(who.UserID + who.Email), strings.ContainsRune(who.Email, 0): // a user ID may have NUL
		return who, httpx.BadRequest("The user id and the email must be UTF-8 text, the email without NUL.")
	}
	return who, nil
}
