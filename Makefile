# The commands of this repository. Each target runs a script or a cargo command, which can also be called directly.

PREFIX ?= /usr/local
CARGO ?= cargo
SOAK ?=
SOAK_SEEDS ?= 1000
SOAK_CHECKPOINTS ?= 10000
SOAK_KILLS ?= 20
SOAK_GROUP_KILLS ?= 200
SOAK_TIMES ?= 8
SOAK_PROGRAMS ?= 10000
SIMULATE_MINUTES ?= 10
BENCH ?=
KERNELS ?=
TARGET := $(or $(CARGO_TARGET_DIR),target)

.DEFAULT_GOAL := help
.PHONY: help demo demo-mpi demo-nodes docs test test-all test-kernels soak planted-faults bench build install dist dist-check clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

demo: ## kill a numerical program, continue it, compare the result bit for bit
	@scripts/demo

demo-mpi: ## lose a rank and a node of an MPI program, go on from memory, compare the result
	@scripts/demo-mpi

demo-nodes: ## kill an MPI program on all its nodes, continue it as a whole, compare the result
	@scripts/demo-nodes

docs: ## build the documentation as a site: target/book
	@scripts/docs

test: ## what tells most faults (6 minutes when all is compiled)
	@scripts/test

test-all: ## everything that must hold (about 20 minutes)
	@scripts/test all

test-kernels: ## the victims on Debian's kernels 5.10, 6.1 and 6.12, emulated (KERNELS="6.1")
	@scripts/test-kernels $(KERNELS)

soak: ## hours of killing with random seeds, resumable (SOAK="--hours 8")
	@scripts/install-needs test
	scripts/wheel
	$(CARGO) xtask simulate --minutes $(SIMULATE_MINUTES)
	STANDFAST_SEEDS=$(SOAK_SEEDS) $(CARGO) test --release -p standfast-engine --test incremental
	$(CARGO) build --release -p standfast-cli
	for snapshot in sequential copy fork precopy; do \
		STANDFAST_SNAPSHOT=$$snapshot $(CARGO) test --release -p standfast-tests --test features || exit; done
	for options in "--compress auto" "--compress lz4" "--delta auto --compress zstd"; do \
		STANDFAST_OPTIONS=$$options $(CARGO) test --release -p standfast-tests --test features || exit; done
	VICTIM_TIMES=$(SOAK_TIMES) STANDFAST_KILLS=$(SOAK_KILLS) $(CARGO) test --release -p standfast-tests --test promises -- --include-ignored languages::
	STANDFAST_CROWD=1 $(CARGO) test --release -p standfast-tests --test features
	STANDFAST_KILLS=$(SOAK_KILLS) $(CARGO) test --release -p standfast-tests --test promises -- --include-ignored jobs::
	STANDFAST_SWEEP=2000 $(CARGO) test --release -p standfast-tests --test promises -- --include-ignored disasters::a_tree
	STANDFAST_EVERY=10 $(CARGO) test --release -p standfast-tests --test features
	STANDFAST_CHECKPOINTS=$(SOAK_CHECKPOINTS) $(CARGO) test --release -p standfast-tests --test promises -- --include-ignored five_hundred_checkpoints
	scripts/mpi-wheels target/mpi
	STANDFAST_MPI_WHEELS=$(abspath target/mpi) $(CARGO) test --release -p standfast-tests --test promises -- --include-ignored mpi::
	$(CARGO) run --release -p standfast-tests --bin soak -- --group-kills $(SOAK_GROUP_KILLS) --state soak/groups.json
	$(CARGO) run --release -p standfast-tests --bin soak -- $(SOAK)
	$(CARGO) run --release -p standfast-tests --bin differential -- --programs $(SOAK_PROGRAMS)
	$(CARGO) run --release -p standfast-tests --bin predictions

planted-faults: ## whether random programs find faults that are planted into restarts
	$(CARGO) build --release -p standfast-cli --features planted-faults --target-dir $(TARGET)/planted
	STANDFAST_BIN=$(abspath $(TARGET))/planted/release/standfast \
		$(CARGO) run --release -p standfast-tests --bin differential -- --planted all --programs 2000

bench: ## the promises about speed, as ratios within one run
	@scripts/install-needs demo
	$(CARGO) build --release -p standfast-cli
	$(CARGO) run --release -p standfast-bench -- $(BENCH)

build: ## build the command and libstandfast: target/release/standfast, target/c
	@scripts/install-needs demo
	$(CARGO) build --release -p standfast-cli
	$(MAKE) -C bindings/c OUT=$(abspath $(TARGET))/c PREFIX=$(PREFIX)

install: build ## install both below PREFIX (/usr/local), with manual pages and completions
	install -D -m 755 $(TARGET)/release/standfast $(DESTDIR)$(PREFIX)/bin/standfast
	scripts/install-pages $(TARGET)/release/standfast $(DESTDIR)$(PREFIX)/share
	$(MAKE) -C bindings/c OUT=$(abspath $(TARGET))/c PREFIX=$(PREFIX) install

dist: ## build the packages: a tarball, a wheel, Debian packages, in target/dist
	@scripts/dist

dist-check: ## try the packages in Debian 11, 12 and 13, and build them twice (25 minutes, as root, with network)
	@scripts/dist-check

clean: ## remove what was built
	$(CARGO) clean
