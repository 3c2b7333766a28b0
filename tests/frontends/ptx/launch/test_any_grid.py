"""Where no proof is found for the number of CTAs that the facts give, one for any number will do."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.driver.ptx import every_size
from syncverify.driver.ptx.task import CheckTask
from syncverify.frontends.launch_facts import read_facts
from syncverify.ir.expr import Var
from tests.frontends.ptx.analysis.slicing.test_iteration_havoc import FACTS, PARAMS, REMADE
from tests.frontends.ptx.execute_helpers import module_text

ANY = Var("grid.x")
GIVEN = FACTS.replace("\nblock", "\ngrid = [8, 1, 1]\nblock", 1)


@pytest.mark.parametrize(
    ("facts", "first", "wider", "tried", "verdict"),
    [
        (GIVEN, "unknown", "proved", [8, ANY], "proved"),
        (GIVEN, "unknown", "unknown", [8, ANY], "unknown"),
        (GIVEN, "unknown", "refuted", [8, ANY], "unknown"),  # at another grid
        (GIVEN, "proved", "", [8], "proved"),
        (FACTS.replace("\nblock", '\ngrid = ["G", 1, 1]\nblock', 1), "unknown", "", [Var("G")], "unknown"),
        (FACTS.replace("\nblock", "\ngrid = [1, 1, 1]\nblock", 1), "unknown", "", [1], "unknown"),
    ],
)
def test_which_grids_are_tried(
    facts: str, first: str, wider: str, tried: list[Any], verdict: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (path := tmp_path / "k.ptx").write_text(module_text(REMADE.replace("SYNC", "bar.sync 0;"), params=PARAMS))
    (launch := tmp_path / "k.toml").write_text(facts)
    grids: list[Any] = []

    def found(k: CheckTask, *_: object) -> Any:
        grids.append(k.facts.grid[0])
        assert k.facts.grid[1:] == (1, 1)
        said = Verdict(first if len(grids) == 1 else wider)
        end = SimpleNamespace(
            stopped={}, verdict=said, reason="states do not repeat", diagnostics=(), stats={}, values={}
        )
        return every_size.Attempt(k, end)

    monkeypatch.setattr(every_size, "_tried", found)
    monkeypatch.setattr(every_size, "_smallest", lambda k, report: report)
    (report,) = check_source(read_source(path), facts=read_facts(launch), scope=ScopeKind.ALL, repairs=False)
    assert grids == tried
    assert report.verdict is Verdict(verdict)


LOOPS = """
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, 0;
    LOOP: setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra END;
    {SYNC}
    add.u32 %r2, %r2, 1;
    bra LOOP;
    END: ret;
"""


@pytest.mark.parametrize(("sync", "verdict"), [
    ("bar.sync 0;", "proved"),
    ("mov.u32 %r3, %tid.x; setp.eq.u32 %p2, %r3, 0; @%p2 bar.sync 0, 64;", "refuted"),
])  # fmt: skip
def test_more_blocks_than_are_compared(tmp_path: Path, sync: str, verdict: str) -> None:
    """The first and the last are run: what the last does wrong, the grid does."""
    (path := tmp_path / "k.ptx").write_text(module_text(LOOPS.replace("{SYNC}", sync)))
    (launch := tmp_path / "k.toml").write_text("[kernel.k]\nblock = [64]\ngrid = [600]\n")
    (report,) = check_source(read_source(path), facts=read_facts(launch), scope=ScopeKind.ALL, repairs=False)
    assert report.verdict is Verdict(verdict)
