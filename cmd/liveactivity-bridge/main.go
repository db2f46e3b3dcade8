// Command liveactivity-bridge shows a chat widget what the person in front of
// it just did, and serves a small vendor portal to try it in.
package main

import "github.com/liveactivity/liveactivity/internal/command"

func main() { command.Main("liveactivity-bridge", run) }
