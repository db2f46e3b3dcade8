package otlp_test

import (
	"context"
	"fmt"
	"log"

	"github.com/liveactivity/liveactivity"
	"github.com/liveactivity/liveactivity/activity/otlp"
)

// A program exports its traces and metrics where OTEL_EXPORTER_OTLP_ENDPOINT is set.
func ExampleOpen() {
	ctx := context.Background()
	exporter, err := otlp.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer exporter.Close(context.WithoutCancel(ctx)) // the last spans come after its end
	service, err := liveactivity.New(&liveactivity.Options{Tracer: exporter.Tracer()})
	if err != nil {
		log.Fatal(err)
	}
	if err := exporter.Export(ctx, service.Metrics()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("traces:", exporter.Tracer() != nil)
	// Output: traces: false
}
