"""What all tests share."""

from __future__ import annotations

import contextlib
import gc
import os

import pytest
from hypothesis import settings

from syncverify.base.gc_pause import SELDOM

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is loaded; each worker has one core
os.environ.setdefault("SYNCVERIFY_NO_CACHE", "1")  # a test is of the check, not of what it found before

with contextlib.suppress(ImportError):
    import readline  # noqa: F401  # it sets COLUMNS for child processes, once: before each test takes it away

settings.register_profile("untimed", deadline=None)  # a loaded machine fails no test
settings.load_profile("untimed")

#: Files that take more than 12 s. They come first: workers that take file after file end together then.
LONGEST = [
    f"tests/{name}.py"
    for name in (
        "checker/prover/parametric/test_family", "corpus/test_corpus", "matmul/test_split",
        "matmul/test_split_pairs", "checker/prover/modular/test_block_groups", "gate/test_ptx_check",
        "matmul/test_prologue", "checker/prover/reach/test_round_robin",
        "checker/prover/parametric/test_tensor_maps", "matmul/test_pingpong",
        "driver/certificates/test_certificate", "checker/prover/rings/test_stages",
        "checker/prover/modular/test_flag_chain", "frontends/ptx/analysis/test_prefix_sums",
        "checker/prover/parametric/test_enumerate_launches", "gate/test_fusions",
        "checker/prover/reach/test_sizes", "frontends/ptx/exec/test_class_reachability",
        "passes/test_synthesize", "frontends/ir/test_flatten_counters", "corpus/test_sizes",
        "passes/test_pipeline", "checker/prover/reach/test_asks_last",
        "checker/prover/reach/test_strict_findings", "matmul/test_cluster_rings", "matmul/test_proofs",
        "system/random/test_third_judge",
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.nodeid.split("::")[0], len(order)))


def pytest_collection_finish() -> None:
    """Searches for cycles leave out the thousands of tests, and are as rare as in the command."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(SELDOM)
