// Command liveactivity-server receives page views, clicks and form submits from
// PostHog and shows each user's recent actions to AI agents and help desks.
package main

import "github.com/liveactivity/liveactivity/cmd/liveactivity-server/servercmd"

func main() { servercmd.Main(nil) }
