# Two commands matter to a newcomer: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false
export ANONYMIZED_TELEMETRY ?= False

.PHONY: help install demo test lint types matrix check build clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

install: $(VENV)/.installed  ## Make the virtual environment and install everything

# torch comes first, and only where it is missing: otherwise the dependencies below could pull a larger build.
$(VENV)/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[all]" --group dev
	touch $@

demo: install  ## Ingest sample documents, ask questions, show every step (offline; a key or DEMO="--base-url ..." uses an LLM)
	$(BIN)/sage-rag demo $(DEMO)

test: install  ## Run the tests
	$(BIN)/python -m pytest

lint: install  ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install  ## Check types (mypy strict)
	$(BIN)/mypy

build: install  ## Build the wheel and prove it in an environment of its own
	$(BIN)/python -m build --wheel --outdir dist
	$(BIN)/python scripts/check_wheel.py dist

matrix: install  ## Run the adapters' tests on the lowest and newest framework versions
	bash scripts/matrix_llamaindex.sh
	$(BIN)/python scripts/langchain_matrix.py

check: lint types test build  ## Everything that CI runs

clean:  ## Remove what the targets above made
	rm -rf $(VENV) dist build .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
