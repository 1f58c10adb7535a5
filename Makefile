# drawbridge: what people type.

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT   ?= $(shell git describe --always --abbrev=40 --dirty --exclude '*' 2>/dev/null)
DATE     ?= $(shell TZ=UTC0 git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)
STAMP     = -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)
FUZZTIME ?= 1m
BUILD    := CGO_ENABLED=0 go build -trimpath
PLATFORMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
LINTER   := v2.15.0
SCANNER  := v1.8.0
TOOLS    := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/drawbridge
LINT     := $(TOOLS)/golangci-lint-$(LINTER)-$(shell go env GOVERSION)
VULN     := $(TOOLS)/govulncheck-$(SCANNER)-$(shell go env GOVERSION)
LAB       = go run -C internal/lab .

# Programs that end soon collect less garbage so: a seventh of the compiler's time, and more of the linter's.
WASTEFUL  = GOGC=400 GOMEMLIMIT=4GiB

.PHONY: help setup run build platforms image test race compiled plain needs nightly night-race night-plain night-labs night-matrix night-fuzz allocations check docs bench bench-fair bench-peers bench-replicas bench-scale siege chaos rolling soak scoreboard compat fleet chart kubernetes openapi count linter lint fmt formatted tidy vuln fuzz

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## fetch what the tests need beside Go, npm packages and programs of Debian; says what it could not get
	@.ci/setup

run: ## a gateway on this machine, without any file; ARGS go to drawbridge dev
	@[ -e .bin/drawbridge ] || echo 'compiling, which takes two minutes the first time' >&2
	@mkdir -p .bin && $(BUILD) -o .bin/drawbridge ./cmd/drawbridge
	@exec .bin/drawbridge dev $(ARGS)

build: ## one static binary in the working directory
	$(BUILD) -ldflags '-s -w $(STAMP)' -o drawbridge ./cmd/drawbridge

# What needs Linux says so when it runs.
platforms: ## whether the program compiles for each system that it is for
	@for platform in $(PLATFORMS); do \
		echo $$platform && GOOS=$${platform%/*} GOARCH=$${platform#*/} $(BUILD) -o /dev/null ./cmd/drawbridge || exit 1; \
	done

image: ## the container image drawbridge, with its version, commit and date
	DOCKER_BUILDKIT=1 docker build -t drawbridge --build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) --build-arg DATE=$(DATE) $(ARGS) .

# Under the race detector go the packages of the product in whose code or tests something runs at the same time; archtest compares
# the list with the code. The gateway of interop is a program of its own, which the race detector of its test would not see. The
# longest come first, so that no processor waits for them at the end. The labs are a module of their own, with tests for make
# nightly, and -short leaves to it what goes through all cases of something of which a few show the same. Whatever Go has tested
# before, with the same code, files and variables, it does not run again. Most tests wait for a server or a failover most of the
# time, so twice as many run as there are processors. The linter vets. What only a debugger reads is not linked, which takes a quarter
# of a link's time.
RACE = ./registry/upstream ./cmd/drawbridge ./server ./ratelimit ./auth ./auth/accesskey ./auth/provider ./auth/signin ./internal/gateway ./internal/allot ./internal/audit ./internal/batch \
	./internal/connlimit ./internal/database/postgres ./internal/database/sqlite ./internal/dial ./internal/fairqueue \
	./internal/lifetime ./internal/link ./internal/pace ./internal/redis ./internal/replica ./internal/seal ./internal/share ./internal/sse ./internal/store ./internal/store/postgres ./internal/store/sqlite \
	./metrics ./registry ./registry/builtin ./registry/credential ./registry/openapi ./registry/schema \
	./registry/upstream/process ./registry/upstream/seats ./registry/upstream/wire ./server/once ./server/primary ./server/eventlog \
	./server/forward ./server/legacy ./server/modern ./server/sessions ./server/streams
MANY = $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
TEST = go test -vet=off -ldflags=-w -timeout 30m -p $(MANY) -parallel $(MANY)

# The packages of RACE as go list names them, and all others but interop.
RACED = $$(go list $(RACE))

# SELDOM are those of RACE where a few tests alone start goroutines, whose names end in AtOnce. Only these need the race detector;
# the others take a fifth of the time without it. The night has all of them under it.
SELDOM = ./internal/database/sqlite ./registry ./registry/openapi ./registry/schema

