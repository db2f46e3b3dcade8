package registry

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/internal/productfile"
	"github.com/liveactivity/liveactivity/internal/watchtest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

func TestUnregister_endsCredentialsAndRemovesData(t *testing.T) {
	log := newMemoryLog()
	r := attached(t, log)
	acme, other := register(t, r, "acme", false), register(t, r, "other", false)
	for _, id := range []string{"acme", "other"} {
		require.NoError(t, log.Append(t.Context(), id, []eventlog.Entry{{Data: []byte(`{}`)}}))
	}
	require.NoError(t, r.Unregister(t.Context(), "acme"))
	assertVoid(t, r, acme, "acme")
	assertOpen(t, r, other, "other")
	assert.Equal(t, []string{"other"}, r.IDs())
	kept := func(id string) eventlog.ID {
		bounds, err := log.Bounds(t.Context(), id)
		require.NoError(t, err)
		return bounds.Oldest
	}
	assert.Zero(t, kept("acme"))
	assert.NotZero(t, kept("other"))
	docs, err := log.Documents().List(t.Context(), "", "product/", "", 10)
	require.NoError(t, err)
	assert.Len(t, docs, 1, "the registration is gone, too")
	require.ErrorIs(t, r.Unregister(t.Context(), "acme"), ErrUnknown)
	assertOpen(t, r, register(t, r, "acme", false), "acme")
}

// The next call removes the documents that storage could not remove. A new registration removes
// them first and starts empty.
func TestUnregister_goesOnWhereItFailed(t *testing.T) {
	errAway := errors.New("away")
	for name, again := range map[string]func(*Registry) error{
		"removed again": func(r *Registry) error { return r.Unregister(t.Context(), "acme") },
		"registered again": func(r *Registry) error {
			_, err := r.Register(t.Context(), productfile.Product{ProductID: "acme"}, "", false)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := &watchtest.Log{Log: newMemoryLog()}
			var fails bool
			dropped := 0
			log.Before = func(_ context.Context, op watchtest.Op) error {
				switch {
				case op.Name != "drop":
				case fails:
					return errAway
				default:
					dropped++
				}
				return nil
			}
			r := registryOn(log)
			c := register(t, r, "acme", false)
			fails = true
			require.ErrorIs(t, r.Unregister(t.Context(), "acme"), errAway)
			assertVoid(t, r, c, "acme")
			require.ErrorIs(t, again(r), errAway)
			fails = false
			require.NoError(t, again(r))
			assert.Equal(t, 1, dropped)
		})
	}
}

// A product that was registered again meanwhile loses nothing.
func TestUnregister_leavesANewRegistrationAlone(t *testing.T) {
	log := &watchtest.Log{Log: newMemoryLog()}
	r := registryOn(log)
	var fresh Credentials
	removing := true
	log.Before = func(_ context.Context, op watchtest.Op) error {
		if op.Name == "drop" && removing {
			removing = false
			fresh = register(t, r, "acme", false)
		}
		return nil
	}
	register(t, r, "acme", false)
	require.NoError(t, r.Unregister(t.Context(), "acme"))
	assertOpen(t, r, fresh, "acme")
	assertOpen(t, attached(t, log), fresh, "acme")
}
