# Everything that a developer runs. `make` alone lists the targets.

TOOLS := .tools/bin
STAGE := .tools/stage
# Folders that `make gen` owns: wiped and written again, never edited.
SQL_GEN := gen/sqlitedb gen/pgdb gen/shareddb
GO_GEN := $(addprefix clients/go/,fireoncev1 schedulesv1 connectionsv1 subscriptionsv1 adminv1 connectorv1)
PROTO_GEN := gen/ts gen/proto gen/comments
GEN := $(PROTO_GEN) $(SQL_GEN) $(GO_GEN)

BUF := $(TOOLS)/buf
PROTO_PLUGINS := $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc $(TOOLS)/protoc-gen-connect-go
# What npm writes when package-lock.json is installed. protoc-gen-es is in there.
NODE_MODULES := node_modules/.package-lock.json

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-zA-Z0-9_-]+:.*## / { printf "  %-24s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# ---- Generated code -------------------------------------------------------

.PHONY: gen
gen: gen-proto gen-sql ## Generate all code: the contract's in clients/go and gen/ts, the contract without its rules, and SQL's queries

# Generated beside what is there first: a failure leaves that.
.PHONY: gen-proto
gen-proto: $(BUF) $(PROTO_PLUGINS) $(NODE_MODULES)
	rm -rf $(STAGE)
	PATH="$(CURDIR)/$(TOOLS):$(CURDIR)/node_modules/.bin:$$PATH" $(BUF) generate --output $(STAGE)
	cp -R proto/google $(STAGE)/gen/proto/
	rm -rf $(PROTO_GEN) $(GO_GEN)
	mkdir -p gen
	mv $(addprefix $(STAGE)/,$(PROTO_GEN)) gen/
	mv $(addprefix $(STAGE)/,$(GO_GEN)) clients/go/

.PHONY: gen-sql
ifneq ($(wildcard sqlc.yaml),)
gen-sql: $(TOOLS)/sqlc
	$(TOOLS)/sqlc compile
	rm -rf $(SQL_GEN)
	$(TOOLS)/sqlc generate
else
gen-sql:
endif

.PHONY: gen-check
gen-check: gen ## Fail if the generated code is not what `make gen` writes, or is not committed
	@git --no-pager diff --exit-code HEAD -- $(GEN)
	@new=$$(git ls-files --others -- $(GEN)); \
	if [ -n "$$new" ]; then echo "generated, but not committed:"; echo "$$new"; exit 1; fi

# ---- Dashboard ------------------------------------------------------------
# web/dist is committed, so that building and testing the program needs no Node.

.PHONY: web
web: ## Build the dashboard into web/dist, which the program embeds
	.ci/web build

.PHONY: web-check
web-check: ## Fail if web/dist is not what the sources in web/ build to
	.ci/web check

.PHONY: test-web
test-web: ## Use the dashboard in Chromium, against a real server and real receivers
	go build -o .tools/bin/fireonce ./cmd/fireonce
	.ci/web test .tools/bin/fireonce

.PHONY: web-pictures
web-pictures: ## Take pictures of each page: FOLDER=docs/dashboard
	go build -o .tools/bin/fireonce ./cmd/fireonce
	.ci/web pictures .tools/bin/fireonce $(abspath $(or $(FOLDER),.tools/pictures))

# go.mod requires a version of clients/go that may have no tag yet, and `go mod tidy` knows no go.work.
.PHONY: tidy
tidy: ## Tidy each go.mod but the tools'
	.ci/tidy

# The folder without what others have written in it.
OURS := --exclude-path proto/buf --exclude-path proto/google
.PHONY: proto-check
proto-check: $(BUF) ## Lint the contract, check its format, and that no client of it breaks
	$(BUF) lint
	$(BUF) format --diff --exit-code proto $(OURS)
	$(BUF) breaking proto --against $(FROZEN) || \
		{ echo "A client that was generated before would break. If that is wanted: make freeze, and CHANGELOG.md."; exit 1; }

# The contract as clients know it. Until v0.1.0 it may break, but in the open.
FROZEN := proto/frozen.json
.PHONY: freeze
freeze: $(BUF) ## Take the contract as it is for what clients know
	$(BUF) build proto $(OURS) --exclude-source-info -o $(FROZEN)

# ---- Tools ----------------------------------------------------------------
# Each has a go.mod of its own, so that no tool's dependencies meet another's or
# the service's. Built once into .tools; built again when its go.mod changes.

