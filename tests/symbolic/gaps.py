"""Kernels of ``corpus/sizes`` without a verdict for every size, and why. None may be judged wrongly."""

from __future__ import annotations

_TOGETHER = "sizes that steer together"
_GRID = "what a block does depends on its place in a grid of any size"
_TOKENS = "waits on phase tokens are not followed through all sizes"
_CHANGES = "a remainder or comparison that repetitions change"
_REPEAT = "no state repeats within the budget"

#: The test of each must fail, so that the list shrinks with what the engine learns.
GAPS = {
    "assumed_relation_of_sizes.good": _TOGETHER,
    "assumed_remainder_of_a_product.good": _TOGETHER,
    "block_dependent_trips.good": _GRID,
    "bytes_gathered_slowly.bad": _REPEAT,
    "bytes_of_all_tiles_gathered.good": _TOGETHER,
    "eight_bit_counter.bad": _CHANGES,
    "eight_bit_counter.good": _CHANGES,
    "first_part_longer_than_the_whole.good": _TOGETHER,
    "flat_against_nested.good": _TOGETHER,
    "four_bit_counter_of_tiles.bad": _TOGETHER,
    "four_bit_counter_of_tiles.good": _TOGETHER,
    "grid_of_seven.bad": _TOGETHER,
    "last_block_is_ragged.good": _GRID,
    "long_first_tile.bad": _TOGETHER,
    "long_first_tile.good": _TOGETHER,
    "negative_sizes_multiply.bad": _TOGETHER,
    "negative_sizes_multiply.good": _TOGETHER,
    "persistent_phase_reset.good": _GRID,
    "phase_reset_by_consumer.good": _TOGETHER,
    "phase_reset_multiple_of_stages.good": _TOGETHER,
    "phase_reset_per_tile.good": _TOGETHER,
    "pingpong_odd_tiles.good": _TOGETHER,
    "pingpong_skips_a_tile_wrongly.good": _TOGETHER,
    "product_is_twelve.good": _TOGETHER,
    "product_of_sizes.good": _TOGETHER,
    "quotient_of_a_product.good": _TOGETHER,
    "quotient_of_a_product_assumed.good": _TOGETHER,
    "release_missing_at_step_1000.bad": _CHANGES,
    "release_missing_at_step_12.good": _TOGETHER,
    "remainders_of_two_moduli.good": _CHANGES,
    "stage_and_phase_registers.good": _TOGETHER,
    "staging_in_second_persistent_tile.good": _GRID,
    "step_of_a_loop_is_a_size.good": _TOGETHER,
    "sum_of_sizes.good": _TOGETHER,
    "three_nested_loops.bad": _TOGETHER,
    "three_nested_loops.good": _TOGETHER,
    "three_nested_loops_reset.good": _TOGETHER,
    "tile_loop_of_any_grid.good": _GRID,
    "token_of_an_earlier_phase.good": _TOKENS,
    "triangle_at_step_40.good": _REPEAT,
    "triangle_of_steps.good": _REPEAT,
    "two_loops_against_one.good": _CHANGES,
}

#: Those that cost more than a test may; `benchmarks/all_sizes.py` judges them.
SLOW = {
    "loop_bound_of_a_thousand.bad",
    "loop_bound_of_a_thousand.good",
    "size_1000_before_the_loop.bad",
    "size_1000_before_the_loop.good",
}
