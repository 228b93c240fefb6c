# Everything works on a fresh machine with python3 (3.11 or newer, with venv) and make.
#   make PYTHON=python3.12    another interpreter        make VENV=/tmp/venv    another environment
#   make EXTRAS=envs,parquet,dev    without torch: no models in this process, no policy embedding; a gigabyte less

PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints/cpu-py311.txt
EXTRAS ?= envs,parquet,train,evict-embed,dev
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup quickstart test slow slurm vllm check format

help: ## Show the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: $(STAMP) ## Make .venv and install AutoMem into it, editable

quickstart: setup ## Both loops on Courier with the pocket model: no key, no GPU, no download of a model
	$(BIN)/automem quickstart

test: setup ## The default test suite: no network, no GPU, a few minutes
	$(BIN)/pytest -n auto --maxprocesses 4

slow: setup ## The tests marked slow: wheel, README, quickstart
	$(BIN)/pytest -m slow

slurm: setup ## The tests on a real Slurm of this machine, which they bring up and stop; as root on Debian
	$(BIN)/pytest -m slurm

vllm: ## The tests on vLLM itself, in an environment of their own: 4 GB, .venv-vllm
	$(MAKE) setup VENV=.venv-vllm EXTRAS=serve-cpu,dev
	.venv-vllm/bin/pytest -m vllm

check: setup ## Lint, format, types, direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: setup ## Sort imports and format the code
	$(BIN)/ruff check --select I --fix
	$(BIN)/ruff format

# A venv that was made without ensurepip has a python but no pip: made again, it gets one.
$(STAMP): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit("error: AutoMem needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) -e '.[$(EXTRAS)]'
	@touch $@
