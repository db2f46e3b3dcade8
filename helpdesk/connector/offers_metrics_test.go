package connector_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/helpdesk/helpdesktest"
	"github.com/liveactivity/liveactivity/proactive"
)

func TestMetrics_countAnOfferThatIsIgnoredOnce(t *testing.T) {
	for name, teardown := range map[string]string{"removed": "", "kept": proactive.KeepOnIdle} {
		t.Run(name, func(t *testing.T) {
			run(t, proactive.Config{Enabled: true, IdleTeardown: teardown}, func(w *world, s *server, conversation string) {
				w.pingPong()
				require.Len(t, w.offers(conversation), 1)
				w.desk.Fail(helpdesktest.Fault{Method: http.MethodDelete, Status: 503, Times: 1}) // what is retried is not counted again
				time.Sleep(9 * time.Second)
				assert.Zero(t, count(t, s, "liveactivity_offers_total", "ignored"), "there is time to react")
				time.Sleep(time.Minute)
				assert.Equal(t, teardown != "", w.desk.Exists(conversation))
				assert.Equal(t, 1.0, count(t, s, "liveactivity_offers_total", "ignored"))
				assert.Equal(t, 1.0, count(t, s, "liveactivity_offers_total", proactive.PingPong{}.ID())-count(t, s, "liveactivity_offers_total", "made"), "of its trigger")
			})
		})
	}
}

func TestMetrics_doNotCountAnOfferThatIsTakenAsIgnored(t *testing.T) {
	run(t, proactive.Config{Enabled: true}, func(w *world, s *server, conversation string) {
		w.pingPong()
		require.Len(t, w.offers(conversation), 1)
		w.deliver(s, w.desk.Replied("http://hooks.example/chatbot-webhook/acme", conversation, "Yes, show me"))
		time.Sleep(10 * time.Minute)
		assert.Equal(t, 1.0, count(t, s, "liveactivity_offers_total", "accepted"))
		assert.Zero(t, count(t, s, "liveactivity_offers_total", "ignored"))
	})
}
