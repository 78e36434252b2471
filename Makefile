# Every word that runs something; `make` alone lists them. Python and make are all that a machine needs:
# set-up makes .venv out of requirements.lock and is not repeated until that file or pyproject.toml changes.

PYTHON ?= python3
DURATION ?=
HOURS ?=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test soak check fix rules dashboards docs bench-collector bench-meter lock clean

help: ## List these words
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-22s %s\n", $$1, $$2 }'

setup: $(READY) ## Make the Python environment .venv (PYTHON=python3.12 to choose the interpreter)

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -m machine.environment $(VENV)

# exec: without a shell in between, Ctrl-C and its exit code reach the demo itself.
demo: $(READY) ## Collect, grant, meter and bill a fleet until Ctrl-C (DURATION=60 to end by itself)
	@exec $(BIN)/gputab demo $(if $(DURATION),--duration $(DURATION))

test: $(READY) ## Run the tests, with real servers on loopback
	@$(BIN)/pytest -n auto --maxprocesses=8 --dist=loadgroup

soak: $(READY) ## Run every property test on fifty times as many examples, and faults at their full length
	@$(BIN)/pytest -m "hypothesis or long" --hypothesis-profile=soak --timeout=0 -n auto --maxprocesses=8 --dist=loadgroup

check: $(READY) ## Check format, lint, types and import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy .
	$(BIN)/lint-imports

fix: $(READY) ## Format, and mend what lint can mend
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

rules: $(READY) ## Write the alert rules and routes that are committed
	@mkdir -p build && $(BIN)/gputab alerts rules > build/rules.yaml
	@$(BIN)/gputab alerts card-rules > build/card-rules.yaml && $(BIN)/gputab alerts routes > build/routes.yaml
	@mv build/rules.yaml alerts/rules/vram-watermarks.yaml && mv build/card-rules.yaml alerts/rules/card-health.yaml
	@mv build/routes.yaml alerts/alertmanager.yaml

dashboards: $(READY) ## Write the Grafana dashboards to dashboards/json/
	@$(BIN)/python -m dashboards

docs: $(READY) ## Write docs/metrics.md, the list of every series
	@$(BIN)/python -m gputab.metrics_document

bench-collector: $(READY) ## Measure the collector on a fake driver: 8 cards, 64 processes, 10 min (DURATION=60)
	@exec $(BIN)/python -m benchmarks.collector $(if $(DURATION),--duration $(DURATION))

bench-meter: $(READY) ## Measure the meter: a day of 100 cards from VictoriaMetrics to charges, and its peers (HOURS=2)
	@exec $(BIN)/python -m benchmarks.meter $(if $(HOURS),--hours $(HOURS))

# Made in build/ and moved over the old lock at the end: one that failed half-way, or names a host, never takes its
# place. The copy makes uv keep every version that may stay.
lock: ## Bring requirements.lock to pyproject.toml (the one word that needs uv)
	@command -v uv >/dev/null || { echo "cannot lock: uv is not on PATH; install it, such as by 'pip install uv'" >&2; exit 1; }
	@mkdir -p build && cp requirements.lock build/requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		--group dev pyproject.toml -o build/requirements.lock
	@if grep -nE '://|^--' build/requirements.lock; then \
		echo "cannot lock: the lines above name a host; unset the index in uv's own configuration" >&2; exit 1; fi
	@mv build/requirements.lock requirements.lock

clean: ## Remove .venv, caches and builds; .gputab (ledger, evidence, server programs) stays
	rm -rf $(VENV) build dist
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.gputab/*' -type d -prune -exec rm -rf {} +
