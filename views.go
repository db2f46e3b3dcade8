package liveactivity

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// View follows the log of a product with its own cursor. [Service.Run] calls it for every
// product, including those registered later. Its context ends when the product is
// removed, and at a stop, but not before the view could read everything that was
// accepted: then the source returns [eventlog.ErrClosed]. A view that returns nil is
// done; after any other error but these it is called again, with a back-off from one
// second to 30, which starts over after a run that was longer.
//
//	func(ctx context.Context, productID string, source *eventlog.Source) error {
//		consumer, err := stream.NewSourceConsumer(source, handlers, &stream.ConsumerOptions{
//			Cursor: source.Cursor("crm"), // to go on there after a restart
//		})
//		if err != nil {
//			return err
//		}
//		return consumer.Run(ctx)
//	}
type View func(ctx context.Context, productID string, source *eventlog.Source) error

// runViews runs the views of every product until ctx ends, and returns when they
// have; they run under the context following. When products come or go it also
// ends the streams whose keys went with them.
func (s *Service) runViews(ctx, following context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	remove := map[string]context.CancelFunc{}
	for {
		ids := s.products.IDs()
		for id, cancel := range remove {
			if _, ok := slices.BinarySearch(ids, id); !ok {
				cancel()
				delete(remove, id)
			}
		}
		for _, id := range ids {
			if remove[id] != nil {
				continue
			}
			followingProduct, cancel := context.WithCancel(following)
			remove[id] = cancel
			s.warn(id)
			for _, view := range s.views {
				running.Go(func() { s.runView(followingProduct, id, view) })
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.products.Changed():
			s.streams.EndRevoked()
		}
	}
}

// warn logs the parts of a product's configuration that have no effect, each once.
func (s *Service) warn(productID string) {
	product, _, err := s.products.Product(productID)
	if err != nil {
		return // it has just been removed
	}
	warnings := deskWarnings(product, s.replies)
	offers := false
	for _, desk := range product.Desks {
		can := desk.Desk.Capabilities()
		warnings = append(warnings, can.Warnings...)
		offers = offers || can.Offerer != nil
	}
	if !offers && s.products.MakesOffers(productID) {
		warnings = append(warnings, "proactive is enabled, and none of the product's desks can show an offer; Intercom can")
	}
	if advice := s.products.Advice(productID); s.replies && advice != "" {
		warnings = append(warnings, advice)
	}
	for _, warning := range warnings {
		s.log.Warn(warning, "product_id", productID)
	}
}

// How long to wait before a view that failed is called again.
const (
	firstViewRetry = time.Second
	lastViewRetry  = 30 * time.Second
)

// runView runs a view of a product until it is done or ctx ends.
func (s *Service) runView(ctx context.Context, productID string, view View) {
	for retry := firstViewRetry; ; retry = min(2*retry, lastViewRetry) {
		began := time.Now()
		source, err := eventlog.NewSource(s.engine, productID)
		if err == nil {
			source.Logger = s.log
			err = view(ctx, productID, source)
		}
		if time.Since(began) > lastViewRetry {
			retry = firstViewRetry // it was well
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
		case <-time.After(retry):
		}
	}
}
