# `make` alone says what there is. Everything installs into .venv of this folder; nothing else on the machine changes,
# except that `make test` installs Chromium with apt when there is none and it may.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv/bin
T ?=
# One more than two processors: a third of their time tests wait for processes that they start and stop.
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help run test prove check bench lock clean

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: .venv/installed ## Start everything on this machine and print where to sign in; Ctrl-C stops it
	@exec $(VENV)/python -m config.supervisor run

test: .venv/installed ## Run every test (T=tests/config for some, WORKERS=5 for more processes)
	@.ci/need-chromium
	@exec $(VENV)/python -m pytest -n $(WORKERS) --dist loadgroup $(T)

prove: WORKERS = 2
prove: .venv/installed ## The proofs that take long: more kills, demos that are stuck or interrupted
	@.ci/need-chromium
	@COUNTERFOIL_TEST_KILLS=20 $(VENV)/python -m pytest -m long -n $(WORKERS) $(T)

check: export COUNTERFOIL_NO_DATABASE = 1
check: .venv/installed ## Format, lint, types, imports, migrations, templates
	$(VENV)/ruff format --check .
	$(VENV)/ruff check .
	$(VENV)/mypy
	$(VENV)/lint-imports
	$(VENV)/python -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	$(VENV)/python manage.py check
	$(VENV)/python -m config.templates
	@.ci/no-foreign-addresses

bench: .venv/installed .bench-venv/installed ## Measure, beside DBOS, Procrastinate and LangGraph in the same run
	@exec $(VENV)/python -m bench

lock: ## Lock the newest fitting versions with their hashes
	@$(call make-venv,.lock-venv)
	.lock-venv/bin/python -m pip install --quiet pip-tools
	cd requirements && for set in app dev bench; do \
		../.lock-venv/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras --no-header \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options \
		--output-file $$set.txt $$set.in || exit 1; done

clean: ## Remove the environments and caches; the database in var stays
	rm -rf .venv .bench-venv .lock-venv staticfiles .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment is good when its stamp is newer than its lock, so an interrupted install is done again.
define make-venv
	if [ -z "$(PYTHON)" ]; then echo "Python 3.11 or newer is needed, and none was found." >&2; exit 1; fi; \
	$(PYTHON) -m venv $(1) || { rm -rf $(1); \
	echo "Python cannot make a virtual environment here: on Debian install python3-venv." >&2; exit 1; }
endef

# People's own packages of workflows are installed into .venv too, and find our modules from wherever they stand.
define KNOW_US
import os, pathlib, sysconfig
pathlib.Path(sysconfig.get_path("purelib"), "counterfoil.pth").write_text(os.getcwd() + "\n")
endef
export KNOW_US

.venv/installed: requirements/dev.txt
	@echo "Installing what requirements/dev.txt locks into .venv …"
	@$(call make-venv,.venv)
	@$(VENV)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(VENV)/python -c "$$KNOW_US"
	@touch $@

.bench-venv/installed: requirements/bench.txt
	@echo "Installing the peers of the benchmark into .bench-venv …"
	@$(call make-venv,.bench-venv)
	@.bench-venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bench.txt
	@touch $@
