package retriever_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/retriever"
)

// model does the work of a store in the plainest way: it numbers every action and remembers those
// that no summary has replaced.
type model struct {
	maxSessions, maxChunks int
	ttl                    time.Duration
	sessions               []*modelSession // the least recently used first
	emails                 map[string]string
}

type modelSession struct {
	id     string
	chunks []modelChunk // oldest first
	next   int          // number of the next action
	raw    []int        // the actions that no summary has replaced, dropped ones too
}

type modelChunk struct {
	said    string
	at      time.Time
	actions []int // none for a summary
}

// held returns the session, nil for none.
func (m *model) held(id string) *modelSession {
	for _, ss := range m.sessions {
		if ss.id == id {
			return ss
		}
	}
	return nil
}

func (m *model) use(ss *modelSession) {
	m.sessions = append(slices.DeleteFunc(m.sessions, func(other *modelSession) bool { return other == ss }), ss)
}

// expire forgets everything that is too old.
func (m *model) expire() {
	for _, ss := range m.sessions {
		ss.chunks = slices.DeleteFunc(ss.chunks, func(c modelChunk) bool { return time.Since(c.at) > m.ttl })
	}
	m.sessions = slices.DeleteFunc(m.sessions, func(ss *modelSession) bool { return len(ss.chunks) == 0 })
}

// open returns the session. It makes a missing one, at another's cost if there is no room.
func (m *model) open(id string) *modelSession {
	ss := m.held(id)
	if ss == nil {
		if ss = (&modelSession{id: id}); len(m.sessions) == m.maxSessions {
			m.sessions = m.sessions[1:]
		}
	}
	m.use(ss)
	return ss
}

func (m *model) learn(id, email string) {
	if email = strings.ToLower(strings.TrimSpace(email)); email != "" {
		m.emails[email] = id
	}
}

func (m *model) add(id, said string, actions int, at time.Time) {
	ss := m.open(id)
	c := modelChunk{said: said, at: at}
	for range actions {
		c.actions = append(c.actions, ss.next)
		ss.next++
	}
	ss.raw = append(ss.raw, c.actions...)
	ss.chunks = append(ss.chunks, c)
	ss.chunks = ss.chunks[max(0, len(ss.chunks)-m.maxChunks):]
}

func (m *model) overwrite(id, said string, replaces int, at time.Time) {
	ss := m.open(id)
	ss.raw = ss.raw[max(0, min(replaces, len(ss.raw))):]
	chunks, replaced := []modelChunk{{said: said, at: at}}, at
	for _, c := range ss.chunks {
		if slices.ContainsFunc(c.actions, func(a int) bool { return slices.Contains(ss.raw, a) }) {
			chunks = append(chunks, c)
		} else {
			replaced = c.at
		}
	}
	if replaced.Before(at) {
		chunks[0].at = replaced
	}
	if len(chunks) > 1 && chunks[1].at.Before(chunks[0].at) {
		chunks[0].at = chunks[1].at
	}
	if len(chunks) > m.maxChunks {
		chunks = slices.Delete(chunks, 1, 2)
	}
	ss.chunks = chunks
}

func (m *model) events(id string) []string {
	said := []string{}
	if ss := m.held(id); ss != nil {
		m.use(ss)
		for _, c := range slices.Backward(ss.chunks) {
			said = append(said, c.said)
		}
	}
	return said
}

func (m *model) sessionOf(email string) string {
	if seen := m.emails[strings.ToLower(strings.TrimSpace(email))]; m.held(seen) != nil {
		return seen
	}
	return ""
}

// forwarded draws the time at which something was forwarded, and the time from which its age
// counts.
func forwarded(t *rapid.T, ttl time.Duration) (seconds float64, at time.Time) {
	now := time.Now()
	age := rapid.SampledFrom([]time.Duration{0, ttl / 3, ttl, ttl + time.Second, -time.Second}).Draw(t, "age")
	if age < 0 || age > ttl {
		return activity.Seconds(now.Add(-age)), now
	}
	return activity.Seconds(now.Add(-age)), now.Add(-age)
}

// Either the bounds are so tight that sessions displace each other, or time passes. The two do not
// mix, because the store itself decides which expired sessions it frees early.
func TestStore_behavesLikeTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { rapid.SyncTest(t, compareWithModel) })
}

func compareWithModel(t *rapid.T) {
	m := &model{maxSessions: 3, ttl: time.Hour, emails: map[string]string{}}
	m.maxChunks = rapid.IntRange(1, 6).Draw(t, "maxChunks")
	timePasses := rapid.Bool().Draw(t, "timePasses")
	if timePasses {
		m.maxSessions = len(sessionIDs)
	}
	s := musttest.New(retriever.NewStore(&retriever.StoreOptions{MaxSessions: m.maxSessions,
		MaxChunks: m.maxChunks, TTL: m.ttl}))
	for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
		if timePasses {
			time.Sleep(rapid.SampledFrom([]time.Duration{0, time.Second, m.ttl / 3, m.ttl}).Draw(t, "pass"))
			m.expire()
		}
		step(t, s, m, i, timePasses)
	}
}

var sessionIDs = []string{"a", "A", "a ", "d", "e"}

// step does one thing to both and compares their answers for a session.
func step(t *rapid.T, s *retriever.Store, m *model, i int, timePasses bool) {
	session := rapid.SampledFrom(sessionIDs)
	email := rapid.SampledFrom([]string{"", " ", "ada@example.com", "Bob@example.com", " bob@EXAMPLE.com\t",
		"\nünal@example.com", "Ünal@example.com"})
	id, who := session.Draw(t, "session"), email.Draw(t, "email")
	sent, at := activity.Seconds(time.Now()), time.Now()
	if timePasses {
		sent, at = forwarded(t, m.ttl)
	}
	switch rapid.SampledFrom([]string{"add", "add", "overwrite", "read"}).Draw(t, "do") {
	case "add":
		b := batch(id, who, slices.Repeat([]string{fmt.Sprint("did ", i)}, rapid.IntRange(1, 3).Draw(t, "actions"))...)
		b.ForwardedAt = sent
		s.Learn(b)
		require.NoError(t, s.Add(t.Context(), b))
		m.learn(id, who)
		if age := time.Since(time.UnixMicro(int64(sent * 1e6))); age <= m.ttl {
			m.add(id, strings.Repeat(fmt.Sprintf("+did %d", i), len(b.Actions))[1:], len(b.Actions), at)
		}
	case "overwrite":
		sum := summary(id, fmt.Sprint("sum ", i), rapid.IntRange(-3, 12).Draw(t, "replaces"))
		sum.ForwardedAt = sent
		require.NoError(t, s.Overwrite(t.Context(), sum))
		m.overwrite(id, sum.Text, sum.Replaces, at)
	}
	asked, askedWho := session.Draw(t, "asked"), email.Draw(t, "asked email")
	require.Equal(t, m.events(asked), events(t, s, asked))
	found, ok := s.SessionOf(askedWho)
	require.Equal(t, m.sessionOf(askedWho), found)
	require.Equal(t, found != "", ok)
	require.GreaterOrEqual(t, s.Sessions(), len(m.sessions))
	require.LessOrEqual(t, s.Sessions(), m.maxSessions)
}
