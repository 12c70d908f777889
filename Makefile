# Everything starts here; each target is one visible command. `make` alone lists them.
PYTHON ?= python3
PORT ?= 4318
# The port before HTTP's, as 4317 is to 4318, so that two collectors do not need the same one.
GRPC_PORT ?= $(or $(TRACEREEL_GRPC_PORT),$(if $(filter 0,$(PORT)),off,$(shell expr $(PORT) - 1)))
DATA ?= .tracereel
MINUTES ?= 5
TYPESCRIPT := 7.0.2
BIN := .venv/bin
IS_SUPPORTED := -c 'import sys; sys.exit(sys.version_info < (3, 11))'

.DEFAULT_GOAL := help
.PHONY: help run check test test-pythons fast fmt docs dashboards dashboards-preview fixtures secrets lock bench chaos cluster replay-corpus clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

run: .venv/.collector ## start a collector with a demo pipeline emitting into it
	@$(BIN)/tracereel serve --demo --port $(PORT) --grpc-port $(GRPC_PORT) --data-dir $(DATA)

check: .venv/.dev ## format, lint, types, import layers, house rules, generated docs, JavaScript tests and types
	$(BIN)/ruff format --check . && $(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/house_rules.py
	$(BIN)/python docs/generate.py --check
	@if command -v node >/dev/null; then node --test --test-reporter dot tests/web/js/*.test.mjs; \
	else echo "The modules of the page are not tested: Node is not installed"; fi
	@if command -v npm >/dev/null; then $(MAKE) -s .venv/typescript && .venv/typescript/node_modules/.bin/tsc -p .ci; \
	else echo "JavaScript types are not checked: npm is not installed"; fi

test: .venv/.dev .venv/.tools ## the whole test suite
	$(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder

test-pythons: .venv/.dev ## the tests of the SDK on every other supported Python of this machine
	$(BIN)/python -m tests.pythons

fast: .venv/.dev ## the tests that start no collector
	$(BIN)/python -m pytest -m "not e2e and not fault"

fmt: .venv/.dev ## format and mend what can be mended
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

docs: .venv/.dev ## write the generated parts of docs/ anew
	$(BIN)/python docs/generate.py

fixtures: .venv/.dev ## record again what real clients send, each in an environment below .venvs (ONLY="langfuse mlflow")
	$(BIN)/python -m tests.clients.record $(ONLY)
	$(BIN)/python -m tests.clients.fields

secrets: ## write .env with random passwords for docker-compose.yml; keeps those that are there
	@umask 077 && touch .env && for name in TRACEREEL_KEY TRACEREEL_READ_KEY CLICKHOUSE_PASSWORD GRAFANA_PASSWORD; do \
	grep -q "^$$name=" .env || echo "$$name=$$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')" >> .env; done
	@echo "The passwords are in .env; Grafana's user is admin."

lock: ## pin what the image installs, with hashes, from the package index (PYTHON313=python3.13)
	rm -rf build/lock && $(or $(PYTHON313),python3.13) -m venv build/lock
	build/lock/bin/python collector/lock.py

dashboards: .venv/.dev ## write the Grafana dashboards anew
	$(BIN)/python -m dashboards.build

dashboards-preview: .venv/.dev ## draw what every panel shows, without Grafana (build/dashboards/*.html)
	$(BIN)/python -m tests.dashboards.preview

bench: .venv/.dev ## print throughput and latency tables
	$(BIN)/python bench/ingest.py && $(BIN)/python bench/ingest.py --kind spans && $(BIN)/python bench/rates.py && $(BIN)/python bench/insert.py && $(BIN)/python bench/insert.py --kind spans && $(BIN)/python bench/query.py && $(BIN)/python bench/replay.py && $(BIN)/python bench/fleet.py && $(BIN)/python bench/import_time.py && $(BIN)/python bench/latency.py

chaos: .venv/.dev ## the long forms of the fault tests (MINUTES=5 SEED=… ONLY=storm,power), then count
	$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

cluster: .venv/.dev .venv/.tools ## test suites and oracle rounds on a cluster (LAB=a folder with lab.py, ROUNDS=40 SEED=…)
	@[ -n "$(LAB)" ] || { echo "make cluster LAB=…: a folder with lab.py, see tests/support/lab_cluster.py"; exit 1; }
	$(BIN)/python -m tests.cluster $(LAB) --suites
	$(BIN)/python -m tests.cluster $(LAB) --rounds $(or $(ROUNDS),40) $(if $(SEED),--seed $(SEED))

replay-corpus: .venv/.dev ## record and re-execute a corpus of agents with many timings (SEEDS=50), then a table
	SAFETY_FULL=1 $(BIN)/python -m pytest tests/sdk/tape/test_process_guard.py
	BISECT_FULL=1 $(BIN)/python -m pytest tests/sdk/fleet/test_bisect_corpus.py
	MUTATION_PASSES=20 $(BIN)/python -m pytest tests/sdk/tape/test_mutated_programs.py
	MUTATION_PASSES=2 $(BIN)/python -m pytest tests/sdk/tape/test_mutated_corpus.py
	$(BIN)/python -m tests.replay_corpus --seeds $(or $(SEEDS),50)

clean: ## remove the environment and the demo's data
	rm -rf .venv .venvs .tracereel build dist

.venv/bin/python:
	@$(PYTHON) $(IS_SUPPORTED) || { echo "tracereel needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Name another: make PYTHON=python3.12 …"; exit 1; }
	@echo "Making .venv with $$($(PYTHON) --version) …"
	@$(PYTHON) -m venv .venv || { echo "On Debian: apt-get install python3-venv"; rm -rf .venv; exit 1; }

.venv/.collector: pyproject.toml | .venv/bin/python
	@$(BIN)/python $(IS_SUPPORTED) || { echo "Removing .venv: it has $$($(BIN)/python --version), tracereel needs 3.11 or newer. Run make again."; rm -rf .venv; exit 1; }
	@echo "Installing tracereel and its collector (the column store is about 600 MB unpacked) …"
	$(BIN)/python -m pip install --upgrade --disable-pip-version-check "pip>=25.1"
	$(BIN)/python -m pip install --disable-pip-version-check -e ".[collector]"
	@touch $@

.venv/.tools: .ci/tools | .venv/bin/python
	@bash .ci/tools
	@touch $@

.venv/typescript: | .venv/bin/python
	npm install --silent --no-fund --no-audit --prefix $@ typescript@$(TYPESCRIPT)

.venv/.dev: .venv/.collector
	$(BIN)/python -m pip install --disable-pip-version-check --group dev
	@touch $@
