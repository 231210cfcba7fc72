# make help lists the targets.
SHELL := /bin/bash
export CGO_ENABLED = 0
GO ?= go
BIN := bin/weir
# Of the commit, not of the machine: builds are reproducible. Of a tree without a history the time is today's, unless SOURCE_DATE_EPOCH says more.
VERSION ?= $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null || echo unknown)
BUILD_TIME ?= $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || date -u +%s))
LDFLAGS := -s -w -X github.com/weirstream/weir/agent.version=$(VERSION) -X github.com/weirstream/weir/agent.buildTime=$(BUILD_TIME)
PACKAGES := ./...
# What goes to gateways: HTTP/1.1 is all that sinks speak, and code that is seldom run is not inlined. Together 1.3 MB of the arm64 binary.
TAGS := nethttpomithttp2
# The build for small devices, with a limit of its own: no state on flash beyond checkpoints, no central store; of the sinks http, file and objects in a directory.
SMALL := nopebble,nos3,nonats,nopostgres,noage,nocentral
COLD := github.com/weirstream/weir/agent/... github.com/weirstream/weir/pipeline/plan github.com/weirstream/weir/pipeline/suggest github.com/weirstream/weir/pipeline/codec/zones github.com/weirstream/weir/snapshot/... github.com/weirstream/weir/store/disk github.com/weirstream/weir/store/boltkv github.com/weirstream/weir/uplink/... \
	golang.org/x/time/... filippo.io/... github.com/fxamacker/... syscall internal/poll \
	github.com/goccy/... github.com/spf13/... github.com/jackc/... golang.org/x/text/... github.com/eclipse/... go.etcd.io/... net/http/... net crypto/... encoding/json math/big reflect vendor/... \
	log/... regexp/... mime/... net/... text/... os os/... path/... io/... github.com/gorilla/... github.com/minio/... github.com/nats-io/... github.com/VictoriaMetrics/... github.com/influxdata/... github.com/axiomhq/... golang.org/x/net/... golang.org/x/crypto/... compress/... encoding/pem encoding/asn1 golang.org/x/sys/... golang.org/x/sync/... github.com/coreos/... net/netip context bufio fmt github.com/weirstream/weir/store/deadletter github.com/weirstream/weir/boards \
	encoding/xml encoding/gob github.com/tinylib/... github.com/philhofer/... gopkg.in/... go.yaml.in/... go/... flag embed runtime/pprof github.com/pkg/... github.com/google/... github.com/rs/... github.com/dustin/... github.com/klauspost/cpuid/... github.com/cockroachdb/redact/... \
	github.com/cockroachdb/pebble/v2/wal github.com/cockroachdb/pebble/v2/record github.com/cockroachdb/pebble/v2/vfs/... github.com/cockroachdb/pebble/v2/objstorage/... github.com/cockroachdb/pebble/v2/internal/dsl github.com/cockroachdb/pebble/v2/internal/treeprinter github.com/cockroachdb/pebble/v2/internal/testkeys
# The names of generic functions repeat the struct types that they are made for, some of them 700 letters long. Stack traces show [...] there, so a hash does as well.
SHORT := -d=maxshapelen=40
GCFLAGS := -gcflags='all=$(SHORT)' $(foreach p,$(COLD),-gcflags='$(p)=-l $(SHORT)')
RELEASE := -trimpath -buildvcs=false $(GCFLAGS) -ldflags '$(LDFLAGS)'

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## install what a fresh Debian machine lacks for the tests: mosquitto, postgresql, e2fsprogs, qemu-user-static, mmdebstrap, rauc
	@tests/deps.sh

.PHONY: build
build: ## build bin/weir, and its helper bin/weir-boot, for this machine
	$(GO) build -tags $(TAGS) $(RELEASE) -o $(BIN) ./agent/cmd/weir
	$(GO) build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' -o $(BIN)-boot ./agent/cmd/weir-boot

.PHONY: small
small: ## build OUT (default bin/weir-small) for this machine: without Pebble, S3, NATS and PostgreSQL
	$(GO) build -tags $(SMALL),$(TAGS) $(RELEASE) -o $(or $(OUT),bin/weir-small) ./agent/cmd/weir

