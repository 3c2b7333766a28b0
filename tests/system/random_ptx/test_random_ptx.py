"""The checker against the second reader on random programs of PTX (benchmarks/checker/ptx_sweep.py)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from syncverify.base.source import InputError
from syncverify.checker.happens_before.handlers import async_operations
from syncverify.driver.executions.input_harm import Inputs
from syncverify.driver.ptx import check
from syncverify.frontends.ptx.analysis.arrays.address_ranges import ANYWHERE, AddressRanges
from syncverify.frontends.ptx.analysis.arrays.named_arrays import NamedArrays
from syncverify.frontends.ptx.analysis.warps.mask_values import MaskValues
from syncverify.frontends.ptx.analysis.warps.run_past import RunPast
from syncverify.frontends.ptx.compile import plan, runtime
from syncverify.frontends.ptx.exec.context import ClassContext
from syncverify.frontends.ptx.launch import tensormap_boxes
from syncverify.frontends.ptx.launch.tensormap_box_run import BoxFindings
from syncverify.frontends.ptx.launch.tensormap_box_solve import Solution, solve
from syncverify.simulate.ptx.syntax import parse
from tests.system.random_ptx.arrays_by_data import ARRAY_FAMILIES, phases
from tests.system.random_ptx.block_words import BLOCK_WORD_FAMILIES, lengths
from tests.system.random_ptx.boxes import BOX_FAMILIES, boxes
from tests.system.random_ptx.bypasses import heads
from tests.system.random_ptx.data_words import DATA_FAMILIES, bins, rows
from tests.system.random_ptx.families import FAMILIES
from tests.system.random_ptx.generate import program
from tests.system.random_ptx.host_contracts import CONTRACT_FAMILIES, scattered
from tests.system.random_ptx.judge import Checked, differs, executed, judge
from tests.system.random_ptx.lane_sets import LANE_SET_FAMILIES, lane_sets
from tests.system.random_ptx.lane_values import LANE_VALUE_FAMILIES
from tests.system.random_ptx.open_sizes import OPEN_FAMILIES, sides
from tests.system.random_ptx.strong_words import STRONG_FAMILIES, warp_sum
from tests.system.random_ptx.warpgroups import WARPGROUP_FAMILIES
from tests.system.random_ptx.writer import Writer

#: What the front end does not judge yet, each with a seed.
KNOWN = {"a vote by a part": 236}


def disagreements(seeds: range, set_: str = "protocols", seconds: float = 20) -> list[tuple[int, str, str]]:
    programs = {s: program(s, set_) for s in seeds}
    judged = [(s, judge(p, seconds)) for s, p in programs.items()]
    wrong = ("wrong proof", "ends differ", "no harm found")
    return [(s, j.kind, j.reason) for s, j in judged if j.kind in wrong and programs[s].mistake not in KNOWN]


@pytest.mark.parametrize("first", [1000, pytest.param(1030, marks=pytest.mark.slow)])
def test_both_sides_agree(first: int) -> None:
    assert disagreements(range(first, first + 30)) == []


@pytest.mark.parametrize("mistake", KNOWN)
def test_known_wrong_proofs(mistake: str) -> None:
    made = program(KNOWN[mistake])
    assert made.mistake == mistake and judge(made).kind == "agree"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(2000, 4000, 200))
def test_both_sides_agree_on_more(first: int) -> None:
    assert disagreements(range(first, first + 200)) == []


def test_both_sides_agree_on_what_open_sizes_steer() -> None:
    assert disagreements(range(1000, 1010), "open", 4) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(2000, 3000, 100))
def test_both_sides_agree_on_more_of_what_open_sizes_steer(first: int) -> None:
    assert disagreements(range(first, first + 100), "open", 4) == []


@pytest.mark.parametrize(
    ("set_", "count"),
    [
        ("data", 7),
        ("wgmma", 4),
        ("boxes", 5),
        ("words", 3),
        ("lanes", 6),
        ("values", 3),
        ("strong", 3),
        ("engines", 6),
        ("bypasses", 6),
        ("heads", 6),
    ],
)
def test_both_sides_agree_on_what_data_steers_and_what_warpgroups_name(set_: str, count: int) -> None:
    assert disagreements(range(1000, 1000 + count), set_, 4) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "set_",
    ["data", "wgmma", "boxes", "words", "contracts", "lanes", "values", "strong", "engines", "bypasses"],
)
@pytest.mark.parametrize("first", range(2000, 3000, 100))
def test_both_sides_agree_on_more_of_these(set_: str, first: int) -> None:
    assert disagreements(range(first, first + 100), set_, 4) == []


def test_a_place_out_of_bounds_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bins behind a mask that is too wide: proved, if nobody asked how far the mask lets data reach."""
    made = bins(Writer(41, "a mask of a bit more"))
    assert judge(made).verdict == "refuted"  # by an input
    monkeypatch.setattr(AddressRanges, "reached", lambda *_: ANYWHERE)
    assert (judge(made).verdict, judge(made).kind) == ("proved", "contested")  # by an assumption


