# SPDX-License-Identifier: Apache-2.0
# What people type. CMake does the building; this installs what it needs and picks a preset.
#
#   make serve    [MODEL=… PORT=8000]   from a fresh machine to a running server
#   make test     everything that can fail: unit tests, then the tests that start the server
#   make build    build/bin/peng and build/bin/vllm_engine
#   make check    format, clang-tidy, include rules, licences
# SKIP_DEPS=1 leaves the system's packages alone.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

PORT ?= 8000
HOST ?= 0.0.0.0
MODEL ?=
FUZZ_SECONDS ?= 20
SOAK_SECONDS ?= 600
JOBS := $(shell scripts/jobs)
export CCACHE_BASEDIR := $(CURDIR)

# The quoted list of a Makefile condition: empty means "install".
ifeq ($(SKIP_DEPS),)
deps = scripts/install-deps $(1)
else
deps = true
endif

# The cargo that is new enough may not be the first of PATH, and its rustc may be another one than PATH's.
cargo = export CARGO RUSTC; { read -r CARGO; read -r RUSTC; } < <(scripts/find-cargo) || \
  { echo "make: cargo 1.87 or newer is missing; run scripts/install-deps build, or install Rust" >&2; exit 1; }
configure = cmake --preset $(1) -DPENG_CARGO="$$CARGO"
ninja = cmake --build $(1) -j $(JOBS) --target

# Tests of the code that reads other people's bytes, and of the engine: the ones worth a sanitizer in every run.
ASAN_TESTS = peng_base_test peng_tensor_test peng_formats_test peng_cache_test peng_sched_test peng_engine_test \
  peng_text_test peng_hub_test peng_server_test
TSAN_TESTS = peng_base_test peng_backend_test peng_engine_test peng_api_test peng_server_test
ARM64_TESTS = peng_base_test peng_tensor_test peng_kernels_test peng_backend_test
empty :=
space := $(empty) $(empty)
regex = ^($(subst $(space),|,$(strip $(1))))$$

.PHONY: serve test build build-all vllm_engine bench check format tidy asan tsan fuzz soak soak-asan soak-tsan chaos arm64 arm64-smoke clean help

help:
	@sed -n '3,9s/^# \{0,1\}//p' Makefile

# A build folder that exists keeps its options: `make serve` after `make test` builds only peng and reconfigures nothing.
build/build.ninja:
	@$(call deps,build)
	$(cargo); $(call configure,release) -DPENG_TESTS=OFF

build: build/build.ninja
	@$(call deps,build)
	$(cargo); $(call ninja,build) peng
	@ln -sf peng build/bin/vllm_engine

vllm_engine: build

serve:
	@$(call deps,build $(if $(MODEL),,model))
	@$(MAKE) --no-print-directory build SKIP_DEPS=1
	@model=$${MODEL:-}; [ -n "$$model" ] || model=$$(scripts/get-model); \
	echo "peng: serving $$model on http://$(HOST):$(PORT)"; \
	exec build/bin/peng serve "$$model" --host $(HOST) --port $(PORT)
serve: export MODEL := $(MODEL)

build-all:
	@$(call deps,build test)
	$(cargo); $(call configure,release) -DPENG_TESTS=ON
	$(cargo); $(call ninja,build) all
	@ln -sf peng build/bin/vllm_engine

test:
	@$(call deps,build model test)
	@scripts/get-model
	@$(MAKE) --no-print-directory build-all SKIP_DEPS=1
	ctest --test-dir build --output-on-failure -j $(JOBS)
	@venv=$$(scripts/venv tests/requirements.txt); \
	PENG_BINARY=$(CURDIR)/build/bin/peng PENG_TEST_MODEL=$$(scripts/get-model) $$venv/bin/python -m pytest tests

check:
	@$(call deps,build check)
	$(cargo); [ -e build/compile_commands.json ] || $(call configure,release) -DPENG_TESTS=OFF
	scripts/check

format:
	@$(call deps,check)
	scripts/format

tidy:
	@$(call deps,build check)
	scripts/tidy --all

asan:
	@$(call deps,build test)
	$(cargo); $(call configure,asan)
	$(cargo); $(call ninja,build-asan) $(ASAN_TESTS)
	ctest --test-dir build-asan --output-on-failure -j $(JOBS) -R '$(call regex,$(ASAN_TESTS))'

tsan:
	@$(call deps,build test)
	$(cargo); $(call configure,tsan)
	$(cargo); $(call ninja,build-tsan) $(TSAN_TESTS)
	ctest --test-dir build-tsan --output-on-failure -j $(JOBS) -R '$(call regex,$(TSAN_TESTS))'

fuzz:
	@$(call deps,build fuzz)
	$(cargo); $(call configure,fuzz)
	$(cargo); $(call ninja,build-fuzz) peng_fuzz
	scripts/fuzz build-fuzz $(FUZZ_SECONDS)

bench:
	@$(call deps,build bench)
	$(cargo); $(call configure,bench)
	$(cargo); $(call ninja,build-bench) peng_kernels_bench
	@$(MAKE) --no-print-directory build SKIP_DEPS=1
	scripts/bench build-bench
	scripts/compare

soak: build
	@venv=$$(scripts/venv tests/requirements.txt); model=$${MODEL:-}; [ -n "$$model" ] || model=$$(scripts/get-model); \
	PENG_BINARY=$(CURDIR)/build/bin/peng $$venv/bin/python scripts/soak.py --model "$$model" --seconds $(SOAK_SECONDS)

# Under a sanitizer everything is some ten times slower: shorter requests, and memory may grow.
soak-asan soak-tsan: soak-%:
	@$(call deps,build)
	$(cargo); $(call configure,$*)
	$(cargo); $(call ninja,build-$*) peng
	@venv=$$(scripts/venv tests/requirements.txt); model=$${MODEL:-}; [ -n "$$model" ] || model=$$(scripts/get-model); \
	PENG_BINARY=$(CURDIR)/build-$*/bin/peng $$venv/bin/python scripts/soak.py --model "$$model" --seconds $(SOAK_SECONDS) \
	  --scale 0.25 --any-memory
soak soak-asan soak-tsan: export MODEL := $(MODEL)

chaos: build
	@venv=$$(scripts/venv tests/requirements.txt); model=$${MODEL:-}; [ -n "$$model" ] || model=$$(scripts/get-model); \
	PENG_BINARY=$(CURDIR)/build/bin/peng $$venv/bin/python scripts/chaos.py --model "$$model"
chaos: export MODEL := $(MODEL)

arm64:
	@$(call deps,build arm64)
	export PENG_SYSROOT; PENG_SYSROOT=$$(scripts/arm64-sysroot --rust); \
	source scripts/arm64-rust; $(call configure,arm64) -DPENG_RUST_TARGET=$$RUST_TARGET -DPENG_TESTS=OFF; \
	$(call ninja,build-arm64) peng

arm64-smoke:
	@$(call deps,build arm64)
	export PENG_SYSROOT; PENG_SYSROOT=$$(scripts/arm64-sysroot); \
	$(cargo); $(call configure,arm64) -DPENG_TESTS=ON; $(call ninja,build-arm64) $(ARM64_TESTS); \
	ctest --test-dir build-arm64 --output-on-failure -j $(JOBS) -R '$(call regex,$(ARM64_TESTS))'

clean:
	rm -rf build build-*
