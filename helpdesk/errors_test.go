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

func TestAPIError_ofOneConversationIsNotAccountWide(t *testing.T) {
	for _, status := range []int{403, 429} {
		assert.True(t, (&helpdesk.APIError{Status: status}).AccountWide(), status)
		assert.False(t, (&helpdesk.APIError{Status: status, OneConversation: true}).AccountWide(), status)
	}
}
