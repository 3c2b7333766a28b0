"""What all tests share."""

from __future__ import annotations

import contextlib
import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

from syncverify.base.faults import RAISE_FAULTS
from syncverify.base.gc_pause import SELDOM
from tests.sweeps import leave_out

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is loaded; each worker has one core
os.environ.setdefault("SYNCVERIFY_NO_CACHE", "1")  # a test is of the check, not of what it found before
os.environ.setdefault(RAISE_FAULTS, "1")  # what a judge fails at is no answer
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):  # child processes share what the first one compiled
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(Path(__file__).parents[1] / "build" / "bytecode"))

with contextlib.suppress(ImportError):
    import readline  # noqa: F401  # it sets COLUMNS for child processes, once: before each test takes it away

settings.register_profile("untimed", deadline=None)  # a loaded machine fails no test
settings.load_profile("untimed")

#: Files that take more than 10 s. They come first: workers that take file after file end together then.
LONGEST = [
    f"tests/{name}.py"
    for name in (
        "checker/induction/test_products", "system/small_ptx/test_small_ptx", "corpus/test_corpus",
        "matmul/test_stream", "system/test_gallery", "matmul/test_pingpong", "matmul/test_split",
        "matmul/test_proofs", "system/random_ptx/test_random_ptx", "checker/prover/parametric/test_family",
        "driver/certificates/test_ptx", "matmul/test_prologue", "frontends/ir/test_flatten_counters",
        "frontends/ptx/analysis/test_prefix_sums", "driver/test_ptx_corpus",
        "driver/certificates/test_certificate", "passes/test_pipeline", "checker/induction/test_turns",
        "checker/prover/reach/test_sizes", "cli/test_output", "driver/test_confirmed", "fusion/test_rows",
        "frontends/ptx/analysis/test_locks", "matmul/test_stream_pairs", "ptx_replay/test_corpus",
        "checker/prover/parametric/test_enumerate_launches", "frontends/ptx/values/test_atomic_tickets",
        "system/equivalent_ptx/test_equivalent_ptx", "checker/prover/reach/test_round_robin",
        "matmul/test_by_columns", "system/test_api", "passes/test_synthesize",
        "checker/prover/modular/test_block_groups", "cli/test_jobs",
        "checker/prover/modular/test_flag_chain", "codegen/test_numerics", "frontends/ir/test_slice_silent",
        "frontends/ptx/analysis/test_iteration_havoc", "gate/test_ptx_check", "system/test_regexes",
        "system/test_pytest_plugin", "driver/test_sought",
        "checker/prover/parametric/test_counted_comparisons", "checker/prover/reach/test_strict_findings",
        "fusion/test_segments", "fusion/test_random", "checker/prover/reach/test_knowledge_order",
    )
]  # fmt: skip


@pytest.fixture(autouse=True)
def _whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """No width of a terminal breaks the lines that tests compare, here or in a child process.

    COLUMNS is set before it is taken away: readline has it set where ``os.environ`` does not show it.
    """
    monkeypatch.setenv("COLUMNS", "0")
    monkeypatch.delenv("COLUMNS")


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # pytest-xdist would take files of many tests first


@pytest.hookimpl(tryfirst=True)  # before marks are looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not any("[" in argument for argument in config.args):  # a case that is named is wanted
        leave_out(items)
    order = {name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.nodeid.split("::")[0], len(order)))


def pytest_collection_finish() -> None:
    """Searches for cycles leave out the thousands of tests, and are as rare as in the command."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(SELDOM)