# Where the binaries for gateways go, and for which processors: the least of each kind, so that one build runs on all boards of it.
DIR ?= bin
CROSS_arm64 := GOARCH=arm64 GOARM64=v8.0
CROSS_armv7 := GOARCH=arm GOARM=7
CROSS_amd64 := GOARCH=amd64 GOAMD64=v1

.PHONY: cross
cross: cross-arm64 cross-armv7 cross-amd64 cross-arm64-nopebble ## build for the gateways (arm64, with and without Pebble; armv7; amd64) into DIR (default bin), show the sizes
	@ls -l $(DIR) | awk '/weir-(boot-)?linux/{printf "  %-32s %.2f MB\n", $$9, $$5/1e6}'

cross-%-nopebble: boot-%
	GOOS=linux $(CROSS_$*) $(GO) build -tags $(SMALL),$(TAGS) $(RELEASE) -o $(DIR)/weir-linux-$*-nopebble ./agent/cmd/weir

cross-%: boot-%
	GOOS=linux $(CROSS_$*) $(GO) build -tags $(TAGS) $(RELEASE) -o $(DIR)/weir-linux-$* ./agent/cmd/weir

boot-%: # the helper that chooses among programs, for both builds of a processor
	GOOS=linux $(CROSS_$*) $(GO) build -tags $(TAGS) -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' -o $(DIR)/weir-boot-linux-$* ./agent/cmd/weir-boot

# Debian's names of the processors. Its armhf is ARMv7; Raspberry Pi OS calls ARMv6 so as well, which is not built.
DEB_arm64 := arm64
DEB_armhf := armv7
DEB_amd64 := amd64
DEB_VERSION ?= $(shell packaging/deb/version.sh)

.PHONY: deb
deb: deb-arm64 deb-armhf deb-amd64 ## Debian packages for the gateways (arm64, armhf, amd64) into DIR (default bin); one of them: make deb-arm64

deb-%: build nfpm
	@$(MAKE) -s cross-$(DEB_$*)
	@NFPM=bin/nfpm SOURCE_DATE_EPOCH=$(BUILD_TIME) DEB_VERSION=$(DEB_VERSION) packaging/deb/build.sh $* $(DIR)/weir-linux-$(DEB_$*) $(DIR)/weir-boot-linux-$(DEB_$*) $(BIN) $(DIR)

.PHONY: nfpm
nfpm: # what makes packages, of a module of its own
	@GOOS= GOARCH= $(GO) -C packaging/tool build -o $(CURDIR)/bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm

# Where the compiled packages OBJECTS lie, as they go into the binary.
objects-%:
	@GOOS=linux $(CROSS_$*) $(GO) list -export -tags $(TAGS) $(RELEASE) -f '{{.ImportPath}} {{.Export}}' $(OBJECTS)

.PHONY: sizes
sizes: cross ## cross, and fail when an arm64 binary is larger than it may be: 24 MB, without Pebble 14 MB
	@for f in "arm64 24000000" "arm64-nopebble 14000000"; do set -- $$f; \
	  n=$$(stat -c %s $(DIR)/weir-linux-$$1); [ $$n -le $$2 ] || { echo "$(DIR)/weir-linux-$$1 has $$n bytes, $$2 at most"; exit 1; }; done

.PHONY: sbom
sbom: cross ## write what each binary of cross is made of beside it, as CycloneDX (DIR/*.cdx.json)
	@for f in $(DIR)/weir-linux-* $(DIR)/weir-boot-linux-*; do case $$f in *.json) ;; *) $(GO) run ./tests/sbom $$f >$$f.cdx.json && echo "  $$f.cdx.json";; esac; done

.PHONY: reproducible
reproducible: ## build ARCH (default arm64-nopebble) again in another directory with nothing in the cache: the same bytes
	WEIR_REPRODUCE=$(or $(ARCH),arm64-nopebble) $(GO) test -count 1 -v -timeout 30m -run TestBuildsAreReproducible ./tests/portable

