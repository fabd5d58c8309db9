# `make run` and `make test` do their whole set-up by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help run test test-long test-cache lint format bench bench-peers bench-decode bench-sharing bench-scheduler soak clean \
	peer-openvino peer-llamacpp peer-vllm peer-transformers peer-guidance

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(VENV)/installed: pyproject.toml constraints.txt
	@echo "setting up $(VENV) (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --editable .
	@$(BIN)/lmc pull
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	@$(PIP) --editable '.[test]'
	@touch $@

$(VENV)/installed-lint: $(VENV)/installed-test
	@$(PIP) --editable '.[lint]'
	@touch $@

run: $(VENV)/installed ## compile an example program and run it on a real model
	@$(BIN)/lmc run examples/judge.py --arg essay=@examples/essay.txt

test: $(VENV)/installed-test ## run the tests
	@$(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder -m "not long and not gpu"

test-long: $(VENV)/installed-test ## run all tests, the long ones too
	@$(BIN)/python -m pytest -q -m "not gpu"

test-cache: $(VENV)/installed-test ## a million random operations on the prefix cache, against a naive model
	@$(BIN)/python -m pytest -q tests/runtime/test_cache_model.py

lint: $(VENV)/installed-lint ## ruff, pyright on the public face and the examples, layering
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/python tools/link_packages.py
	@$(BIN)/pyright --warnings
	@$(BIN)/python -m pytest -q tests/test_layering.py tests/test_packaging.py tests/typing

format: $(VENV)/installed-lint ## format the sources
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(VENV)/installed ## measure the workloads of docs/benchmarks.md, lmc alone (under 5 minutes)
	@$(BIN)/python benchmarks/bench_workloads.py --modes exact

bench-peers: $(VENV)/installed ## the same in all modes, beside the peers that are installed (half an hour)
	@$(BIN)/python benchmarks/bench_workloads.py --peers all

peer-openvino peer-llamacpp peer-vllm peer-transformers peer-guidance: $(VENV)/installed ## install a peer into .peers
	@benchmarks/peers/install.sh $(@:peer-%=%)

bench-decode: $(VENV)/installed ## measure decode speed against the memory's bandwidth
	@$(BIN)/python benchmarks/bench_decode.py

bench-sharing: $(VENV)/installed ## measure the tables of docs/sharing.md (half an hour)
	@$(BIN)/python benchmarks/bench_sharing.py sharing arrivals ablation gain judge --write

bench-scheduler: $(VENV)/installed-test ## measure what a step of the scheduler costs, and how long a light tenant waits
	@$(BIN)/python benchmarks/bench_scheduler.py --model
	@$(BIN)/python benchmarks/bench_fairness.py
	@$(BIN)/python benchmarks/bench_fairness.py --model

soak: $(VENV)/installed-test ## run many clients on a full engine for MINUTES=30
	@$(BIN)/python tests/soak.py --minutes $(or $(MINUTES),30)

clean: ## remove the virtual environment and build products
	rm -rf $(VENV) .lint build *.egg-info
