# make demo   set up .venv and run the main job on a real model and real reviews
# make test   set up .venv and run the default tests
# make test-next   the same tests on transformers 5, without optimum, in .venv-next
# make lint   ruff, types, import directions
# make test-jobs   four whole jobs that .ci/run adds: a kill, the quickstart on a stand-in, images, a language model
# make test-slow   all that the default tests leave out: a quarter of an hour

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check install --quiet --constraint constraints.txt
NEXT := .venv-next
NEXT_PIP := $(NEXT)/bin/pip --disable-pip-version-check install --quiet --constraint constraints-next.txt
# Files in the order of collection, which tests/conftest.py sets; xdist would start those of few, long tests last.
PYTEST_ARGS := --numprocesses 2 --dist loadfile --no-loadscope-reorder

# Where bytecode may not be written, each worker compiles all tests and their assertions anew: ten seconds apiece.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-next test-jobs test-slow lint clean

demo: $(VENV)/.demo
	$(BIN)/assay run configs/quickstart.yaml

test: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/pytest $(PYTEST_ARGS)

test-next: $(NEXT)/.dev
	OMP_NUM_THREADS=1 $(NEXT)/bin/pytest $(PYTEST_ARGS)

test-jobs: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -m job

test-slow: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) $(NEXT) runs build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

# torch goes first and alone: left to resolve it, other packages pull a build of several gigabytes.
$(VENV)/.torch: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	touch $@

$(VENV)/.demo: $(VENV)/.torch pyproject.toml
	$(PIP) --editable '.[demo,images,optimum]'
	touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	$(PIP) --editable '.[dev,optimum]'
	touch $@ $(VENV)/.demo

$(NEXT)/.torch: constraints-next.txt
	$(PYTHON) -m venv $(NEXT)
	$(NEXT_PIP) torch==2.13.0
	touch $@

$(NEXT)/.dev: $(NEXT)/.torch pyproject.toml
	$(NEXT_PIP) --editable '.[dev]'
	touch $@
