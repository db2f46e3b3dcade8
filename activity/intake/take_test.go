package intake_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/tracing"
	"github.com/liveactivity/liveactivity/internal/heaptest"
	"github.com/liveactivity/liveactivity/internal/logtest"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

func hash(secret, text string) string { return strings.TrimPrefix(signature(secret, text), "sha256=") }

// The endpoint sets the lowest standing of an identity. A proof under a secret of identities raises it.
func TestStanding_comesFromTheEndpointUnlessSigned(t *testing.T) {
	for door, least := range map[string]activity.Standing{"capture": activity.Claimed, "webhook": activity.Reported} {
		for _, c := range []struct {
			proof       fieldsOf
			user, email activity.Standing
		}{
			{fieldsOf{}, least, least},
			{fieldsOf{"$user_hash": hash(shopSigns, "ada")}, activity.Signed, least},
			{fieldsOf{"email_hash": hash("older", "ada@x.example")}, least, activity.Signed},
			{fieldsOf{"user_hash": hash(shopSecret, "ada")}, least, least},
		} {
			c.proof["email"] = "ada@x.example"
			e := eventOf(t, door, view(c.proof))
			assert.Equal(t, [2]activity.Standing{c.user, c.email}, [2]activity.Standing{e.Standing, e.EmailStanding})
		}
	}
	proof := intake.Proof{UserHash: hash(shopSigns, "ada")}
	assert.True(t, proof.Signs("ada", []string{"older", shopSigns}, noon))
	assert.False(t, proof.Signs("eve", []string{shopSigns}, noon))
	assert.False(t, proof.Signs("ada", nil, noon))
	assert.False(t, intake.Proof{UserHash: hash(shopSigns, "")}.Signs("", []string{shopSigns}, noon), "of nobody")
}

// A session that can be computed from a user's ID is no proof of being the user. A secret is.
func TestIsOwn_holdsForClaimsOnly(t *testing.T) {
	s := newService(intake.Options{IsOwn: func(sessionID string) bool { return strings.HasPrefix(sessionID, "own") }})
	requireCounts(t, s.capture(view(fieldsOf{"session": "own-1"})), 0, intake.Ignored{"malformed": 1})
	requireCounts(t, s.capture(view(fieldsOf{"session": "own-1", "name": "x"})), 0, intake.Ignored{"other_event": 1})
	requireCounts(t, s.webhook(view(fieldsOf{"session": "own-1"})), 1, nil)
	requireCounts(t, s.capture(view(nil)), 1, nil)
}

// erasing returns a service whose Erase notes the users, after the events before them, and fails with err.
func erasing() (s *service, erased *[]string, err *error) {
	erased, err = new([]string), new(error)
	s = newService(intake.Options{Erase: func(_ context.Context, productID, userID string) error {
		*erased = append(*erased, fmt.Sprint(productID, " ", userID, " after ", len(s.sink.events[productID])))
		return *err
	}})
	return s, erased, err
}

func erase(userID string) string {
	return view(fieldsOf{"name": "erase", "user": userID, "session": nil})
}

func TestErase_needsTheSecret(t *testing.T) {
	s, erased, _ := erasing()
	ignored := intake.Ignored{"delete": 1}
	requireCounts(t, s.capture(erase("ada")), 0, ignored)
	requireError(t, s.webhook(erase("ada"), "X-Webhook-Secret", "x"), http.StatusUnauthorized)
	requireCounts(t, s.webhook("["+view(nil)+","+erase("ada")+"]", "X-Webhook-Secret", "", "X-Signature",
		segments(shopSecret, view(nil))), 1, intake.Ignored{"unsigned": 1})
	assert.Empty(t, *erased)
	s.sink.take(shop)
	requireCounts(t, s.webhook(erase("ada"), "X-Webhook-Secret", "", "X-Signature",
		segments(shopSecret, erase("ada"))), 1, nil)
	assert.Equal(t, []string{"shop ada after 0"}, *erased)
	requireCounts(t, newService(intake.Options{}).webhook(erase("ada")), 0, ignored)
}

// Erasures come last, each user once. After a failure the sender repeats the request.
func TestErase_followsTheOtherEvents(t *testing.T) {
	s, erased, away := erasing()
	*away = errors.New("dial")
	body := batch("", erase("eve"), view(nil), erase("ada"), view(nil), erase("eve"))
	requireError(t, s.webhook(body), http.StatusServiceUnavailable)
	assert.Equal(t, []string{"shop ada after 2"}, *erased)
	*away, *erased = nil, nil
	requireCounts(t, s.webhook(body), 5, nil)
	assert.Equal(t, []string{"shop ada after 4", "shop eve after 4"}, *erased)
	assert.Equal(t, 7.0, s.counted(t)["accepted"], "the events of the first request are counted by the sink")

	s.sink.err, *erased = errors.New("dial"), nil
	requireError(t, s.webhook(body), http.StatusServiceUnavailable)
	assert.Empty(t, *erased)
}