$(TOOLS)/goreleaser: tools/goreleaser/go.mod tools/goreleaser/go.sum
	$(call go-tool,goreleaser,github.com/goreleaser/goreleaser/v2)

$(TOOLS)/cyclonedx-gomod: tools/cyclonedx-gomod/go.mod tools/cyclonedx-gomod/go.sum
	$(call go-tool,cyclonedx-gomod,github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod)

.PHONY: tools
tools: $(BUF) $(PROTO_PLUGINS) $(NODE_MODULES) $(TOOLS)/sqlc $(TOOLS)/golangci-lint ## Install every tool now

# CGO is off: no C compiler is needed.
go-tool = GOWORK=off CGO_ENABLED=0 go -C tools/$(1) build -o $(CURDIR)/$@ $(2)

$(TOOLS)/buf: tools/buf/go.mod tools/buf/go.sum
	$(call go-tool,buf,github.com/bufbuild/buf/cmd/buf)

$(TOOLS)/protoc-gen-go: tools/protoc-gen-go/go.mod tools/protoc-gen-go/go.sum
	$(call go-tool,protoc-gen-go,google.golang.org/protobuf/cmd/protoc-gen-go)

$(TOOLS)/protoc-gen-go-grpc: tools/protoc-gen-go-grpc/go.mod tools/protoc-gen-go-grpc/go.sum
	$(call go-tool,protoc-gen-go-grpc,google.golang.org/grpc/cmd/protoc-gen-go-grpc)

$(TOOLS)/protoc-gen-connect-go: tools/protoc-gen-connect-go/go.mod tools/protoc-gen-connect-go/go.sum
	$(call go-tool,protoc-gen-connect-go,connectrpc.com/connect/cmd/protoc-gen-connect-go)

$(TOOLS)/sqlc: tools/sqlc/go.mod tools/sqlc/go.sum
	$(call go-tool,sqlc,github.com/sqlc-dev/sqlc/cmd/sqlc)

$(TOOLS)/golangci-lint: tools/golangci/go.mod tools/golangci/go.sum
	$(call go-tool,golangci,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)

# Exactly what the lock file says, for code generation and the TypeScript example.
$(NODE_MODULES): package.json package-lock.json .npmrc $(addsuffix /package.json,$(addprefix examples/,typescript connector-typescript receiver-typescript))
	.ci/need-clients node
	npm ci
	@touch $@

# A server for the tests of the connector bluesky. npm writes the file first, and the
# script removes it with the rest if the rest fails.
PDS_MODULES := internal/proof/platforms/pds/node_modules/.package-lock.json
$(PDS_MODULES): internal/proof/platforms/pds/package.json internal/proof/platforms/pds/package-lock.json
	.ci/need-pds
	@touch $@

# The platforms' own code, which their text rules are compared with.
ORACLE_MODULES := internal/proof/oracles/node_modules/.package-lock.json
$(ORACLE_MODULES): $(addprefix internal/proof/oracles/,package.json package-lock.json .npmrc)
	.ci/need-oracles
	@touch $@

.PHONY: gen-texts
gen-texts: $(ORACLE_MODULES) ## Write the tables of platforms' text rules from the packages that they publish
	node internal/proof/oracles/tables.mjs twittertext | gofmt >.tools/tables.go && mv .tools/tables.go internal/twittertext/
	node internal/proof/oracles/tables.mjs bluesky | gofmt >.tools/tables.go && mv .tools/tables.go internal/connector/bluesky/

# ---- Work -----------------------------------------------------------------

TEST_TIMEOUT := 30m

.PHONY: run
run: ## Run the service on SQLite for development: loopback targets allowed
	go run ./cmd/fireonce serve --dev

# Without vet: `make lint` runs it over the same code and its tests, with failpoints.
.PHONY: build
build: ## Compile everything, with and without failpoints
	go build -o /dev/null ./...
	go build -o /dev/null -tags failpoints ./cmd/...
	go -C internal/proof/bench build -o /dev/null ./...
	GOWORK=off go -C clients/go build -o /dev/null ./...
	go -C examples/go build -o /dev/null ./...
	go -C examples/connector-go build -o /dev/null ./...

