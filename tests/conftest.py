"""What all tests share."""

from __future__ import annotations

import gc
import os

from syncverify.collector import SELDOM

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is loaded; each worker has one core


def pytest_collection_finish() -> None:
    """Searches for cycles leave out the thousands of tests, and are as rare as in the command."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(SELDOM)