# The unit tests that run on other processors: what decides what is on flash and what a pipeline makes. Servers, brokers and the agent as a whole are in tests/portable.
CORE := ./pipeline/... ./store/... ./snapshot/... ./agent/savepoints ./uplink ./uplink/wire ./uplink/jsonrow ./uplink/receiver ./uplink/filesink
# Of these, what the short form runs: the formats, the state, the numbers. Emulation takes some ten times the CPU; what a word of 32 bits breaks, 386 finds as well.
FORMATS := ./pipeline ./pipeline/portmath ./pipeline/expr ./pipeline/state ./store/disk ./snapshot/savepoint

.PHONY: portable
portable: deps ## the unit tests of the core for arm64 and armv7 under qemu, and in 32 bits as they are (386); then a long journey of a pipeline
	GOARCH=386 $(GO) test -short -timeout 30m $(CORE)
	GOARCH=arm64 $(GO) test -short -timeout 60m -exec qemu-aarch64-static $(CORE)
	GOARCH=arm GOARM=7 $(GO) test -short -timeout 60m -exec qemu-arm-static $(CORE)
	WEIR_CRASH=long $(GO) test -count 1 -v -timeout 60m ./tests/portable

.PHONY: portable-short
portable-short: deps ## the same for formats, state and numbers alone
	@GO="$(GO)" tests/portable/short.sh "$(FORMATS)"

.PHONY: zones
zones: ## take the time zone database of the Go release into pipeline/codec/zones
	zstd -q -19 -f "$$($(GO) env GOROOT)/lib/time/zoneinfo.zip" -o pipeline/codec/zones/zoneinfo.zip.zst

.PHONY: run
run: build ## the demo: real sensor data through the agent, which is killed again and again; one minute (ARGS=--forever goes on)
	$(GO) run ./tests/demo -weir $(BIN) $(ARGS)

.PHONY: test
test: deps build ## every test: unit, property, crash states, known answers, a short crash run against mosquitto
	$(GO) vet $(PACKAGES)
	$(GO) test -timeout 20m $(PACKAGES)
	$(GO) test -tags weirfault -run TestPowerCuts ./store/boltkv
	$(GO) test -tags weirfault -run "TestPressureAnywhere/life/bbolt|TestRepairOnADyingDisk/bbolt" ./agent
	@$(GO) test -count 1 -v -run TestMachine ./tests/powercut | grep -o 'NOT TESTED HERE.*' || true
	@$(GO) test -count 1 -v -run TestOrder ./agent/upgrade/rauc | grep -o 'NOT TESTED HERE.*' || true
	$(MAKE) portable-short
	$(MAKE) systemd

.PHONY: systemd
systemd: deps ## the Debian package in a root with systemd as PID 1: install, stop, crashes, watchdog, credentials, upgrades (needs root; else it says NOT TESTED HERE)
	WEIR_SYSTEMD=1 $(GO) test -v -timeout 40m ./tests/systemd

.PHONY: upgrade-matrix
upgrade-matrix: deps ## upgrades of a real agent by the real helper under systemd: each bad program and release, a crash at each durable step of both programs, full disks, a wrong clock; and of a whole system by RAUC and a boot loader; an hour, WEIR_MATRIX=1/4 is the first of four parts (needs root)
	WEIR_SYSTEMD=long $(GO) test -count 1 -v -timeout 240m -run 'TestUpgrade(Matrix|Rauc)$$' ./tests/systemd

.PHONY: check
check: ## format, vet, linter (golangci-lint when installed), import rules
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) build $(PACKAGES)
	$(GO) vet $(PACKAGES)
	$(GO) vet -tags $(SMALL) $(PACKAGES)
	$(GO) build -tags $(SMALL) -o /dev/null ./agent/cmd/weir
	$(GO) test ./tests/layers
	@if command -v golangci-lint >/dev/null; then golangci-lint run; else echo "golangci-lint is not installed: skipped"; fi

.PHONY: race
race: ## the tests of packages with goroutines under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race -short -timeout 30m ./pipeline/... ./store/... ./snapshot/... ./uplink/... ./agent/...

