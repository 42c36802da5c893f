# Needs nothing but Python >= 3.11 with pip and venv: what a target needs is installed into .venv, once per pyproject.toml.
PYTHON ?= python3
BIN := .venv/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check install --quiet
OLD = import sys; sys.exit("Python >= 3.11 is needed: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)
VENV = test -x $(BIN)/pip || { $(PYTHON) -c '$(OLD)' && $(PYTHON) -m venv .venv; }

# Pyright would ask the network whether there is a newer one.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: demo test unit check rules soak bench bench-quick

demo: .venv/.demo            ## a server and a client talking, in the terminal
	$(BIN)/backchannel demo

test: check rules            ## everything that CI runs
	$(BIN)/pytest

unit: .venv/.dev            ## seconds: the tests that need no foreign peers
	$(BIN)/pytest tests --ignore=tests/peers --ignore=tests/interop --ignore=tests/conformance/test_conformance.py

check: .venv/.dev            ## style, types, layers, documentation samples
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/pytest -q tests/gates/test_layers.py tests/gates/test_docs.py

rules: .venv/.dev            ## rule and case -> tests; fails where one that is due has none
	$(BIN)/python scripts/rules.py

soak: .venv/.dev            ## a minute: many clients that misbehave at random; fails where they leave something behind
	$(BIN)/python scripts/soak.py --seconds 60 --clients 200

bench: .venv/.dev            ## half an hour: what it costs, beside its peers and floors; writes docs/performance.md
	$(BIN)/python -m bench

bench-quick: .venv/.dev            ## three minutes: the same from short runs; writes nothing
	$(BIN)/python -m bench --quick

.venv/.demo: pyproject.toml
	$(VENV)
	$(PIP) -e '.[http,cli]'
	touch $@

.venv/.dev: pyproject.toml
	$(VENV)
	$(PIP) -e '.[dev]'
	touch .venv/.demo $@
