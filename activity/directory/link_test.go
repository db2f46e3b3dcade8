package directory_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
)

// told returns a session that learned from the events.
func told(events ...activity.Event) *directory.Session {
	var s directory.Session
	for _, e := range events {
		s.Learn(e)
	}
	return &s
}

// who returns the session's user and address.
func who(s *directory.Session) [2]string { return [2]string{s.UserID, s.Email} }

// identified returns an event of an identified user.
func identified(second int, user, email string) activity.Event {
	e := seen(second, "s", user, email)
	e.Identified = true
	return e
}

// naming returns the event as one that names a visitor.
func naming(visitor string, e activity.Event) activity.Event {
	e.Anonymous = visitor
	return e
}

func TestSession_Link_isOfThePersonItIsMadeBy(t *testing.T) {
	const ada = "ada@x.example"
	for name, c := range map[string]struct {
		session     *directory.Session
		email, user string // of the link
		want        string // the link's user
	}{
		"the identified user":    {told(identified(1, "ada", "")), "", "", "ada"},
		"whatever the link says": {told(identified(1, "ada", ada)), "eve@x.example", "eve", "ada"},
		"the identified user of the address": {told(identified(1, "ada", ada), seen(2, "s", "anon", "")),
			"Ada@x.example", "", "ada"},
		"the session's user":                {told(seen(1, "s", "anon", "")), "", "anon", "anon"},
		"an earlier identified user":        {told(identified(1, "bob", ""), seen(2, "s", "anon", "")), "", "bob", "bob"},
		"the user with the known address":   {told(seen(1, "s", "anon", "")), ada, "", "anon"},
		"another user with another address": {told(seen(1, "s", "anon", ada)), "eve@x.example", "eve", ""},
		"an unknown user":                   {told(seen(1, "s", "anon", "")), "", "eve", ""},
		"nobody":                            {told(seen(1, "s", "anon", "")), "", "", ""},
		"nobody, where nobody is known":     {told(), "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.session.Link("zendesk", "7", c.email, c.user)
			user, until, ok := c.session.LinkedUser("zendesk", "7")
			assert.True(t, ok)
			assert.Zero(t, until)
			assert.Equal(t, c.want, user)
			for _, other := range [][2]string{{"intercom", "7"}, {"zendesk", "8"}, {"zendesk", ""}, {"", ""}} {
				_, _, ok = c.session.LinkedUser(other[0], other[1])
				assert.False(t, ok, other)
				assert.False(t, c.session.Unlink(other[0], other[1]), other)
			}
			assert.True(t, c.session.Unlink("zendesk", "7"))
			_, _, ok = c.session.LinkedUser("zendesk", "7")
			assert.False(t, ok)
			_, _, ok = c.session.LinkedUser("", "")
			assert.False(t, ok)
		})
	}
}

