# What a person types. Every target brings what it needs: `make test` on a fresh machine is enough.

VENV := .venv
STAMP := $(VENV)/.setup-done

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-full bench bench-check check lock clean

help: ## List what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make the environment in .venv (instant when nothing changed)

$(STAMP): pyproject.toml requirements.lock tools/setup
	@tools/setup
	@touch $@

demo: setup ## The main job on this machine: PySpark, SQLite ledger, mirror, four readers (needs Java 17 or newer)
	@$(VENV)/bin/deltasql demo

test: setup ## Run the tests, all but the slow ones (Spark needs Java 17 or newer)
	@tools/test

test-full: setup ## Run every test, the slow ones too
	@tools/test --full

bench: setup ## Measure beside peers; results are kept in bench/results (an idle machine, please)
	@$(VENV)/bin/python -m bench.commits
	@$(VENV)/bin/python -m bench.planning
	@$(VENV)/bin/python -m bench.spark_write

bench-check: setup ## Hold the kept results against the bars
	@$(VENV)/bin/python -m bench.check

check: setup ## Format, lint, types, layers, file sizes
	@tools/check

lock: ## Write requirements.lock again after a change of dependencies (UPGRADE=1 takes newer releases)
	@tools/lock $(if $(UPGRADE),--upgrade)

clean: ## Remove caches and build output; the environment stays
	@rm -rf build dist spark-warehouse metastore_db derby.log
	@rm -rf .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