@pytest.mark.slow
def test_a_branch_that_lanes_do_not_agree_on_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that each thread reads for itself, if one answer were taken for all of a warp."""
    made = rows(Writer(145, "bounds of each thread"))
    assert judge(made).kind != "wrong proof"
    monkeypatch.setattr("syncverify.driver.executions.sought.by_data", lambda _: False)
    monkeypatch.setattr(
        ClassContext, "any_answer", lambda c, *_, **__: c._any(1) if c.tables.any_data else None
    )
    assert judge(made).kind == "wrong proof"


@pytest.mark.parametrize("seed", [13, 41])
def test_operands_that_nobody_compares_would_be_noticed(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = program(seed, "wgmma")
    assert made.mistake and judge(made).kind == "agree"
    monkeypatch.setattr(async_operations, "_same_operands", lambda *_: None)
    assert judge(made).kind == "wrong proof"


def test_a_box_that_does_not_follow_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blocks copy by one map into one slot: its box would be twice too large, counted once."""
    made = boxes(Writer(8))
    assert judge(made).kind == "agree"

    def once(found: BoxFindings, variables: Iterable[int] = ()) -> Solution:
        equations, certain = (
            [replace(e, boxes=tuple((m, 1) for m, _ in e.boxes)) for e in some]
            for some in (found.equations, found.certain)
        )
        return solve(replace(found, equations=equations, certain=certain), variables)

    monkeypatch.setattr(tensormap_boxes, "solve", once)
    assert judge(made).kind == "no harm found"


@pytest.mark.parametrize(
    ("gives_boxes", "verdict", "kind"), [(True, "refuted", "agree"), (False, "proved", "other box")]
)
def test_a_copy_is_missing(gives_boxes: bool, verdict: str, kind: str) -> None:
    """Of two copies by two maps one is taken away: the phase ends if the other's box is twice as large."""
    made = replace(program(27_004_919, "all"), gives_boxes=gives_boxes)
    assert made.mistake
    found = judge(made)
    assert (found.verdict, found.kind) == (verdict, kind)


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_a_box_that_is_given_serves_a_proof(seed: int) -> None:
    found = judge(replace(boxes(Writer(seed)), gives_boxes=True))
    assert (found.verdict, found.kind) == ("proved", "agree")


def test_an_assumed_box_is_judged_by_executions_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof that names a box, of a kernel that does harm with that box too."""
    made = replace(program(27_004_919, "all"), gives_boxes=False)
    assumed = Checked("proved", "", boxes={3: 256})
    monkeypatch.setattr("tests.system.random_ptx.judge._checked", lambda *_: assumed)
    assert judge(made).kind == "wrong proof"


def test_harm_that_follows_from_a_warning_of_both_sides_is_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vote names lanes that have left, and lanes shuffle by what it gave: the harm is 56 lines further."""
    made = program(96_032_829_300_420, "values")
    for lines, kind in (({33}, "warned"), ({34}, "wrong proof")):
        said = Checked("proved", "", warned=frozenset(lines))
        monkeypatch.setattr("tests.system.random_ptx.judge._checked", lambda *_, said=said: said)
        assert judge(made).kind == kind


def test_a_length_that_is_written_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread writes the word that its block turns by, if every loaded word were taken to stay."""
    made = lengths(Writer(4, "a thread writes the length"))
    assert judge(made, 4).verdict == "refuted"
    # the race of that write is followed too: without this attempt nothing else shows it
    monkeypatch.setattr("syncverify.driver.ptx.check._with_plain_global", lambda _, found: found)
    assert judge(made, 4).kind == "unknown, harm"
    monkeypatch.setattr(
        plan, "unwritten", lambda flow, *_: frozenset(k for k, i in enumerate(flow.body) if i.op == "ld")
    )
    assert judge(made, 4).kind == "wrong proof"


def test_a_length_of_each_thread_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = lengths(Writer(9, "a row of each thread"))
    assert judge(made, 4).kind != "wrong proof"
    monkeypatch.setattr("syncverify.driver.executions.sought.by_data", lambda _: False)
    monkeypatch.setattr(runtime, "EACH_BLOCK", -1)
    assert judge(made, 4).kind == "wrong proof"


def test_an_input_that_the_host_never_gives_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores by a permutation are no race, if harm has to come by permutations too."""
    made = scattered(Writer(2))
    assert judge(made, 4).kind == "unknown, none"
    monkeypatch.setattr(Inputs, "contracts", lambda *_: frozenset())
    assert judge(made, 4).kind == "no harm found"


def test_a_value_between_the_vote_and_the_branch_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each value has a register of its own, the two are no one value in any case."""
    monkeypatch.setattr(check, "with_values_apart", lambda f: f)
    made = lane_sets(Writer(260, "the value is written again"))
    assert judge(made, 4).kind in ("agree", "unknown, harm")
    monkeypatch.setattr(MaskValues, "keeps", lambda *_: True)
    assert judge(made, 4).kind == "wrong proof"


def test_words_in_no_order_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Volatile words of lanes without a synchronization, if the order of strong accesses did not matter."""
    made = warp_sum(Writer(5, "no synchronization before load 0"))
    assert judge(made, 4).kind == "unknown, ends differ"
    monkeypatch.setattr("syncverify.checker.happens_before.handlers.accesses.words_matter", lambda *_: False)
    assert judge(made, 4).kind == "ends differ"


