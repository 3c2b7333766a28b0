"""A kernel that is written in another way keeps its verdict: the small kernels, some statements rewritten."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import syncverify
from syncverify.frontends.ptx.flow import promote_locals
from tests.system import small_ptx
from tests.system.equivalent_ptx import PARTS, REWRITES, SPILLS, Names, kept, rewritten, statement_of
from tests.system.equivalent_ptx.registers import NotRewrittenError, shared_registers

FOLDER = Path(small_ptx.__file__).parent
#: Kernels whose verdict needs facts of the text that rewrites take away: a loaded word that decides, an
#: instruction whose operands have to be constants.
APART = ("by_data", "map_edits", "unwritten_addresses")
#: Mistakes that remainders of addresses show, which logic on whole words loses: then the caller aligns them.
BY_REMAINDER = ("cp.async from a place by the block",)
KERNELS = [
    (n, k)
    for path in sorted(FOLDER.glob("*.kernels"))
    for n, k in enumerate(small_ptx.read(path))
    if path.stem not in APART
]


def verdict(k: small_ptx.Small, seed: int, count: int) -> str:
    """Of the kernel with so many statements rewritten. No execution is looked at, but where a right one is
    refuted or waits for one: executions take back what they do not show."""
    text = rewritten(k.text, seed, count).text if count else k.text
    found = verdict_of(k, text)
    return verdict_of(k, text, replay=True) if k.right and found == "refuted" else found


def verdict_of(k: small_ptx.Small, text: str, replay: bool = False) -> str:
    """Of a text under the facts of a kernel."""
    (report,) = syncverify.check(
        text, facts={"kernel": {"k": k.facts}}, timeout=60, replay=replay, advice=False
    )
    if not replay and "none was asked for" in str(report.reason):  # an execution may contradict a proof
        return verdict_of(k, text, replay=True)
    return str(report.verdict)


#: A loop that waits for a flag is known by the comparison before its branch: a copied predicate hides it.
#: Lanes that come to a loop by two ways are not known to make its turns together. A size that lanes load on
#: two sides of a branch has no name. A poll of the first lane is known by the three blocks of its loop.
UNDECIDED = {
    (group, "unknown")
    for group in (
        "a flag in the shared memory of the other block",
        "a flag of at most some number without a sign",
        "a latch that counts down",
        "bulk store and a flag",
        "global flags and lanes",
        "lanes that wait for flags of their own",
        "one thread tells of all",
        "peel by a match",
        "places behind comparisons",
        "rows of a pitch that is a size and one",
        "the first lane of a warp polls for all",
        "tried first, then waited for",
        "warps by ticket",
    )
}


#: Blocks that store to one place, which only an execution shows: proved without one, as it is written.
BY_EXECUTION = {
    ("the last block of rows", "rows share places"),
    ("the last block reads what all wrote", "the last but one reads"),
    ("the last block reads what all wrote", "the first one reads"),
    ("the last block reads what all wrote", "written behind the count"),
}


def changed(seed: int, every: int, count: int) -> list[str]:
    """Kernels whose verdict is the opposite of what they are, or whose proof or refutation is lost. Some are
    wrong by an execution alone: undecided without one, as they are written."""
    return [
        f"{k.group}: {k.name}: {found}"
        for n, k in KERNELS[seed % every :: every]
        if (found := verdict(k, seed * 1000 + n, count)) != ("proved" if k.right else "refuted")
        and (k.group, found) not in UNDECIDED
        and (k.right or found != "unknown" or verdict(k, 0, 0) != "unknown")
        and (k.group, k.name) not in BY_EXECUTION
    ]


@pytest.mark.parametrize(
    ("seed", "every"),
    [(21, 24), pytest.param(21, 12, marks=pytest.mark.slow), pytest.param(22, 12, marks=pytest.mark.slow)],
)
def test_one_statement_rewritten(seed: int, every: int) -> None:
    assert changed(seed, every, 1) == []


def with_shared_registers(seed: int, every: int) -> list[str]:
    """Kernels with another verdict once their values share registers."""
    found = []
    for n, k in KERNELS[seed % every :: every]:
        try:
            text = shared_registers(k.text, seed * 1000 + n)
        except NotRewrittenError:
            continue
        told, before = verdict_of(k, text), verdict_of(k, k.text)
        if told != before:
            found.append(f"{k.group}: {k.name}: {told}, not {before}")
    return found


@pytest.mark.parametrize(
    ("seed", "every"), [(5, 120), *(pytest.param(n, 8, marks=pytest.mark.slow) for n in range(8))]
)
def test_values_that_share_registers(seed: int, every: int) -> None:
    assert with_shared_registers(seed, every) == []


def opposites(seed: int, every: int, count: int) -> Iterator[str]:
    """Kernels with the opposite verdict once some operands go through local memory in pairs or in parts; a
    refutation counts if an execution shows it."""
    for n, k in KERNELS[seed % every :: every]:
        text = rewritten(k.text, seed * 1000 + n, count, SPILLS).text
        opposite = "refuted" if k.right else "proved"
        reports = (
            syncverify.check(text, facts={"kernel": {"k": k.facts}}, timeout=60, replay=replay, advice=False)[
                0
            ]
            for replay in (False, True)
        )
        if all(str(report.verdict) == opposite for report in reports):
            yield f"{k.group}: {k.name}"


@pytest.mark.parametrize("seed", [pytest.param(3, marks=pytest.mark.slow), 7])
def test_operands_in_pairs_and_parts(seed: int) -> None:
    assert list(opposites(seed, 16, 3)) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 46))
def test_more_operands_in_pairs_and_parts(seed: int) -> None:
    assert list(opposites(seed, 1, 4)) == []


def not_followed(self: Any) -> Iterator[Any]:
    """As it was: what an access that stays touches was a register all the same."""
    groups: dict[str, set[Any]] = {}
    for i in self.function.body:
        cells = self.cells(i)
        for c, _ in cells:
            groups.setdefault(c.depot, set()).add(c)
        if not cells:
            yield from self._escapes(i)
    for group in groups.values():
        for c, d in combinations(group, 2):
            yield from (c, d) if c.overlaps(d) else ()


def test_a_pair_of_which_half_is_a_register_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promote_locals._Tracking, "not_followed", not_followed)
    assert next(opposites(7, 16, 3), None) is not None


def test_every_way_through_local_memory_is_made() -> None:
    for way, part in enumerate(PARTS):
        names = Names({"%r": "b32", "%rd": "b64"}, random.Random(way))
        for register in ("%r", "%rd"):
            made = kept(register, names, way)
            assert made is not None and names.kind(made[1]) is None, part.__name__
            assert any(".local" in line or "call" in line for line in made[0]), part.__name__


def test_every_rewrite_is_made() -> None:
    made = {name for _, k in KERNELS[::8] for name, _ in rewritten(k.text, 5, 8).rewrites}
    guarded = ".entry k()\n{\n.reg .pred %p;\n.reg .b32 %r;\n@%p st.shared.u32 [%r], 1;\nret;\n}"
    made |= {name for seed in range(20) for name, _ in rewritten(guarded, seed, 1).rewrites}
    assert made == {r.__name__ for r in REWRITES}


def test_a_rewrite_that_changes_the_meaning_is_noticed() -> None:
    """The rewrite of addresses loses 4 bytes: then right kernels are refuted."""

    def moved(s: object, names: object) -> list[str] | None:
        text = str(s)
        return [text.replace("[%r4]", "[%r4+4]")] if "st.shared" in text and "[%r4]" in text else None

    kernels = [k for _, k in KERNELS if k.right and "st.shared.u32 [%r4]" in k.text]
    facts = [{"kernel": {"k": k.facts}} for k in kernels]
    texts = [rewritten(k.text, 1, 1, [moved]).text for k in kernels]
    reports = [
        syncverify.check(t, facts=f, replay=False, advice=False)[0] for t, f in zip(texts, facts, strict=True)
    ]
    assert "refuted" in {str(r.verdict) for r in reports}


def test_statements_are_read() -> None:
    s = statement_of("@!%p1 st.shared.v2.u32 [%r1+4], {%r2, %r3};")
    assert s is not None and (s.guard, s.negated, s.operands) == ("%p1", True, ("[%r1+4]", "{%r2, %r3}"))
    assert statement_of("LOOP:") is None and statement_of(".reg .b32 %r<4>;") is None
    assert str(s) == "@!%p1 st.shared.v2.u32 [%r1+4], {%r2, %r3};"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30, 36))
def test_several_statements_rewritten(seed: int) -> None:
    opposite = {"proved", "refuted"}
    wrong = [
        f"{k.group}: {k.name}"
        for n, k in KERNELS
        if k.group not in BY_REMAINDER
        if {verdict(k, seed * 1000 + n, 6), "proved" if k.right else "refuted"} == opposite
    ]
    assert wrong == []
