# One command each; every target does its own set-up (scripts/setup) and builds only what changed.
#   make demo       explain a real program over 64 nodes; ends by naming the report
#   make test       all tests, about 10 minutes on 2 cores        make test-long   stress and fuzzing
#   make lint       formats, types                               make format      puts formats right
#   make sanitize   C++ tests under ASan and UBSan
#   make bench      the figures of docs/results/bench.md         make docs        generated pages, links
#   make test-wheel the wheel, installed elsewhere, works        make picture     docs/picture.svg from the demo
#   make test-lowest the wheel, with the lowest versions of its dependencies
#   make real-programs  programs of many kinds, alone and traced: docs/results/programs.md
#   make engine     DynamoRIO, which runs traced programs on the processor itself
#   make zonesort   the kernel module, for both of its kernels
#   make spank      the plugin for Slurm, packaged with what a site puts where
#   make examples   the programs of examples/                    make lock        renew the lock files
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
STAMPS := build/stamps
JOBS ?= $(shell nproc)
# One more than processors: some tests wait, for a guest's console or for Slurm.
TEST_WORKERS ?= $(shell echo $$(($(JOBS) + 1)))
FUZZ_RUNS ?= 1000000
PYTEST_ARGS ?=
export PATH := $(CURDIR)/$(BIN):$(PATH)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)

NATIVE := core bindings probes tracer hooks ioapply iorecord fix preload machines launcher
NATIVE_SOURCES := CMakeLists.txt pyproject.toml $(shell find $(NATIVE) -type f -not -name '*.md' 2>/dev/null)
CXX_SOURCES = $(shell git ls-files --cached --others --exclude-standard '*.cpp' '*.hpp' '*.c' '*.h')

.PHONY: help engine real-programs demo test test-cpp test-python test-wheel test-lowest test-long lint format sanitize bench docs picture examples zonesort spank lock clean FORCE

help:
	@sed -n '2,/^SHELL/{/^#/s/^# \{0,1\}//p}' Makefile

# Set-up: a stamp a step, so that a second run starts at once.
$(STAMPS)/python: requirements.lock scripts/setup
	@scripts/setup debian build
	@scripts/setup python requirements.lock
	@mkdir -p $(@D) && touch $@

# What tests and lint need besides, which a first demo does not wait for.
$(STAMPS)/python-dev: requirements-dev.lock $(STAMPS)/python
	@scripts/setup python requirements-dev.lock
	@touch $@

# The names of the modules: an editable package finds those that were there when it was installed.
$(STAMPS)/modules: FORCE
	@mkdir -p $(@D)
	@find pagelens -name '*.py' | sort >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
FORCE:

# The editable package; its build folder is kept, so only what changed is compiled.
# A DynamoRIO that was built from another patch lacks what the client calls.
$(STAMPS)/package: $(STAMPS)/python $(NATIVE_SOURCES) scripts/build-engine scripts/dynamorio.patch $(STAMPS)/modules
	@if [ -d build/engine/dynamorio ]; then scripts/build-engine || echo "engine: not built; QEMU runs traced programs"; fi
	@echo "setup: compiling pagelens; from nothing, some minutes on 2 cores"
	@pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@cp .venv/lib/python3.*/site-packages/pagelens/_{core,probes}.pyi pagelens/  # generated; mypy reads them beside the sources
	@touch $@

$(STAMPS)/debian-%: scripts/setup
	@scripts/setup debian $*
	@mkdir -p $(@D) && touch $@

# promtool, which tests the alert rules; the package itself would start a server.
$(STAMPS)/unpacked-%: scripts/setup
	@scripts/setup unpack $*
	@mkdir -p $(@D) && touch $@

# The C++ builds, one folder each: configured once, afterwards ninja sees to it.
build/%/build.ninja: | $(STAMPS)/python
	@cmake -S . -B $(@D) -G Ninja $(options.$*) >/dev/null
build/tests/build.ninja build/sanitize/build.ninja: | $(STAMPS)/debian-test
build/fuzz/build.ninja: | $(STAMPS)/debian-fuzz
options.tests := -DPAGELENS_TESTS=ON
# Compiled more often than run: at -O2 these files take twice the time, and several files as one take less.
options.sanitize := -DPAGELENS_TESTS=ON -DPAGELENS_SANITIZE=ON -DPAGELENS_UNITY=ON \
	-DCMAKE_BUILD_TYPE=RelWithDebInfo \
	-DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1 -fno-tree-pta" -DCMAKE_C_FLAGS_RELWITHDEBINFO="-O1 -g1"
