"""What the checker says of small kernels whose labels others decided: the right ones are proved."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import syncverify
from tests.sweeps import part_of
from tests.system.small_ptx import Small, read

DOCS = Path(__file__).parents[3] / "docs" / "testing.md"
FILES = sorted(Path(__file__).parent.glob("*.kernels"))
KERNELS = [k for path in FILES for k in read(path)]
#: What only the second reader refutes.
BY_INPUT = (
    "by_data",
    "shared_flags",
    "hand_overs_in_shared",
    "places_of_data",
    "words_of_all",
    "constants_and_spaces",
    "places_behind_data",
    "arrays_by_turns",
    "locks_of_blocks",
    "counts_in_shared",
    "registers_without_a_value",
    "decisions_without_a_value",
    "types_and_spaces",
    "turns_in_shared",
    "decided_by_warps",
    "last_blocks",
    "changed_before_asked",
    "few_registers",
    "signs_of_numbers",
    "open_grids",
    "read_only_loads",
    "discards",
    "tensors_again",
    "other_reads",
    "slices_of_sums",
    "registers_in_loops_of_data",
    "places_of_other_blocks",
    "other_instructions",
    "words_of_one_block",
    "words_of_several_blocks",
    "changes_of_one_word",
    "carries",
    "words_by_hand",
    "first_guesses",
    "overlapping_reductions",
    "counted_polls",
    "first_blocks",
    "votes_and_slots",
    "made_maps",
    "first_looks",
    "groups_of_lanes",
)
#: One of so many is replayed on the second reader in every run.
EVERY = 32
#: Files that take seconds: one of so many of their kernels; all of them in the slow run.
LONG = {
    "address_arithmetic": 3,
    "arrays_by_turns": 2,
    "barriers_and_clusters": 2,
    "barriers_and_copies": 3,
    "bits_and_scopes": 6,
    "by_data": 48,
    "changed_before_asked": 4,
    "copies": 2,
    "counted_polls": 4,
    "counters_of_rings": 2,
    "counts_in_shared": 2,
    "flags": 2,
    "groups_of_lanes": 3,
    "hand_overs_in_shared": 3,
    "idioms": 4,
    "last_blocks": 4,
    "locks_of_blocks": 3,
    "loops_of_polls": 3,
    "open_grids": 3,
    "places_behind_data": 2,
    "products_and_rings": 8,
    "readings": 6,
    "registers_in_loops_of_data": 2,
    "roles_and_groups": 4,
    "rounds_of_collectives": 5,
    "shared_flags": 3,
    "turns_in_shared": 12,
    "values_by_lane": 2,
    "votes_and_slots": 5,
    "windows_and_counts": 3,
    "words_by_hand": 4,
    "words_of_all": 4,
}

#: Refuted by a rule that no execution bears out, so unknown where they are replayed: barriers do not wait for
#: lanes that exit (K22).
NO_HARM = [
    "lanes leave a loop before others: they store before they leave",
    "lanes bypass a collective in a loop and leave at its head: shfl under a guard, by size",
    "lanes bypass a collective in a loop and leave at its head: bar0 warps bypass, by size",
    # those who bypass twelve meet the others at six more, with the same qualifiers and the same mask
    "lanes that may bypass many collectives in a loop and leave at its head: "
    "one branch around twelve and more, some bypass",
]


def name(k: Small) -> str:
    return f"{k.group}: {k.name}"


def verdict(k: Small, replay: bool) -> str:
    (report,) = syncverify.check(
        k.text, facts={"kernel": {"k": k.facts}}, timeout=60, replay=replay, advice=False
    )
    return str(report.verdict)


def test_there_are_at_least_as_many_as_the_docs_say() -> None:
    said = re.search(r"holds (\d+) small kernels, (\d+) right and (\d+) wrong", DOCS.read_text())
    assert said is not None
    every, right, wrong = map(int, said.groups())
    there = sum(k.right for k in KERNELS)
    assert every == right + wrong and right <= there and wrong <= len(KERNELS) - there
    assert len({name(k) for k in KERNELS}) == len(KERNELS)


def differing(path: Path, parts: int = 1) -> list[tuple[str, str]]:
    """The kernels of this run's part of a file of which another verdict is reported."""
    told = [(k, verdict(k, path.stem in BY_INPUT)) for k in part_of(list(read(path)), parts)]
    return [(name(k), said) for k, said in told if said != ("proved" if k.right else "refuted")]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_verdicts(path: Path) -> None:
    assert differing(path, LONG.get(path.stem, 1)) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in FILES if p.stem in LONG], ids=lambda p: p.stem)
def test_verdicts_of_all(path: Path) -> None:
    assert differing(path) == []


@pytest.mark.parametrize(
    "k", part_of([k for k in KERNELS if not k.right and name(k) not in NO_HARM], EVERY), ids=name
)
def test_refutations_come_true(k: Small) -> None:
    assert verdict(k, replay=True) == "refuted"


@pytest.mark.slow
def test_all_refutations_come_true() -> None:
    others = {name(k): verdict(k, replay=True) for k in KERNELS if not k.right}
    assert {n: v for n, v in others.items() if v != "refuted"} == dict.fromkeys(NO_HARM, "unknown")