// An action belongs to the conversation of whoever did it, at the time of the action.
func TestSession_ConversationOf_anEvent(t *testing.T) {
	linked := func(link string, s *directory.Session) *directory.Session {
		s.Link("zendesk", link, "", "")
		return s
	}
	// Ada had conversation 1 until second 5. Bob has 2.
	shared := linked("1", told(identified(1, "ada", "")))
	shared.Learn(identified(5, "bob", ""))
	linked("2", shared)
	after := linked("1", told(identified(1, "ada", "")))
	after.Learn(identified(5, "bob", "")) // who has no conversation
	visitors := linked("1", told(seen(1, "s", "anon", "")))
	open := told(identified(1, "ada", ""))
	linked("1", open).Learn(identified(5, "bob", ""))
	open.Learn(seen(6, "s", "anon", ""))
	linked("2", open) // of nobody in particular
	visitor := seen(1, "s", "anon", "")
	visitor.Standing = reported
	reports := linked("1", told(visitor))
	for name, c := range map[string]struct {
		session *directory.Session
		event   activity.Event
		want    string
	}{
		"of the link's user":                  {shared, seen(6, "s", "bob", ""), "2"},
		"of the link's user, before the link": {shared, seen(2, "s", "bob", ""), "2"},
		"of nobody in particular":             {shared, seen(6, "s", "", ""), "2"},
		"of a visitor":                        {shared, seen(6, "s", "anon", ""), "2"},
		"of the former user, in time":         {shared, seen(4, "s", "ada", ""), "1"},
		"of nobody in particular, in time":    {shared, seen(4, "s", "", ""), "1"},
		"of a third user, in time":            {shared, identified(4, "eve", ""), ""},
		"of the former user, too late":        {shared, seen(5, "s", "ada", ""), ""},
		"of a third user":                     {shared, identified(6, "eve", ""), ""},
		"of no link's user, in time":          {after, identified(4, "bob", ""), ""},
		"of a user between two links":         {open, seen(4, "s", "bob", ""), ""},
		"of the former user, after the link":  {after, seen(6, "s", "ada", ""), ""},
		"of an identified user, of a visitor": {visitors, identified(2, "ada", ""), "1"},
		"of a claimed user":                   {reports, identified(2, "eve", ""), ""},
		"of a claimed visitor":                {reports, seen(2, "s", "eve", ""), "1"},
		"of a reported user":                  {reports, standing(reported, reported, seen(2, "s", "ada", "")), "1"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, c.session.ConversationOf(&c.event)) })
	}
	_, until, ok := shared.LinkedUser("zendesk", "1")
	assert.True(t, ok)
	assert.Equal(t, seenBase.Add(5*time.Second), until)
	for _, other := range [][2]string{{"intercom", "1"}, {"zendesk", "3"}} {
		_, _, ok = shared.LinkedUser(other[0], other[1])
		assert.False(t, ok, other)
	}
}

func TestSession_IsOf_itsPerson(t *testing.T) {
	const ada = "ada@x.example"
	reportedBy := func(user, email string) activity.Event {
		return standing(reported, reported, seen(1, "s", user, email))
	}
	visitor := reportedBy("anon", "")
	visitor.Identified = false
	for name, c := range map[string]struct {
		session     *directory.Session
		email, user string
		want        bool
	}{
		"nobody in particular":    {told(reportedBy("ada", ada)), "", "", true},
		"the address":             {told(reportedBy("ada", ada)), "Ada@x.example", "eve", true},
		"the user":                {told(reportedBy("ada", ada)), "eve@x.example", "ada", true},
		"another address":         {told(reportedBy("ada", ada)), "eve@x.example", "", false},
		"another user":            {told(reportedBy("ada", ada)), "", "eve", false},
		"no user":                 {told(reportedBy("", ada)), "eve@x.example", "", false},
		"no address":              {told(reportedBy("ada", "")), ada, "", false},
		"a claim, after a report": {told(reportedBy("ada", ada), seen(2, "s", "eve", "eve@x.example")), "", "eve", false},
		"a claimed address, where none was reported": {told(reportedBy("ada", ""), seen(2, "s", "eve", "eve@x.example")),
			"eve@x.example", "", false},
		"anybody, of a visitor":   {told(seen(1, "s", "anon", "")), ada, "ada", true},
		"a visitor":               {told(visitor), "", "anon", true},
		"a visitor, after others": {told(reportedBy("ada", ""), visitor), "", "anon", false},
		"a claim, of all claims":  {told(seen(1, "s", "ada", ada)), "eve@x.example", "eve", true},
		"a claim, after claims": {told(identified(1, "ada", ""), identified(2, "bob", "")),
			"eve@x.example", "eve", false},
		"the last, after claims":      {told(identified(1, "ada", ""), identified(2, "bob", "")), "", "bob", true},
		"the former, after claims":    {told(identified(1, "ada", ""), identified(2, "bob", "")), "", "ada", false},
		"a claim, of a known address": {told(reportedBy("", ada)), "", "eve", false},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, c.session.IsOf(c.email, c.user)) })
	}
}

