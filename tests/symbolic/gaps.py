"""Kernels of ``corpus/sizes`` without a verdict for every size, and why. None may be judged wrongly."""

from __future__ import annotations

#: The test of each that is not slow must fail, so that the list shrinks with what the engine learns.
GAPS: dict[str, str] = {}

#: Those that cost more than a test may; `benchmarks/all_sizes.py` judges them.
SLOW = {
    "bytes_gathered_slowly.bad",
    "pingpong_odd_tiles.good",
    "pingpong_skips_a_tile_wrongly.good",
}