.PHONY: clients
clients: $(NODE_MODULES) $(BUF) $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-connect-go ## Make sure of what the clients in other languages need
	@for one in python php ruby java browser; do .ci/need-clients $$one || exit 1; done

.PHONY: stranger
stranger: ## Follow the README with the program alone, in an empty home without Go, and print how long it takes
	.ci/stranger

.PHONY: demo-picture
demo-picture: ## Record a run of the demo anew: docs/demo.svg
	FIREONCE_WRITE_PICTURE=1 go test ./cmd/fireonce -count=1 -run '^TestDemoPicture$$'

.PHONY: sandbox-picture
sandbox-picture: ## Take the picture of the sandbox's page anew: docs/sandbox.png
	@.ci/need-clients browser
	FIREONCE_WRITE_PICTURE=1 go test ./cmd/fireonce -count=1 -run '^TestSandboxInABrowser$$'

# ---- Tests ----------------------------------------------------------------
# `make test` is what anyone runs: Go, and PostgreSQL if it is there. The other targets take
# longer, or need more: programs in other languages, a browser, root.

# Twice as many packages at a time as there are processors: many tests wait for a database's
# commits, or for a process that was killed.
WIDE := -p $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
# Without vet, which `make lint` runs over the same code.
GO_TEST := go test -vet=off -timeout $(TEST_TIMEOUT)
# What takes longest starts first: nothing waits for it alone at the end.
LONG_FIRST := ./store/postgres ./cmd/fireonce ./internal/engine ./server ./store/sqlite
# All packages but those that prove the guarantee, which are not the product's.
ORDINARY = $$(go list ./... | grep -v /internal/proof/)

# Garbage is collected a quarter as often, which saves a tenth of the processor time of the tests,
# of the programs that they start, and of the linker.
.PHONY: test
test: ## Run the ordinary tests: on SQLite, and on PostgreSQL where its programs are
	@.ci/need-postgres ordinary
	GOGC=400 $(GO_TEST) -short $(WIDE) $(LONG_FIRST) $(ORDINARY)

# The race detector, for our code and what it calls, but for SQLite itself, which is C
# that was translated: each of its writes to memory would be watched, which takes five
# times as long. checkptr, which comes with the detector, is off for the same modules: they
# keep C's addresses in integers by design.
RACE := -race -gcflags='modernc.org/sqlite/lib=-race=false -d=checkptr=0' -gcflags='modernc.org/libc=-race=false -d=checkptr=0' -gcflags='modernc.org/memory=-race=false -d=checkptr=0'

# The engine, which runs over SQLite in its tests, and what is small. The whole API, both stores
# and the rest are watched each night: see verify-long.
RACE_PACKAGES = $$(go list ./... | grep -v -E '/(cmd|internal/(proof|recur|schedule)|gen|examples|tools|server|store/(sqlite|postgres))(/|$$)')

.PHONY: test-race
test-race: ## Run the engine's tests and those of small packages with the race detector; verify-long has all
	$(GO_TEST) $(RACE) -short $(WIDE) $(RACE_PACKAGES)
	go -C clients/go test -race ./...
	go -C examples/connector-go test -race ./...

# Tests of the API whose rules differ by the database: `make test` runs all of them on SQLite.
API_ON_POSTGRES := Quota|Stream|Batch|Bulk|Erase|Search|Restore|Twice|Items|Firing|Keys|Cursor

.PHONY: test-postgres
test-postgres: need-postgres ## Run what PostgreSQL alone can show: storms of many servers, failover, lost commits, the scheduler, the engine and the API on it
	$(GO_TEST) -skip 'Conformance$$' ./store/postgres
	$(GO_TEST) -run OverALine ./cmd/fireonce/internal/node
	$(GO_TEST) ./internal/schedule ./internal/seal
	FIREONCE_TEST_ENGINE=postgres $(GO_TEST) ./internal/engine
	FIREONCE_TEST_ENGINE=postgres $(GO_TEST) -run '$(API_ON_POSTGRES)' ./server

# Tests that kill real processes, many of them at named places (tag failpoints), and the
# other long tests of the program. The scripts run in `make test`.
.PHONY: test-crash
test-crash: need-postgres need-promtool need-sslscan ## Run real processes that are killed, restarted, misled and attacked
	FIREONCE_SKIP_CLIENTS=1 $(GO_TEST) -tags failpoints ./cmd/fireonce ./internal/failpoint
	FIREONCE_SKIP_CLIENTS=1 $(GO_TEST) -skip '^TestScripts$$|InABrowser$$' ./cmd/fireonce
	go -C internal/oauth/live test ./...
	go -C cmd/fireonce/internal/certs/live test ./...

