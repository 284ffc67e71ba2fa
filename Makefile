# `make` prints this help. Everything here needs Go only; what needs more says so and is skipped by name where it is missing.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
GO ?= go
# Without the paths of this machine in what is compiled, a clone in another folder finds it in the cache, for staticcheck too. Tests
# have the tag of BUILD_FLAGS, so that nothing is compiled twice.
FLAGS := -trimpath -tags=disable_grpc_modules
export GOFLAGS := $(FLAGS) $(filter-out $(FLAGS),$(GOFLAGS))

# NumPy, pyarrow and cryptography for the checks of our files by another program, in a folder of the project's own.
VENV := .venv
# Flink's jars from Maven Central, and Beam's program that starts workers, likewise.
FLINK := .flink
DEMO := out/demo
DIST := dist
# The packages of all modules: the product's, that of the examples and that of the integration tests.
ALL := ./... ./examples/... ./integration/...
# Without symbol tables and paths of this machine: smaller, and the same bytes wherever it is built. The tag leaves out what the
# client of gs:// needs for gRPC only, which nothing here uses: a sixth of the program. python/hatch_build.py has the same.
BUILD_FLAGS := -trimpath -tags=disable_grpc_modules -ldflags='-s -w'
# The command that hashes files: macOS before 15 has the other one.
SHA256SUM := $(shell command -v sha256sum > /dev/null && echo sha256sum || echo shasum -a 256)

# What make release and make wheels build for, such as "linux/amd64 darwin/arm64"; "all" are those of python/hatch_build.py.
ALL_PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
PLATFORMS ?= $(shell $(GO) env GOOS)/$(shell $(GO) env GOARCH)

.PHONY: help build man release wheels image buildah airflow demo test check test-flink test-cluster flink python jax trainers hf race race-fast lint fuzz bench attack frozen papers amplified

help: ## print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Without cgo, so that the command also runs under a user id without a name; see docs/deploy.md.
build: ## build the command at bin/minsep
	GOWORK=off CGO_ENABLED=0 $(GO) build $(BUILD_FLAGS) -o bin/minsep ./cmd/minsep

man: build ## write the help of all commands as pages for man to out/man: man -l out/man/minsep-plan.1
	bin/minsep man out/man

