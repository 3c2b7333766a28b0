"""The normal form treats every field that a run has, one way or the other."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import pytest

from syncverify.checker.clocks import ROWS, E
from syncverify.checker.explore.normal import TREATED, normal

from .test_fork import started, steps


@pytest.mark.parametrize("kind", TREATED, ids=lambda k: k.__name__)
def test_every_field_is_kept_or_left_out(kind: type) -> None:
    kept, left = (text.split() for text in TREATED[kind])
    names = [f.name for f in fields(kind)] if is_dataclass(kind) else list(getattr(kind, "__slots__"))  # noqa: B009
    assert sorted(kept + left) == sorted(names)


@pytest.mark.parametrize("row", range(ROWS), ids="E H SH HW A SA AG SP".split())
def test_what_is_asked_of_an_access(row: int) -> None:
    """Whether it is ordered before and bridged, never whether it came first."""
    run = started()
    steps(run, 90)
    last = next(r for s in run.memory[0]._segments for r in s.reads.values())
    t = next(t for t in run.threads if t.cls != last.cls and not t.done)
    forms = set()
    for knows in (last.time - 1, last.time):
        t.clock.m[row, last.cls] = knows
        forms.add(normal(run))
    assert len(forms) == (1 if row == E else 2)


@pytest.mark.parametrize("row", range(ROWS), ids="E H SH HW A SA AG SP".split())
def test_what_is_asked_of_an_arrival(row: int) -> None:
    """Whether it came first, in every execution."""
    run = started()
    steps(run, 90)
    ((cls, time),) = [*run.barriers[0].phases[1].con.items()][:1]
    t = next(t for t in run.threads if t.cls != cls and not t.done)
    forms = set()
    for knows in (time - 1, time):
        t.clock.m[row, cls] = knows
        forms.add(normal(run))
    assert len(forms) == (2 if row == E else 1)