# The personal data server of Bluesky's is a Node program. The Go client is tested with the
# server's versions of Connect and gRPC, and with its own.
.PHONY: test-clients
test-clients: need-postgres need-postfix clients $(PDS_MODULES) $(ORACLE_MODULES) ## Run clients in six languages and a browser, connectors against real servers of others, and a new one
	$(GO_TEST) -run '^Test(Clients|Commands|NoRules|ReceiveOnce)$$|InABrowser$$|^TestTour' ./cmd/fireonce
	$(GO_TEST) $(WIDE) ./internal/proof/platforms/... ./internal/proof/chaos/sites
	$(GO_TEST) -run Postfix ./internal/connector/smtp
	$(GO_TEST) -v -run '^TestOracle' ./internal/twittertext ./internal/weburl ./internal/connector/...
	$(GO_TEST) -run Guide ./internal/connector/builtin
	go -C clients/go test ./...
	GOWORK=off go -C clients/go test ./...
	go -C examples/connector-go test ./...

.PHONY: prove
prove: sim-short chaos-short ## Simulated worlds, mutants that must not survive, hostile and costly requests, a short campaign
	$(GO_TEST) $(WIDE) $$(go list ./internal/proof/... | grep -v -E '/(platforms|sites)(/|$$)')
	$(GO_TEST) -run '^Test(NoRequestCostsMore|PathsOfRules)$$' ./server
	$(GO_TEST) ./internal/recur
	$(GO_TEST) -run 'Conformance$$/^(Search|Evidence)$$' ./store/sqlite ./store/postgres
	go -C internal/proof/bench test ./...

.PHONY: verify-long
verify-long: $(NEED_TEST) ## What takes too long for each change: all tests with the race detector. A workflow runs it each night
	$(GO_TEST) $(RACE) $(WIDE) ./...
	FIREONCE_TEST_ENGINE=postgres $(GO_TEST) $(RACE) ./server
	$(GO_TEST) $(RACE) -tags failpoints ./cmd/...
	go -C clients/go test -race ./...
	go -C examples/connector-go test -race ./...

# PostgreSQL's programs: the tests run clusters of their own, see internal/proof/pgtest.
.PHONY: need-postgres
need-postgres:
	@.ci/need-postgres

# The alert rules are checked and tested with it.
.PHONY: need-promtool
need-promtool:
	@.ci/need-promtool

# A relay for the tests of the connector smtp. Without root they are skipped.
.PHONY: need-postfix
need-postfix:
	-@.ci/need-postfix

# What looks at the server's TLS from outside. Without it that test is skipped.
.PHONY: need-sslscan
need-sslscan:
	-@.ci/need-sslscan

NEED_TEST := need-postgres need-postfix need-promtool need-sslscan clients $(PDS_MODULES) $(ORACLE_MODULES)

# Installs what is missing, one after the other: two package managers would be in each other's way.
.PHONY: ready
ready: ## Install what `make verify` needs
	@$(MAKE) --no-print-directory -j 1 $(NEED_TEST)
	@.ci/web ready

# More jobs, more places, and how often a post is there twice on a platform that
# is slower than the settle time, which nothing can prevent: "MEASURED".
.PHONY: test-long
test-long: need-postgres ## Run the crash tests for longer, and measure what cannot be promised
	FIREONCE_TEST_LONG=1 go test -v -tags failpoints -timeout 60m ./cmd/...

# ---- Proof ----------------------------------------------------------------
# Where a duplicate would show if there were one. docs/guarantees.md says what
# each of these rests on, and what it found.

SIM := TestSim(Safety|Liveness|Schedules|Breakers)
MINUTES ?= 2
# Where a longer run begins: elsewhere each time. A world that breaks a rule prints its seed.
SIM_FIRST ?= $(shell date +%s)000

# make sim SEED=7 replays one world and prints its story.
.PHONY: sim
ifdef SEED
sim: ## Simulate crashes, lost answers and clocks; then break the rules, and see it noticed
	go test ./internal/proof/sim -count=1 -v -run '^$(SIM)$$' -sim.seed=$(SEED)
