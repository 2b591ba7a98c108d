# Two commands matter to a newcomer: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false
export ANONYMIZED_TELEMETRY ?= False

.PHONY: help install hooks demo test quick lint format types docs notebooks recipes matrix floors check build clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

install: $(VENV)/.installed  ## Make the virtual environment and install everything

# torch comes first, and only where it is missing: otherwise the dependencies below could pull a larger build.
# TORCH_INDEX is the address of an index with a CPU build; torch's own web page for installing names it.
TORCH_INDEX ?=
$(VENV)/.installed: pyproject.toml reproduction/pyproject.toml
	@echo "Making a virtual environment in $(VENV). The first time takes minutes: torch is large."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip
	@$(BIN)/python -c "import torch" 2>/dev/null || echo "1 of 2: torch$(if $(TORCH_INDEX), from $(TORCH_INDEX),; with CUDA on Linux some 6 GB; TORCH_INDEX=... takes a CPU build of 0.9 GB)"
	@$(BIN)/python -c "import torch" 2>/dev/null || $(subst --quiet,,$(PIP)) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0
	@echo "2 of 2: sage-rag with all extras, and the tools of the tests"
	@$(PIP) -e ".[all]" -e reproduction --group dev
	touch $@

demo: install  ## Ingest sample documents, ask questions, show every step (offline; a key or DEMO="--base-url ..." uses an LLM)
	$(BIN)/sage-rag demo $(DEMO)

test: install  ## Run the tests
	$(BIN)/python -m pytest

# The plugin of langsmith, which LangChain brings, takes seconds to import and is not used.
quick: install  ## Run the quick tests: under a minute, no models
	SAGE_TEST_EXAMPLES=20 $(BIN)/python -m pytest -p no:langsmith_plugin -m "not slow and not exhaustive"

lint: install  ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: install  ## Put style and formatting right, where that can be done by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: install  ## Check types (mypy strict)
	$(BIN)/mypy

hooks: install  ## Check style and types before every commit (pre-commit, offline)
	$(BIN)/pre-commit install

$(VENV)/.docs: $(VENV)/.installed
	@echo "Installing the tools that build the documentation"
	@$(PIP) --group docs
	touch $@

docs: $(VENV)/.docs  ## Build the documentation into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python scripts/check_site.py site

notebooks: install  ## Run every notebook, each in a fresh kernel without a network; WRITE=--write keeps the outputs
	$(BIN)/python scripts/run_notebooks.py $(WRITE)

recipes: install  ## Run the recipes of docs/recipes.md with the packages they need, PostgreSQL and Qdrant included
	$(PIP) --group recipes
	$(BIN)/python -m pytest -p no:langsmith_plugin tests/test_documentation.py -k "recipes and blocks_run"

build: install  ## Build the distributions and prove the wheel in an environment of its own
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/python scripts/check_wheel.py dist
	$(BIN)/python scripts/check_packages.py
	$(BIN)/python scripts/check_readme.py dist

floors: install  ## Run the tests on the lowest declared version of every dependency, without the extra models
	$(BIN)/python scripts/lowest_versions.py

matrix: install  ## Run the adapters' tests on the lowest and newest framework versions
	bash scripts/matrix_llamaindex.sh
	$(BIN)/python scripts/langchain_matrix.py

check: lint types test notebooks build docs  ## Everything that CI runs

clean:  ## Remove what the targets above made
	rm -rf $(VENV) dist build site .demo .matrix .mypy_cache .ruff_cache .pytest_cache .hypothesis
