"""Loops that edit a tensor map in each turn: the judge compares what is known of its edits and uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.checker.happens_before.run import Run
from syncverify.checker.kernel.exact import LockstepChecker, form
from syncverify.checker.kernel.exact.tensor_maps import EditedMap
from syncverify.driver.certificates import RejectedError
from syncverify.driver.ir import check_kernel
from tests.checker.kernel.exact.test_lockstep import kernel, prefix, rechecked

EDITED = "rulebook/E48_descriptor_edited_in_flight"
ACQUIRED = "rulebook/E47_missing_tensormap_acquire"


@pytest.mark.parametrize("name", [EDITED, ACQUIRED])
def test_edits_in_loops_are_judged(name: str) -> None:
    assert rechecked(f"{name}.good").judged


@pytest.mark.parametrize(
    ("name", "said"),
    [(EDITED, "edited while a copy may still use it"), (ACQUIRED, "not released and acquired")],
)
def test_what_a_checker_that_sees_no_maps_proves_is_rejected(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_kernel(kernel(f"{name}.bad"), scope=ScopeKind.ALL).verdict is Verdict.REFUTED
    real = Run.report

    def report(run: Run, what: Any, rule: str, *more: Any, **named: Any) -> Any:
        return None if rule == "SV502" else real(run, what, rule, *more, **named)

    monkeypatch.setattr(Run, "report", report)
    with pytest.raises(RejectedError, match=said):
        rechecked(f"{name}.bad")


def edited() -> tuple[LockstepChecker, EditedMap]:
    """The judge somewhere behind the first edit and acquire."""
    for count in range(100, 400):
        judge = prefix(f"{EDITED}.good", count)
        for m in judge.maps.values():
            if m.acquired and m.uses:
                return judge, m
    raise AssertionError("no edit")


#: What a later edit or use of the map may see.
CHANGES: dict[str, Callable[[EditedMap], object]] = {
    "no edits": lambda m: m.edits.clear(),
    "by the warp as one, or not": lambda m: setattr(m, "whole", not m.whole),
    "at another place": lambda m: setattr(m, "site", m.site + 1),
    "not released": lambda m: m.released.clear(),
    "not acquired": lambda m: m.acquired.clear(),
    "no uses": lambda m: m.uses.clear(),
    "a use that was open": lambda m: m.open.extend(m.uses),
    "a use that is drained": lambda m: setattr(m.uses[-1], "drained", -1 - m.uses[-1].drained),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_form_tells_maps_apart(change: str) -> None:
    judge, m = edited()
    other = judge.fork()
    (theirs,) = (other.maps[n] for n, x in judge.maps.items() if x is m)
    before = form(judge)
    assert form(other) == before
    CHANGES[change](theirs)
    assert form(other) != before
    assert form(judge) == before