// The conversations of a person are those linked for the user or, while no user was known, by the address.
func TestSession_ConversationsOf_aPerson(t *testing.T) {
	s := told(seen(1, "s", "", "ada@x.example"))
	s.Link("zendesk", "1", "ada@x.example", "")
	of := func(user, email string) (ids []string) {
		for _, c := range s.ConversationsOf([]string{user}, []string{email}) {
			ids = append(ids, c.ID)
		}
		return ids
	}
	assert.Equal(t, []string{"1"}, of("", "ada@x.example"))
	assert.Empty(t, of("eve", "eve@x.example"))
	assert.Empty(t, of("ada", ""), "it is not known whose the address is")
	s.Learn(seen(2, "s", "ada", "ADA@x.example"))
	assert.Equal(t, []string{"1"}, of("ada", ""))
	assert.Empty(t, of("eve", ""))

	s.GiveWay(seenBase)
	s.Link("zendesk", "2", "", "")
	assert.Equal(t, []string{"2", "1"}, of("ada", ""))
	assert.Empty(t, of("eve", "eve@x.example"))
	s.GiveWay(seenBase)
	s.Link("zendesk", "2", "", "") // again
	assert.Equal(t, []string{"2", "1"}, of("ada", ""), "each once")

	nobodys := told()
	nobodys.Link("zendesk", "3", "", "")
	assert.Len(t, nobodys.ConversationsOf([]string{"ada"}, nil), 1, "it may be anybody's")
}

// An event names the visitor of its own session only, who is nobody else, and by no lower word.
func TestSession_Names_aVisitor(t *testing.T) {
	names := naming("anon", seen(1, "s", "ada", ""))
	assert.True(t, told().Names(&names))
	for name, change := range map[string]func(e *activity.Event){
		"no session": func(e *activity.Event) { e.SessionID = "" },
		"no user":    func(e *activity.Event) { e.UserID = "" },
		"no visitor": func(e *activity.Event) { e.Anonymous = "" },
		"the same":   func(e *activity.Event) { e.Anonymous = "ada" },
	} {
		e := names
		change(&e)
		assert.False(t, told(seen(1, "s", "", "")).Names(&e), name)
	}
	assert.False(t, told(identified(1, "anon", "")).Names(&names))
	assert.False(t, told(identified(1, "anon", ""), identified(2, "bob", "")).Names(&names), "an earlier user")
	assert.False(t, told(standing(reported, reported, seen(1, "s", "bob", ""))).Names(&names))
}

// Users that were identified before are remembered once each, however late their events come, unless by a lower word.
func TestSession_Identified_listsEachUserOnce(t *testing.T) {
	assert.Equal(t, []string{"ada", "bob"}, told(identified(5, "bob", ""), identified(3, "ada", "")).Identified())
	assert.Equal(t, []string{"bob"}, told(standing(reported, reported, identified(5, "bob", "")),
		identified(3, "ada", "")).Identified())
	assert.Equal(t, []string{"bob"}, told(seen(5, "s", "bob", ""), identified(3, "bob", "")).Identified(),
		"who is there now")
	back := told(identified(1, "ada", ""), seen(2, "s", "anon", ""), seen(3, "s", "ada", ""))
	assert.Equal(t, []string{"ada"}, back.Identified(), "who is there again")
	assert.True(t, back.IsOf("ada@x.example", ""), "nobody else was there")
}

// Two user IDs with one address are one person, and so are a visitor and the user that signs in on the device.
func TestBook_Learn_takesOnePersonForOne(t *testing.T) {
	first := seen(1, "s", "ivy", "ivy@x.example")
	for name, second := range map[string]activity.Event{
		"the address":     identified(2, "bob", "IVY@x.example"),
		"not identified":  seen(2, "s", "bob", ""),
		"no user":         standing(claimed, verified, seen(2, "s", "", "bob@x.example")),
		"a signed nobody": standing(verified, verified, seen(2, "s", "", "bob@x.example")),
	} {
		d := newDirectory(0)
		s := d.learn(t, first, second)
		assert.NotContains(t, s.Identified(), "ivy", name)
		assert.Equal(t, second.UserID != "" && second.Identified, len(s.Identified()) > 0, name)
	}
	nobody, batch := newDirectory(0), events{standing(verified, verified, seen(2, "s", "", "bob@x.example"))}
	learn(t, nobody.open(t, batch...), batch...)
	assert.False(t, batch[0].Identified, "nobody is identified")

	unknown := newDirectory(0).learn(t, seen(1, "s", "", "ivy@x.example"), seen(2, "s", "bob", "bob@x.example"))
	assert.Empty(t, unknown.Identified(), "the address may have been the user's")
}