.PHONY: bench
bench: build ## benchmarks beside the code and in tests/bench; ratios are measured side by side in one run
	$(GO) test -run '^$$' -bench . -benchmem ./pipeline/... ./store/... ./snapshot/... ./uplink/...
	WEIR_BENCH=1 $(GO) test -count 1 -v -timeout 30m ./tests/bench/...

.PHONY: flash-table
flash-table: ## measure what the default config of each class of boards writes in a day, into docs/flash.md; an hour, needs root
	WEIR_FLASH_TABLE=1 $(GO) test -count 1 -v -timeout 90m -run 'TestFlashTable$$' ./tests/bench/flash

.PHONY: crash
crash: deps ## the long torture run: 330,000 messages, kill -9, power cuts, resets, broker and receiver restarts, planted faults
	WEIR_CRASH=long $(GO) test -count 1 -v -timeout 120m ./tests/crash

# The emulated machine: WEIR_DEVICE_CACHE keeps what comes from Debian (else weir-device in the user's cache directory).
.PHONY: test-device
test-device: deps deps-device ## an arm64 machine under qemu whose power is cut: 50 cuts with direct boot, 20 under systemd, 17 upgrades with a cut in each, memory taken away, planted faults; some 45 minutes on two idle cores
	WEIR_DEVICE=long $(GO) test -count 1 -p 1 -v -timeout 180m ./tests/rig/nbd ./tests/device

.PHONY: test-device-short
test-device-short: deps deps-device ## the same with 5 cuts, 1, and an upgrade with one, for CI: some 3 minutes, once Debian is there
	WEIR_DEVICE=short $(GO) test -count 1 -v -timeout 40m -run 'TestDirectBoot|TestUnderSystemd|TestPlantedFaults|TestWhatBreaks' ./tests/device

.PHONY: deps-device
deps-device: ## install what the emulated machine needs from Debian: qemu-system-arm, qemu-utils, mmdebstrap
	@tests/device/deps.sh

.PHONY: powercut
powercut: deps ## power cuts of the disk beneath a real ext4 with the agent on it: 200 crash points and more, planted faults; needs root, FUSE and loop devices
	WEIR_CRASH=long $(GO) test -count 1 -p 1 -v -timeout 60m ./tests/rig/volatiledisk ./tests/powercut

.PHONY: fleet
fleet: deps ## a hundred gateways as processes with an object store and mosquitto: waves, two bad releases, commands, a roll-out back, attacks, planted faults
	WEIR_FLEET=long $(GO) test -count 1 -v -timeout 120m ./tests/fleet

.PHONY: week
week: ## a week without an upstream at RATE (default 100) results/s in virtual time, then catching up; a restart with 1 GiB that waits
	WEIR_WEEK=$(or $(RATE),100) $(GO) test -count 1 -v -timeout 120m -run 'TestAWeekOffline$$' ./tests/forward
	WEIR_FULL=1024 $(GO) test -count 1 -v -timeout 20m -run TestRestartWithAFullOutbox ./store/outbox

.PHONY: compat-image
compat-image: ## write images of state with the build of COMMIT (default HEAD), for tests/compat; they are kept for ever
	@set -e; commit=$$(git rev-parse $(or $(COMMIT),HEAD)); short=$$(git rev-parse --short=7 $$commit); dir=$$(mktemp -d); \
	trap 'git worktree remove --force '"$$dir"'/tree; rm -rf '"$$dir" EXIT; \
	git worktree add -q --detach $$dir/tree $$commit; \
	(cd $$dir/tree && $(GO) build -ldflags "-X github.com/weirstream/weir/agent.version=$$short" -o $$dir/weir ./agent/cmd/weir); \
	$(GO) test ./tests/compat -count 1 -run TestWriteImages -write $$short -writer $$dir/weir -commit $$commit; ls -l tests/compat/images

.PHONY: fuzz
fuzz: ## every fuzz test for FUZZTIME (default 30s) each
	@tests/fuzz.sh $(or $(FUZZTIME),30s)
