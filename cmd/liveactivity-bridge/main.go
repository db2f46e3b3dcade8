// Command liveactivity-bridge gives a chat widget the recent actions of its
// visitor, and serves a small vendor portal to try it in.
package main

import "github.com/liveactivity/liveactivity/internal/command"

func main() { command.Main("liveactivity-bridge", run) }
