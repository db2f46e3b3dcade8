// Command liveactivity-server takes page views, clicks and form submits from
// PostHog and shows AI agents and help desks what each user just did.
package main

import "github.com/liveactivity/liveactivity/cmd/liveactivity-server/servercmd"

func main() { servercmd.Main(nil) }
