"""Kernels of ``corpus/sizes`` without a verdict for every size, and why. None may be judged wrongly."""

from __future__ import annotations

#: The test of each that is not slow must fail, so that the list shrinks with what the engine learns.
GAPS: dict[str, str] = {}

#: Those that cost more than a test may; `benchmarks/checker/all_sizes.py` judges them.
SLOW = {
    "bytes_gathered_slowly.bad",
    "pingpong_odd_tiles.good",
    "pingpong_skips_a_tile_wrongly.good",
}

#: Those that take seconds, and of which others of the family, or other tests, say the same.
SELDOM = {
    "assumed_relation_of_sizes.good",  # driver/certificates/test_certificate.py
    "eight_bit_counter.bad",  # four_bit_counter_of_tiles.bad
    "flat_against_nested.good",  # test_flat.py
    "long_first_tile.bad",  # reach/test_asks_last.py
    "loop_bound_of_a_thousand.bad",  # release_missing_at_step_1000.bad
    "negative_sizes_multiply.good",  # its bad twin, and the other products
    "product_is_twelve.good",  # its bad twin
    "size_1000_before_the_loop.bad",  # the same
    "three_nested_loops.bad",  # three_nested_loops_reset.bad
}