# ALONE are tests of cmd/drawbridge whose time goes into programs that they start, or that do one thing after another: the race
# detector would make each of these programs dearer, and see what it sees in the other tests. The night has them under it, too.
ALONE = TestScripts TestPeopleSignInAtThreeReplicas TestTheGatewayTakesTheTokensThatExplainSays \
	TestTheGatewayDecidesWhatExplainSays
ANY_ALONE = '^($(shell echo $(ALONE) | tr ' ' '|'))$$'
OTHER = $$(go list ./... | grep -v -x -F "$(RACED)" | grep -v '/internal/interop$$')

test: ## the tests, of which Go does not run again those that cannot say anything else; what they need comes from make setup
	@$(MAKE) --no-print-directory -j2 race plain

race: needs ## the tests of all packages where something runs at the same time, under the race detector
	$(TEST) -short -race -skip $(ANY_ALONE) $(filter-out $(SELDOM),$(RACE))
	$(TEST) -short -race -run 'AtOnce$$' $(SELDOM)

compiled: ## what the tests will link, compiled before, which is the longest part of a first run
	$(WASTEFUL) go list -export -test -deps -race $(RACE) >/dev/null
	$(WASTEFUL) go list -export -test -deps ./... >/dev/null

plain: needs ## the tests of the other packages, and those with real clients, servers and agents
	$(TEST) -short -run $(ANY_ALONE) ./cmd/drawbridge
	$(TEST) -short ./internal/interop $(SELDOM) $(OTHER)

needs: ## say what the tests need beside Go and is not here
	@.ci/setup missing

# Nothing here comes from Go's cache, since the order of the tests is another one each time, and nothing that is missing is passed
# over. It takes hours, and passes before a release. A part that fails does not keep the others from running, and each is a target.
NIGHT = vuln allocations kubernetes night-race night-plain night-labs night-matrix fleet night-fuzz

nightly: ## every test in any order, with labs, two versions and the whole matrix; fleets; fuzzing; says which parts failed
	@CI=true .ci/setup missing
	@failed=; for part in $(NIGHT); do \
		begun=$$(date +%s); ended=passed; echo "== $$part"; \
		CI=true $(MAKE) --no-print-directory $$part || { ended=failed; failed="$$failed $$part"; }; \
		echo "== $$part: $$ended after $$(($$(date +%s) - begun)) s"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

night-race: ## of nightly: all tests of the packages under the race detector
	$(TEST) -race -shuffle=on $(RACE)

night-plain: ## of nightly: all tests of the others
	$(TEST) -shuffle=on $(OTHER)

night-labs: ## of nightly: the tests of the labs
	cd internal/lab && $(TEST) -shuffle=on ./...

night-matrix: ## of nightly: real clients, servers and agents, each with each
	$(TEST) -shuffle=on ./internal/interop -matrix=all

night-fuzz: ## of nightly: every fuzz target for ten seconds
	.ci/fuzz 10s

# The race detector makes allocations of its own, so race does not count them.
allocations: ## whether calls make no more allocations than they did
	@.ci/allocations ./internal/audit ./internal/gateway ./internal/link ./server ./server/forward

check: lint tidy vuln allocations chart test ## what CI asks for

docs: ## the pages: links, names, and the reference against the code; prints words of each page and of its sentences
	@cd internal/doctest && go test -count=1 -words

# A module of its own, so that go.mod has nothing of Helm and Kubernetes. What it looks at is outside that module, where the cache of
# tests does not notice changes. What of Kubernetes has to be compiled is not optimized, which saves a quarter of the time.
chart: ## the chart for Kubernetes: linted, rendered, decoded strictly, its config checked; ARGS=-update writes the manifests
	cd deploy/kubernetes/test && $(WASTEFUL) go test -count=1 -vet=off -gcflags='k8s.io/...=-N -l' . $(if $(ARGS),-args $(ARGS))

kubernetes: ## the chart again with helm and kubeconform themselves, which takes three minutes of one core to build
	@.ci/kubernetes

bench: ## calls, their CPU and latency beside nginx and Go's ReverseProxy, idle streams, and what records, logins and credentials cost, in half an hour
	$(LAB)/bench -out docs/evidence/benchmarks.md
	$(LAB)/bench record -out docs/evidence/benchmarks.md
	$(LAB)/bench signin -out docs/evidence/benchmarks.md
	$(LAB)/bench credentials -out docs/evidence/benchmarks.md

