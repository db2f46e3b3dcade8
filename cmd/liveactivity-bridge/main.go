// Command liveactivity-bridge provides a chat widget with its visitor's recent
// actions, and serves a small vendor portal to try it in.
package main

import "github.com/liveactivity/liveactivity/internal/command"

func main() { command.Main("liveactivity-bridge", run) }
