# Thermocline. `make run` shows it, `make test` proves it; both work from a fresh clone.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup java run test quick lint types format docs bench faults soak mutants clean

PYTHON ?= python3
# Without cached bytecode every process compiles its libraries again: 4.0 s of a core instead of 1.2 s where it imports
# Spark.
unexport PYTHONDONTWRITEBYTECODE

DIR ?= .thermocline
NAME ?=
WORKERS ?= 3
UV := $(shell command -v uv 2>/dev/null || echo "$(PYTHON) -m uv")
BIN := .venv/bin

help: ## print this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

setup: java ## uv, locked dependencies, jars and the embedded Postgres
	@command -v uv >/dev/null || $(PYTHON) -m uv --version >/dev/null 2>&1 || $(PYTHON) -m pip install --quiet uv \
	  || $(PYTHON) -m pip install --quiet --user --break-system-packages uv
	@$(UV) sync --locked --quiet
	@$(BIN)/python -c 'from thermocline.runtime import artifacts; artifacts.spark_jar_paths(); artifacts.postgres_home()'

java:
	@if ! command -v java >/dev/null && [ -z "$${JAVA_HOME:-}" ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing Java 17 by apt" >&2; apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless >/dev/null; \
	  else echo "Java 17 or 21 is needed. Debian: sudo apt-get install openjdk-17-jre-headless" >&2; exit 1; fi; fi

run: setup ## start everything with a demo table and stay up until Ctrl-C
	@exec $(BIN)/thermocline up --demo --dir $(DIR)

# Three workers on two cores: a test waits for a child, a lock or a server for a third of its time. The tests of a file
# stay together; tests/conftest.py starts the longest files first.
test: setup lint types ## linters, types, import layers and all tests
	@$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0 --durations 15

# One walk through the whole stack: tier, write to both tiers, fold, read through the gateway; and the catalog's guards.
QUICK := tests/unit tests/e2e/test_walking_skeleton.py \
  tests/e2e/test_fold.py::test_corrections_read_the_same_before_and_after_the_fold tests/gateway/test_reading.py \
  tests/postgres/test_guards.py

quick: setup lint types ## while editing, within 3 minutes: linters, types, unit tests, one walk through the stack
	@$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 -q -m "not large" $(QUICK)

lint: setup ## ruff, formatting and import layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports

types: setup ## mypy, strict
	@$(BIN)/mypy

format: setup ## format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: setup ## write the generated pages of docs/
	@$(BIN)/python -m thermocline.cli.reference docs
	@$(BIN)/python -m tests.contract_table

bench: setup ## benchmarks; NAME=tiering runs one
	@$(BIN)/python -m bench $(NAME)

faults: setup ## the tests that kill and break things, at every combination of points, each with its own Spark
	@THERMOCLINE_TEST_ALL_FAULTS=1 $(BIN)/pytest -m faults
	@THERMOCLINE_TEST_ALL_FAULTS=1 $(BIN)/pytest tests/e2e/test_extreme_rows.py

mutants: setup ## break each guard of tests/mutants in a copy of the tree: its tests must fail; NAME=fence runs some
	@$(BIN)/python -m tests.mutants.run $(NAME)

FUZZ_SECONDS ?= 3600
FUZZ_SEED ?= $(shell date +%Y%m%d)

soak: setup mutants ## long property tests, a backlog of a million corrections, the fuzzer for FUZZ_SECONDS, the mutants
	@THERMOCLINE_TEST_FUZZ_SECONDS=$(FUZZ_SECONDS) THERMOCLINE_TEST_FUZZ_SEED=$(FUZZ_SEED) \
	  $(BIN)/pytest tests/gateway/test_fuzz.py -s
	@THERMOCLINE_TEST_HISTORIES=3000 $(BIN)/pytest -m property --timeout 7200
	@THERMOCLINE_TEST_BACKLOG_ROWS=1000000 $(BIN)/pytest tests/e2e/test_backlog.py --timeout 1800

clean: ## stop the stack in DIR, remove it and the caches of all tools
	@if [ -x $(BIN)/thermocline ] && [ -e $(DIR)/stack.json ]; then $(BIN)/thermocline down --dir $(DIR); fi
	@if [ -L $(DIR)/postgres ]; then rm -rf "$$(readlink -f $(DIR)/postgres)"; fi
	@rm -rf $(DIR) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
