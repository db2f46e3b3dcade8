package liveactivity

import (
	"context"
	"net/http"
	"strings"

	"github.com/liveactivity/liveactivity/activity/agent"
	"github.com/liveactivity/liveactivity/helpdesk/connector"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// Context returns a person's page and recent actions for an AI agent, like GET /context. It includes
// everything that was accepted before the call. If the service has not caught up with its log
// within 5 seconds, it returns ErrNotReady. A mistake in the query is a *[activity.QueryError]. An
// unknown person is not an error.
func (s *Service) Context(ctx context.Context, productID string, q agent.Query) (agent.Context, error) {
	if err := s.awaitCatchUp(ctx); err != nil {
		return agent.Context{}, err
	}
	answer, err := s.agentAnswer(ctx, productID, q)
	if err != nil {
		return agent.Context{}, err
	}
	return *answer, nil
}

// agentAnswer answers a query for the endpoint, the MCP tool and Context, within viewPatience.
func (s *Service) agentAnswer(ctx context.Context, productID string, q agent.Query) (*agent.Context, error) {
	ctx, cancel := context.WithTimeout(ctx, viewPatience)
	defer cancel()
	return s.agents.Read(ctx, productID, q)
}

// agentSettings returns a product's desks and the prompt for its agents; both are empty for an unknown
// product.
func (s *Service) agentSettings(productID string) (connector.Product, string, error) {
	product, _, err := s.products.Product(productID)
	return product, strings.TrimSpace(s.products.Configuration(productID).Agent.Prompt), err
}

// serveContext serves GET /context/{product_id} as JSON or text, by the parameter format or else the
// header Accept.
func (s *Service) serveContext(w http.ResponseWriter, r *http.Request) error {
	query, err := httpx.Query(r)
	if err != nil {
		return err
	}
	text := httpx.PrefersText(r.Header.Values("Accept"))
	if query.Has("format") {
		format := query.Get("format")
		if text = format == "text"; !text && format != "json" {
			return httpx.BadRequest("The query parameter format must be text or json.")
		}
	}
	q, err := agent.ParseQuery(query)
	if err != nil {
		return queryError(err)
	}
	answer, err := s.agentAnswer(r.Context(), r.PathValue("product_id"), q)
	if err != nil {
		return queryError(err)
	}
	w.Header().Add("Vary", "Accept")
	if text {
		httpx.WriteText(w, answer.Text)
		return nil
	}
	return httpx.WriteLive(w, answer)
}