def test_an_access_in_another_array_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accesses that data places, if each were taken to stay inside the array behind the one that it names."""
    made = phases(Writer(20, "no barrier before phase 4"))
    assert judge(made, 6).kind in ("agree", "unknown, harm")
    named = NamedArrays.of

    def next_one(arrays: NamedArrays, k: int, which: int = 0) -> str | None:
        names, name = sorted(x for x in arrays.sizes if x != "table"), named(arrays, k, which)
        if max(arrays.sizes.values()) > 1 << 16:
            return name  # for places that numbers say
        return None if name is None else names[(names.index(name) + 1) % len(names)]

    monkeypatch.setattr(NamedArrays, "of", next_one)
    assert judge(made, 6).kind == "wrong proof"


def test_what_leaves_its_array_says_nothing_of_a_proof() -> None:
    """Executions count in launches whose accesses stay inside, where a proof assumes that."""
    right = phases(Writer(0))
    far = replace(right, contents=((1 << 20,) * 512, (300,) * 512))
    assert judge(right, 6).kind == "agree"
    assert judge(far, 6).kind in ("agree", "contested")


@pytest.mark.parametrize("family", ["flag", "last", "exchange"])
def test_right_programs_of_strong_words_end_alike(family: str) -> None:
    assert differs(STRONG_FAMILIES[family](Writer(3)), 8) == ""


@pytest.mark.parametrize("seed", [9209532, 9211737])
def test_a_box_is_known_at_each_publication_of_its_map(seed: int) -> None:
    """One of two edits of a map leaves out a side of the box."""
    assert judge(program(seed, "all"), 4).kind == "unknown, harm"


def test_lanes_may_go_round_a_barrier_and_leave() -> None:
    assert judge(program(9204634, "all"), 4).kind == "agree"


def test_lanes_that_went_round_and_left_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes bypass a collective and leave at the loop's head, if nobody noted that."""
    made = heads(Writer(5014, "lanes bypass meeting 0"))
    assert judge(made).verdict == "refuted"
    monkeypatch.setattr(RunPast, "bypassable", ())
    assert judge(made).kind == "contested"  # a warning is left


MORE = DATA_FAMILIES | WARPGROUP_FAMILIES | BOX_FAMILIES | BLOCK_WORD_FAMILIES | CONTRACT_FAMILIES
MORE |= LANE_SET_FAMILIES | LANE_VALUE_FAMILIES | STRONG_FAMILIES | ARRAY_FAMILIES


@pytest.mark.parametrize("family", MORE)
def test_right_programs_of_the_other_sets_do_no_harm(family: str) -> None:
    for seed in range(2):
        made = MORE[family](Writer(seed))
        harm, how = executed(made, range(4))
        assert how == "none", (seed, harm)


@pytest.mark.parametrize("seed", [2, 5, 7, 9])
def test_neither_side_of_a_guard_sees_what_the_other_writes(seed: int) -> None:
    sides(writer := Writer(seed))
    found = [judge(sides(Writer(seed, m))) for m in writer.mistakes if "forgets its move" in m]
    assert [(j.verdict, j.kind) for j in found] == [("refuted", "agree")] * 2


@pytest.mark.parametrize("family", OPEN_FAMILIES)
def test_right_programs_of_open_sizes_do_no_harm(family: str) -> None:
    for seed in range(4):
        harm, how = executed(OPEN_FAMILIES[family](Writer(seed)), range(6))
        assert how == "none", (seed, harm)


@pytest.mark.parametrize("family", FAMILIES)
def test_right_programs_do_no_harm(family: str) -> None:
    for seed in range(6):
        harm, how = executed(FAMILIES[family](Writer(seed)), range(4))
        assert how == "none", (seed, harm)


@pytest.mark.parametrize("family", FAMILIES)
def test_most_planted_mistakes_do_harm(family: str) -> None:
    writer = Writer(5)
    FAMILIES[family](writer)
    found = [
        executed(FAMILIES[family](Writer(5, name)), range(12))[0] is not None for name in writer.mistakes
    ]
    assert sum(found) >= len(found) / 2, dict(zip(writer.mistakes, found, strict=True))


def test_a_seed_names_its_program() -> None:
    assert program(77) == program(77)
    texts = {program(s).text for s in range(40)}
    assert len(texts) > 35
    for s in range(40):
        try:
            parse(program(s).text)
        except InputError:
            assert program(s).mistake  # an edit may name a register that is not there


@pytest.mark.parametrize("seed", [9200220, 9200342, 9200514])
def test_programs_that_once_ended_in_a_fault(seed: int) -> None:
    judged = judge(program(seed, "all"), 4)
    assert "internal fault" not in judged.reason and judged.kind in ("agree", "unknown, none")
