.DEFAULT_GOAL := help
PYTHON ?= python3
PYTHONS ?= python3.12 python3.13
DATASET ?= worker-runbooks
UV_VERSION := 0.13.9
BIN := .venv/bin
# Tests run on both cores; a file's tests stay on one worker, so that what they share is made once. The order stays as
# it is, so that the longest files, those in folders, come first and no worker ends much later than the other.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
# Left out: what starts kernels, browsers and servers of its own, or takes long.
MOST := not notebook and not server and not browser and not slow
# Files that hold nothing else, and take seconds to import.
UNREAD := $(addprefix --ignore=tests/,browser faults test_ollama_embedder.py test_server_store.py)

# Compiled modules are kept: without them every kernel and every process of the tests compiles 1,700 modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup report lab test test-fast test-lowest test-pythons check format audit licences lock bench bench-scale clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: .venv/.ready ## make .venv from requirements.lock (done by the other targets when needed)

.venv/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes --allow-empty-requirements requirements.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

report: setup ## index, evaluate and report DATASET (default worker-runbooks)
	$(BIN)/evalkit report --dataset $(DATASET)

lab: setup ## open JupyterLab on the notebooks
	$(BIN)/jupyter lab notebooks

test: setup ## all tests
	$(PYTEST)

test-fast: setup ## tests without notebooks, servers, browsers and thorough ones
	$(PYTEST) --hypothesis-profile fast -m "$(MOST) and not thorough" $(UNREAD)

test-lowest: setup ## most tests with the lowest versions that pyproject.toml allows
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-lowest
	$(BIN)/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct --group test --editable .
	.venv-lowest/bin/python -m pytest -n 2 --dist loadfile -m "$(MOST)" --ignore tests/browser \
	  -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning

test-pythons: setup ## most tests under the other Pythons that pyproject.toml declares (PYTHONS=...)
	@for python in $(PYTHONS); do \
	  $$python -c "" 2>/dev/null || { echo "$$python is not on this machine: not tested"; continue; }; \
	  echo "== $$python"; \
	  $(BIN)/uv venv --quiet --clear --python "$$($$python -c 'import sys; print(sys.executable)')" .venv-$$python && \
	  $(BIN)/uv pip sync --quiet --python .venv-$$python/bin/python --require-hashes requirements.lock && \
	  $(BIN)/uv pip install --quiet --python .venv-$$python/bin/python --no-deps --no-build-isolation --editable . && \
	  .venv-$$python/bin/python -m pytest -n 2 --dist loadfile -m "$(MOST)" || exit 1; \
	done

check: setup ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup ## put code into the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

audit: setup ## look the locked packages up among known vulnerabilities (needs the network)
	$(BIN)/pip-audit --requirement requirements.lock --disable-pip --no-deps

licences: setup ## list the licences of all packages in docs/licences.md
	@{ printf '# Licences of the packages that the lock file installs\n\nMade by `make licences`.\n\n'; \
	  $(BIN)/pip-licenses --from=mixed --format=markdown --no-version --ignore-packages evalkit; } > docs/licences.md

lock: ## compile requirements.lock and that of the benchmarks anew
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
	  --all-extras --group dev --output-file requirements.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
	  --group bench --output-file benchmarks/requirements.lock

.venv-bench/.ready: .venv/.ready benchmarks/requirements.lock
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-bench
	$(BIN)/uv pip sync --quiet --python .venv-bench/bin/python --require-hashes benchmarks/requirements.lock
	@touch $@

bench: .venv-bench/.ready ## measure the metric core against its peers, into benchmarks/RESULTS.md (half an hour)
	.venv-bench/bin/python -m pytest --quiet --noconftest -p no:cacheprovider tests/test_peers.py
	.venv-bench/bin/python -m benchmarks

bench-scale: setup ## measure indexing and evaluating 100,000 chunks, into benchmarks/SCALE.md (an hour)
	$(BIN)/python -m benchmarks.scale

clean: ## remove what is generated, but no data and no finished run
	rm -rf .venv .venv-bench .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf outputs/collections outputs/vectors outputs/failed benchmarks/workloads
	find . -name __pycache__ -prune -exec rm -rf {} +
