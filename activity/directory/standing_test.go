package directory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/activity/directory"
	"github.com/liveactivity/liveactivity/internal/musttest"
)

// standing returns an identified event with these standings of its user and its address.
func standing(user, email activity.Standing, e activity.Event) activity.Event {
	e.Identified, e.Standing, e.EmailStanding = e.UserID != "", user, email
	return e
}

// inEveryOrder calls f with a directory that has learned the events, for each of their orders.
func inEveryOrder(t *testing.T, events []activity.Event, f func(t *testing.T, d fixture)) {
	var order func(n int)
	orders := 0
	order = func(n int) {
		if n == len(events) {
			orders++
			t.Run(fmt.Sprint("order ", orders), func(t *testing.T) { f(t, having(t, events...)) })
			return
		}
		for i := n; i < len(events); i++ {
			events[n], events[i] = events[i], events[n]
			order(n + 1)
			events[n], events[i] = events[i], events[n]
		}
	}
	order(0)
}

const (
	claimed  = activity.Claimed
	reported = activity.Reported
	verified = activity.Signed
)

// The highest standing wins in every order of arrival and of times.
func TestDirectory_keepsTheHighestStanding(t *testing.T) {
	inEveryOrder(t, events{
		standing(claimed, claimed, seen(9, "s", "eve", "eve@x.example")),
		standing(reported, reported, seen(5, "s", "bob", "bob@x.example")),
		standing(verified, claimed, seen(2, "s", "ada", "wrong@x.example")),
		standing(claimed, verified, seen(1, "s", "", "ada@x.example")),
	}, func(t *testing.T, d fixture) {
		s, _ := d.session(t, "s")
		assert.Equal(t, [2]string{"ada", "ada@x.example"}, who(&s))
		assert.Equal(t, [2]activity.Standing{verified, verified}, [2]activity.Standing{s.Standing, s.EmailStanding})
	})
}

// A visitor between two users remains one, so that the second one's identify still names that visitor.
func TestDirectory_takesAVisitorBetweenTwoUsersForNobodyElse(t *testing.T) {
	const uuid = "0198c2f4-7a6b-7000-8000-000000000001"
	for visitor, device := range map[string]string{uuid: "", "device": "device"} {
		ada := naming(visitor, identified(1, "ada", "ada@x.example"))
		bob := naming(visitor, identified(4, "bob", "bob@x.example"))
		page := identified(3, "bob", "bob@x.example") // some SDKs repeat the address
		ada.Visitor, bob.Visitor, page.Visitor = device, device, device
		inEveryOrder(t, events{ada, seen(2, "s", visitor, ""), page, bob}, func(t *testing.T, d fixture) {
			s, _ := d.session(t, "s")
			assert.ElementsMatch(t, []string{"ada", "bob"}, s.Identified())
		})
	}
}

// An address is found in the session where it stands highest.
func TestDirectory_findsTheSessionOfTheHighestStanding(t *testing.T) {
	inEveryOrder(t, events{
		standing(claimed, claimed, seen(9, "claims", "ada", "ada@x.example")),
		standing(verified, claimed, seen(8, "signed by id", "eve", "ada@x.example")),
		standing(claimed, reported, seen(5, "reports", "ada", "ada@x.example")),
		standing(verified, verified, seen(1, "signs", "ada", "Ada@x.example")),
	}, func(t *testing.T, d fixture) { assert.Equal(t, "signs", d.sessionOf(t, "ada@x.example")) })
}

