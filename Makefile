# Two commands set everything up: make demo and make test.
export OMP_NUM_THREADS ?= 1
PYTHON ?= python3
BIN := .venv/bin
BENCHMARKS := start step tables formulas round scaling predict read serve blend certify secagg he peers plot studio

.PHONY: demo test check slow nightly mutants bench docs release-check clean

demo: .venv/core
	$(BIN)/fedlore demo --out demo-results --force

test: check
	$(BIN)/pytest -n auto --dist loadfile -m "not slow"

check: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

slow: .venv/dev
	$(BIN)/pytest -n auto --dist loadfile -m "slow and not nightly"
	FEDLORE_EXAMPLES=100 $(BIN)/pytest -n auto -m "hypothesis and not slow"

nightly: .venv/dev
	$(BIN)/pytest -n auto -m nightly

docs: .venv/dev
	$(BIN)/python -m handbook

mutants: .venv/dev
	$(BIN)/python -m studies.mutants.runner

bench: .venv/dev
	bash benchmarks/peers/install.sh
	for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py || exit 1; done

release-check: .venv/dev
	PYTHONPATH=src $(BIN)/python -m release

clean:
	rm -rf .venv demo-results

.venv/core: pyproject.toml constraints.txt
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt torch
	$(BIN)/pip install -q -c constraints.txt -e ".[plot,sklearn]"
	touch $@

.venv/dev: .venv/core
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $@
