# The two commands of a fresh clone: `make demo` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
# The slow tests start processes of their own, some with models that take gigabytes: at most two at a time, from
# different files.
FAST := -m 'not slow' --numprocesses auto --maxprocesses 4 --dist worksteal
SLOW := -m slow --numprocesses auto --maxprocesses 2 --dist loadfile

# Some containers set it, and then every process that the tests start compiles the package again.
test test-fast: export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-fast check format clean

# The environment, made again when what it is made from has changed. torch comes first, by its exact version.
.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; (3, 10) <= sys.version_info < (3, 15) or sys.exit("error: the pinned versions are for Python 3.10 to 3.14: make PYTHON=FILE")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch .venv/installed

demo: .venv/installed
	$(BIN)/python scripts/train.py --config configs/demo.yaml --overwrite
	$(BIN)/python scripts/evaluate.py --checkpoint checkpoints/demo/model.safetensors --split test
	$(BIN)/python scripts/translate.py --checkpoint checkpoints/demo/model.safetensors \
		"Im Winter zieht ein kleines Mädchen einen roten Mantel an, weil es auf den Schulbus wartet."

# By `python -m`: the scripts in .venv/bin contain its path, and fail when this folder has been moved or renamed.
check: .venv/installed
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/python -m mypy benchmarks/*.py data/generate.py docs/notebook.py

test: check
	$(BIN)/python -m pytest $(FAST)
	$(BIN)/python -m pytest $(SLOW)

test-fast: .venv/installed
	$(BIN)/python -m pytest $(FAST) --ignore tests/integration --ignore tests/benchmarks tests

format: .venv/installed
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

clean:
	rm -rf .venv checkpoints/.cache build dist *.egg-info
