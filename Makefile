# `make help` lists what there is. Every target starts from a fresh clone: `setup` comes by itself.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
PYTHON_IN_VENV := $(BIN)/python
PORT ?= 3000
CONFIG ?= $(CURDIR)/pipeline.yaml
# Which of them `make bench` runs; all if empty.
BENCHMARKS ?=
# What pytest gets besides: make test ARGS="-k wire"
ARGS ?=
# Processes that tests are shared among, file by file; each has its own Java, so two gigabytes of memory for each.
# Three of them on two cores take as long as two.
WORKERS ?= 2
# How many seconds the tests of `make test` or `make test-more` may take before it fails, such as 360; empty: no limit, since
# machines differ.
BUDGET ?=
# Which part of `make test-all` to run, such as 3; all that have not passed on this commit if empty.
PART ?=
# The commit that `make bench-pairs` compares with.
BASE ?=
# Python writes its bytecode, also where the environment says no: compiling all of it again costs each process ten seconds.
unexport PYTHONDONTWRITEBYTECODE

# Dagster wants an absolute home; it holds the runs of this checkout.
INSTANCE := DAGSTER_HOME="$(CURDIR)/dagster_home" DTS_ASSETS_CONFIG="$(CONFIG)"
SHARED_OUT = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# Sets come in the same order in each run; `make test-all` draws the order.
SAME_EACH_TIME = PYTHONHASHSEED=0

.PHONY: help setup demo test test-more test-all check dev screenshots live-screenshots example kills moments bench bench-pairs mutations effects matrix broker live soak stateful meetings year mysql clean lock format proto

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install everything that the other targets need (minutes; does nothing when it is there)
	@scripts/setup.sh

demo: setup ## Build all tables of the example through Dagster and compare them with the database's own dump (2 minutes)
	@$(INSTANCE) $(PYTHON_IN_VENV) -m dts_assets demo

test: setup check ## Run all checks and the first tier of tests: every law and every kind of run, once (8 minutes on 2 cores)
	@$(SAME_EACH_TIME) $(PYTHON_IN_VENV) -m pytest $(SHARED_OUT) $(if $(BUDGET),--budget $(BUDGET)) $(ARGS)

test-more: setup ## Run the second tier: what `make test` leaves out and continuous integration runs as well (25 minutes on 2 cores)
	@$(SAME_EACH_TIME) DTS_ASSETS_TESTS=more $(PYTHON_IN_VENV) -m pytest $(SHARED_OUT) $(if $(BUDGET),--budget $(BUDGET)) $(ARGS)

test-all: setup check ## Run every test with full repetitions, in parts of at most two hours; goes on where it was interrupted (PART=3: only that part)
	@$(PYTHON_IN_VENV) -m tests.parts --workers $(WORKERS) $(if $(PART),--part $(PART))

check: setup ## Lint, formatting, types, import directions, generated code, lock file (2 minutes, seconds the second time)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(PYTHON_IN_VENV) proto/generate.py --check
	@$(PYTHON_IN_VENV) scripts/check_lock.py

dev: setup ## Open the Dagster UI on PORT (3000), with its daemon
	@$(PYTHON_IN_VENV) scripts/check_port.py "$(PORT)" Dagster
	@$(INSTANCE) DTS_ASSETS_UI="http://127.0.0.1:$(PORT)" $(BIN)/dagster dev -w workspace.yaml -p $(PORT)

screenshots: setup ## Take the pictures in docs/images again, with the example in a Dagster of its own and Chromium (5 minutes)
	@$(PYTHON_IN_VENV) -W ignore scripts/screenshots.py

live-screenshots: setup ## Take the pictures of a live pipeline again (10 minutes)
	@env -u DAGSTER_HOME -u DTS_ASSETS_CONFIG $(PYTHON_IN_VENV) -W ignore -m scripts.live_screenshots

example: setup ## Make the example's capture and dump again, from a run of MariaDB
	@$(PYTHON_IN_VENV) -m examples.shop_maker

kills: setup ## Kill drivers at 200 random moments (COUNT=200), with each format, and compare the tables (20 minutes; 50 are part of test-all)
	@DTS_ASSETS_TESTS=all DTS_ASSETS_KILLS=$(or $(COUNT),200) $(PYTHON_IN_VENV) -m pytest tests/flows/test_killed.py -q --timeout 3600

moments: setup ## Tables as of random transactions of a real database (COUNT=1000), judged by a replay of its binlog (20 minutes; 100 are part of test-all)
	@DTS_ASSETS_TESTS=all DTS_ASSETS_MOMENTS=$(or $(COUNT),1000) $(PYTHON_IN_VENV) -m pytest tests/e2e/test_moments_of_a_database.py -q -m long --timeout 7200