func TestErase_isBounded(t *testing.T) {
	s, erased, _ := erasing()
	many := slices.Repeat([]string{erase("ada")}, 50)
	requireCounts(t, s.webhook(batch("", append(many, view(nil))...)), 51, nil)
	assert.Len(t, *erased, 1)
	s.sink.take(shop)
	detail := requireError(t, s.webhook(batch("", append(many, erase("eve"), view(nil))...)), 413)
	assert.Contains(t, detail, "limit of 50 erasures")
	assert.Len(t, *erased, 1)
	assert.Empty(t, s.sink.events, "nothing of it is taken")
}

// Events of a user without a session seek one, once for each user, standing, and with or without an action.
func TestSessionOf_isAskedOncePerKindOfEvent(t *testing.T) {
	var asked []string
	s := newService(intake.Options{SessionOf: func(_ context.Context, id string, e *activity.Event) (string, error) {
		asked = append(asked, fmt.Sprint(id, " ", e.UserID, " ", e.Standing, " ", e.Action != nil))
		return fmt.Sprint("found ", len(asked)), nil
	}})
	seek := func(changes fieldsOf) string {
		changes["session"] = nil
		return view(changes)
	}
	identify := fieldsOf{"name": "identify", "email": "ada@x.example"}
	requireCounts(t, s.capture(batch(shopToken, seek(fieldsOf{}), view(nil),
		seek(fieldsOf{"user_hash": hash(shopSigns, "ada")}), seek(identify), seek(fieldsOf{}), seek(fieldsOf{"user": "bob"}),
		seek(fieldsOf{"user": "eve", "stays": true}))), 7, nil)
	assert.Equal(t, []string{"shop ada claimed true", "shop ada signed true", "shop ada claimed false",
		"shop bob claimed true"}, asked)
	var got []string
	for _, e := range s.sink.take(shop) {
		got = append(got, fmt.Sprint(e.SessionID, " ", e.Placed))
	}
	assert.Equal(t, []string{"found 1 true", "s1 false", "found 2 true", "found 3 true", "found 1 true", "found 4 true",
		" false"}, got)
	e := eventOf(t, "capture", seek(fieldsOf{}))
	assert.Empty(t, e.SessionID)
	assert.False(t, e.Placed, "nobody was asked")
}

// At most 128 users are looked up, for at most three seconds in all.
func TestSessionOf_isBounded(t *testing.T) {
	asked, late := 0, false
	s := newService(intake.Options{SessionOf: func(ctx context.Context, _ string, _ *activity.Event) (string, error) {
		if asked++; late {
			<-ctx.Done()
		}
		return "found", context.Cause(ctx)
	}})
	var events []string
	for i := range 129 {
		events = append(events, view(fieldsOf{"user": fmt.Sprint("user-", i), "session": nil}))
	}
	requireCounts(t, s.webhook(batch("", append(events, events[0])...)), 130, nil)
	assert.Equal(t, 128, asked)
	got := s.sink.take(shop)
	assert.Equal(t, []string{"found", "", "found"}, []string{got[127].SessionID, got[128].SessionID, got[129].SessionID})

	synctest.Test(t, func(t *testing.T) {
		late = true
		began := time.Now()
		requireError(t, s.webhook(batch("", events...)), http.StatusServiceUnavailable)
		assert.Equal(t, 3*time.Second, time.Since(began))
	})
	assert.Empty(t, s.sink.events)
}

