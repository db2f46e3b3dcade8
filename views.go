package liveactivity

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/schedule"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// View follows the log of a product with its own cursor. [Service.Run] calls it for every product,
// including those registered later. Its context ends when the product is removed. At a stop, the
// source returns [eventlog.ErrClosed] once the view has read everything that was accepted. A view
// that returns nil is done. After any other error it is called again, with a back-off from 1 to 30
// seconds that starts over after a longer run.
//
//	func(ctx context.Context, productID string, source *eventlog.Source) error {
//		consumer, err := stream.NewSourceConsumer(source, handlers, &stream.ConsumerOptions{
//			Cursor: source.Cursor("crm"), // to resume after a restart
//		})
//		if err != nil {
//			return err
//		}
//		return consumer.Run(ctx)
//	}
type View func(ctx context.Context, productID string, source *eventlog.Source) error

// runViews runs the views of every product, under the context following, until ctx ends, and returns
// once they have ended. When products change, it also ends the streams whose keys were removed.
func (s *Service) runViews(ctx, following context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	byProduct := map[string]*productViews{}
	for {
		s.endViews(byProduct)
		for _, id := range s.products.IDs() {
			version, served := s.products.Version(id) // products may change meanwhile
			before := byProduct[id]
			if !served || before != nil && before.version == version {
				continue
			}
			s.warnOfConfiguration(id)
			byProduct[id] = s.startViews(following, &running, id, version, before)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.products.Changed():
			s.streams.EndRevoked()
		}
	}
}

// endViews ends the views of removed products. It forgets a product only once its views have ended,
// since the views of another registration wait for that.
func (s *Service) endViews(byProduct map[string]*productViews) {
	for id, v := range byProduct {
		if _, served := s.products.Version(id); served {
			continue
		}
		if v.end(); isClosed(v.over) {
			delete(byProduct, id)
		}
	}
}

// followDesks is the view that works on a product's conversations. It is done immediately for a product
// without desks.
func (s *Service) followDesks(ctx context.Context, productID string, source *eventlog.Source) error {
	product, known, err := s.products.Product(productID)
	if err != nil || known && len(product.Desks) == 0 {
		return err
	}
	return s.connector.Follow(ctx, productID, source)
}

// productViews is a registration of a product with its views. end ends them, and over is closed once they
// have ended.
type productViews struct {
	version document.Version
	end     context.CancelFunc
	over    chan struct{}
}

// startViews ends the views of the previous registration, nil for none, and then runs the views of a
// registration, as part of running. Their writes are bound to the registration. A removed product's
// metrics go with its views.
func (s *Service) startViews(
	ctx context.Context, running *sync.WaitGroup, id string, version document.Version, before *productViews,
) *productViews {
	ctx = document.WithGenerations(ctx, func(string) document.Version { return version })
	ctx, end := context.WithCancel(ctx)
	v := &productViews{version, end, make(chan struct{})}
	running.Go(func() {
		defer close(v.over)
		if before != nil {
			before.end()
			<-before.over
		}
		var views sync.WaitGroup
		for _, view := range s.views {
			views.Go(func() { s.runView(ctx, id, view) })
		}
		views.Wait()
		if _, served := s.products.Version(id); !served {
			s.series.Forget(id)
		}
	})
	return v
}

// viewPauses are the pauses before a failed view is called again.
var viewPauses = schedule.Backoff{Min: time.Second, Max: 30 * time.Second}

// runView runs a view of a product until it is done, ctx ends or the log is closed. A stop ends only
// the pause before another call.
func (s *Service) runView(ctx context.Context, productID string, view View) {
	for failures := 1; ; failures++ {
		began := time.Now()
		source, err := eventlog.NewSource(s.engine, productID)
		if err == nil {
			source.Logger = s.log
			err = view(ctx, productID, source)
		}
		if time.Since(began) > viewPauses.Max {
			failures = 1 // it had recovered
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, eventlog.ErrClosed) {
			return
		}
		s.log.Warn("a view failed and is started again", "product_id", productID, "err", err)
		select {
		case <-ctx.Done():
			return
		case <-s.stopping:
			return
		case <-time.After(viewPauses.Even(failures)):
		}
	}
}
