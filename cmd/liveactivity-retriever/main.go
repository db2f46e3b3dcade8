// Command liveactivity-retriever keeps what users just did as records that
// chatbot platforms such as Dify retrieve. It reads a product's event stream.
package main

import "github.com/liveactivity/liveactivity/internal/command"

func main() { command.Main("liveactivity-retriever", run) }
