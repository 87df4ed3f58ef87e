# Daily life. Every target sets up what it needs first and does nothing twice; `make` alone lists them.
#   make test ARGS="-k recovery"   hands further arguments on      make PYTHON=/opt/python3.13/bin/python3
SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --no-input -q
PYTEST := $(PY) -m pytest
READY := $(VENV)/.ready
INSTALLED := $(VENV)/.installed
PACKAGES := $(VENV)/.packages
KERNELS := $(wildcard src/headwater/*/_kernel.py src/headwater/*/_*_kernel.py)
CODE := $(wildcard src tests bench fuzz)

DATA ?= ./headwater-data
WORKERS ?= auto
LOAD_TOOLS ?= ../shared/bench
BENCH_SECONDS ?= 10
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 300
export BENCH_SECONDS FUZZ_SECONDS SOAK_SECONDS

# A virtual environment remembers its folder: when the repository was moved, install anew; a kernel that is gone is made.
ifneq ($(shell cat $(INSTALLED) 2>/dev/null),$(CURDIR))
$(INSTALLED): FORCE
endif
ifneq ($(words $(KERNELS)),$(words $(foreach k,$(KERNELS),$(firstword $(wildcard $(k:.py=.*.so))))))
$(READY): FORCE
endif

.PHONY: help demo serve test test-peers test-spark lint bench bench-streams bench-amqp bench-http fuzz soak conformance build ready FORCE
FORCE:

help: ## list these targets
	@sed -n 's/^\([a-z][a-z-]*\):.*## /  make \1 ## /p' $(MAKEFILE_LIST) | awk -F ' ## ' '{printf "%-18s %s\n", $$1, $$2}'

demo: ready ## see events go in at one door and out at another
	@$(PY) -m headwater.cli.main demo $(ARGS)

serve: ready ## run the server on DATA (./headwater-data)
	@$(PY) -m headwater.cli.main serve --data $(DATA) $(ARGS)

test: ready ## units, properties, vectors and the simulation
	@echo "make: running the tests"
	@$(PYTEST) -n $(WORKERS) --dist worksteal -q -m "not peers and not spark and not soak" $(ARGS)

test-peers: ready ## real clients and servers of other makers
	@$(call run_marked,peers)

test-spark: ready ## sources, sinks and pipelines on Spark
	@$(call run_marked,spark)

lint: ready ## style, formatting and types
	@echo "make: ruff check"
	@$(PY) -m ruff check .
	@echo "make: ruff format --check"
	@$(PY) -m ruff format --check .
	@echo "make: mypy --strict $(CODE)"
	@$(PY) -m mypy --strict $(CODE)

bench: ready ## figures of this machine
	@$(PY) -m bench $(ARGS)

bench-streams: ready ## the stream door beside RabbitMQ; the load generator is in LOAD_TOOLS
	@$(PY) -m bench.streams --tools $(LOAD_TOOLS) $(ARGS)

bench-amqp: ready ## the AMQP door beside RabbitMQ and a broker on Qpid Proton
	@$(PY) -m bench.amqp --tools $(LOAD_TOOLS) $(ARGS)

bench-http: ready ## events over HTTP beside a handler that does nothing, and a thousand readers
	@$(PY) -m bench.http $(ARGS)

fuzz: ready ## feed the parsers for FUZZ_SECONDS (60)
	@$(PY) -m fuzz $(ARGS)

soak: ready ## simulated crashes, a killed server, and groups that rebalance, for SOAK_SECONDS (300)
	@$(PY) -m tests.soak $(ARGS)

conformance: ready ## write the tables of docs/conformance.md from the tests' markers
	@$(PY) -m tests.conformance.clauses

build: ready ## wheel and source distribution in dist/
	@echo "make: building into dist/"
	@$(PY) -m build $(ARGS)

ready: $(READY) ## the virtual environment and the compiled kernels

$(PY):
	@$(create_venv)

$(PACKAGES): pyproject.toml | $(PY)
	@echo "make: installing Python packages into $(VENV) (about a minute the first time)"
	@$(PY) -c "$$LIST_REQUIREMENTS" >$(VENV)/requirements.txt
	@$(PIP) install -r $(VENV)/requirements.txt
	@touch $@

$(INSTALLED): $(PACKAGES) pyproject.toml setup.py
	@said=$$($(PY) -c "$$CHECK_TOOLS") || { echo "make: $$said" >&2; exit 1; }
	@echo "make: installing headwater into $(VENV), which compiles the kernels (about a minute)"
	@PYTHONWARNINGS=ignore $(PIP) install --no-deps --no-build-isolation -e .
	@echo "$(CURDIR)" >$@

# Only what has changed: a kernel takes seconds, all of them a minute.
$(READY): $(INSTALLED) $(KERNELS)
	@echo "make: compiling what changed of the kernels"
	@PYTHONWARNINGS=ignore $(PY) setup.py -q build_ext --inplace --parallel 2
	@touch $@

# Runs the tests of one marker; a tier without tests says so (pytest would exit with 5).
define run_marked
$(PYTEST) --collect-only -q -m $(1) >/dev/null 2>&1; \
if [ $$? -eq 5 ]; then echo "make $@: no test is marked '$(1)' yet, nothing to run"; exit 0; fi; \
echo "make: running the tests marked '$(1)'"; \
$(PYTEST) -q -m $(1) $(ARGS)
endef

# Takes the newest Python that has all it needs; else says what the first one found lacks.
define create_venv
why="Python 3.11 or newer is missing; install it (Debian, Ubuntu: apt-get install python3 python3-dev python3-venv)"; \
for python in $(or $(PYTHON),python3.13 python3.12 python3.11 python3); do \
  said=$$($$python -c "$$CHECK_TOOLS" 2>/dev/null) && { found=$$python; break; }; \
  case "$$said" in ?*) lack=$${lack:-$$said};; esac; \
done; \
if [ -z "$$found" ]; then echo "make: $${lack:-$$why}" >&2; exit 1; fi; \
echo "make: creating $(VENV) with $$found"; \
$$found -m venv $(VENV)
endef

define CHECK_TOOLS
import os, shlex, shutil, sys, sysconfig
def lack(what):
    print(what)
    sys.exit(1)
if sys.version_info < (3, 11):
    sys.exit(1)
debian = "python%d.%d" % sys.version_info[:2]
try:
    import ensurepip, venv
except ImportError:
    lack("the venv module of %s is missing; install it (Debian, Ubuntu: apt-get install %s-venv)" % (debian, debian))
compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
if shutil.which(compiler) is None:
    lack("a C compiler is missing (%s); install it (Debian, Ubuntu: apt-get install gcc libc6-dev)" % compiler)
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    lack("the C headers of %s are missing; install them (Debian, Ubuntu: apt-get install %s-dev)" % (debian, debian))
endef
export CHECK_TOOLS

define LIST_REQUIREMENTS
import tomllib
with open("pyproject.toml", "rb") as file:
    settings = tomllib.load(file)
project = settings["project"]
needed = settings["build-system"]["requires"] + project["dependencies"] + project["optional-dependencies"]["dev"]
print("\n".join(sorted(set(needed))))
endef
export LIST_REQUIREMENTS
