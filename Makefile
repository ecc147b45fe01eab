# Every target creates .venv and installs what it needs, at the versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
# Several BLAS threads on small matrices are slower than one, and the test workers already fill the cores.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1

.PHONY: reproduce test test-all oldest docs bench solve audit format clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable ".[cli,test,tools]"
	touch $@

test: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --warnings
	$(BIN)/pytest -m "not slow" -n 2 --dist worksteal

test-all: .venv/docs
	COMPILE=ordinary $(BIN)/pytest -n 2 --dist worksteal

# The oldest versions that pyproject.toml allows, in an environment of their own.
oldest: .venv/installed
	$(BIN)/pytest -n 0 tests/test_packaging.py -k oldest

# The site, in out/site: every warning is an error, and the tutorials are run.
docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.venv/docs: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	touch $@

reproduce: .venv/installed
	$(BIN)/riesz reproduce

bench: .venv/installed
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/reproduce.py
	$(BIN)/python benchmarks/operators.py
	$(BIN)/python benchmarks/christoffel.py

solve: .venv/installed
	$(BIN)/python benchmarks/solve.py

# Strict, because a service that cannot be reached, or does not know a package, is otherwise counted as no fault found.
audit: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[audit]"
	$(BIN)/pip-audit --strict -r constraints.txt --no-deps --disable-pip || { echo "The audit failed: a pinned package \
	has a known fault, or the vulnerability service could not be asked about all of them; see above." >&2; exit 1; }

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv out .pytest_cache .ruff_cache .hypothesis
