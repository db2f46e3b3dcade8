# The three commands that matter are test, bench and lint; see CONTRIBUTING.md.

GO      ?= go
TOOL     = $(GO) tool -modfile=internal/tools/go.mod
BENCH   ?= .
FUZZTIME ?= 30s
# Many tests wait more than they compute, so twice as many run as there are
# processors. The lint target vets. The race detector's pause at the
# exit of a package is cut from a second.
JOBS    ?= $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))
# The packages whose tests take longest begin first, so that they are not left to
# end alone.
LONGEST  = ./stream/eventlog/redislog ./internal/durability . ./internal/e2e ./cmd/liveactivity-server ./stream/eventlog/boltlog \
	./helpdesk/connector ./stream

.PHONY: test
test: deps ## Run every test, as CI does.
	GORACE="$$GORACE atexit_sleep_ms=100" $(GO) test -race -shuffle=on -vet=off -p=$(JOBS) -parallel=$(JOBS) -timeout=12m $(LONGEST) ./...

# What needs neither root nor a browser nor Redis, in a minute.
.PHONY: check
check: ## Format, vet and the quick tests; installs nothing.
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "not formatted: $$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) test -vet=off ./internal/archtest ./activity ./activity/posthog ./activity/access ./helpdesk ./helpdesk/zendesk \
		./helpdesk/intercom ./proactive/... ./internal/productfile ./internal/contracts ./internal/deploy

# Needs goreleaser, syft, cosign and helm, and some minutes.
.PHONY: release-check
release-check: ## Build what a release holds, twice, sign it with a key of its own, and render the chart.
	scripts/release-check.sh

.PHONY: bench
bench: deps ## Run the benchmarks; BENCH=Fanout picks some.
	$(GO) test -run='^$$' -bench='$(BENCH)' -benchmem -timeout=30m ./...

# The linters and the tests compile the same, with -race, once.
.PHONY: lint
lint: ## gofmt, vet, staticcheck, actionlint, the API against the last tag, govulncheck.
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "not formatted: $$unformatted"; exit 1; }
	$(GO) vet -race ./...
	staticcheck=$$($(TOOL) -n staticcheck) && GOFLAGS="$$GOFLAGS -race" $$staticcheck ./...
	$(TOOL) actionlint
	scripts/apicheck.sh
	scripts/govulncheck.sh

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME.
	scripts/fuzz.sh $(FUZZTIME)

.PHONY: deps
deps: ## Install what the tests need and this machine lacks.
	scripts/test-deps.sh

.PHONY: help
help: ## Show what there is to make.
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
