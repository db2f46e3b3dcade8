// Command liveactivity-retriever keeps the recent actions of users as records for
// chatbot platforms such as Dify. It reads a product's event stream.
package main

import "github.com/liveactivity/liveactivity/internal/command"

func main() { command.Main("liveactivity-retriever", run) }
