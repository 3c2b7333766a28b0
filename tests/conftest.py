"""What all tests share."""

from __future__ import annotations

import gc
import os

import pytest

from syncverify.collector import SELDOM

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is loaded; each worker has one core

#: Files that take more than 12 s. They come first: workers that take file after file end together then.
LONGEST = [
    f"tests/{name}.py"
    for name in (
        "symbolic/test_family", "corpus/test_corpus", "matmul/test_split", "matmul/test_split_pairs",
        "symbolic/test_teams", "fusion/test_gate_ptx", "matmul/test_prologue", "explore/test_deals",
        "symbolic/test_maps", "matmul/test_pingpong", "certificate/test_certificate", "stages/test_stages",
        "symbolic/test_relays", "ptx/test_sums", "symbolic/test_few", "fusion/test_gate",
        "explore/test_sizes", "ptx/test_ways", "passes/test_synthesize", "symbolic/test_flat",
        "corpus/test_sizes", "passes/test_pipeline", "explore/test_asks_last", "explore/test_warned",
        "matmul/test_cluster_rings", "matmul/test_proofs", "random/test_third_judge",
    )
]  # fmt: skip


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
