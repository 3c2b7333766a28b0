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

#: Files that take more than 6 s. They come first: workers that take file after file end together then.
LONGEST = [
    f"tests/{name}.py"
    for name in (
        "corpus/test_corpus", "system/small_ptx/test_small_ptx", "system/random_ptx/test_random_ptx",
        "matmul/test_split", "matmul/test_prologue", "matmul/test_pingpong", "matmul/test_proofs",
        "matmul/test_stream", "checker/induction/test_turns", "frontends/ptx/red/test_red",
        "driver/certificates/test_certificate", "cli/test_jobs", "checker/induction/test_products",
        "gate/test_fusions", "fusion/test_rows", "gate/test_ptx_check",
        "frontends/ptx/analysis/slicing/test_iteration_havoc",
        "checker/prover/parametric/test_enumerate_launches", "system/test_pytest_plugin",
        "driver/certificates/test_ptx", "checker/prover/rings/test_stages", "matmul/test_grouped",
        "frontends/ir/test_flatten_counters", "checker/prover/reach/test_sizes", "fusion/test_segments",
        "system/open_sizes/test_open_sizes", "cli/test_output", "checker/induction/test_later_meetings",
        "frontends/ptx/analysis/registers/test_prefix_sums", "gate/test_proof_time",
        "frontends/ptx/isa/test_table", "frontends/ptx/values/test_atomic_tickets",
        "driver/test_shared_locks", "checker/induction/test_advanced",
        "system/equivalent_ptx/test_equivalent_ptx", "system/test_api", "driver/test_carved_arrays",
        "matmul/test_by_columns", "fusion/test_row_tiles", "checker/prover/parametric/test_family",
        "driver/certificates/test_by_kernel", "checker/induction/test_read", "driver/test_ptx_corpus",
        "system/test_architecture", "checker/prover/reach/test_round_robin",
        "frontends/ptx/analysis/blocks/test_block_groups", "matmul/test_types",
        "checker/kernel/test_families", "system/random/test_rules",
        "frontends/ptx/analysis/slots/test_slots", "driver/executions/test_sought",
        "driver/test_flag_order", "driver/repairs/test_ptx_statements",
        "frontends/ptx/analysis/arrays/test_address_ranges", "matmul/test_cluster_rings",
        "checker/prover/reach/test_strict_findings", "passes/test_pipeline",
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
