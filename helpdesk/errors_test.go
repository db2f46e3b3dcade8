package helpdesk_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/helpdesk"
)

func TestAPIError_ofAWrongConfigurationIsAccountWide(t *testing.T) {
	for _, status := range []int{404, 409, 422} {
		assert.False(t, (&helpdesk.APIError{Status: status}).AccountWide(), status)
		assert.True(t, (&helpdesk.APIError{Status: status, Misconfigured: true}).AccountWide(), status)
	}
}

func TestAPIError_namesTheRequestForTheVendorsSupport(t *testing.T) {
	e := &helpdesk.APIError{Desk: "zendesk", Op: "write note", Status: 500, Code: "InternalError", RequestID: "1f"}
	assert.EqualError(t, e, "zendesk: write note: 500 Internal Server Error: InternalError (request 1f)")
}

func TestAPIError_isTemporaryOnlyWhereTheSameRequestMaySucceed(t *testing.T) {
	for _, status := range []int{0, 407, 408, 409, 421, 423, 425, 429, 500, 503} {
		assert.True(t, (&helpdesk.APIError{Status: status}).Temporary(), status)
		assert.False(t, (&helpdesk.APIError{Status: status, Gone: true}).Temporary(), status)
		one := status == 409 || status == 423
		assert.Equal(t, !one, (&helpdesk.APIError{Status: status}).AccountWide(), status)
	}
	for _, status := range []int{400, 401, 402, 403, 404, 405, 406, 410, 412, 413, 415, 418, 422, 424, 426, 428,
		431, 451} {
		assert.False(t, (&helpdesk.APIError{Status: status}).Temporary(), status)
	}
}

func TestAPIError_ofOneConversationIsNotAccountWide(t *testing.T) {
	for _, status := range []int{403, 429} {
		assert.True(t, (&helpdesk.APIError{Status: status}).AccountWide(), status)
		assert.False(t, (&helpdesk.APIError{Status: status, OneConversation: true}).AccountWide(), status)
	}
}

// Logs hold no addresses, but vendors' messages do.
func TestAPIError_omitsAddresses(t *testing.T) {
	err := &helpdesk.APIError{Desk: "zendesk", Op: "write note", Status: 422, Code: "RecordInvalid",
		Message: "Requester: <ada+1@example.com> is suspended, bob@example.com: too"}
	assert.EqualError(t, err,
		"zendesk: write note: 422 Unprocessable Entity: RecordInvalid Requester: <…@…> is suspended, …@…: too")
}