else
sim:
	go test ./internal/proof/sim -count=1 -timeout 60m -v -run '^($(SIM)|TestSimReplaysExactly)$$' -sim.minutes=$(MINUTES) -sim.first=$(SIM_FIRST)
	go run ./internal/proof/mutant
endif

.PHONY: sim-short
sim-short: ## The true code in 2,000 simulated worlds, and the mutants that must not survive them, or a package's tests
	$(GO_TEST) -run 'MutantsAreNoticed$$' ./internal/proof/mutant -compile
	go run ./internal/proof/mutant

empty :=
space := $(empty) $(empty)
CHAOS_FLAGS := $(if $(JOBS),-jobs $(JOBS)) $(if $(SEED),-seed $(SEED))

.PHONY: chaos
chaos: need-postgres ## Crash real servers on both databases under load: 22,000 jobs, or JOBS=300000
	go run ./internal/proof/chaos $(CHAOS_FLAGS)

.PHONY: chaos-short
chaos-short: need-postgres ## The same in a few minutes, on a fixed seed
	go run ./internal/proof/chaos -short

# The personal data server of Bluesky's is a Node program; FIREONCE_SKIP_CLIENTS=1 leaves
# it out.
ifneq ($(FIREONCE_SKIP_CLIENTS),1)
CHAOS_SITES := $(PDS_MODULES)
endif

.PHONY: chaos-platforms
chaos-platforms: need-postgres $(CHAOS_SITES) ## The same for the platforms' connectors, in front of simulated and real platforms
	go run ./internal/proof/chaos -platforms $(CHAOS_FLAGS)

.PHONY: chaos-platforms-short
chaos-platforms-short: need-postgres $(CHAOS_SITES) ## That in a few minutes, on a fixed seed
	go run ./internal/proof/chaos -platforms -short

# Hostile clients beside the honest ones and the faults, for MINUTES on each engine after
# the other; or ENGINE=sqlite. Hostile clients have a project of their own, with quotas as
# an operator sets them who shares a server between projects. SOAK="-binary PROGRAM" takes
# a server that is built already.
SOAK_QUOTAS ?= hostile:jobs=2000,hostile:bytes=64MiB,hostile:connections=50,hostile:calls=20

.PHONY: soak
soak: MINUTES := $(if $(filter file,$(origin MINUTES)),15,$(MINUTES))
soak: need-postgres ## Honest and hostile clients under faults: memory, latency, verdicts; MINUTES=15 for each engine
	go run ./internal/proof/chaos -soak -minutes $(MINUTES) $(if $(SOAK_QUOTAS),-quotas $(SOAK_QUOTAS)) \
		$(if $(ENGINE),-engine $(ENGINE)) $(if $(SEED),-seed $(SEED)) $(SOAK)

.PHONY: soak-neighbors
soak-neighbors: need-postgres ## A bystander beside each attack of one other project: p50, p99, verdicts; about 4 minutes for each engine
	go run ./internal/proof/chaos -neighbors $(if $(ENGINE),-engine $(ENGINE)) $(SOAK)

# Rules that are broken in the server's source; each must fail the campaign.
MUTANTS := inline-retry unknown-is-rejected ttl-reset
OVERLAYS := .tools/overlays

# broken runs a campaign for each mutant of $(1), with the flags $(2). Each must fail it, with a line of $(3).
define broken
	rm -rf $(OVERLAYS)
	go run ./internal/proof/mutant -overlays $(OVERLAYS) -run '^($(subst $(space),|,$(strip $(1))))$$'
	@for mutant in $(1); do \
		echo "== $$mutant"; \
		if go run ./internal/proof/chaos -engine sqlite -jobs 300 $(2) -overlay $(OVERLAYS)/$$mutant/overlay.json >$(OVERLAYS)/$$mutant.log 2>&1; \
		then echo "$$mutant was not noticed"; exit 1; fi; \
		grep -a '$(3)' $(OVERLAYS)/$$mutant.log || { tail -n 5 $(OVERLAYS)/$$mutant.log | cut -c1-300; exit 1; }; \
	done
endef

.PHONY: chaos-platforms-mutants
chaos-platforms-mutants: $(CHAOS_SITES) ## That with broken rules, which must be seen to duplicate; or MUTANTS="one-look no-grace"
	$(call broken,$(MUTANTS),-platforms,×)

# Rules of schedules that are broken likewise.
FIRED_MUTANTS := key-without-the-name cursor-stays