// The known address of a user is the one with the highest standing as that user's. Neither a claim
// to be the user nor a claimed address overrides it, though it may be a claim itself.
func TestDirectory_keepsTheAddressOfASignedUser(t *testing.T) {
	for _, is := range []activity.Standing{verified, claimed} {
		inEveryOrder(t, events{
			standing(verified, is, seen(1, "s1", "ada", "ada@x.example")),
			standing(claimed, verified, seen(5, "s2", "ada", "eve@x.example")), // eve signs her own address
			standing(is, claimed, seen(6, "s3", "ada", "typo@x.example")),
		}, func(t *testing.T, d fixture) {
			s := d.learn(t, standing(verified, claimed, seen(9, "new", "ada", "")))
			assert.Equal(t, "ada@x.example", s.Email)
			assert.Equal(t, is, s.EmailStanding)
			if is == verified {
				s, _ = d.session(t, "s3")
				assert.Equal(t, "ada@x.example", s.Email, "an address of a lower standing gives way")
			}
		})
	}
}

// A session that only claims to be a user's has the user's address as a claim.
func TestDirectory_lendsAClaimNoStanding(t *testing.T) {
	d := having(t, standing(verified, verified, seen(1, "s1", "ada", "ada@x.example")))
	s := d.learn(t, standing(claimed, claimed, seen(2, "s2", "ada", "")))
	assert.Equal(t, "ada@x.example", s.Email)
	assert.Equal(t, [2]activity.Standing{claimed, claimed}, [2]activity.Standing{s.Standing, s.EmailStanding})
	assert.Equal(t, "s1", d.sessionOf(t, "ada@x.example"))
}

// Anybody can state their own address for a user: it leads to claims only, not to sessions of a higher standing.
func TestDirectory_claimsLeadToNoSessionOfAHigherStanding(t *testing.T) {
	for _, is := range []activity.Standing{claimed, reported, verified} {
		d := having(t, standing(is, is, seen(1, "s", "ada", "")))
		d.learn(t, standing(claimed, claimed, seen(2, "", "ada", "eve@x.example")))
		want := map[activity.Standing]string{claimed: "eve@x.example"}[is]
		s, _ := d.session(t, "s")
		assert.Equal(t, want, s.Email)
		d.learn(t, standing(reported, reported, seen(3, "", "ada", "ada@x.example")))
		s, _ = d.session(t, "s")
		assert.Equal(t, "ada@x.example", s.Email)
	}
}

// An event that was placed in a session by its user's ID gives the session no standing of its own: anybody can
// claim the ID. The user keeps the address as it was reported.
func TestDirectory_placedEventsRaiseNoSession(t *testing.T) {
	for _, is := range []activity.Standing{claimed, reported} {
		d := having(t, standing(is, is, seen(1, "s", "ada", "")))
		placed := standing(reported, reported, seen(2, "s", "ada", "ada@x.example"))
		placed.Placed = true
		s := d.learn(t, placed)
		assert.Equal(t, []activity.Standing{is, is}, []activity.Standing{s.Standing, s.EmailStanding})
		assert.Equal(t, "ada@x.example", s.Email, "which belongs to the user")
		assert.Equal(t, "s", d.sessionOf(t, "ada@x.example"))
		s = d.learn(t, standing(reported, claimed, seen(3, "new", "ada", "")))
		assert.Equal(t, "ada@x.example", s.Email)
		assert.Equal(t, reported, s.EmailStanding)
	}
}

// Anybody can claim addresses for a user, before and after the user's server has reported some.
func TestDirectory_claimsCrowdOutNoReportedAddress(t *testing.T) {
	d := newDirectory(0)
	say := func(second int, is activity.Standing, name string) {
		d.learn(t, standing(is, is, seen(second, "", "ada", fmt.Sprint(name, second, "@x.example"))))
	}
	addresses := func() []string {
		emails, _, err := d.LeadsOf(t.Context(), "acme", "ada")
		require.NoError(t, err)
		return emails
	}
	for second := range 120 {
		if second == 40 || second == 80 {
			say(second, reported, "Ada")
		} else {
			say(second, claimed, "stranger")
		}
	}
	owned := addresses()
	assert.Len(t, owned, 32)
	d.learn(t, standing(reported, reported, seen(130, "", "ada", "Stranger0@x.example")))
	owned = addresses()
	assert.Len(t, owned, 32)
	assert.Equal(t, []string{"ada40@x.example", "ada80@x.example", "stranger0@x.example"}, owned[29:])
	for second := range 40 {
		say(200+second, reported, "new")
	}
	owned = addresses()
	assert.Len(t, owned, 32)
	assert.Equal(t, []string{"new208@x.example", "new239@x.example"}, []string{owned[0], owned[31]})
}

