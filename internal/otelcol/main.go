// Command otelcol is an OpenTelemetry collector for tests, with only the parts that
// its configuration needs: it receives OTLP, and forwards it over HTTP. Its
// argument is the configuration, in YAML after "yaml:".
package main

import (
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	collector, err := otelcol.NewCollector(otelcol.CollectorSettings{
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs: os.Args[1:], ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()}}},
	})
	if err != nil {
		return err
	}
	return collector.Run(context.Background())
}

// factories has one receiver and one exporter: the tests need no others, and each adds a
// module to the build.
func factories() (f otelcol.Factories, err error) {
	f.Telemetry = telemetry.NewFactory(func() component.Config { return &struct{}{} }) // no telemetry of its own
	if f.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
		return f, err
	}
	f.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](otlphttpexporter.NewFactory())
	return f, err
}
