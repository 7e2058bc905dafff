SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PALANCA := $(BIN)/palanca
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)
TEST_TOOLS := $(CACHE)/palanca/test-tools/bin
# One worker a core of the smallest machine that runs the tests.
WORKERS ?= 2

RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
FUZZ := $(VENV)/.fuzz
METADATA := pyproject.toml service/palanca/__init__.py
COMPILE := $(BIN)/uv pip compile --quiet --no-config --universal --generate-hashes --no-emit-index-url --no-header

.PHONY: help setup run demo tools lint format test unit deploy-check bench fuzz soak compat lab pictures wheel-test lock clean

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(DEV) ## Make .venv with everything that development needs (quick the second time)

# A new user gets the runtime packages only; a developer's .venv serves as it is.
# By default a recording is replayed; with PROMETHEUS=URL or VLLM=URL the service watches that.
run: $(if $(wildcard $(DEV)),$(DEV),$(RUNTIME)) ## Serve at http://127.0.0.1:9797: a replayed incident, or yours with PROMETHEUS=URL or VLLM=URL
	@exec $(PALANCA) $(if $(PROMETHEUS)$(VLLM),serve --print $(if $(PROMETHEUS),--prometheus '$(PROMETHEUS)') $(if $(VLLM),--scrape '$(VLLM)'),demo) --port $(PORT)

run: PORT ?= 9797

demo: $(if $(wildcard $(DEV)),$(DEV),$(RUNTIME)) ## Diagnose a real recording of a vLLM server in trouble
	@status=0; \
	$(PALANCA) diagnose --recording examples/kv-saturated.om.gz --at $(DEMO_AT) || status=$$?; \
	if [ "$$status" -eq 1 ]; then echo "(exit status 1: something is wrong with that vLLM server, and palanca found it)" >&2; \
	else exit "$$status"; fi

# Near the end of the load in the recording.
demo: DEMO_AT := 2026-11-29T20:09:11.17Z

tools: ## Make promtool, prometheus, amtool, alertmanager, PostgreSQL and chromium available to the tests
	@.ci/test-tools

lint: $(DEV) ## Check style, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV) ## Format the code and apply the safe fixes of the linter
	$(BIN)/ruff check --fix --exit-zero
	$(BIN)/ruff format

test: ## All that CI runs: setup, test tools, lint, tests, test of the wheel
	@$(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory tools
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory wheel-test
	@$(MAKE) --no-print-directory unit

unit: $(DEV) ## The tests alone (ARGS="-k name" goes to pytest)
	PATH="$(TEST_TOOLS):$$PATH" $(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

deploy-check: $(DEV) ## Render the Kubernetes manifests and verify the systemd unit (needs kubectl and systemd-analyze)
	$(BIN)/python -m pytest -q -m deployment_tools tests/deploy

bench: $(DEV) ## Measure wall time and memory beside a floor
	$(BIN)/python bench/diagnosis.py

fuzz: $(FUZZ) ## Fuzz every entry point, guided by coverage, and the API of a running service (SECONDS=60 each, ENTRIES="exposition promql")
	PATH="$(TEST_TOOLS):$$PATH" $(BIN)/python -m fuzz.guided --seconds $(SECONDS) $(ENTRIES)
	PATH="$(TEST_TOOLS):$$PATH" $(BIN)/python -m fuzz.service --seconds $(SECONDS)

fuzz: SECONDS ?= 60

soak: $(DEV) ## Faults at random around a real service: nothing lost, doubled or leaked? (MINUTES=30, SEED=7)
	PATH="$(TEST_TOOLS):$$PATH" $(BIN)/python -m soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

soak: MINUTES ?= 30

compat: $(DEV) ## Try every release of Prometheus, Alertmanager and VictoriaMetrics: by hand, about 45 minutes
	@.ci/test-tools
	@.ci/back-ends
	PATH="$(TEST_TOOLS):$$PATH" $(BIN)/python -m pytest compat $(ARGS)

lab: $(DEV) ## Break a real vLLM on the CPU, follow palanca's advice, and see whether it helped: by hand, about 45 minutes
	@.ci/test-tools
	PATH="$(TEST_TOOLS):$$PATH" $(BIN)/python -m lab $(ARGS)

pictures: $(DEV) ## Take the pictures of the documents anew, of a replayed incident
	PATH="$(TEST_TOOLS):$$PATH" $(BIN)/python -m bench.pictures

wheel-test: $(DEV) ## Build the wheel and try it in a fresh environment, far from the checkout
	.ci/wheel-test $(BIN)/python

lock: $(DEV) ## Bring all lock files up to date with pyproject.toml (UPGRADE=1: newest versions)
	$(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --output-file requirements.lock
	$(COMPILE) $(if $(UPGRADE),--upgrade) pyproject.toml --extra dev --constraint requirements.lock --output-file requirements-dev.lock
	$(COMPILE) $(if $(UPGRADE),--upgrade) --group fuzz --output-file requirements-fuzz.lock

clean: ## Remove .venv and everything that was built
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .fuzz .coverage htmlcov
	find service tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, and $(PYTHON) is $$($(PYTHON) --version 2>&1); try: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUNTIME): requirements.lock $(METADATA) | $(BIN)/python
	$(PIP) install --require-hashes -r requirements.lock
	$(PIP) install --no-deps --editable .
	@touch $@

$(FUZZ): requirements-fuzz.lock | $(DEV)
	$(PIP) install --require-hashes -r requirements-fuzz.lock
	@touch $@

$(DEV): requirements-dev.lock $(METADATA) | $(BIN)/python
	$(PIP) install --require-hashes -r requirements-dev.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
