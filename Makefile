.DEFAULT_GOAL := help
PYTHON ?= python3
DATASET ?= worker-runbooks
UV_VERSION := 0.13.9
BIN := .venv/bin
# Tests run on both cores; a file's tests stay on one worker, so that what they share is made once.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

.PHONY: help setup report lab test test-fast check format lock bench clean

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

test-fast: setup ## tests without notebooks, servers and browsers
	$(PYTEST) -m "not notebook and not server and not browser and not slow"

check: setup ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup ## put code into the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: ## compile requirements.lock anew
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
	  --all-extras --group dev --output-file requirements.lock pyproject.toml

clean: ## remove what is generated, but no data and no finished run
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis outputs/collections outputs/vectors outputs/failed
	find . -name __pycache__ -prune -exec rm -rf {} +
