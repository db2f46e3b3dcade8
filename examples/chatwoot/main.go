// Command chatwoot is liveactivity-server with an additional help desk, Chatwoot,
// in one file. Products can have it in their integration_config:
//
//	"chatwoot": {"base_url": "https://app.chatwoot.com", "account_id": 3, "api_access_token": "${CHATWOOT_TOKEN}"}
//
// It has the flags and the other commands of liveactivity-server:
//
//	go run ./examples/chatwoot check --config products.json
//	go run ./examples/chatwoot --config products.json
package main

import (
	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/cmd/liveactivity-server/servercmd"
	"github.com/liveactivity/liveactivity/helpdesk"
	"github.com/liveactivity/liveactivity/helpdesk/intercom"
	"github.com/liveactivity/liveactivity/helpdesk/zendesk"
)

func main() {
	servercmd.Main(&liveactivity.Options{Desks: []helpdesk.Kind{intercom.Kind, zendesk.Kind, kind}})
}
