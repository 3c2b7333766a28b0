# make test: everything CI checks.  make demo: prove, run and refute a kernel.  make docs: rewrite the generated pages.
# make wheel: build the package and try its wheel in an environment of its own; SHIP=1: with proofs of common models
#   in it, which takes torch, transformers and some minutes.  make site: build the documentation.
# make proofs: check the mechanized theorems; needs coqc (Debian's package `coq`).
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: install test lint types floors unit demo docs site wheel proofs clean

install: $(STAMP)

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install -qq --disable-pip-version-check --group dev --editable '.[gpu]'
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[lsp,dask]' \
	    || echo "not installed: the extras lsp and dask; their tests are skipped" >&2
	touch $(STAMP)

test: lint types floors unit

lint: $(STAMP)
	$(BIN)/ruff check syncverify tests benchmarks
	$(BIN)/ruff format --check --quiet syncverify tests benchmarks

types: $(STAMP)
	$(BIN)/mypy

floors: $(STAMP)
	$(BIN)/lint-imports --no-cache

unit: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile

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
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
