# make run    build, then start a router on 127.0.0.1:5672
# make test   everything a change must pass
# make build  the programs, in ./bin
# make docs   the pages that are made from the schema and the programs
# make demo   routers and real clients at work; EXAMPLE says which folder of examples/
# make soak   networks of routers, and a broker behind them, under faults for SOAK
# make fuzz   every decoder under random input, FUZZTIME each

GO       ?= go
CONF     ?= examples/qdrouterd.conf
FUZZTIME ?= 10m
SOAK     ?= 2m
EXAMPLE  ?= path-redundancy
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# Used to install what the tests need; empty for root and where there is no sudo.
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)

NODE_CLIENTS := tests/clients/node
NODE_STAMP   := $(NODE_CLIENTS)/node_modules/.package-lock.json

.NOTPARALLEL:
.PHONY: build run test lint unit system fuzz fuzz-short clients python-client rabbitmq docs demo soak clean

build:
	$(GO) build -ldflags "-X main.version=$(VERSION)" -o bin/ ./cmd/...

run: build
	@echo "Starting a router with $(CONF). Ctrl-C stops it. In a second terminal, try:"
	@echo "  ./bin/qdstat -b 127.0.0.1:5672 -c        who is connected"
	@echo "  go run ./examples/go/receiver & go run ./examples/go/sender"
	@echo "README.md has more."
	@exec ./bin/qdrouterd -c $(CONF)

test: lint unit system fuzz-short

lint:
	@files=$$(gofmt -l .); [ -z "$$files" ] || { echo "not formatted as gofmt does:"; echo "$$files"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

# Every package but the whole-system tests, with the race detector; without it
# the simulated networks that take long under it.
unit:
	$(GO) test -race $$($(GO) list ./... | grep -v '^qdrouter/tests')
	$(GO) test -run '^TestConvergence$$' ./router/linkstate

# Real processes and real clients. A missing client is an error here, where
# plain "go test" skips its tests.
system: clients
	QDROUTER_REQUIRE_CLIENTS=1 $(GO) test -count=1 -timeout 15m ./tests/...

# The README.md in the folder tells what is seen. All but the first need a broker.
demo: build python-client $(if $(filter path-redundancy,$(EXAMPLE)),,rabbitmq)
	@examples/$(EXAMPLE)/demo.sh

# Routers and a broker killed and connections cut under traffic. "make test" does
# it for a shorter time.
soak:
	QDROUTER_SOAK=$(SOAK) $(GO) test -count=1 -timeout 30m -run '^Test(Network|Broker)Soak$$' -v ./tests

fuzz-short: FUZZTIME = 10s
fuzz-short: fuzz

fuzz:
	GO=$(GO) tests/fuzz.sh $(FUZZTIME)

# The clients of the whole-system tests: Debian's Proton for /usr/bin/python3,
# rhea at the version of package-lock.json, and Debian's RabbitMQ.
clients: python-client $(NODE_STAMP) rabbitmq

python-client:
	@/usr/bin/python3 -c 'import proton' 2>/dev/null || { \
	  $(SUDO) apt-get update -q && \
	  $(SUDO) apt-get install -q -y --no-install-recommends python3-qpid-proton; }

# The tests start servers of their own. Its package would start the system's
# service; a policy keeps it from that where the machine has none of its own.
RABBITMQ := /usr/lib/rabbitmq/bin/rabbitmq-server
POLICY   := /usr/sbin/policy-rc.d

rabbitmq:
	@[ -e $(RABBITMQ) ] || { \
	  $(SUDO) apt-get update -q && \
	  { [ -e $(POLICY) ] || { ours=yes; printf '#!/bin/sh\nexit 101\n' | $(SUDO) tee $(POLICY) >/dev/null && $(SUDO) chmod 755 $(POLICY); }; } && \
	  $(SUDO) apt-get install -q -y --no-install-recommends rabbitmq-server; status=$$?; \
	  [ -z "$$ours" ] || $(SUDO) rm -f $(POLICY); \
	  exit $$status; }

$(NODE_STAMP): $(NODE_CLIENTS)/package.json $(NODE_CLIENTS)/package-lock.json
	@command -v npm >/dev/null || { \
	  $(SUDO) apt-get update -q && $(SUDO) apt-get install -q -y --no-install-recommends nodejs npm; }
	npm ci --no-audit --no-fund --prefix $(NODE_CLIENTS)
	@touch $@

docs: ; $(GO) run ./management/client/docgen

clean:
	rm -rf bin $(NODE_CLIENTS)/node_modules
