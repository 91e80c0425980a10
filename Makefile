# Everything runs in .venv, which is made on first use and brought up to date when pyproject.toml changes.
# make PYTHON=/path/to/python chooses the interpreter it is made from.

export PYTHON
INSTALLED := .venv/.installed

SERVERS := build/.servers

.PHONY: help test check demo mutants fuzz stress long bench promises format clean

help:
	@echo "make demo      jobs on a durable queue while workers are killed and frozen; ends with 'lost 0'"
	@echo "make check     format, lint, types, imports and the fast tests"
	@echo "make test      all tests, one in 24 of the planted faults, and whether a promise lacks a test"
	@echo "make mutants   all planted faults, and what is proven; ONLY=name for some of them"
	@echo "make fuzz      the random tests with new random examples, and more of them"
	@echo "make stress    ARGS='tests/worker/test_outages.py': these tests, 20 times, while every core is busy"
	@echo "make long      the shows at their full size, which take minutes"
	@echo "make bench     BACKEND=redis ARGS='drain latency': LeaseMQ beside its peers, in interleaved rounds"
	@echo "make promises  the table promise x backend of the last make test"
	@echo "make format    let ruff format and sort the source"
	@echo "make clean     remove what was built, .venv too"

$(INSTALLED): pyproject.toml scripts/venv
	scripts/venv

$(SERVERS): scripts/servers
	scripts/servers
	mkdir -p build
	touch $(SERVERS)

test: $(INSTALLED) $(SERVERS)
	scripts/test

check: $(INSTALLED) $(SERVERS)
	scripts/check

demo: $(INSTALLED)
	.venv/bin/leasemq demo $(ARGS)

mutants: $(INSTALLED) $(SERVERS)
	.venv/bin/python tests/mutants/run.py $(if $(ONLY),--only '$(ONLY)')
	$(if $(ONLY),,.venv/bin/python scripts/promises.py --totals --at-least memory,sqlite=59)

fuzz: $(INSTALLED) $(SERVERS)
	LEASEMQ_FRESH=1 LEASEMQ_TWINS=$${LEASEMQ_TWINS:-5000} .venv/bin/python -m pytest -q -n 2 \
		tests/protocol tests/conformance/test_twins.py

stress: $(INSTALLED) $(SERVERS)
	scripts/stress $(ARGS)

long: $(INSTALLED) $(SERVERS)
	LEASEMQ_LONG=1 .venv/bin/python -m pytest -q -s -m long $(ARGS)

bench: $(INSTALLED)
	.venv/bin/python -m bench $(BACKEND) $(ARGS)

promises: $(INSTALLED)
	.venv/bin/python scripts/promises.py $(ARGS)

format: $(INSTALLED)
	.venv/bin/python -m ruff check --select I --fix .
	.venv/bin/python -m ruff format .

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