bench-scale: ## how work grows with tenants, rules, tools and sessions, lists beside ReverseProxy, and whether it grows too much; in ten minutes
	$(LAB)/bench scale -out docs/evidence/benchmarks.md

bench-replicas: ## one, two and three replicas that share Redis beside three gateways that share nothing, and whether they cost too much; in eight minutes
	$(LAB)/bench replicas -out docs/evidence/benchmarks.md

bench-peers: ## other gateways from the public registries, measured beside this one; in twelve minutes
	$(LAB)/bench peers -out docs/evidence/benchmarks.md

bench-fair: ## what a quiet tenant notices of attacks on the same gateway, in half an hour
	$(LAB)/fair -out docs/evidence/fairness.md

scoreboard: needs ## what the gateway withstands: a million bad inputs, ids in others' hands, and more; writes SECURITY.md
	$(LAB)/scoreboard -out SECURITY.md

siege: ## whether attacks of all kinds, mixed, end a gateway of 512 MB and of 128 MB, or strangers fill a disk; needs root, in an hour
	$(LAB)/siege -out docs/evidence/siege.md
	$(LAB)/siege -memory 512MiB -disk 64MiB -addresses 1,4000 -only "floods of the log,refused logins" -out docs/evidence/disk.md

chaos: ## every fault that one machine can make, while clients of all revisions work; as root, in forty minutes; writes docs/evidence/reliability.md
	$(LAB)/chaos faults -out docs/evidence/reliability.md

rolling: ## whether restarts of replicas lose a request of 100,000, behind nginx and behind HAProxy; ARGS=-previous=PROGRAM; in ten minutes
	$(LAB)/chaos rolling $(ARGS) -out docs/evidence/reliability.md

soak: ## whether gateways and Redis hold what they held before, after 30,000 sessions; in half an hour; ARGS=-balancer=haproxy
	$(LAB)/chaos soak $(ARGS) -out docs/evidence/reliability.md

compat: needs ## every client with every server and feature, and the agents that people use
	go test ./internal/interop -run 'TestMatrix$$|TestAgent|TestPagesOfASignIn' -count=1 -matrix=all -update-compat

fleet: needs ## all that interop tries with three replicas, and all tests of replicas on a cluster, in ten minutes
	go test ./internal/interop -run 'TestMatrixOfAFleet|/fleet_of_three' -count=1 -timeout 30m -matrix=all -crossing=50000
	go test ./server ./server/eventlog ./server/once ./server/primary ./ratelimit ./internal/allot ./internal/replica ./internal/gateway -count=1 -timeout 30m -redis=cluster

count: ## statements, lines and wide lines by package, product, labs and tests apart; ARGS="-since REVISION" compares
	@go run ./internal/count $(ARGS)

fmt: $(LINT) ## format the tree
	$(LINT) fmt

openapi: ## a folder of OpenAPI documents, DIR: which operations become tools, which do not, and why
	@$(LAB)/survey "$(DIR)"

# The linter also says what is not formatted, but not in modules that it does not look at.
lint: $(LINT) ## what the linter finds
	GOWORK=$$PWD/internal/lab/lint.work $(WASTEFUL) $(LINT) run --allow-parallel-runners ./... ./internal/lab/...
	$(LINT) fmt --diff deploy/kubernetes internal/interop/zitadel

linter: $(LINT) ## build the linter once for all clones of a user, and say which it is
	@$(LINT) version

# Built once for each version of them and of Go, for all clones of a user: a linter that an older Go has built refuses the code of a
# newer, and its build takes two minutes.
$(LINT): package = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINTER)
$(VULN): package = golang.org/x/vuln/cmd/govulncheck@$(SCANNER)
$(LINT) $(VULN):
	@mkdir -p $(TOOLS)
	new=$$(mktemp -d $@.XXXX) && GOBIN=$$new go install $(package) && mv $$new/* $@ && rmdir $$new

formatted: $(LINT) ## what fmt would change
	$(LINT) fmt --diff

tidy: ## whether go.mod and go.sum say what is used, here and in the labs
	go mod tidy -diff
	go -C internal/lab mod tidy -diff
	go -C internal/interop/zitadel mod tidy -diff

vuln: $(VULN) ## known vulnerabilities, where their database is at hand
	@$(WASTEFUL) .ci/vuln $(VULN)

fuzz: ## every fuzz target for FUZZTIME, to look for faults: the tests run the seeds
	.ci/fuzz $(FUZZTIME)