.PHONY: chaos-schedules-mutants
chaos-schedules-mutants: ## The campaign with broken rules of schedules, which must fail it; or FIRED_MUTANTS="overlap-ignored"
	$(call broken,$(FIRED_MUTANTS),-faults 8,schedules: .* ×)

.PHONY: storm
storm: need-postgres ## Tell a subscription of 100,000 failures on each engine, and compare with no subscription; or JOBS=10000
	go run ./internal/proof/chaos/storm $(if $(JOBS),-jobs $(JOBS)) $(if $(ENGINE),-engine $(ENGINE))

# Rules of notices that are broken likewise.
TOLD_MUTANTS := notice-cursor-without-the-notice notice-before-the-outcome notice-under-the-id-of-its-try \
	notice-events-newest-first notice-cursor-stays notice-digest-counts-its-examples notice-among-the-jobs

.PHONY: chaos-notices-mutants
chaos-notices-mutants: ## The campaign with broken rules of notices, which must fail it; or TOLD_MUTANTS="notice-cursor-stays"
	$(call broken,$(TOLD_MUTANTS),-faults 8,notices: .* ×)

.PHONY: recovery
recovery: need-postgres ## Kill a server in mid-send, and print how long its jobs wait after the restart, for each class
	go run ./internal/proof/chaos/recovery $(if $(JOBS),-jobs $(JOBS))

.PHONY: chaos-outside
chaos-outside: need-postgres ## Measure duplicates where the assumptions do not hold
	go run ./internal/proof/chaos -outside $(CHAOS_FLAGS)

.PHONY: model
model: ## Check the protocol and its mutants with spin
	.ci/need-spin
	docs/model/run

.PHONY: peers
peers: need-postgres ## The same jobs and faults through River, asynq and two designs of articles
	-.ci/need-redis
	go -C internal/proof/bench run ./duplicates

SPEED_FLAGS := $(if $(REPS),-reps $(REPS)) $(if $(ONLY),-only $(ONLY)) $(SPEED)
# The peers in JavaScript, and a Node that is new enough for them. Without npm, or
# without a registry, they are skipped.
BENCH_NODE := internal/proof/bench/speed/node/node_modules/.package-lock.json

.PHONY: bench
bench: need-postgres bench-node ## Fireonce, River, pg-boss, graphile-worker and asynq on the same PostgreSQL: about an hour
	-.ci/need-redis
	go -C internal/proof/bench run ./speed $(SPEED_FLAGS)

.PHONY: bench-paths
bench-paths: need-postgres ## Compare each fast path with the general way beside it; fail if one is not worth its lines
	go test -run '^$$' -bench '^BenchmarkPath' ./store/postgres ./store/sqlite

.PHONY: bench-quick
bench-quick: need-postgres ## The main ratios of that, with few jobs: about two minutes
	go -C internal/proof/bench run ./speed -quick $(SPEED_FLAGS)

.PHONY: bench-node
bench-node: ## Install the peers in JavaScript that bench compares with
	-@$(MAKE) --no-print-directory $(BENCH_NODE)

$(BENCH_NODE): $(addprefix internal/proof/bench/speed/node/,package.json package-lock.json .npmrc)
	npm --prefix internal/proof/bench/speed/node ci --ignore-scripts
	@touch $@

.PHONY: bench-search
bench-search: need-postgres ## Lists, counts and statistics beside ten million jobs on both engines; JOBS=100000 for a look
	FIREONCE_SEARCH_JOBS=$(or $(JOBS),10000000) go test -run '^$$' -bench 'Search$$' -benchtime 1x -timeout 3h -v ./store/sqlite ./store/postgres

.PHONY: bench-incidents
bench-incidents: need-postgres ## Find, understand and decide 10,000 unknown jobs beside a million others by three commands, and measure the lists alone, on both engines; JOBS=100000 for a look
	FIREONCE_INCIDENT_JOBS=10000 FIREONCE_INCIDENT_OTHERS=$(or $(JOBS),1000000) go test -run '^TestIncidentIsDecided$$' -count 1 -timeout 1h ./cmd/fireonce
	FIREONCE_SEARCH_JOBS=$(or $(JOBS),1000000) go test -run '^$$' -bench 'Incidents$$' -benchtime 1x -timeout 1h -v ./store/sqlite ./store/postgres

