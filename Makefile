# make demo   set up .venv and run the main job on a real model and real reviews
# make test   set up .venv and run lint, types, import directions and the default tests
# make test-slow   the tests that take minutes on real weights

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: demo test test-slow lint clean

demo: $(VENV)/.demo
	$(BIN)/assay run configs/quickstart.yaml

test: $(VENV)/.dev
	$(BIN)/pytest --numprocesses 2 --dist loadfile

test-slow: $(VENV)/.dev
	$(BIN)/pytest -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) runs build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

# torch goes first and alone: left to resolve it, other packages pull a build of several gigabytes.
$(VENV)/.torch: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	$(PIP) --editable '.[demo]'
	touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	$(PIP) --editable '.[dev]'
	touch $@ $(VENV)/.demo
