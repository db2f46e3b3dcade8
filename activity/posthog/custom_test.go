package posthog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/intake"
	"github.com/liveactivity/liveactivity/activity/recent"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/memorylog"
)

// listing returns a service with a real log, whose shop lists events, and the descriptions of session-1's actions.
func listing(t *testing.T, rules intake.Rules) (*service, func() []string) {
	log := musttest.New(memorylog.New(nil))
	recorder := musttest.New(eventlog.NewRecorder(log, nil))
	s := (&service{}).mount(recorder, catalogue{shop: {WebhookSecret: shopSecret, Events: intake.NewEvents(rules)}})
	return s, func() (did []string) {
		recent, err := log.Activity().Recent(t.Context(), shop, recent.Subject{SessionID: "session-1"}, 50)
		require.NoError(t, err)
		actions := musttest.New(recent.Actions())
		for _, a := range actions {
			did = append(did, a.Description)
		}
		return did
	}
}

func TestEvents_onlyListedOnesBecomeActions(t *testing.T) {
	rule := intake.Rule{Properties: []string{"seats", "plan"}, Sentence: "sent an invoice"}
	for name, tt := range map[string]struct {
		rules intake.Rules
		event string
		want  string
	}{
		"none listed":       {nil, "Invoice Sent", ""},
		"all but PostHog's": {intake.Rules{"*": {}}, "$pageleave", ""},
		"its name": {intake.Rules{"In*": {}, "Invoice Sent": rule}, "Invoice Sent",
			"User sent an invoice (seats: 3, plan: pro) on the dashboard page"},
		"a mark":            {intake.Rules{"$rageclick": {}, "$*": {}}, "$rageclick", ""},
		"a page view stays": {intake.Rules{"$pageview": rule}, "$pageview", "User landed on the dashboard page"},
		"no error":          {intake.Rules{"*": {}}, "$exception", ""},
	} {
		t.Run(name, func(t *testing.T) {
			event := click(object{"event": tt.event, "properties.$elements_chain": nil, "properties.plan": "pro",
				"properties.seats": 3, "properties.card": "4111"})
			for _, d := range doors {
				s, did := listing(t, tt.rules)
				requireOK(t, s.post(d, marshal(event)))
				assert.Equal(t, tt.want, strings.Join(did(), "; "))
			}
		})
	}
}

// A mark shows on its click only where the product lists it.
func TestMarks_areOfTheirClick(t *testing.T) {
	atNoon(t, func(t *testing.T) {
		event := func(name, label string, when time.Time) object {
			return click(object{"event": name, "uuid": "", "timestamp": when, "properties.$el_text": label,
				"properties.$elements_chain": `button:text="` + label + `"attr__class="btn"`})
		}
		for _, tt := range []struct {
			rules                  intake.Rules
			first, second, ignored string
		}{
			{nil, "", "", "other_event"},
			{intake.Rules{"$rageclick": {}}, ", repeatedly", ", repeatedly", "other_event"},
			{intake.Rules{"$dead_click": {}}, "", ", and nothing happened", "no_click"},
			{intake.Rules{"$*": {}}, ", repeatedly", ", repeatedly, and nothing happened", "no_click"},
		} {
			s, did := listing(t, tt.rules)
			now, said := time.Now(), "User clicked Pay on the dashboard page"
			requireOK(t, s.post(captureDoor, marshal(
				object{"batch": []object{event("$rageclick", "Pay", now), event("$autocapture", "Pay", now)}})))
			assert.Equal(t, []string{said + tt.first}, did())
			time.Sleep(3 * time.Second)
			late := event("$dead_click", "Pay", time.Now())
			late["properties"].(object)["$dead_click_event_timestamp"] = now.UnixMilli()
			requireOK(t, s.post(captureDoor, marshal(late)))
			assert.Equal(t, []string{said + tt.second}, did())
			r := requireOK(t, s.post(captureDoor, marshal(event("$dead_click", "Cancel", now))))
			assert.Equal(t, intake.Ignored{tt.ignored: 1}, r.Reasons)
			assert.Equal(t, []string{said + tt.second}, did())
		}
	})
}

func TestExceptions_areSaidOnceInTenSeconds(t *testing.T) {
	atNoon(t, func(t *testing.T) {
		s, did := listing(t, intake.Rules{intake.EventException: {}})
		throw := func(value string, accepted int) {
			list := []object{{"type": "PaymentError", "value": value, "stacktrace": object{"frames": []string{"pay"}}},
				{"type": "Cause"}}
			requireCounts(t, s.post(captureDoor, marshal(click(object{"event": "$exception", "uuid": "",
				"timestamp": time.Now(), "properties.$exception_list": list}))), accepted, 1-accepted)
		}
		const said = "User saw an error on the dashboard page: PaymentError: "
		throw("card_declined", 1)
		for range 2 {
			time.Sleep(4 * time.Second)
			throw("card_declined", 0)
		}
		throw("no_funds", 1)
		time.Sleep(3 * time.Second)
		throw("card_declined", 1)
		assert.Equal(t, []string{said + "card_declined", said + "no_funds", said + "card_declined"}, did())
	})
}
