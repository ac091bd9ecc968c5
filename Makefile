# Two commands for a newcomer: `make run` and `make test`. Both need Python 3.11+ and nothing else.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: install install-dev run test lint types contracts reference conformance drills simulate bench dist clean

install: .venv/.runtime
install-dev: .venv/.dev

.venv/.build: requirements-build.lock
	$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("ottla needs Python 3.11 or newer, this is %d.%d: set PYTHON=/path/to/python3.11" % v[:2])'
	$(PYTHON) -m venv .venv
	$(PIP) install --quiet --require-hashes -r requirements-build.lock
	touch $@

# pyspark is a source package of 450 MB: the first install takes a minute or two, later ones no time.
.venv/.runtime: .venv/.build requirements.lock pyproject.toml
	@echo "ottla: installing the locked packages into .venv (pyspark alone is 450 MB, once)"
	$(PIP) install --progress-bar on --no-build-isolation --require-hashes -r requirements.lock
	$(PIP) install --quiet --no-build-isolation --no-deps --editable .
	$(BIN)/python -m compileall -q src
	touch $@

.venv/.dev: .venv/.runtime requirements-dev.lock
	$(PIP) install --quiet --no-build-isolation --require-hashes -r requirements-dev.lock
	touch $@

run: install
	$(BIN)/ottla demo

# One process more than there are cores, for tests wait a good deal; with PROCESSES=0 only pytest's own.
PROCESSES ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

# Compiled first: where PYTHONDONTWRITEBYTECODE is set, each of the hundreds of processes would compile for itself.
test: install-dev lint types contracts
	$(BIN)/python -m compileall -q src tests
	$(BIN)/python -m pytest -n $(PROCESSES) --maxprocesses 8

lint: install-dev
	$(BIN)/ruff check src tests bench tools conformance examples
	$(BIN)/ruff format --check src tests bench tools conformance examples

types: install-dev
	$(BIN)/mypy

contracts: install-dev
	$(BIN)/lint-imports

# Source distribution and wheel, into dist/
dist: .venv/.build
	$(BIN)/python tools/build_distributions.py

# docs/reference from the tables of settings; docs/metrics.md and packaging/monitoring from those of metrics
reference: install-dev
	$(BIN)/python tools/generate_reference.py
	$(BIN)/python tools/generate_monitoring.py

.PHONY: commands
# docs/commands.md and the manual pages in docs/man, from the commands; the shown lines run on a real broker.
# docs/doctor.md, from its checks
commands: install-dev
	$(BIN)/python tools/generate_commands.py
	$(BIN)/python tools/generate_doctor.py
	$(BIN)/python tools/generate_sql.py

# ottla's tests on both brokers, then other projects' suites (only these: .venv/bin/python -m conformance).
conformance: install-dev
	$(BIN)/python -m pytest tests/conformance --oracle
	$(BIN)/python -m pytest tests/services --oracle-only
	$(BIN)/python -m conformance

# The seeds of simulated clusters; for other seeds: make simulate SEEDS=20000..60000
SEEDS ?= 0..20000

drills: install-dev
	OTTLA_EXPLORE=deep $(BIN)/python -m pytest tests/crash --long -s
	$(BIN)/python -m pytest tests/pipeline tests/services tests/unit tests/simulation tests/testing tests/packages --long -m long

simulate: install-dev
	OTTLA_EXPLORE=deep $(BIN)/python -m pytest tests/property --timeout=7200
	$(BIN)/python tests/simulation/run.py --seeds $(SEEDS) --jobs $$(getconf _NPROCESSORS_ONLN)

bench: install-dev
	$(BIN)/python -m bench

clean:
	rm -rf .venv build dist src/*.egg-info