// A claim by a session's user prolongs the session, the user and the address. Claims in other sessions, which an
// erasure must find, prolong the user a few times.
func TestDirectory_forgetsStandingsInTime(t *testing.T) {
	d := newDirectory(time.Hour)
	d.learn(t, standing(verified, verified, seen(1, "s", "ada", "ada@x.example")))
	again := standing(claimed, claimed, seen(2, "s", "ada", "ada@x.example"))
	b := d.open(t, again)
	learn(t, b, again)
	require.Len(t, b.Changes(), 3, "the session, the user and the address are kept for longer")
	prolonged := 0
	for n := range 20 {
		other := standing(claimed, claimed, seen(3+n, fmt.Sprint("other", n), "ada", "eve@x.example"))
		b = d.open(t, other)
		learn(t, b, other)
		for _, change := range b.Changes() {
			if change.Name == "user/ada" {
				prolonged++
			}
		}
		musttest.New(d.docs.Write(t.Context(), "acme", b.Changes()...))
	}
	require.Equal(t, 7, prolonged)
}

func TestBook_withholdsClaims(t *testing.T) {
	d := newDirectory(0)
	take := func(e activity.Event) (directory.Session, activity.Event) {
		events := events{e}
		b := d.open(t, e)
		b.VerifiedOnly()
		s := learn(t, b, events...)
		require.NoError(t, d.close(t, b))
		return s, events[0]
	}
	s, e := take(naming("anon", standing(claimed, claimed, seen(1, "s", "ada", "ada@x.example"))))
	assert.Empty(t, s.UserID+s.Email+e.UserID+e.Email+e.Anonymous)
	assert.False(t, e.Identified)
	assert.Empty(t, d.sessionOf(t, "ada@x.example"))

	s, _ = take(standing(verified, verified, seen(2, "s", "ada", "ada@x.example")))
	assert.Equal(t, "ada", s.UserID)
	_, e = take(seen(3, "s", "ada", "Ada@x.example"))
	assert.Equal(t, "ada", e.UserID, "the session's own user needs no proof again")
	assert.NotEmpty(t, e.Email)
	_, e = take(seen(4, "s2", "ada", ""))
	assert.Empty(t, e.UserID, "in another session a claim stays one")
	s, e = take(seen(5, "s", "eve", "eve@x.example"))
	assert.Empty(t, e.UserID+e.Email)
	assert.Equal(t, "ada", s.UserID)
}

// Claims displace neither the user nor the record that keeps the user's actions from others.
func TestSession_isNotTakenOverByClaims(t *testing.T) {
	var s directory.Session
	ada := standing(verified, claimed, seen(1, "s", "ada", ""))
	ada.Anonymous = "anon"
	assert.True(t, s.Names(&ada))
	s.Learn(ada)
	s.Learn(standing(verified, claimed, seen(2, "s", "bob", "")))
	for i := range 20 {
		s.Learn(standing(claimed, claimed, seen(3+i, "s", fmt.Sprint("eve", i), "")))
	}
	assert.Equal(t, "bob", s.UserID)
	for _, takes := range []struct {
		anonymous string
		standing  activity.Standing
	}{{"anon", claimed}, {"anon", reported}, {"ada", verified}, {"bob", verified}} {
		e := standing(takes.standing, claimed, seen(0, "s", "eve", ""))
		e.Anonymous = takes.anonymous
		assert.False(t, s.Names(&e), "%+v", takes)
	}
}
