# make test: everything CI checks.  make demo: prove, run and refute a kernel.  make docs: rewrite the generated pages.
# make wheel: build the package and try its wheel in an environment of its own; SHIP=1: with proofs of common models
#   in it, which takes torch, transformers and some minutes.  make site: build the documentation.
# make test-torch: the tests of the torch backend, in an environment of its own with torch for CPUs; TORCH='torch==2.11.*':
#   with another version, TORCH_INDEX=URL: from elsewhere, TORCH_TESTS='-m slow': those of the nightly sweeps. make test
#   leaves them out where torch is not installed.
# make proofs: check the mechanized theorems; needs coqc (Debian's package `coq`).
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
TORCH  ?= torch>=2.11
TORCH_VENV  ?= .venv-torch
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
TORCH_TESTS ?=

.PHONY: install test lint types floors unit test-torch demo docs site wheel proofs clean

install: $(STAMP)

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install -qq --disable-pip-version-check --group dev --editable '.[gpu]'
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[lsp,dask]' \
	    || echo "not installed: the extras lsp and dask; their tests are skipped" >&2
	touch $(STAMP)

# Types and tests beside each other: what the type checker leaves of two processors, the tests take.
test: lint floors
	$(MAKE) --no-print-directory -j 2 types unit

lint: $(STAMP)
	$(BIN)/ruff check syncverify tests benchmarks
	$(BIN)/ruff format --check --quiet syncverify tests benchmarks

types: $(STAMP)
	$(BIN)/mypy

floors: $(STAMP)
	$(BIN)/lint-imports --no-cache

# Rewriting every assertion takes each worker some 20 s; only tests that fail are run again with it, for what they say.
unit: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile --assert=plain \
	    || { $(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none; exit 1; }

test-torch:
	test -x $(TORCH_VENV)/bin/python || $(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install -qq --disable-pip-version-check --upgrade 'pip>=25.1'
	$(TORCH_VENV)/bin/python -m pip install -qq --disable-pip-version-check --index-url $(TORCH_INDEX) '$(TORCH)'
	$(TORCH_VENV)/bin/python -m pip install -qq --disable-pip-version-check --group dev --editable '.[gpu]'
	$(TORCH_VENV)/bin/python -c 'import torch; print("torch", torch.__version__)'
	$(TORCH_VENV)/bin/python -m pytest -n 2 --dist loadfile $(TORCH_TESTS) tests/torch

demo: $(STAMP)
	$(BIN)/python -m syncverify.examples.demo

docs: $(STAMP)
	$(BIN)/python -m syncverify.docgen docs

site: $(STAMP)
	$(BIN)/python -m pip install -qq --disable-pip-version-check --group site
	$(BIN)/python -m mkdocs build --quiet

wheel: $(STAMP)
	rm -rf dist build/wheel
	$(BIN)/python -m pip install -qq --disable-pip-version-check 'build>=1.2'
	$(if $(SHIP),$(BIN)/python benchmarks/compiler/ship_proofs.py --out syncverify/codegen/shipped.zip)
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install -qq --disable-pip-version-check dist/*.whl
	cd build && wheel/bin/syncverify check ../corpus/idioms/*.syncir -j 2 > /dev/null
	cd build && wheel/bin/python -c 'import syncverify; print("wheel", syncverify.__version__, syncverify.__file__)'

proofs:
	cd proofs && coqc -q Mbarrier.v && coqc -q Ring.v && coqc -q Trees.v

clean:
	rm -rf $(VENV) $(TORCH_VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
