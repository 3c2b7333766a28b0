"""Sweeps of which the suite runs a part: by test, how many of its cases stand behind each one that is run.

The others are marked ``slow``, and the nightly run takes them (``pytest -m slow``). A case that is named on
the command line is run all the same. The numbers are of sweeps whose cases show one property for many
kernels, sizes or forms, and that took more than ten seconds of processor time together. What judges verdicts
of the corpus, of small kernels and of rules stays whole.

Example: ``test_no_verdict_is_wrong`` has 170 cases; with 3 here, the first, the fourth and so on are run.
"""

from __future__ import annotations

from collections import Counter

import pytest

PARTS = {
    "checker/induction/test_advanced.py::test_claims_of_where_a_tile_begins_are_borne_out": 3,
    "checker/induction/test_slots.py::test_bytes_are_those_of_a_slot": 3,
    "checker/kernel/exact/test_lockstep.py::test_sizes_are_judged_apart": 4,
    "checker/kernel/test_raises.py::test_a_place_alone_keeps_a_wrong_protocol_out": 2,
    "checker/prover/modular/test_block_groups.py::test_no_teams": 4,
    "checker/prover/modular/test_block_groups.py::test_teams": 2,
    "checker/prover/modular/test_block_groups.py::test_what_is_proved_is_right_in_small_grids": 2,
    "checker/prover/modular/test_compose.py::test_what_is_proved_so_is_right": 2,
    "checker/prover/modular/test_flag_chain.py::test_blocks_that_do_not": 8,
    "checker/prover/modular/test_flag_chain.py::test_blocks_that_hand_on": 2,
    "checker/prover/modular/test_groups_in_rows.py::test_what_a_small_launch_refutes_is_not_proved": 3,
    "checker/prover/modular/test_groups_in_rows.py::test_what_is_proved_is_right_in_small_launches": 2,
    "checker/prover/parametric/test_chains.py::test_what_is_proved_is_right_in_small_grids": 2,
    "checker/prover/parametric/test_corpus.py::test_the_verdict_for_every_size_is_that_of_exact_checks": 4,
    "checker/prover/parametric/test_counted_comparisons.py::test_the_same_comparison_is_the_same_number": 3,
    "checker/prover/parametric/test_counted_comparisons.py::test_where_the_answer_matters_it_is_decided": 2,
    "checker/prover/parametric/test_enumerate_launches.py::test_all_launches_are_checked": 2,
    "checker/prover/parametric/test_enumerate_launches.py::test_what_may_differ_more_is_not_proved": 4,
    "checker/prover/parametric/test_family.py::test_every_size_is_settled": 16,
    "checker/prover/parametric/test_family.py::test_no_verdict_is_wrong": 12,
    "checker/prover/parametric/test_family.py::test_the_stated_sizes_are_refuted_and_none_below": 6,
    "checker/prover/parametric/test_random.py::test_the_verdict_is_that_of_all_pairs": 3,
    "checker/prover/parametric/test_tensor_maps.py::test_edits_out_of_order_are_refuted": 2,
    "checker/prover/reach/test_access_merging.py::test_the_same_is_met": 4,
    "checker/prover/reach/test_asks_last.py::test_no_wrong_kernel_of_the_corpus_is_proved": 4,
    "checker/prover/reach/test_brute_force.py::test_the_verdict_is_that_of_all_sizes": 4,
    "checker/prover/reach/test_round_robin.py::test_what_is_wrong_somewhere_is_refuted": 4,
    "checker/prover/reach/test_sizes.py::test_good_kernels_of_the_corpus_are_proved_for_every_size": 2,
    "checker/prover/reach/test_strict_findings.py::test_a_mistake_of_the_same_two_accesses_is_found": 2,
    "checker/prover/reach/test_strict_findings.py::test_slots_that_a_cluster_gives_back_early": 4,
    "checker/prover/rings/test_stages.py::test_right_rings_are_proved_for_every_number_of_stages": 2,
    "checker/test_red_team.py::test_simulator_agrees": 2,
    "codegen/test_numerics.py::test_a_rounded_product_less_itself_is_nothing": 3,
    "codegen/test_numerics.py::test_functions_of_unusual_numbers": 2,
    "codegen/test_numerics.py::test_products_of_many_matrices": 2,
    "corpus/test_corpus.py::test_proved_kernel_never_fails_in_the_simulator": 8,
    "corpus/test_corpus.py::test_witness_replays": 8,
    "corpus/test_sizes.py::test_good_kernels_stay_proved": 8,
    "corpus/test_values.py::test_proved_kernel_ends_and_writes_all_of_its_output": 3,
    "docs/test_cuda_examples.py::test_the_wrong_kernel_breaks_its_rule_and_the_right_one_does_not": 4,
    "driver/certificates/test_certificate.py::test_a_certificate_holds": 2,
    "driver/certificates/test_certificate.py::test_any_change_is_rejected": 4,
    "driver/certificates/test_exact.py::test_random_kernels": 2,
    "driver/test_carved_arrays.py::test_a_mistake_is_not_proved": 2,
    "driver/test_carved_arrays.py::test_each_array_is_a_variable_of_its_own": 2,
    "driver/test_confirmed.py::test_harm_of_a_wrong_cuda_kernel_is_seen": 4,
    "driver/test_confirmed.py::test_launches_that_are_drawn_do_no_harm_to_right_kernels": 4,
    "driver/test_ptx_statements.py::test_registers_of_the_loop": 2,
    "driver/test_sought.py::test_data_that_breaks_a_contract_refutes_nobody": 6,
    "driver/test_sought.py::test_harm_under_every_contract_refutes": 6,
    "frontends/cuda/test_corpus.py::test_every_size_is_proved": 2,
    "frontends/cuda/test_corpus.py::test_sizes_given": 3,
    "frontends/cuda/test_corpus.py::test_smallest_sizes_refute": 2,
    "frontends/ir/test_agent_canonical.py::test_equal_normal_forms_go_on_alike": 2,
    "frontends/ir/test_flatten_counters.py::test_rings_that_count_flat": 2,
    "frontends/ir/test_flatten_counters.py::test_the_events_are_the_same": 2,
    "frontends/ir/test_lane_classes.py::test_a_class_emits_what_each_of_its_lanes_would": 3,
    "frontends/ir/test_robustness.py::test_changed_numbers": 3,
    "frontends/ptx/analysis/test_block_groups.py::test_what_is_proved_is_right_in_small_grids": 2,
    "frontends/ptx/analysis/test_group_loads.py::test_what_one_lane_of_a_group_holds_may_be_read": 4,
    "frontends/ptx/analysis/test_integers.py::test_what_a_register_holds_is_what_the_isa_says": 2,
    "frontends/ptx/analysis/test_slots.py::test_slots_are_apart_in_executions": 3,
    "frontends/ptx/exec/test_array_ends.py::test_what_leaves_an_array_for_the_next": 2,
    "frontends/ptx/syntax/test_fuzz.py::test_mutants_have_a_verdict_or_an_error": 3,
    "frontends/ptx/values/test_atomic_tickets.py::test_counters_that_are_none": 2,
    "frontends/ptx/values/test_size_arithmetic.py::test_a_proof_for_every_size_holds_at_numbers": 3,
    "frontends/ptx/values/test_symbolic_words.py::test_no_number_refutes_what_is_proved": 6,
    "fusion/test_ahead.py::test_proved_for_every_size": 2,
    "fusion/test_examples.py::test_code_for_rows_of_any_length_compiles": 2,
    "fusion/test_minimal.py::test_nothing_can_go": 4,
    "fusion/test_random.py::test_proved": 2,
    "fusion/test_row_strides.py::test_rows_are_read_where_they_lie": 2,
    "fusion/test_row_tiles.py::test_every_element_of_every_row": 2,
    "fusion/test_row_tiles.py::test_proved_for_every_number_of_rows": 2,
    "fusion/test_rows.py::test_results_on_the_simulator": 3,
    "fusion/test_rows.py::test_rows_may_be_read_again_for_every_step": 2,
    "fusion/test_rows.py::test_the_check_of_ptx_sees_past_what_caches_are_told": 2,
    "fusion/test_segments.py::test_operands_of_some_inner_dimensions": 4,
    "fusion/test_store_role.py::test_nothing_can_go": 3,
    "fusion/test_unread.py::test_what_nobody_reads": 6,
    "gate/test_fusions.py::test_simulated_result_equals_the_reference": 4,
    "gate/test_ptx_check.py::test_broken_code_is_caught_by_the_second_check_alone": 4,
    "gate/test_ptx_check.py::test_every_example_passes_both_checks_for_every_size": 6,
    "gate/test_ptx_check.py::test_every_kind_of_schedule_passes_both": 4,
    "ir/text/test_round_trip.py::test_every_statement": 4,
    "matmul/test_by_columns.py::test_tiles_of_any_eight_columns": 4,
    "matmul/test_by_columns.py::test_tiles_of_the_transpose": 4,
    "matmul/test_cluster_rings.py::test_a_mistake_at_one_slot_is_found": 2,
    "matmul/test_pingpong.py"
    "::test_clusters_that_take_turns_are_proved_for_every_size_only_if_they_are_right": 2,
    "matmul/test_pingpong.py::test_whole_laps_are_proved_for_every_size": 2,
    "matmul/test_prologue.py::test_proved": 2,
    "matmul/test_proofs.py::test_other_forms_of_the_menu_are_proved_for_all_sizes": 3,
    "matmul/test_several.py::test_proved_and_right": 6,
    "matmul/test_split.py::test_a_launch_is_proved": 2,
    "matmul/test_split.py::test_against_numpy": 3,
    "matmul/test_split.py::test_its_ptx_is_proved_for_every_size": 3,
    "matmul/test_split.py::test_proved_for_every_size": 2,
    "matmul/test_split.py::test_what_hands_sums_over_is_needed": 2,
    "matmul/test_split.py::test_what_hands_sums_over_is_needed_in_ptx": 2,
    "matmul/test_stream.py::test_against_numpy": 3,
    "matmul/test_stream.py::test_clusters_that_share_tiles": 2,
    "matmul/test_stream.py::test_proved": 2,
    "matmul/test_stream.py::test_what_hands_sums_over_is_needed": 4,
    "matmul/test_stream_pairs.py::test_against_numpy": 10,
    "matmul/test_stream_pairs.py::test_what_hands_both_sums_over_is_needed": 2,
    "passes/test_pipeline.py::test_compiled_kernels_are_proved": 2,
    "passes/test_pipeline.py::test_every_number_of_stages_is_proved": 2,
    "passes/test_pipeline.py::test_every_synchronization_is_necessary": 4,
    "passes/test_synthesize.py::test_every_size_is_proved": 6,
    "passes/test_synthesize.py::test_nothing_is_missing_and_nothing_can_go": 4,
    "ptx_replay/test_corpus.py::test_cuda": 6,
    "ptx_replay/test_corpus.py::test_ptx_witness_replays": 3,
    "simulate/ptx/test_corpus.py::test_verdict": 4,
    "symbolic/test_quotients.py::test_turns_are_counted": 3,
    "symbolic/test_quotients.py::test_wrong_turns_are_refuted": 2,
    "system/open_sizes/test_open_sizes.py::test_rings_that_are_proved_for_every_size_are_right_at_numbers": 4,
    "system/oracle/test_checker.py::test_random_event_lists": 2,
    "system/random/test_random.py::test_checker_and_simulator_agree": 2,
    "system/random_ptx/test_random_ptx.py"
    "::test_both_sides_agree_on_what_data_steers_and_what_warpgroups_name": 2,
    "system/test_api.py::test_check_reports_what_the_command_reports": 4,
    "system/test_api_commands.py::test_certificates_and_witnesses": 4,
    "system/test_gallery.py::test_a_mistake_is_shown_at_its_place": 8,
    "system/test_gallery.py::test_authors_see_the_lines_that_they_need": 8,
    "system/test_gallery.py::test_the_edit_for_a_mistake_is_proved_at_every_launch": 8,
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
    "driver/test_ptx_early.py::test_a_parity_that_starts_again_with_each_tile_is_found_at_two_tiles",
    "driver/test_sought.py"
    "::test_harm_under_every_contract_refutes[bins of a histogram: added without an atomic]",
    "frontends/ir/test_flatten_counters.py::test_rings_that_do_not[one more]",
    "frontends/ir/test_slice_silent.py::test_guarded_stores_in_a_ring[order1-proved-all]",
    "frontends/ptx/analysis/test_locks.py::test_wrong_use_of_a_lock[never let go]",
    "frontends/ptx/analysis/test_prefix_sums.py::test_a_loop_over_tiles_may_begin_where_a_wait_does",
    "frontends/ptx/analysis/test_prefix_sums.py"
    "::test_roles_that_skip_too_little_or_do_not_wait_for_their_turn_are_refuted",
    "frontends/ptx/analysis/test_prefix_sums.py"
    "::test_such_a_loop_with_another_role_that_is_not_let_on_is_refuted",
    "frontends/ptx/launch/test_steering_sizes.py::test_rounds_that_race_stay_refuted",
    "fusion/test_random.py::test_proved[245]",
    "fusion/test_random.py::test_proved[9916]",
    "gate/test_proof_time.py::test_a_product_takes_the_next_schedule",
    "matmul/test_cluster_rings.py::test_proved_in_few_decisions_for_each_slot",
    "matmul/test_pingpong.py"
    "::test_ptx_that_skips_a_tile_is_proved_for_every_size_only_if_it_is_right"
    "[a step too far where a tile is short]",
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
    "system/equivalent_ptx/test_equivalent_ptx.py::test_operands_in_pairs_and_parts[7]",
    "tune/test_matmul.py::test_a_product_is_tuned_where_it_is_first_used",
}


def leave_out(items: list[pytest.Item]) -> None:
    """Marks as slow the cases of sweeps that a run leaves out, and what only the nightly run takes."""
    met: Counter[str] = Counter()
    for item in items:
        whole = item.nodeid.removeprefix("tests/")
        name = whole.partition("[")[0]
        if name in NIGHTLY or whole in NIGHTLY:
            item.add_marker(pytest.mark.slow)
        if name not in PARTS or item.get_closest_marker("slow") is not None:
            continue
        if met[name] % PARTS[name]:
            item.add_marker(pytest.mark.slow)
        met[name] += 1


__all__ = ["NIGHTLY", "PARTS", "leave_out"]