// Every reason is in the answer and in the metrics; the meter gets only those that the sink does not see.
func TestIgnored_isCountedByReason(t *testing.T) {
	var metered tracing.Flow
	var log logtest.Buffer
	s := newService(intake.Options{Meter: func(productID string, f tracing.Flow) {
		assert.Equal(t, shop, productID)
		metered = metered.Plus(f)
	}, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	ignored := intake.Ignored{"other_event": 2, "malformed": 3, "no_session_and_user": 1, "no_identity": 2,
		"other_token": 1}
	requireCounts(t, s.capture(batch(shopToken, view(nil), view(fieldsOf{"name": "identify"}), // accepted
		view(fieldsOf{"name": "x", "token": bankToken}), view(fieldsOf{"name": "x", "time": "soon"}),
		view(fieldsOf{"time": "soon"}), view(fieldsOf{"user": "a" + strings.Repeat("x", intake.MaxID)}),
		view(fieldsOf{"session": "a" + strings.Repeat("x", intake.MaxID)}),
		view(fieldsOf{"user": "null", "session": nil}),
		view(fieldsOf{"name": "identify", "session": nil}), view(fieldsOf{"name": "identify", "user": nil}),
		view(fieldsOf{"token": bankToken}),
	)), 2, ignored)
	assert.Equal(t, map[string]float64{"accepted": 2, "duplicate": 0, "ignored other_event": 2, "ignored malformed": 3,
		"ignored no_session_and_user": 1, "ignored no_identity": 2, "ignored other_token": 1}, s.counted(t))
	assert.Equal(t, tracing.Flow{Ignored: 9}, metered)
	assert.Contains(t, log.String(), "reason=malformed")
	assert.NotContains(t, log.String(), "billing")
	metered = tracing.Flow{}
	requireCounts(t, s.capture(view(nil)), 1, nil)
	assert.Zero(t, metered)
}

// A header's time of sending comes before the body's, and a query's last. A webhook's times are correct.
func TestCapture_sentAt(t *testing.T) {
	s := newService(intake.Options{})
	body := strings.TrimSuffix(batch(shopToken, view(fieldsOf{"time": 1000})), "}") + `%s}`
	for query, header := range map[string]string{"?sent=2000": "", "?sent=2001": "4000"} {
		for _, sent := range []string{"", `,"sent":3000`} {
			requireCounts(t, s.send(http.MethodPost, "/events"+query, fmt.Sprintf(body, sent), "X-Sent", header), 1, nil)
			e := s.sink.take(shop)[0]
			assert.Equal(t, cmp.Or(header, strings.TrimPrefix(sent, `,"sent":`), "2000"), fmt.Sprint(e.Sent.Unix()))
			assert.False(t, e.ServerTime)
		}
	}
	assert.True(t, eventOf(t, "webhook", view(fieldsOf{"time": 1000})).ServerTime)
	assert.Zero(t, eventOf(t, "capture", view(nil)).Time, "the time of its arrival")
}

// A call may state the kind of its events, and is told the outcome of each.
func TestCapture_reportsEachEvent(t *testing.T) {
	s := newService(intake.Options{})
	var taken []string
	s.taken = func(m *intake.Meaning) { taken = append(taken, m.Key+m.Reason) }
	w := s.send(http.MethodPost, "/events?kind=view", batch(shopToken, view(fieldsOf{"name": nil}),
		view(fieldsOf{"id": "2", "name": "x"}), view(fieldsOf{"id": "3", "token": bankToken})))
	requireCounts(t, w, 1, intake.Ignored{"other_event": 1, "other_token": 1})
	assert.Equal(t, []string{"1", "2other_event", "3other_token"}, taken)
}

// Some clients send their events and do not wait for the answer. The server then sees an ended request.
func TestCapture_recordsTheEventsOfAClientThatHasHungUp(t *testing.T) {
	s := newService(intake.Options{SessionOf: func(ctx context.Context, _ string, _ *activity.Event) (string, error) {
		return "s", ctx.Err()
	}})
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	w := httptest.NewRecorder()
	body := strings.NewReader(batch(shopToken, view(fieldsOf{"session": nil})))
	s.mux.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/events", body))
	requireCounts(t, w, 1, nil)
}

// A stored event holds no memory of its request.
func TestEvents_keepNothingOfTheRequest(t *testing.T) {
	s := newService(intake.Options{})
	const events = 50
	pad := strings.Repeat(" ", 2000)
	grown := heaptest.After(func() {
		for i := range events {
			body := view(fieldsOf{"id": fmt.Sprint(i), "padding": strings.Repeat("x", 1<<16), "session": pad + "s",
				"email": pad + "a@b.de"})
			requireCounts(t, s.capture(gzipped(body)), 1, nil)
		}
	})
	assert.Less(t, grown, int64(events*2000))
	for _, e := range s.sink.take(shop) {
		assert.Equal(t, "s", e.SessionID)
		assert.Equal(t, "a@b.de", e.Email)
	}
}

func TestNew_reportsEveryMistake(t *testing.T) {
	taken := prometheus.NewRegistry()
	require.NoError(t, taken.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: "liveactivity_events_total"})))
	in, err := intake.New(nil, nil, &intake.Options{MaxBody: -1, MaxDecoded: -1, Metrics: taken})
	assert.Nil(t, in)
	assert.Equal(t, []string{"intake.sink", "intake.products", "intake.MaxBody", "intake.MaxDecoded", "intake.Metrics"},
		musttest.Mistakes(t, err))
	_, err = intake.New(&sink{}, newCatalogue(), &intake.Options{MaxDecoded: 1 << 40})
	assert.Equal(t, []string{"intake.MaxDecoded"}, musttest.Mistakes(t, err))
	in = musttest.New(intake.New(&sink{}, newCatalogue(), &intake.Options{MaxBody: 5, MaxDecoded: 6}))
	assert.Equal(t, [2]int64{5, 6}, [2]int64{in.MaxBody(), in.MaxDecoded()})
}
