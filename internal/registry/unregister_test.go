package registry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/productfile"
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

func TestUnregister_refusesAProductThatIsNotRegistered(t *testing.T) {
	r, err := New(file(), productfile.NewExtensions(nil, nil), nil, newMemoryLog())
	require.NoError(t, err)
	require.ErrorIs(t, r.Unregister(t.Context(), file().Products[0].ProductID), ErrFixed)
	require.ErrorIs(t, r.Unregister(t.Context(), "none"), ErrUnknown)
}

func TestUnregister_reachesAnotherRegistryAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newMemoryLog()
		here, there := attached(t, log), attached(t, log)
		c := register(t, here, "acme", false)
		run(t, there)
		synctest.Wait()
		assertOpen(t, there, c, "acme")
		require.NoError(t, here.Unregister(t.Context(), "acme"))
		synctest.Wait()
		assertVoid(t, there, c, "acme")
	})
}

// droppingLog is a log with another Drop.
type droppingLog struct {
	eventlog.Log
	drop func(ctx context.Context, productID string, through document.Version) error
}

func (l droppingLog) Drop(ctx context.Context, productID string, through document.Version) error {
	return l.drop(ctx, productID, through)
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
			log := newMemoryLog()
			var fails bool
			dropped := 0
			r := registryOn(droppingLog{log, func(ctx context.Context, id string, through document.Version) error {
				if fails {
					return errAway
				}
				dropped++
				return log.Drop(ctx, id, through)
			}})
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
	log := newMemoryLog()
	var r *Registry
	var fresh Credentials
	removing := true
	r = registryOn(droppingLog{log, func(context.Context, string, document.Version) error {
		if removing {
			removing = false
			fresh = register(t, r, "acme", false)
		}
		return nil
	}})
	register(t, r, "acme", false)
	require.NoError(t, r.Unregister(t.Context(), "acme"))
	assertOpen(t, r, fresh, "acme")
	assertOpen(t, attached(t, log), fresh, "acme")
}