options.fuzz := -DPAGELENS_FUZZ=ON -DPAGELENS_TESTS=ON -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++
options.bench := -DPAGELENS_BENCH=ON

examples:
	@$(MAKE) -s -C examples OUT=$(CURDIR)/build/examples

# DynamoRIO is fetched and built once; then the package is built again, with its client.
engine: $(STAMPS)/python
	@scripts/build-engine
	@rm -f $(STAMPS)/package
	@$(MAKE) $(STAMPS)/package

demo: $(STAMPS)/debian-demo $(STAMPS)/package examples
	@scripts/demo

# All that a first demo needs, so that apt-get looks for news once.
$(STAMPS)/debian-demo: scripts/setup
	@scripts/setup debian build run
	@mkdir -p $(@D) && touch $@

test: test-cpp test-python

test-cpp: build/tests/build.ninja
	@cmake --build build/tests --target pagelens_tests  # what it runs, not what the package has
	@scripts/test-cpp build/tests

test-python: $(STAMPS)/package $(STAMPS)/python-dev $(STAMPS)/debian-slurm $(STAMPS)/debian-run $(STAMPS)/debian-lab $(STAMPS)/debian-test $(STAMPS)/unpacked-prometheus examples
	@pytest -n $(TEST_WORKERS) --dist worksteal -m "not long" --timeout 300 $(PYTEST_ARGS)

test-long: $(STAMPS)/package $(STAMPS)/python-dev $(STAMPS)/debian-run $(STAMPS)/debian-real $(STAMPS)/debian-distributions $(STAMPS)/debian-lab $(STAMPS)/debian-kernel $(STAMPS)/debian-test build/fuzz/build.ninja examples
	@cmake --build build/fuzz
	@python scripts/test_long.py --build build/fuzz --runs $(FUZZ_RUNS) --output docs/results/test-long.md

real-programs: $(STAMPS)/package $(STAMPS)/python-dev $(STAMPS)/debian-run $(STAMPS)/debian-real
	@python scripts/programs_table.py --output docs/results/programs.md

# The wheel holds all it needs: installed into an environment of its own, it traces a program.
test-wheel: $(STAMPS)/package $(STAMPS)/debian-run examples
	@scripts/test-wheel

# The same wheel with the lowest versions that pyproject.toml allows.
test-lowest: test-wheel
	@scripts/test-lowest

lint: $(STAMPS)/package $(STAMPS)/python-dev
	@ruff check .
	@ruff format --check .
	@mypy
	@clang-format --dry-run -Werror $(CXX_SOURCES)
	@python scripts/docs.py --check

format: $(STAMPS)/python-dev
	@ruff check -q --fix-only . && ruff format -q .
	@clang-format -i $(CXX_SOURCES)

sanitize: build/sanitize/build.ninja
	@cmake --build build/sanitize
	@scripts/test-cpp build/sanitize

bench: $(STAMPS)/package $(STAMPS)/debian-run $(STAMPS)/debian-bench build/bench/build.ninja examples
	@cmake --build build/bench
	@python bench/run.py --binaries build/bench/bench --output docs/results/bench.md

# For Debian 12's kernel and that of its backports; their headers are fetched. Elsewhere: make -C zonesort
zonesort: $(STAMPS)/package
	@python scripts/build_zonesort.py build/zonesort

# For the Slurm that is installed; a plugin is built anew for each major release of Slurm.
spank: $(STAMPS)/debian-slurm
	@$(MAKE) -s -C spank OUT=$(CURDIR)/build/spank package
	@echo "build/spank/pagelens-spank.tar.gz: unpack it on a node, and run ./install; docs/site.md says more"

picture: demo
	@pagelens explain build/demo/cg.trace --machine cori-knl-cache --phase solve --nodes 64 \
		--policies aged,aged+zonesort,contiguous,2m --quiet -o build/picture
	@python scripts/picture.py build/picture/explanation.json

docs: $(STAMPS)/package
	@python scripts/docs.py

lock:
	@python3 -m venv build/lock && build/lock/bin/pip install -q uv
	@$(COMPILE_LOCK) --upgrade --extra dev -o requirements-dev.lock pyproject.toml
	@$(COMPILE_LOCK) --extra build -c requirements-dev.lock -o requirements.lock pyproject.toml
COMPILE_LOCK := build/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header

clean:
	@rm -rf build