bench: setup ## Measure what the README's figures come from, and put them there (below two hours on 2 cores)
	@env -u DAGSTER_HOME -u DTS_ASSETS_CONFIG $(PYTHON_IN_VENV) -m benchmarks $(BENCHMARKS) $(if $(BENCHMARKS),,--readme README.md)

bench-pairs: setup ## Run BENCHMARKS (all if empty: hours) with the code of the commit BASE and with this code in turns; prints the ratio of each line
	@env -u DAGSTER_HOME -u DTS_ASSETS_CONFIG $(PYTHON_IN_VENV) -m benchmarks.pairs "$(BASE)" $(BENCHMARKS)

mutations: setup ## Mutate a million messages of each format (COUNT=1000000): is every fault found, no row wrong? (35 minutes on 2 cores)
	@$(PYTHON_IN_VENV) -m tests.soak --count $(or $(COUNT),1000000)

effects: setup ## Let every effect of two small runs fail once, thirty with Spark and with a REST catalog, and compare with a lake where nothing failed (an hour on 2 cores)
	@$(PYTHON_IN_VENV) -m tests.effects

matrix: setup ## Make the example on every Spark with every catalog and store, judged by the database (half an hour; ARGS="--master local --store rest")
	@env -u DAGSTER_HOME -u DTS_ASSETS_CONFIG $(PYTHON_IN_VENV) -W ignore -m tests.remote.matrix $(ARGS)

broker: setup ## Run a Kafka broker in the foreground with an empty TOPIC (dts) of PARTITIONS (4), until Ctrl-C
	@$(PYTHON_IN_VENV) -m dts_emulator.kafka.run_broker --topic $(or $(TOPIC),dts) --partitions $(or $(PARTITIONS),4)

live: setup ## Follow a busy MariaDB through Kafka to the tables, Ctrl-C ends it (RATE=500 TABLES=20 WINDOW=5m FORMAT=dts-protobuf PORT=3000 SECONDS=)
	@env -u DAGSTER_HOME -u DTS_ASSETS_CONFIG $(PYTHON_IN_VENV) -W ignore -m dts_assets live --port $(PORT) \
		--rate $(or $(RATE),500) --tables $(or $(TABLES),20) --window $(or $(WINDOW),5m) $(if $(FORMAT),--format $(FORMAT)) $(if $(SECONDS),--seconds $(SECONDS))

soak: setup ## A live pipeline under each fault alone, then random ones for SECONDS (900) with SEED, judged by the database (25 minutes; with HOSTILE=3600 an hour of a hostile workload instead, with FOLLOWED=3600 one of readers that follow changelogs)
	@env -u DAGSTER_HOME -u DTS_ASSETS_CONFIG $(PYTHON_IN_VENV) -W ignore -m tests.live \
		--seconds $(or $(SECONDS),900) $(if $(SEED),--seed $(SEED)) $(if $(HOSTILE),--hostile $(HOSTILE)) $(if $(FOLLOWED),--followed $(FOLLOWED))

stateful: setup ## Random operator actions on a pipeline for MINUTES (10) from SEED on, judged by the database, failures made small
	@$(PYTHON_IN_VENV) -W ignore -m tests.stateful --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(ACTIONS),--actions $(ACTIONS))

meetings: setup ## Features that meet over random workloads with DDL on a real MariaDB for MINUTES (10) from SEED on, failures made small and printed as a script
	@$(PYTHON_IN_VENV) -W ignore -m tests.meetings --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(FEATURES),--features $(FEATURES))

year: setup ## A simulated year of troubles (DAYS=365 HOURS=12 of a window, from SEED on), judged by laws, failures made small (minutes)
	@$(PYTHON_IN_VENV) -m tests.year --days $(or $(DAYS),365) --hours $(or $(HOURS),12) $(if $(SEED),--seed $(SEED)) $(if $(EVENTS),--events $(EVENTS) --as-found)

mysql: setup ## Ask a real MySQL what tests ask a MariaDB: positions, logins, every type, copies, comparisons (6 minutes; its packages come from Debian)
	@scripts/fetch_mysql.sh
	@$(PYTHON_IN_VENV) -m pytest tests/mysql -m mysql $(ARGS)

format: setup ## Format the code and mend what the linter can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

proto: setup ## Generate dts_assets/protocol/ from proto/ again
	@$(PYTHON_IN_VENV) proto/generate.py

lock: ## Resolve requirements.lock again: names, versions and hashes, no index addresses
	@[ -x $(PYTHON_IN_VENV) ] || scripts/setup.sh
	@[ -x $(BIN)/uv ] || $(PYTHON_IN_VENV) -m pip install -q uv
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --all-extras --generate-hashes \
		--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
		pyproject.toml -o requirements.lock

clean: ## Remove the lake, Dagster's runs and all caches; the environment stays
	@rm -rf lake registry/*/ build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find dagster_home -mindepth 1 -maxdepth 1 ! -name dagster.yaml -exec rm -rf {} +
	@find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
