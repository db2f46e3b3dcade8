package access_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/activity/access"
	"github.com/liveactivity/liveactivity/internal/httpx"
)

// refresher counts the calls of Refresh.
type refresher struct {
	products []string
	err      error
}

func (r *refresher) Refresh(productID string) error {
	r.products = append(r.products, productID)
	return r.err
}

// A refusal stands only after the product was looked up anew.
func TestCheckCurrent_refusesByTheProductsPresentState(t *testing.T) {
	errOther := errors.New("something else")
	for name, tt := range map[string]struct {
		said      []error // the answers of successive checks
		refresh   error
		want      int
		refreshes int
	}{
		"taken":                    {[]error{nil}, nil, 0, 0},
		"refused and then taken":   {[]error{httpx.Unauthorized("No.", ""), nil}, nil, 0, 1},
		"refused twice":            {[]error{httpx.NotFound("No."), httpx.Errorf(403, "No.")}, nil, 403, 1},
		"forbidden and then taken": {[]error{httpx.Errorf(403, "No."), nil}, nil, 0, 1},
		"cannot be refreshed":      {[]error{httpx.Unauthorized("No.", "")}, errOther, 503, 1},
		"malformed":                {[]error{httpx.BadRequest("No.")}, nil, 400, 0},
		"another failure":          {[]error{errOther}, nil, 500, 0},
	} {
		t.Run(name, func(t *testing.T) {
			products, said := &refresher{err: tt.refresh}, tt.said
			check := func() error {
				err := said[0]
				said = said[1:]
				return err
			}
			assert.Equal(t, tt.want, status(access.CheckCurrent(products, "acme", check)))
			assert.Empty(t, said)
			assert.Equal(t, tt.refreshes, len(products.products))
			assert.Subset(t, []string{"acme"}, products.products)
		})
	}
}

// status returns the status of a check's answer, zero for none.
func status(err error) int {
	var answer *httpx.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &answer):
		return answer.Status
	}
	return http.StatusInternalServerError
}
