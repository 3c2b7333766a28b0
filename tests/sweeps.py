"""Sweeps of which the suite runs a part: by test, how many of its cases stand behind each one that is run.

The others are marked ``slow``, and the nightly run takes them (``pytest -m slow``). A case that is named on
the command line is run all the same. The numbers are of sweeps whose cases show one property for many
kernels, sizes or forms, and that took more than ten seconds of processor time together. What judges verdicts
of the corpus, of small kernels and of rules stays whole.

Example: ``test_no_verdict_is_wrong`` has 170 cases; with 3 here, the first, the fourth and so on are run.
``SYNCVERIFY_SWEEP_TURN`` says which part it is: with 1, the second, the fifth and so on. Each run of CI has a
number of its own there, so that runs one after the other come to all cases.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import pytest

Case = TypeVar("Case")
#: Which part of each sweep a run takes.
TURN = int(os.environ.get("SYNCVERIFY_SWEEP_TURN") or 0)


def part_of(cases: Sequence[Case], parts: int) -> Sequence[Case]:
    """The cases of this run: one at least, if there are any."""
    return cases[TURN % max(1, min(parts, len(cases))) :: parts]


PARTS = {
    "checker/induction/test_advanced.py::test_claims_of_where_a_tile_begins_are_borne_out": 3,
    "checker/induction/test_in_turn.py::test_claims_of_turns_are_borne_out": 4,
    "checker/induction/test_slots.py::test_bytes_are_those_of_a_slot": 3,
    "checker/induction/test_turns.py::test_a_mistake_is_not_accepted": 2,
    "checker/kernel/exact/test_lockstep.py::test_sizes_are_judged_apart": 4,
    "checker/kernel/test_raises.py::test_a_place_alone_keeps_a_wrong_protocol_out": 2,
    "checker/prover/modular/test_block_groups.py::test_no_teams": 4,
    "checker/prover/modular/test_block_groups.py::test_teams": 2,
    "checker/prover/modular/test_block_groups.py::test_what_is_proved_is_right_in_small_grids": 6,
    "checker/prover/modular/test_compose.py::test_what_is_proved_so_is_right": 6,
    "checker/prover/modular/test_flag_chain.py::test_blocks_that_do_not": 16,
    "checker/prover/modular/test_flag_chain.py::test_blocks_that_hand_on": 6,
    "checker/prover/modular/test_groups_in_rows.py::test_what_a_small_launch_refutes_is_not_proved": 3,
    "checker/prover/modular/test_groups_in_rows.py::test_what_is_proved_is_right_in_small_launches": 2,
    "checker/prover/parametric/test_chains.py::test_what_is_proved_is_right_in_small_grids": 6,
    "checker/prover/parametric/test_corpus.py::test_the_verdict_for_every_size_is_that_of_exact_checks": 8,
    "checker/prover/parametric/test_counted_comparisons.py::test_the_same_comparison_is_the_same_number": 3,
    "checker/prover/parametric/test_counted_comparisons.py::test_where_the_answer_matters_it_is_decided": 2,
    "checker/prover/parametric/test_enumerate_launches.py::test_all_launches_are_checked": 2,
    "checker/prover/parametric/test_enumerate_launches.py::test_what_may_differ_more_is_not_proved": 4,
    "checker/prover/parametric/test_family.py::test_every_size_is_settled": 32,
    "checker/prover/parametric/test_family.py::test_no_verdict_is_wrong": 24,
    "checker/prover/parametric/test_family.py::test_the_stated_sizes_are_refuted_and_none_below": 12,
    "checker/prover/parametric/test_grid_waits.py::test_who_does_not_is": 2,
    "checker/prover/parametric/test_lane_splits.py::test_one_length_that_fails_is_found": 3,
    "checker/prover/parametric/test_random.py::test_the_verdict_is_that_of_all_pairs": 3,
    "checker/prover/parametric/test_tensor_maps.py::test_edits_out_of_order_are_refuted": 4,
    "checker/prover/reach/ring/test_symmetry.py::test_what_is_wrong_at_one_place_is_refuted": 3,
    "checker/prover/reach/test_access_merging.py::test_the_same_is_met": 4,
    "checker/prover/reach/test_asks_last.py::test_no_wrong_kernel_of_the_corpus_is_proved": 12,
    "checker/prover/reach/test_brute_force.py::test_the_verdict_is_that_of_all_sizes": 8,
    "checker/prover/reach/test_round_robin.py::test_what_is_wrong_somewhere_is_refuted": 8,
    "checker/prover/reach/test_round_robin.py::test_what_is_wrong_somewhere_is_refuted_among_warnings": 3,
    "checker/prover/reach/test_sizes.py::test_a_good_ring_is_proved_for_every_size": 2,
    "checker/prover/reach/test_sizes.py::test_good_kernels_of_the_corpus_are_proved_for_every_size": 6,
    "checker/prover/reach/test_sizes.py::test_nested_mistakes_are_shown_at_small_sizes": 2,
    "checker/prover/reach/test_sizes.py::test_sizes_that_steer_together_are_proved": 3,
    "checker/prover/reach/test_sizes.py::test_the_smallest_size_that_refutes": 3,
    "checker/prover/reach/test_strict_findings.py::test_a_mistake_of_the_same_two_accesses_is_found": 6,
    "checker/prover/reach/test_strict_findings.py::test_a_warning_of_some_turns_is_told": 3,
    "checker/prover/reach/test_strict_findings.py::test_slots_that_a_cluster_gives_back_early": 12,
    "checker/prover/reach/test_tile_history.py::test_with_more_slots_what_is_wrong_is_refuted": 3,
    "checker/prover/reach/test_word_per_tile.py::test_a_mistake_with_the_word_is_found": 3,
    "checker/prover/rings/test_stages.py::test_mistakes_are_refuted_at_the_smallest_sizes": 4,
    "checker/prover/rings/test_stages.py::test_right_rings_are_proved_for_every_number_of_stages": 4,
    "checker/test_red_team.py::test_simulator_agrees": 6,
    "cli/test_check.py::test_every_format_of_a_real_run": 4,
    "cli/test_jobs.py::test_the_report_is_the_same": 2,
    "cli/test_odd_inputs.py::test_line_ends_and_byte_order_marks_change_no_line": 3,
    "cli/test_odd_inputs.py::test_only_line_feeds_end_a_line": 2,
    "codegen/test_numerics.py::test_a_rounded_product_less_itself_is_nothing": 3,
    "codegen/test_numerics.py::test_functions_of_unusual_numbers": 2,
    "codegen/test_numerics.py::test_products_of_many_matrices": 4,
    "corpus/test_corpus.py::test_proved_kernel_never_fails_in_the_simulator": 16,
    "corpus/test_corpus.py::test_witness_replays": 8,
    "corpus/test_sizes.py::test_good_kernels_stay_proved": 16,
    "corpus/test_values.py::test_proved_kernel_ends_and_writes_all_of_its_output": 3,
    "docs/test_cuda_examples.py::test_the_wrong_kernel_breaks_its_rule_and_the_right_one_does_not": 12,
    "driver/test_first_lanes_that_poll.py::test_only_the_first_lanes_own_poll_ends_it": 4,
    "driver/certificates/test_certificate.py::test_a_certificate_holds": 4,
    "driver/certificates/test_certificate.py::test_any_change_is_rejected": 8,
    "driver/certificates/test_exact.py::test_random_kernels": 2,
    "driver/certificates/test_loaded.py::test_no_search_is_loaded": 2,
    "driver/test_carved_arrays.py::test_a_mistake_is_not_proved": 4,
    "driver/test_carved_arrays.py::test_each_array_is_a_variable_of_its_own": 6,
    "driver/executions/test_confirmed.py::test_harm_of_a_wrong_cuda_kernel_is_seen": 4,
    "driver/executions/test_confirmed.py::test_harm_of_a_wrong_kernel_is_seen": 4,
    "driver/executions/test_confirmed.py::test_launches_that_are_drawn_do_no_harm_to_right_kernels": 12,
    "driver/test_data_around_shared.py::test_a_loop_over_a_size_that_ends_the_kernel": 2,
    "driver/ptx/test_boxes_that_meet.py::test_many_drawn": 20,
    "driver/ptx/test_crowded_places.py::test_many_drawn": 20,
    "driver/ptx/test_handed_words.py::test_wrong_twins_are_not_proved": 2,
    "driver/repairs/test_ptx_statements.py::test_registers_of_the_loop": 4,
    "driver/ptx/test_wording.py::test_a_pointer_is_asked_for_as_one": 2,
    "driver/executions/test_sought.py::test_data_that_breaks_a_contract_refutes_nobody": 12,
    "driver/executions/test_sought.py::test_harm_under_every_contract_refutes": 12,
    "driver/executions/test_sought.py::test_strict_mode_asks_inputs_too": 3,
    "driver/executions/test_sought.py::test_such_data_refutes_nobody_in_strict_mode": 24,
    "driver/repairs/test_text_edits.py::test_the_edit_of_a_cuda_source_is_what_was_checked": 3,
    "frontends/cuda/test_corpus.py::test_every_size_is_proved": 4,
    "frontends/cuda/test_corpus.py::test_sizes_given": 6,
    "frontends/cuda/test_corpus.py::test_smallest_sizes_refute": 2,
    "frontends/cuda/test_prelude_forms.py::test_grid_barriers_are_read": 2,
    "frontends/ir/test_agent_canonical.py::test_equal_normal_forms_go_on_alike": 6,
    "frontends/ir/test_flatten_counters.py::test_rings_that_count_flat": 4,
    "frontends/ir/test_flatten_counters.py::test_rings_that_do_not": 2,
    "frontends/ir/test_flatten_counters.py::test_the_events_are_the_same": 4,
    "frontends/ir/test_lane_classes.py::test_a_class_emits_what_each_of_its_lanes_would": 3,
    "frontends/ir/test_robustness.py::test_changed_numbers": 3,
    "frontends/ptx/analysis/blocks/test_block_groups.py::test_no_teams": 4,
    "frontends/ptx/analysis/blocks/test_block_groups.py::test_teams": 3,
    "frontends/ptx/analysis/blocks/test_block_groups.py::test_what_is_proved_is_right_in_small_grids": 6,
    "frontends/ptx/analysis/slots/test_distinct_places.py::test_other_places_may_not_be": 3,
    "frontends/ptx/analysis/slots/test_distinct_places.py::test_places_are_apart_in_executions": 15,
    "frontends/ptx/analysis/slots/test_distinct_places.py::test_ranks_are_distinct": 2,
    "frontends/ptx/values/test_form_arithmetic.py::test_forms_say_what_executions_do": 4,
    "frontends/ptx/analysis/warps/test_group_loads.py::test_what_one_lane_of_a_group_holds_may_be_read": 4,
    "frontends/ptx/analysis/registers/test_integers.py::test_what_a_register_holds_is_what_the_isa_says": 4,
    "frontends/ptx/analysis/warps/test_lane_ranks.py::test_a_leader_stores": 3,
    "frontends/ptx/analysis/warps/test_lane_ranks.py::test_compaction": 3,
    "frontends/ptx/analysis/exclusion/test_locks.py::test_locks_that_are_not_followed": 3,
    "frontends/ptx/analysis/slots/test_slots.py::test_slots_are_apart_in_executions": 3,
    "frontends/ptx/analysis/warps/test_tile_barriers.py"
    "::test_what_is_no_meeting_stays_as_it_is_and_is_not_proved": 2,
    "frontends/ptx/analysis/warps/test_tile_barriers.py"
    "::test_work_that_differs_from_warp_to_warp_is_no_collective": 2,
    "frontends/ptx/decode/test_conditional_accesses.py::test_a_word_of_another_width_is_another_word": 4,
    "frontends/ptx/exec/test_array_ends.py::test_what_leaves_an_array_for_the_next": 6,
    "frontends/ptx/exec/test_decisions_of_a_block.py::test_a_loop_whose_threads_may_part_or_race": 2,
    "frontends/ptx/exec/test_early_exit.py::test_lanes_of_a_warp_that_goes_on": 4,
    "frontends/ptx/launch/test_loaded_words.py::test_words_that_do_not_prove": 2,
    "frontends/ptx/launch/test_tables_by_value.py::test_an_entry_that_parts_the_threads_is_not_proved": 2,
    "frontends/ptx/syntax/test_fuzz.py::test_mutants_have_a_verdict_or_an_error": 8,
    "frontends/ptx/values/test_atomic_tickets.py::test_counters_that_are_none": 4,
    "frontends/ptx/values/test_size_arithmetic.py::test_a_proof_for_every_size_holds_at_numbers": 3,
    "frontends/ptx/values/test_symbolic_words.py::test_no_number_refutes_what_is_proved": 18,
    "fusion/test_ahead.py::test_proved_for_every_size": 2,
    "fusion/test_examples.py::test_code_for_rows_of_any_length_compiles": 4,
    "fusion/test_examples.py::test_new_operations_in_rows_pass_both_checks_for_every_size": 3,
    "fusion/test_examples.py::test_results": 4,
    "fusion/test_minimal.py::test_nothing_can_go": 4,
    "fusion/test_peeled.py::test_every_element_of_every_row": 6,
    "fusion/test_random.py::test_proved": 2,
    "fusion/test_row_clusters.py::test_results": 4,
    "fusion/test_row_strides.py::test_rows_are_read_where_they_lie": 6,
    "fusion/test_row_tiles.py::test_every_element_of_every_row": 6,
    "fusion/test_row_tiles.py::test_proved_for_every_number_of_rows": 4,
    "fusion/test_rows.py::test_proved_for_every_number_of_rows": 4,
    "fusion/test_rows.py::test_results_on_the_simulator": 6,
    "fusion/test_rows.py::test_rows_may_be_read_again_for_every_step": 4,
    "fusion/test_rows.py::test_the_check_of_ptx_sees_past_what_caches_are_told": 4,
    "fusion/test_segments.py::test_operands_of_some_inner_dimensions": 8,
    "fusion/test_store_role.py::test_nothing_can_go": 3,
    "fusion/test_streamed.py::test_pieces_that_stay_in_shared_memory": 3,
    "fusion/test_unread.py::test_what_nobody_reads": 12,
    "gate/test_fusions.py::test_simulated_result_equals_the_reference": 4,
    "gate/test_proof_time.py::test_each_check_looks_at_the_time": 2,
    "gate/test_ptx_check.py::test_broken_code_is_caught_by_the_second_check_alone": 12,
    "gate/test_ptx_check.py::test_every_example_passes_both_checks_for_every_size": 12,
    "gate/test_ptx_check.py::test_every_kind_of_schedule_passes_both": 8,
    "ir/text/test_round_trip.py::test_every_statement": 8,
    "matmul/test_by_columns.py::test_tiles_of_any_eight_columns": 8,
    "matmul/test_by_columns.py::test_tiles_of_the_transpose": 8,
    "matmul/test_cluster_rings.py::test_a_mistake_at_one_slot_is_found": 4,
    "matmul/test_grouped.py::test_one_proof_holds_for_all_sizes_and_numbers": 2,
    "matmul/test_pingpong.py"
    "::test_clusters_that_take_turns_are_proved_for_every_size_only_if_they_are_right": 2,
    "matmul/test_pingpong.py::test_proved": 4,
    "matmul/test_pingpong.py::test_tiles_of_other_laps_are_refuted": 3,
    "matmul/test_pingpong.py::test_whole_laps_are_proved_for_every_size": 2,
    "matmul/test_prologue.py::test_against_numpy": 4,
    "matmul/test_prologue.py::test_proved": 4,
    "matmul/test_prologue.py::test_registers_and_slots_need_their_order": 3,
    "matmul/test_proofs.py::test_other_forms_of_the_menu_are_proved_for_all_sizes": 3,
    "matmul/test_random.py::test_odd_widths_are_proved_and_right": 2,
    "matmul/test_several.py::test_proved_and_right": 6,
    "matmul/test_split.py::test_a_launch_is_proved": 2,
    "matmul/test_split.py::test_against_numpy": 6,
    "matmul/test_split.py::test_its_ptx_is_proved_for_every_size": 3,
    "matmul/test_split.py::test_none_of_those_is_proved_for_every_size": 3,
    "matmul/test_split.py::test_other_flags_and_sums_are_not_proved": 3,
    "matmul/test_split.py::test_proved_for_every_size": 2,
    "matmul/test_split.py::test_what_hands_sums_over_is_needed": 6,
    "matmul/test_split.py::test_what_hands_sums_over_is_needed_in_ptx": 2,
    "matmul/test_stream.py::test_against_numpy": 3,
    "matmul/test_stream.py::test_clusters_that_share_tiles": 2,
    "matmul/test_stream.py::test_proved": 2,
    "matmul/test_stream.py::test_what_hands_sums_over_is_needed": 4,
    "matmul/test_stream_pairs.py::test_against_numpy": 20,
    "matmul/test_stream_pairs.py::test_what_hands_both_sums_over_is_needed": 4,
    "matmul/test_types.py::test_against_numpy": 4,
    "passes/test_pipeline.py::test_compiled_kernels_are_proved": 6,
    "passes/test_pipeline.py::test_every_number_of_stages_is_proved": 4,
    "passes/test_pipeline.py::test_every_synchronization_is_necessary": 12,
    "passes/test_random_pipelines.py::test_random_pipelines_are_proved_and_right": 4,
    "passes/test_simulated.py::test_proved_kernels_do_no_harm": 4,
    "passes/test_synthesize.py::test_every_size_is_proved": 12,
    "passes/test_synthesize.py::test_nothing_is_missing_and_nothing_can_go": 12,
    "ptx_replay/test_corpus.py::test_adversarial_ptx": 4,
    "ptx_replay/test_corpus.py::test_cuda": 12,
    "ptx_replay/test_corpus.py::test_good_ptx_does_no_harm": 4,
    "ptx_replay/test_corpus.py::test_ptx_witness_replays": 9,
    "simulate/ptx/test_corpus.py::test_verdict": 8,
    "symbolic/test_quotients.py::test_turns_are_counted": 6,
    "symbolic/test_quotients.py::test_wrong_turns_are_refuted": 4,
    "system/open_sizes/test_open_sizes.py::test_conditions_that_are_proved_for_every_size_hold_at_numbers": 2,
    "system/open_sizes/test_open_sizes.py::test_rings_that_are_proved_for_every_size_are_right_at_numbers": 8,
    "system/open_sizes/test_open_sizes.py"
    "::test_rows_that_are_proved_with_their_words_as_data_are_right_at_numbers": 2,
    "system/oracle/test_checker.py::test_random_event_lists": 4,
    "system/random/test_random.py::test_checker_and_simulator_agree": 4,
    "system/random/test_random.py::test_without_a_bug_a_family_is_proved": 3,
    "system/random_ptx/test_random_ptx.py"
    "::test_both_sides_agree_on_what_data_steers_and_what_warpgroups_name": 2,
    "system/random_ptx/test_random_ptx.py::test_programs_that_once_ended_in_a_fault": 3,
    "system/random_ptx/test_random_ptx.py::test_right_programs_of_the_other_sets_do_no_harm": 4,
    "system/test_api.py::test_check_is_the_command": 4,
    "system/test_api.py::test_check_reports_what_the_command_reports": 8,
    "system/test_api_commands.py::test_certificates_and_witnesses": 4,
    "system/test_gallery.py::test_a_mistake_is_shown_at_its_place": 16,
    "system/test_gallery.py::test_authors_see_the_lines_that_they_need": 8,
    "system/test_gallery.py::test_the_edit_for_a_mistake_is_proved_at_every_launch": 16,
}


#: Single tests, or cases of tests, of more than four seconds that only the nightly run takes. What they
#: show of one large kernel a cheaper one beside them shows of a small one; or they show that a search is
#: short.
NIGHTLY = {
    "checker/induction/test_products.py::test_a_mistake_is_not_accepted[the loader's tiles have a step more]",
    "checker/induction/test_products.py::test_a_mistake_is_not_accepted[the reader takes other tiles]",
    "checker/induction/test_turns.py"
    "::test_loops_that_go_on_until_their_bytes_are_as_many_as_asked[128-False]",
    "checker/prover/modular/test_compose.py::test_who_knows_less_goes_together_with_no_more",
    "checker/prover/parametric/test_brute_judge.py"
    "::test_a_refutation_beyond_the_sizes_tried_is_held_against_those_just_below",
    "checker/prover/parametric/test_chains.py::test_chains_are_of_both_kinds",
    "checker/prover/parametric/test_family.py::test_every_size_is_settled[release_missing_at_step_1000.bad]",
    "checker/prover/parametric/test_family.py::test_no_verdict_is_wrong[release_missing_at_step_1000.bad]",
    "checker/prover/parametric/test_lane_splits.py::test_every_length_is_proved_after_few_splits",
    "checker/prover/parametric/test_random.py::test_programs_are_of_both_kinds_and_steered_by_both_sizes",
    "checker/prover/reach/ring/test_symmetry.py::test_most_decisions_are_those_of_the_first_lap",
    "checker/prover/reach/test_knowledge_order.py::test_ends_of_tiles_are_forgotten",
    "checker/prover/reach/test_knowledge_order.py::test_flags_that_more_agents_know_of_take_no_decisions",
    "checker/prover/reach/test_knowledge_order.py::test_what_a_barrier_misses_of_its_ring_the_others_miss",
    "checker/prover/reach/test_knowledge_order.py::test_what_agents_miss_of_one_slot_they_forget_of_all",
    "checker/prover/reach/test_knowledge_order.py::test_what_may_fail_is_tried_before_all_is_begun_anew",
    "checker/prover/reach/test_sizes.py::test_an_answer_does_not_cover_its_own_question",
    "checker/prover/reach/test_tile_history.py::test_states_do_not_tell_where_tiles_began",
    "checker/prover/reach/test_tile_history.py::test_what_is_asked_of_the_ring_stays_known",
    "checker/prover/reach/test_tile_history.py::test_what_is_forgotten_too_much_is_known_in_the_next_attempt",
    "driver/certificates/test_certificate.py"
    "::test_a_certificate_holds[sizes/assumed_relation_of_sizes.good-all]",
    "driver/certificates/test_certificate.py::test_another_state_covers_nothing",
    "driver/certificates/test_ptx.py::test_a_checker_that_sees_no_races_has_no_ring_accepted[numbers]",
    "driver/certificates/test_ptx.py::test_any_change_is_rejected[True-0]",
    "driver/test_array_places.py::test_what_stays_inside_stays_inside_on_random_data",
    "driver/ptx/test_early.py::test_a_parity_that_starts_again_with_each_tile_is_found_at_two_tiles",
    "driver/executions/test_sought.py"
    "::test_harm_under_every_contract_refutes[bins of a histogram: added without an atomic]",
    "frontends/ir/test_flatten_counters.py::test_rings_that_do_not[one more]",
    "frontends/ir/test_slice_silent.py::test_guarded_stores_in_a_ring[order1-proved-all]",
    "frontends/ptx/analysis/barriers/test_barrier_lives.py"
    "::test_many_lives_before_a_question[bar.sync 0;-proved-150]",
    "frontends/ptx/analysis/slicing/test_iteration_havoc.py"
    "::test_what_goes_wrong_in_a_late_turn_of_a_grid_of_any_size[20]",
    "frontends/ptx/analysis/exclusion/test_locks.py::test_wrong_use_of_a_lock[never let go]",
    "frontends/ptx/analysis/registers/test_prefix_sums.py::test_a_loop_over_tiles_may_begin_where_a_wait_does",
    "frontends/ptx/analysis/registers/test_prefix_sums.py"
    "::test_roles_that_skip_too_little_or_do_not_wait_for_their_turn_are_refuted",
    "frontends/ptx/analysis/registers/test_prefix_sums.py"
    "::test_such_a_loop_with_another_role_that_is_not_let_on_is_refuted",
    "frontends/ptx/launch/test_steering_sizes.py::test_rounds_that_race_stay_refuted",
    "frontends/ptx/values/test_symbolic_words.py"
    "::test_a_shift_to_the_left_and_back_leaves_the_lower_bits[signed shifts-128-refuted]",
    "fusion/test_minimal.py::test_nothing_can_go[transposed]",
    "fusion/test_random.py::test_proved[245]",
    "fusion/test_random.py::test_proved[7170]",
    "fusion/test_random.py::test_proved[9916]",
    "gate/test_proof_time.py::test_a_product_takes_the_next_schedule",
    "matmul/test_cluster_rings.py::test_proved_in_few_decisions_for_each_slot",
    "matmul/test_pingpong.py"
    "::test_clusters_that_take_turns_are_proved_for_every_size_only_if_they_are_right[nothing]",
    "matmul/test_pingpong.py"
    "::test_ptx_that_skips_a_tile_is_proved_for_every_size_only_if_it_is_right"
    "[a step too far where a tile is short]",
    "matmul/test_prologue.py::test_what_only_the_ring_shows_is_found_for_all_sizes[tile written again]",
    "matmul/test_proofs.py::test_other_forms_of_the_menu_are_proved_for_all_sizes[these move registers]",
    "matmul/test_proofs.py::test_products_of_many_tiles_are_proved_once",
    "matmul/test_proofs.py::test_tiles_that_are_shared_are_proved_launch_by_launch",
    "matmul/test_stream.py::test_any_team_stands_for_a_large_grid",
    "matmul/test_stream.py::test_its_ptx_is_proved_for_every_size",
    "matmul/test_stream.py::test_none_of_those_is_proved_for_every_size[wait for reads]",
    "matmul/test_stream.py::test_other_flags_and_sums_are_not_proved[_own_slot]",
    "matmul/test_stream.py::test_ptx_of_wrong_kernels_is_not_proved[_next_flag]",
    "matmul/test_stream.py::test_what_hands_sums_over_is_needed_in_ptx",
    "matmul/test_stream_pairs.py::test_proved_for_every_size",
    "ptx_replay/test_corpus.py::test_adversarial_ptx[spin_moves_pointer]",
    "system/equivalent_ptx/test_equivalent_ptx.py::test_operands_in_pairs_and_parts[7]",
    "system/test_gallery.py::test_authors_see_the_lines_that_they_need[named_count]",
    "tune/test_matmul.py::test_a_product_is_tuned_where_it_is_first_used",
}


def leave_out(items: list[pytest.Item]) -> None:
    """Marks as slow the cases of sweeps that a run leaves out, and what only the nightly run takes."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        whole = item.nodeid.removeprefix("tests/")
        name = whole.partition("[")[0]
        if name in NIGHTLY or whole in NIGHTLY:
            item.add_marker(pytest.mark.slow)
        if name in PARTS and item.get_closest_marker("slow") is None:
            cases[name].append(item)
    for name, some in cases.items():
        taken = set(map(id, part_of(some, PARTS[name])))
        for item in some:
            if id(item) not in taken:
                item.add_marker(pytest.mark.slow)


__all__ = ["NIGHTLY", "PARTS", "leave_out", "part_of"]
