# make help lists the targets.
SHELL := /bin/bash
export CGO_ENABLED = 0
GO ?= go
BIN := bin/weir
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
BUILD_TIME ?= $(shell date -u +%s)
LDFLAGS := -s -w -X github.com/weirstream/weir/agent.version=$(VERSION) -X github.com/weirstream/weir/agent.buildTime=$(BUILD_TIME)
PACKAGES := ./...

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## install what a fresh Debian machine lacks for the tests: mosquitto, postgresql, e2fsprogs
	@tests/deps.sh

.PHONY: build
build: ## build bin/weir for this machine
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./agent/cmd/weir

.PHONY: cross
cross: ## build for the gateways (arm64, armv7) and show the sizes
	GOOS=linux GOARCH=arm64 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/weir-linux-arm64 ./agent/cmd/weir
	GOOS=linux GOARCH=arm GOARM=7 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/weir-linux-armv7 ./agent/cmd/weir
	@ls -l bin | awk '/weir-linux/{printf "  %-20s %.2f MB\n", $$9, $$5/1e6}'

.PHONY: run
run: build ## the demo: real sensor data through the agent, which is killed again and again; one minute (ARGS=--forever goes on)
	$(GO) run ./tests/demo -weir $(BIN) $(ARGS)

.PHONY: test
test: deps build ## every test: unit, property, crash states, known answers, a short crash run against mosquitto
	$(GO) vet $(PACKAGES)
	$(GO) test -timeout 20m $(PACKAGES)
	$(GO) test -tags weirfault -run TestPowerCuts ./store/boltkv

.PHONY: check
check: ## format, vet, linter (golangci-lint when installed), import rules
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet $(PACKAGES)
	$(GO) test ./tests/layers
	@if command -v golangci-lint >/dev/null; then golangci-lint run; else echo "golangci-lint is not installed: skipped"; fi

.PHONY: race
race: ## the tests of packages with goroutines under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -short -timeout 30m ./pipeline/... ./store/... ./snapshot/... ./uplink/... ./agent/...

.PHONY: bench
bench: build ## benchmarks beside the code and in tests/bench; ratios are measured side by side in one run
	$(GO) test -run '^$$' -bench . -benchmem ./pipeline/... ./store/... ./snapshot/... ./uplink/...
	WEIR_BENCH=1 $(GO) test -count 1 -v -timeout 30m ./tests/bench/...

.PHONY: crash
crash: deps ## the long torture run: 240,000 messages, kill -9, power cuts, resets, broker and receiver restarts, planted faults
	WEIR_CRASH=long $(GO) test -count 1 -v -timeout 120m ./tests/crash

.PHONY: fuzz
fuzz: ## every fuzz test for FUZZTIME (default 30s) each
	@tests/fuzz.sh $(or $(FUZZTIME),30s)
