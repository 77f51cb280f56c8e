# What people type. The build itself is CMake's: see CMakeLists.txt and CMakePresets.json.

PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc)
# How many tests run at a time: the long ones wait for events rather than compute.
TEST_JOBS ?= $(shell expr $$(nproc) \* 2)
MINUTES ?= 30

.PHONY: help demo reference release check check-full soak fuzz bench bench-peers lint format install \
	uninstall clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

demo: release ## install what is missing, build, and hash the files under a folder as tasks
	@scripts/demo

release:
	@scripts/bootstrap
	@JOBS=$(JOBS) scripts/build release

check: ## build with ASan and UBSan, run all tests, layers, lengths and lint
	@scripts/bootstrap --tests
	@JOBS=$(JOBS) TEST_JOBS=$(TEST_JOBS) scripts/check

check-full: ## check, then TSan, valgrind, clang-tidy, planted faults and the full kill counts
	@scripts/bootstrap --all
	@JOBS=$(JOBS) TEST_JOBS=$(TEST_JOBS) scripts/check --full

soak: ## kill, stop, restart and cut at random for MINUTES (30), and check the promises
	@scripts/bootstrap --tests
	@TEST_JOBS=$(TEST_JOBS) scripts/soak $(MINUTES)

fuzz: ## feed hostile servers, files, lines and words to each fuzz target for MINUTES (30)
	@scripts/bootstrap --all
	@JOBS=$(JOBS) scripts/build fuzz
	@JOBS=$(JOBS) scripts/fuzz $$(($(MINUTES) * 60))

bench: release ## measure speed and memory, one figure a line
	@scripts/bootstrap --tests
	@cmake --build build/release -j $(JOBS) --target bench_ceiling >build/bench.log || cat build/bench.log
	@tests/bench/run build/release

bench-peers: release ## the same workload on quern, asynq, BullMQ, Sidekiq, Celery, beanstalkd and gearmand
	@scripts/bootstrap --peers
	@tests/bench/peers/run build/release

lint: ## clang-tidy, clang-format, layers, lengths, words, Lua and man pages
	@scripts/bootstrap --lint
	@JOBS=$(JOBS) scripts/lint --tidy

format: ## format the sources by .clang-format
	@scripts/bootstrap --lint
	@scripts/lint --format

reference: ## the C interface as HTML and man pages, made from the headers: build/reference
	@scripts/bootstrap --tests
	@scripts/reference build/reference

install: release ## install under PREFIX (/usr/local), below DESTDIR when it is set
	@DESTDIR='$(DESTDIR)' cmake --install build/release --prefix '$(PREFIX)'
	@DESTDIR='$(DESTDIR)' scripts/after_install '$(PREFIX)'

uninstall: ## remove what the last install from here has installed, below DESTDIR when it is set
	@DESTDIR='$(DESTDIR)' scripts/uninstall build/release/install_manifest.txt

clean: ## remove all that was built
	rm -rf build
