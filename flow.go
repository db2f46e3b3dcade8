package liveactivity

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/liveactivity/liveactivity/activity"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/flow"
	"github.com/liveactivity/liveactivity/internal/httpx"
	"github.com/liveactivity/liveactivity/stream/eventlog"
)

// newMeter returns the service's meter, which may count before the parts exist that it queries.
func (s *Service) newMeter() *flow.Meter {
	return flow.New(flow.Config{
		Documents: s.engine.Documents(), Now: s.engine.Now, Products: s.products.IDs, Version: s.products.Since,
		Readers: func(productID string) int { return s.streams.Readers(productID) },
		Backlog: func(productID string) flow.Backlog { return s.connector.Backlog(productID) },
		Logger:  s.log,
	})
}

// flowAnswer is the response of GET /flow/{product_id}. The counts are summed over all servers.
type flowAnswer struct {
	ProductID string           `json:"product_id"`
	AsOf      float64          `json:"as_of"` // epoch seconds
	Minutes   []flow.Minute    `json:"minutes"`
	Readers   int              `json:"readers"`
	LagS      float64          `json:"lag_s"`
	Parked    int              `json:"parked"` // at all desks
	Desks     []flowDesk       `json:"desks"`
	Storage   eventlog.Storage `json:"storage"`
}

// flowDesk counts the conversations that wait for a desk.
type flowDesk struct {
	Name string `json:"desk"`
	flow.Desk
}

// flowDesks returns the counts of waiting work for a product's present and former
// desks, by name.
func flowDesks(product connector.Product, waiting map[string]flow.Desk) (desks []flowDesk, parked int) {
	names := slices.Collect(maps.Keys(waiting))
	for _, desk := range product.Desks {
		names = append(names, desk.Name)
	}
	slices.Sort(names)
	desks = []flowDesk{}
	for _, name := range slices.Compact(names) {
		desks = append(desks, flowDesk{name, waiting[name]})
		parked += waiting[name].Parked
	}
	return desks, parked
}

// flowTimeout bounds the reads from storage for GET /flow.
const flowTimeout = 3 * time.Second

// serveFlow answers with a product's counts of the last hour, minute by minute, and its present
// state. It does not wait for the service to catch up.
func (s *Service) serveFlow(w http.ResponseWriter, r *http.Request) error {
	productID, err := httpx.PathValue(r, "product_id")
	if err != nil {
		return err
	}
	product, err := s.productOf(productID)
	if err != nil {
		return queryError(err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), flowTimeout)
	defer cancel()
	sum, err := s.meter.Read(ctx, productID)
	if err != nil {
		return httpx.Unavailable(err)
	}
	storage, err := s.engine.Storage(ctx, productID)
	if err != nil {
		return httpx.Unavailable(err)
	}
	answer := flowAnswer{ProductID: productID, AsOf: activity.Seconds(s.engine.Now()), Minutes: sum.Minutes,
		Readers: sum.Readers, LagS: sum.Lag.Seconds(), Storage: storage}
	answer.Desks, answer.Parked = flowDesks(product, sum.Desks)
	return httpx.WriteLive(w, answer)
}