release: ## build the command of the last commit for PLATFORMS, twice, compare, and write checksums to out/release
	@version=$$(sed -n 's/^const Version = "\(.*\)"/\1/p' internal/manifest/index.go); \
	[ -n "$$version" ] || { echo "release: no version in internal/manifest/index.go"; exit 1; }; \
	[ -z "$$(git status --porcelain)" ] || { echo "release: there are changes that are not committed: commit them first"; exit 1; }; \
	grep -q "^## $$version\b" CHANGELOG.md || { echo "release: CHANGELOG.md has no section \"## $$version\": name the section of this release"; exit 1; }; \
	[ -z "$$(awk '/^## /{u = $$2 == "Unreleased"; next} u && NF' CHANGELOG.md)" ] || { echo "release: CHANGELOG.md has entries under \"Unreleased\": move them to the section of this version"; exit 1; }; \
	root=$$(pwd); rm -rf out/release; mkdir -p out/release; work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; \
	for copy in first second; do git clone -q . "$$work/$$copy"; done; \
	for platform in $(PLATFORMS); do \
	  name=minsep-$$version-$${platform/\//-}; export GOWORK=off CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
	  (cd "$$work/first" && $(GO) build $(BUILD_FLAGS) -o "$$root/out/release/$$name" ./cmd/minsep); \
	  (cd "$$work/second" && GOCACHE="$$work/cache" $(GO) build $(BUILD_FLAGS) -o "$$work/again" ./cmd/minsep); \
	  cmp "out/release/$$name" "$$work/again" || { rm -rf out/release; echo "release: two builds of $$name differ"; exit 1; }; \
	done; \
	cd out/release && $(SHA256SUM) minsep-* | tee SHA256SUMS

# hatchling is all that a wheel needs: not the packages of the tests.
wheels: ## build the Python package with the command in it for PLATFORMS (default: this machine; all: every platform), and its source, to dist
	@command -v python3 > /dev/null || { echo "wheels: python3 is not here"; exit 1; }
	@for venv in $(VENV) $(VENV)-wheels none; do \
	  if [ $$venv = none ]; then python3 -m venv $(VENV)-wheels && $(VENV)-wheels/bin/pip install -q hatchling; fi; \
	  if $$venv/bin/python -c 'import hatchling' 2> /dev/null; then break; fi; done
	@rm -rf $(DIST) && mkdir -p $(DIST)
	@python=$(abspath $(VENV))/bin/python; $$python -c 'import hatchling' 2> /dev/null || python=$(abspath $(VENV))-wheels/bin/python; \
	cd python; for platform in $(subst all,$(ALL_PLATFORMS),$(PLATFORMS)); do \
	  MINSEP_PLATFORM=$$platform $$python -m hatchling build -t wheel -d $(abspath $(DIST)); done; \
	$$python -m hatchling build -t sdist -d $(abspath $(DIST))
	@cd $(DIST); $(SHA256SUM) * > SHA256SUMS

# buildah takes what it copies from here, and keeps its storage there too: it needs no daemon, and no right to mount.
IMAGE := out/image
BUILDAH := buildah --root $(abspath $(IMAGE))/storage --runroot $(abspath $(IMAGE))/run --storage-driver vfs

image: wheels buildah ## build the container image of PLATFORMS (Linux) from the wheels, with buildah: the OCI layout out/image/layout
	@command -v buildah > /dev/null || { echo "image: buildah is not here"; exit 1; }
	@rm -rf $(IMAGE); version=$$(sed -n 's/^const Version = "\(.*\)"/\1/p' internal/manifest/index.go); revision=$$(git rev-parse HEAD); \
	for wheel in $(DIST)/*manylinux*.whl; do \
	  case $$wheel in *x86_64*) arch=amd64 ;; *) arch=arm64 ;; esac; root=$(IMAGE)/$$arch; \
	  mkdir -p $$root/home/minsep $$root/etc $$root/tmp $$root/usr/bin $$root/usr/share/licenses/minsep $$root/usr/share/sbom; \
	  python3 -m zipfile -e $$wheel $$root/wheel; \
	  mv $$root/wheel/*.data/scripts/minsep $$root/usr/bin/; mv $$root/wheel/*.dist-info/sboms/minsep.cdx.json $$root/usr/share/sbom/; \
	  mv $$root/wheel/minsep/NOTICES $$root/wheel/*.dist-info/licenses/LICENSE $$root/usr/share/licenses/minsep/; \
	  echo 'minsep:x:65532:65532::/home/minsep:/usr/bin/minsep' > $$root/etc/passwd; echo 'minsep:x:65532:' > $$root/etc/group; \
	  chmod -R u=rwX,go=rX $$root; chmod 755 $$root/usr/bin/minsep; chmod 1777 $$root/tmp; chmod 700 $$root/home/minsep; \
	  archive="tar -C $$root --sort=name --mtime=@0 --numeric-owner --format=ustar -f $$root/root.tar"; \
	  $$archive -c --owner=0 --group=0 etc tmp usr; $$archive -r --owner=65532 --group=65532 home/minsep; \
	  $(BUILDAH) build --quiet --platform linux/$$arch --timestamp 0 --build-arg VERSION=$$version --build-arg REVISION=$$revision \
	    --manifest minsep -f Containerfile $$root; \
	done; \
	$(BUILDAH) manifest push --quiet --all minsep oci:$(IMAGE)/layout:minsep-$$version

buildah: # what builds images, where this is Debian and may be changed
	@command -v buildah > /dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends buildah > /dev/null; } || \
	  echo "buildah is not here (Debian: apt-get install buildah): the test of the image is skipped"

demo: build ## run a whole plan on a real graph of 1.8 million edges, to a certificate, batches and noise, and inspect it
	@rm -rf $(DEMO) && mkdir -p $(DEMO)
	bin/minsep keygen $(DEMO)/key
	bin/minsep run --example > $(DEMO)/plan.json
	bin/minsep run $(DEMO)/plan.json --key $(DEMO)/key --out $(DEMO)/run --dry-run
	bin/minsep run $(DEMO)/plan.json --key $(DEMO)/key --out $(DEMO)/run
	bin/minsep inspect $(DEMO)/run
	@bin/minsep report $(DEMO)/run --quiet
	@printf '%s\n' '' 'What was made, whom it protects and what a trainer must do: open $(DEMO)/run/report.html in a browser.' \
	  '$(DEMO)/key, $(DEMO)/run/batches and $(DEMO)/run/noise are secret: the trainer has them, and nobody else.' '' \
	  'A training of your own begins with minsep prepare, or in Python with minsep.prepare: docs/tutorial.md.'

# Three groups run side by side, since each waits for programs that use one processor, or for the network: the tests of the product,
# whose lines come first; the tests of integration, after what they need was fetched; and lint, which vets all packages, so that go test
# need not. The tests of integration read files of another module, which Go does not see when it takes a result from its cache.
test: ## lint and run every test: a line as each package ends, then what was skipped, and the slowest tests
	@mkdir -p out
	@export PATH="$(CURDIR)/$(VENV)/bin:$$PATH"; code=0; \
	$(MAKE) -s lint race-fast > out/lint.txt 2>&1 & lint=$$!; \
	{ $(MAKE) -s jax airflow flink buildah && $(flink_env) \
	$(GO) tool gotestsum --format pkgname --format-hide-empty-pkg --jsonfile out/integration.json -- -vet=off -timeout 40m -count=1 ./integration/... ./examples/...; } > out/integration.txt 2>&1 & integration=$$!; \
	$(GO) tool gotestsum --format pkgname --format-hide-empty-pkg --jsonfile out/test.json -- -vet=off -timeout 40m ./... || code=1; \
	wait $$integration || code=1; cat out/integration.txt; \
	wait $$lint || code=1; cat out/lint.txt; \
	echo "The slowest tests:"; cat out/integration.json out/test.json | $(GO) tool gotestsum tool slowest --num 5; exit $$code

check: lint ## lint and run the tests of the packages without Beam, in their short form
	$(GO) test -vet=off -short $$($(GO) list -f '{{$$beam := false}}{{range .Deps}}{{if eq . "github.com/apache/beam/sdks/v2/go/pkg/beam"}}{{$$beam = true}}{{end}}{{end}}{{if not $$beam}}{{.ImportPath}}{{end}}' ./...)

# MINSEP_FLINK says where Flink is, if it could be fetched.
flink_env = if [ -e $(FLINK)/fetched ]; then export MINSEP_FLINK="$(CURDIR)/$(FLINK)"; fi;

test-flink: flink ## run every pipeline on Flink in one process, where java and mvn are
	@$(flink_env) $(GO) test -timeout 40m -count=1 -v ./integration/flink

test-cluster: flink ## run every pipeline, and the tests with faults, on a JobManager and two TaskManagers
	@$(flink_env) MINSEP_FLINK_CLUSTER=1 $(GO) test -timeout 60m -count=1 -v ./integration/flink

flink: ## fetch Flink, where java and mvn are; anew when its versions change
	@if ! command -v java > /dev/null || ! command -v mvn > /dev/null; then echo "java or mvn is not here: the tests on Flink are skipped"; \
	elif ! cmp -s integration/flink/pom.xml $(FLINK)/fetched; then \
	  rm -rf $(FLINK) && mkdir -p $(FLINK) && \
	  mvn -B -q -f integration/flink/pom.xml dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/$(FLINK)/lib" -DincludeScope=runtime && \
	  cp integration/flink/pom.xml $(FLINK)/fetched || { echo "Flink could not be fetched: the tests on it are skipped"; rm -rf $(FLINK); }; fi
	@if [ -e $(FLINK)/fetched ]; then $(GO) build -ldflags='-s -w' -o $(FLINK)/boot github.com/apache/beam/sdks/v2/go/container; fi

# What the tests in Python need: NumPy, pyarrow and cryptography to check our files, the rest for the package in python/. Two
# wheels are for a new virtual environment.
PYTHON_PACKAGES := numpy pyarrow cryptography fsspec ml_dtypes hatchling mypy

python: ## fetch what the checks in Python need, where there is a Python
	@mkdir -p out
	@if ! command -v python3 > /dev/null; then echo "python3 is not here: the checks of our files by NumPy and pyarrow, and the tests of the Python package, are skipped"; \
	elif ! { $(VENV)/bin/python -c 'import numpy, pyarrow, cryptography, fsspec, ml_dtypes, hatchling, mypy' && [ -e $(VENV)/wheels ]; } 2> /dev/null; then \
	  python3 -m venv $(VENV) && $(VENV)/bin/pip install -q $(PYTHON_PACKAGES) && $(VENV)/bin/pip download -q --no-deps -d $(VENV)/wheels numpy pyarrow || { echo "$(PYTHON_PACKAGES) could not be fetched: their checks are skipped"; rm -rf $(VENV); }; fi

# The DAG of deploy/airflow is imported and run by Airflow itself, of a version that is named.
AIRFLOW_PACKAGES := apache-airflow-core==3.3.2 apache-airflow-providers-standard==1.21.0

airflow: ## fetch Airflow for the test of its DAG, where there is a Python
	@if ! command -v python3 > /dev/null; then echo "python3 is not here: the test of the DAG is skipped"; \
	elif ! $(VENV)-airflow/bin/python -c 'import airflow' 2> /dev/null; then \
	  python3 -m venv $(VENV)-airflow && $(VENV)-airflow/bin/pip install -q $(AIRFLOW_PACKAGES) || { echo "$(AIRFLOW_PACKAGES) could not be fetched: the test of the DAG is skipped"; rm -rf $(VENV)-airflow; }; fi

# JAX for processors is small, and fetched for every test. PyTorch is large, wants another NumPy, and is fetched by name only.
JAX_PACKAGES := numpy pyarrow jax optax jax-privacy grain datasets
TORCH_PACKAGES := pyarrow<18 opacus==1.4.0 opt_einsum scipy<1.12 scikit-learn<1.4 joblib threadpoolctl cloudpickle

jax: python ## fetch JAX for processors, for the tests of the Python package
	@if ! command -v python3 > /dev/null; then echo "python3 is not here: the tests of JAX are skipped"; else $(VENV)-jax/bin/python -c 'import jax, optax, jax_privacy, grain, datasets' 2> /dev/null || { \
	  python3 -m venv $(VENV)-jax && $(VENV)-jax/bin/pip install -q $(JAX_PACKAGES) || { echo "$(JAX_PACKAGES) could not be fetched: their tests are skipped"; rm -rf $(VENV)-jax; }; }; fi

trainers: jax ## fetch Opacus too where a Python has torch (Debian: python3-torch), for the tests of the Python package
	@$(VENV)-torch/bin/python -c 'import torch, opacus, sklearn' 2> /dev/null || for python in python3 /usr/bin/python3 none; do \
	  if [ $$python = none ]; then echo "no Python here has torch (Debian: apt-get install python3-torch): its tests are skipped"; \
	  elif $$python -c 'import torch, numpy' 2> /dev/null; then \
	    $$python -m venv --system-site-packages $(VENV)-torch && $(VENV)-torch/bin/pip install -q --no-deps $(foreach p,$(TORCH_PACKAGES),'$(p)') || { echo "$(TORCH_PACKAGES) could not be fetched: their tests are skipped"; rm -rf $(VENV)-torch; }; break; fi; done

# PyTorch 2 and packages of Hugging Face. The wheel of PyTorch for Linux has CUDA: 5.9 GB, so that make test does not fetch them, and names what it skips.
HF_PACKAGES := numpy pyarrow torch>=2.4 transformers>=5 peft accelerate datasets

hf: python ## fetch PyTorch 2, transformers and peft, and run the tests of minsep.torch.private and minsep.hf
	@$(VENV)-hf/bin/python -c 'import torch.func, transformers, peft, accelerate, datasets' 2> /dev/null || { \
	  python3 -m venv $(VENV)-hf && $(VENV)-hf/bin/pip install -q $(foreach p,$(HF_PACKAGES),'$(p)') || { echo "$(HF_PACKAGES) could not be fetched: their tests are skipped"; rm -rf $(VENV)-hf; }; }
	@if [ -e $(VENV)-hf ]; then mkdir -p bin && $(GO) build -o bin/minsep ./cmd/minsep && \
	  cd python && MINSEP_COMMAND=$(CURDIR)/bin/minsep ../$(VENV)-hf/bin/python -m unittest tests.test_private tests.test_layers tests.test_processes tests.test_hf && date -u +%F > ../$(VENV)-hf/tested; fi

# Tests that make the goroutines work of the packages that have some and need no Beam, and those that read and write tables
# through unsafe memory.
RACE := ./internal/store ./internal/noise ./internal/montecarlo ./internal/montecarlo/tilt ./internal/manifest ./internal/idcolumn
RACE_TESTS := ReadAhead|WrongAndShortReads|Memory|ByManyAtOnce|RowsByRows|Checkpoint|GoldenLosses|RecordsMerge|ValuesDepend|BoundedRowGroups|BoundedWriter|BoundedEach|Column|Fill|ValueError

race-fast: ## run the tests of concurrent packages that need no Beam under the race detector, in a minute
	@if [ "$$($(GO) env CGO_ENABLED)" = 1 ] && command -v "$$($(GO) env CC)" > /dev/null; then \
	  $(GO) test -race -short -timeout 20m -run '$(RACE_TESTS)' $(RACE); \
	else echo "the race detector needs a C compiler: its tests are skipped"; fi

race: ## run all tests under the race detector, which is slow
	$(GO) test -race -short -timeout 60m $(ALL)

lint: ## gofmt -s, go vet, staticcheck, links in comments, and govulncheck where it is and can reach its database
	@unformatted=$$(gofmt -s -l .); if [ -n "$$unformatted" ]; then echo "gofmt -s -w $$unformatted"; exit 1; fi
	$(GO) vet $(ALL)
	$(GO) tool staticcheck $(ALL)
	$(GO) run ./integration/doclinks
	@if ! command -v govulncheck > /dev/null; then echo "govulncheck is not here: known vulnerabilities are not looked for"; \
	else code=0; mkdir -p out; govulncheck $(ALL) > out/govulncheck.log 2>&1 || code=$$?; \
	  case $$code in 0) ;; 3) cat out/govulncheck.log; exit 1;; *) tail -1 out/govulncheck.log; echo "govulncheck could not run: known vulnerabilities are not looked for";; esac; fi

fuzz: ## run every fuzz target for FUZZTIME (default 20s) each
	@for pkg in $$($(GO) list $(ALL)); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $${FUZZTIME:-20s} -fuzzminimizetime 100x $$pkg || exit 1; \
	  done; \
	done

bench: build jax ## measure minsep beside jax_privacy, in turn, and commands with a budget, in 15 minutes
	@mkdir -p out
	$(GO) test -c -o out/montecarlo.test ./internal/montecarlo
	$(GO) test -c -o out/noise.test ./internal/noise
	$(VENV)-jax/bin/python integration/peers/bench.py

attack: ## attack the whole chain in process: certificates of every scheme again, and a million observations, in minutes
	MINSEP_ATTACK=1 $(GO) test -count=1 -timeout 60m -v ./integration/attack

frozen: build ## measure the certificates and speeds that must not get worse; BEFORE=PATH for another program in turn
	$(GO) run ./integration/frozen $(if $(BEFORE),before=$(BEFORE)) now=bin/minsep

papers: ## recompute the papers' tables, published beside computed; GRID=points.jsonl for the grid of arXiv 2602.09338
	$(GO) run ./integration/papers $(if $(GRID),-grid $(GRID))

amplified: ## recompute those with amplification by sampling: an hour and more, can be stopped and resumed; CELLS=figures.jsonl
	@mkdir -p out
	$(GO) run ./integration/papers -amplified $(or $(CELLS),out/amplified.jsonl)
