"""A barrier that restarts in each of many turns: every life of it has clocks of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.launch_facts import read_facts
from tests.frontends.ptx.execute_helpers import module_text

KERNEL = """
    .shared .align 8 .b64 bar;
    ld.param.u32 %r1, [k_n];
    mov.u32 %r2, %tid.x;
    setp.eq.u32 %p1, %r2, 0;
    mov.u32 %r3, 0;
OUTER:
    mov.u32 %r4, 0;
INNER:
    @%p1 mbarrier.init.shared::cta.b64 [bar], 1;
    bar.sync 0;
    @%p1 mbarrier.arrive.shared::cta.b64 _, [bar];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra WAIT;
    {sync}
    @%p1 mbarrier.inval.shared::cta.b64 [bar];
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p3, %r4, {turns};
    @%p3 bra INNER;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p4, %r3, %r1;
    @%p4 bra OUTER;
    ret;
"""


@pytest.mark.parametrize("turns", [20, 150])
@pytest.mark.parametrize(("sync", "verdict"), [("bar.sync 0;", "proved"), ("", "refuted")])
def test_many_lives_before_a_question(tmp_path: Path, sync: str, verdict: str, turns: int) -> None:
    text = KERNEL.replace("{sync}", sync).replace("{turns}", str(turns))
    (path := tmp_path / "k.ptx").write_text(module_text(text, params=".param .u32 k_n"))
    facts = '[kernel.k]\nblock = [64]\ngrid = [1]\n[kernel.k.params]\n0 = "N"\n'
    (launch := tmp_path / "k.toml").write_text(facts)
    (report,) = check_source(read_source(path), facts=read_facts(launch), scope=ScopeKind.ALL, repairs=False)
    assert report.verdict is Verdict(verdict)
