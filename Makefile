# Everything sets itself up: `make demo` and `make test` need Python 3.10+ and, for the CPU rig, some 3 GB of disk.
# As root on Debian, missing system packages are installed; elsewhere the tests that need them say so and are skipped.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# uv looks where pip is told to look for wheels, e.g. for a CPU build of torch
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
export SPECCTL_TEST_BASE_TREE ?= $(CURDIR)/.rig/base

.PHONY: help
help: ## What can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/made: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[test,tune]'
	touch $@

.PHONY: packages
packages: ## Debian packages that the host lab and the dashboards' tests need (root only)
	@bash tests/packages.sh

.PHONY: rig
rig: $(VENV)/made ## The real SGLang on the CPU: environment, base, built distribution
	$(BIN)/python -m tests.rig prepare

.PHONY: demo
demo: rig ## The main job, end to end, on this machine
	$(BIN)/python -m tests.demo

.PHONY: lint
lint: $(VENV)/made ## Linter, formatter, type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: test
test: lint packages rig ## All tests but the long ones
	SPECCTL_RIG_REQUIRED=1 $(BIN)/pytest -q -n $(WORKERS) --dist loadgroup -m 'not slow and not gpu'

.PHONY: slow
slow: packages rig ## The long tests that `make test` leaves out
	SPECCTL_RIG_REQUIRED=1 $(BIN)/pytest -q -n $(WORKERS) --dist loadgroup -m 'slow and not gpu'

.PHONY: matrix
matrix: rig packages ## All of the CPU rig and of the tests with real SGLang: every configuration, tuning, systemd, the story
	SPECCTL_RIG_REQUIRED=1 $(BIN)/pytest -q -n $(WORKERS) --dist loadgroup tests/rig tests/demo tests/tune \
		tests/evidence/test_real_sglang.py tests/lab/test_real_sglang.py

.PHONY: scale
scale: $(VENV)/made packages ## Six lab hosts at once, two operators, memory over 200 hosts, logs of gigabytes
	$(BIN)/pytest -q -n 1 -m slow tests/release/test_fleet_scale.py tests/service/test_huge_logs.py \
		tests/lab/test_six_hosts.py tests/lab/test_two_operators.py

.PHONY: security
security: $(VENV)/made packages ## The long tests of SECURITY.md's promises, on real hosts (root only)
	$(BIN)/pytest -q -n 1 tests/lab/test_least_privilege.py tests/lab/test_no_secret.py tests/lab/test_ssh_trust.py

.PHONY: audit
audit: $(VENV)/made ## Ask the advisory database about our dependencies and the locks (needs the internet)
	-@test -x $(VENV)-audit/bin/pip-audit || \
	  { $(PYTHON) -m venv $(VENV)-audit && $(VENV)-audit/bin/pip install -q 'pip-audit>=2.9,<3'; }
	$(BIN)/python -m tests.audit $(AUDIT) $(VENV)-audit/bin/pip-audit

MINUTES ?= 600

.PHONY: fuzz
fuzz: $(VENV)/made ## Property tests with new examples in every round (MINUTES=600)
	end=$$(( $$(date +%s) + 60 * $(MINUTES) )); while [ $$(date +%s) -lt $$end ]; do \
	  $(BIN)/pytest -q -n $(WORKERS) -m 'hypothesis and not rig and not lab and not gpu' \
	    --hypothesis-profile=fuzz || exit 1; done

.PHONY: anywhere
anywhere: $(VENV)/made packages ## Every fault at every action of deploy and rollback, on lab hosts (MINUTES=600)
	PYTHONPATH=$(CURDIR):$(CURDIR)/tests $(BIN)/python -m lab.anywhere matrix --minutes $(MINUTES)

.PHONY: soak
soak: $(VENV)/made packages ## Faults drawn by chance over many deploys and rollbacks, on lab hosts (MINUTES=600)
	PYTHONPATH=$(CURDIR):$(CURDIR)/tests $(BIN)/python -m lab.anywhere soak --minutes $(MINUTES)

.PHONY: clean
clean: ## Remove what was made here
	rm -rf $(VENV) $(VENV)-audit .rig .lab .pytest_cache .mypy_cache .ruff_cache .hypothesis
