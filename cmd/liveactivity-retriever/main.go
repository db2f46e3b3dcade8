// Command liveactivity-retriever keeps users' recent actions as records for
// chatbot platforms such as Dify. It reads a product's event stream.
package main

import "github.com/liveactivity/liveactivity/internal/command"

func main() { command.Main("liveactivity-retriever", run) }