.PHONY: bench-go
bench-go: need-postgres ## Go's benchmarks of the parts: submit, claim-to-settle, ScheduleJob-to-arrival
	go test -run '^$$' -bench . -benchmem -timeout $(TEST_TIMEOUT) ./store/... ./internal/connector/... ./server/... ./cmd/...

.PHONY: alerts
alerts: need-promtool ## Check the alert rules in deploy/, and when they fire
	PATH="$$PATH:$(CURDIR)/$(TOOLS)" promtool check rules deploy/prometheus/alerts.yml
	PATH="$$PATH:$(CURDIR)/$(TOOLS)" promtool test rules deploy/prometheus/alerts_test.yml deploy/prometheus/alerts_days_test.yml

.PHONY: lint
lint: $(TOOLS)/golangci-lint proto-check alerts ## Lint the code, the words, the contract and the alert rules
	@unformatted=$$(gofmt -l $$(git ls-files -- '*.go' ':!gen')); \
	if [ -n "$$unformatted" ]; then echo "gofmt:"; echo "$$unformatted"; exit 1; fi
	go run ./tools/words
	$(TOOLS)/golangci-lint run
	cd internal/proof/bench && $(CURDIR)/$(TOOLS)/golangci-lint run -c $(CURDIR)/.golangci.yml
	cd clients/go && $(CURDIR)/$(TOOLS)/golangci-lint run -c $(CURDIR)/.golangci.yml
	cd examples/go && $(CURDIR)/$(TOOLS)/golangci-lint run -c $(CURDIR)/.golangci.yml
	cd examples/connector-go && $(CURDIR)/$(TOOLS)/golangci-lint run -c $(CURDIR)/.golangci.yml
	cd internal/oauth/live && $(CURDIR)/$(TOOLS)/golangci-lint run -c $(CURDIR)/.golangci.yml
	cd cmd/fireonce/internal/certs/live && $(CURDIR)/$(TOOLS)/golangci-lint run -c $(CURDIR)/.golangci.yml
	cd deploy/check && $(CURDIR)/$(TOOLS)/golangci-lint run -c $(CURDIR)/.golangci.yml

# ---- Release --------------------------------------------------------------
# .goreleaser.yaml says what a release consists of, deploy/ has what goes into it.

RELEASE_TOOLS := $(TOOLS)/goreleaser $(TOOLS)/cyclonedx-gomod
# Images need a Docker daemon there, and signatures the workflow that releases.
SNAPSHOT := PATH="$(CURDIR)/$(TOOLS):$$PATH" goreleaser release --snapshot --clean --skip=docker,sign,before

.PHONY: snapshot
snapshot: $(RELEASE_TOOLS) ## Build what a release of this commit would be, for all platforms, into dist/
	$(SNAPSHOT)

.PHONY: packages
packages: $(RELEASE_TOOLS) ## That for this machine's platform alone; then install each package and run it
	@mkdir -p .tools
	sed -e 's/goos: \[.*\]/goos: [linux]/' -e "s/goarch: \[.*\]/goarch: [$$(go env GOARCH)]/" .goreleaser.yaml >.tools/goreleaser.yaml
	$(SNAPSHOT) --config .tools/goreleaser.yaml
	.ci/try-packages

# What can be known of a release without building it: `make packages` builds and installs one.
# macOS and arm64 are compiled in one go.
.PHONY: release-check
release-check: ## What a release packs is there, the chart is right, go install and macOS on arm64 work
	go -C deploy/check vet ./...
	go -C deploy/check test -count=1 ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 go build -o /dev/null ./cmd/fireonce
	.ci/try-install

.PHONY: check
check: ## What needs no test: it compiles, the generated code, the linters, what a release packs
	$(MAKE) --no-print-directory -j 1 build gen-check web-check lint release-check

# `check` and the tests, which the workflow runs side by side. Here two at a time, because each
# waits a lot; but nothing compiles while code is generated. A failure hides no other (-k). The
# race detector would take another ten minutes: it has the night, see verify-long.
.PHONY: verify
verify: ## Exactly what CI runs
	$(MAKE) --no-print-directory -j 2 --output-sync=line build ready
	$(MAKE) --no-print-directory gen-check
	$(MAKE) --no-print-directory web-check
	$(MAKE) --no-print-directory -k -j 2 --output-sync=line lint test test-crash prove test-postgres test-clients test-web release-check
