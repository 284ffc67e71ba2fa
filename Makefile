# `make` prints this help. Everything here needs Go only; what needs more says so and is skipped by name where it is missing.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
GO ?= go

.PHONY: help build test race lint fuzz bench

help: ## print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the command at bin/minsep
	$(GO) build -o bin/minsep ./cmd/minsep

test: lint ## lint and run every test
	$(GO) test -timeout 30m ./...

race: ## run the tests of the concurrent packages under the race detector
	$(GO) test -race -short -timeout 60m ./...

lint: ## gofmt -s, go vet, staticcheck
	@unformatted=$$(gofmt -s -l .); if [ -n "$$unformatted" ]; then echo "gofmt -s -w $$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

fuzz: ## run every fuzz target for FUZZTIME (default 20s) each
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $${FUZZTIME:-20s} $$pkg; \
	  done; \
	done

bench: ## run the Go benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...
