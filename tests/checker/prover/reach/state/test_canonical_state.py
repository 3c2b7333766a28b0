"""The normal form treats every field that a run has, one way or the other."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import fields, is_dataclass, replace
from itertools import combinations, product

import pytest

from syncverify.checker.happens_before.run import APART, Run
from syncverify.checker.happens_before.vector_clocks import ROWS, E, H
from syncverify.checker.prover.reach.knowledge_order import abstract_knowledge
from syncverify.checker.prover.reach.state.canonical_state import FIELD_COVERAGE, CanonicalState, canonicalize
from syncverify.ir.text.parser import parse
from syncverify.model.events import EACH_TIME
from tests.checker.prover.reach.state.test_snapshot import started, steps


@pytest.mark.parametrize("kind", FIELD_COVERAGE, ids=lambda k: k.__name__)
def test_every_field_is_kept_or_left_out(kind: type) -> None:
    kept, left = (text.split() for text in FIELD_COVERAGE[kind])
    names = [f.name for f in fields(kind)] if is_dataclass(kind) else list(getattr(kind, "__slots__"))  # noqa: B009
    assert sorted(kept + left) == sorted(names)


@pytest.mark.parametrize("row", range(ROWS), ids="E H SH HW A SA AG SP SG XG".split())
def test_what_is_asked_of_an_access(row: int) -> None:
    """Whether it is ordered before and bridged, never whether it came first."""
    run = started()
    steps(run, 90)
    last = next(r for s in run.memory[0]._segments for r in s.reads.values())
    t = next(t for t in run.threads if t.cls != last.cls and not t.done)
    forms = set()
    for knows in (last.time - 1, last.time):
        t.clock.m[row, last.cls] = knows
        forms.add(canonicalize(run))
    assert len(forms) == (1 if row == E else 2)


@pytest.mark.parametrize("row", range(ROWS), ids="E H SH HW A SA AG SP SG XG".split())
def test_what_is_asked_of_an_arrival(row: int) -> None:
    """Whether it came first, in every execution."""
    run = started()
    steps(run, 90)
    ((cls, time),) = [*run.barriers[0].phases[1].con.items()][:1]
    t = next(t for t in run.threads if t.cls != cls and not t.done)
    forms = set()
    for knows in (time - 1, time):
        t.clock.m[row, cls] = knows
        forms.add(canonicalize(run))
    assert len(forms) == (2 if row == E else 1)


FLAG = """kernel flag {
  launch grid [2] block [64] cooperative
  param N : i32 = 2
  tensor flag : u32[1] inout
  if block == 0 {
    if warp == 0 {
      elect p
      if p {
        st.global.relaxed.gpu flag[0], 1
      }
    }
  } else {
    if warp == 0 {
      spin.global.acquire.gpu flag[0] >= 1
    }
    for i in 0..N {
      bar.sync 0
    }
  }
}
"""


@pytest.mark.parametrize("row", [E, H], ids="E H".split())
@pytest.mark.parametrize("whose", ["write", "spin"])
def test_what_is_asked_of_a_flag(whose: str, row: int) -> None:
    """Whether its write, and the wait that read it, came first in every execution or are seen to be over."""
    (kernel,) = parse(FLAG, "flag.syncir")
    run = started(kernel, {"N": 2})
    steps(run, 60)
    (at,) = run.locations.values()
    (asked,) = at.writes if whose == "write" else at.spins
    t = max((t for t in run.threads if t.cls != asked.cls), key=lambda t: t.cls)
    forms = set()
    for knows in (asked.time - 1, asked.time):
        t.clock.m[row, asked.cls] = knows
        forms.add(canonicalize(run))
    assert len(forms) == 2
    assert abstract_knowledge(run) is None  # flags are compared by forms alone


def _stores(run: Run, numbers: list[tuple[int, int, int]], classes: Iterable[int]) -> None:
    """Each class of a list executes one store; ``numbers``: class, what the run counts, and what is so."""
    for c in classes:
        so = 1 + sum(1 for cls, _, _ in numbers if cls == c)
        numbers.append((c, run.execution_of(run.threads[c], SITE), so))


def _equal(numbers: list[tuple[int, int, int]]) -> list[bool]:
    """Which pairs of stores are taken to be of one execution; it is so then."""
    for (_, a, x), (_, b, y) in combinations(numbers, 2):
        assert a != b or x == y
    return [a == b for (_, a, _), (_, b, _) in combinations(numbers, 2)]


SITE = 1_000_000


def test_equal_forms_of_executions_have_equal_futures() -> None:
    """All orders in which three classes execute a store up to four times, from form to form; then any two."""
    run = started()
    run.info = replace(run.info, varies=lambda _: EACH_TIME)
    futures: dict[Hashable, list[list[bool]]] = {}
    for n in range(1, 5):
        for before in product(range(3), repeat=n):
            run.executions = {}
            numbers: list[tuple[int, int, int]] = []
            form: Hashable = None
            for c in before:
                _stores(run, numbers, [c])
                form = canonicalize(run)
            newest = CanonicalState(run).newest
            last = [[x for x in numbers if x[0] == c][-1:] for c in range(3)]
            ages = tuple((c, a // APART, newest[SITE, a // APART] - a) for some in last for c, a, _ in some)
            kept, found = dict(run.executions), []
            for after in product(range(3), repeat=2):
                run.executions, more = dict(kept), list(numbers)
                _stores(run, more, after)
                _equal(more)
                found.append(_equal([*(x for some in last for x in some), *more[n:]]))
            assert futures.setdefault((form, ages), found) == found, before
