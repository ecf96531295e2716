# `make demo` and `make test` work from a clean clone: they create .venv and see to Java.

PYTHON ?= python3
UV ?= uv
WORKERS ?= 2

# A file of tests runs in one worker. The unit tests come last, in small pieces, so that both end at about one time.
PYTEST = .venv/bin/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# In this order, each test by itself: random queries, killed processes, cases on Spark … and mutants of the rules.
SLOW = $(wildcard tests/laws/test_[!m]*.py) tests/crash tests/cases tests/spark tests/sources tests/postgres \
	tests/unit tests/e2e tests/laws/test_mutants.py

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help .venv java demo test test-all test-slow test-connectors test-remote lint format check docs lock bench bench-render soak attack clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv java  ## run the demo
	.venv/bin/python -m spark_trickle.cli.main demo $(DEMO)

test: .venv java  ## run the tests of every change with WORKERS (2)
	$(PYTEST) -m "not slow" --interpreted

test-all: .venv java  ## run all tests with WORKERS (2)
	$(PYTEST)

test-slow: .venv java  ## run what `make test` leaves out, the most telling first, until SECONDS are over
	.venv/bin/python -m pytest -n $(WORKERS) --dist load -m slow $(SLOW) $(if $(SECONDS),--stop-after $(SECONDS))

test-connectors: .venv java .connectors/.installed .connectors/kafka/.installed .connectors/iceberg/.installed  ## run the tests against the official writers, brokers and a server of S3 (needs Maven Central)
	.venv/bin/python -m pytest tests/connectors --interpreted --ignore tests/connectors/test_s3.py
	.venv/bin/python -m pytest tests/connectors/test_s3.py --interpreted

test-remote: .venv java  ## run the tests of statements over Spark Connect
	SPARK_REMOTE="local[2]" .venv/bin/python -m pytest tests/spark -m "not slow"

lint: .venv  ## check style, types and layers
	.venv/bin/python -m ruff check .
	.venv/bin/python -m ruff format --check .
	.venv/bin/python -m mypy
	.venv/bin/lint-imports

format: .venv  ## format the code
	.venv/bin/python -m ruff check --fix .
	.venv/bin/python -m ruff format .

check: lint test  ## lint, then test

docs: .venv  ## write the reference pages anew from the code
	.venv/bin/python scripts/generate_reference.py

bench: .venv java  ## run the benchmarks and write docs/benchmarks.md
	.venv/bin/python -m benchmarks

bench-render: .venv  ## write docs/benchmarks.md anew from the results
	.venv/bin/python -m benchmarks.render

soak: .venv java  ## run the shop under load for MINUTES (30) and check that it stayed exact
	.venv/bin/python scripts/soak.py --minutes $(or $(MINUTES),30)

attack: .venv java  ## attack warehouses for MINUTES (2): copies, restores, losses, kills, wrong clocks, sources
	.venv/bin/python -m tests.attack --minutes $(or $(MINUTES),2) --seed $(or $(SEED),0)

lock:  ## write requirements.lock anew from pyproject.toml (needs uv)
	$(UV) pip compile pyproject.toml --extra dev --extra postgres --extra bench \
		--universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --custom-compile-command "make lock" \
		--quiet -o requirements.lock

clean:  ## remove what builds and runs leave behind, but not .venv
	rm -rf build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf artifacts derby.log metastore_db spark-warehouse
	find . -name .venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

.venv: .venv/.installed

.venv/.installed: requirements.lock pyproject.toml
	scripts/ensure-venv.sh $(PYTHON) .venv
	.venv/bin/python -m pip install --disable-pip-version-check --require-hashes -r requirements.lock
	.venv/bin/python -m pip install --disable-pip-version-check --no-deps --editable .
	@touch $@

# A Spark of its own: the official jars are not made for the newest one.
.connectors/.installed: tests/connectors/requirements.txt
	scripts/ensure-venv.sh $(PYTHON) .connectors
	.connectors/bin/python -m pip install --disable-pip-version-check -r tests/connectors/requirements.txt
	@touch $@

# The jars of what the tests start as processes: a broker of Apache Kafka, and Iceberg's own REST catalog.
.connectors/%/.installed: tests/connectors/%.xml
	mvn --batch-mode --quiet --file $< dependency:copy-dependencies \
		-DincludeScope=runtime -DoutputDirectory=$(CURDIR)/.connectors/$*
	@touch $@

java:
	@scripts/ensure-java.sh
