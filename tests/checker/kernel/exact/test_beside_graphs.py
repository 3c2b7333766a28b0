"""Loops of any length, of which the judge compares states: stores of one value in each turn, and waiting
classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.checker.happens_before.handlers import accesses
from syncverify.driver.certificates import Rechecked, RejectedError, dumps
from syncverify.driver.files import certificates, check_source, read_source, recheck
from syncverify.frontends.launch_facts import LaunchFacts

FACTS = {"block": [96], "grid": [1], "params": {"0": {"i32": "N"}}, "assume": ["N >= 1"]}
HEAD = """
.version 8.3
.target sm_90a
.address_size 64
.shared .align 16 .b8 smem[1024];
.visible .entry k(.param .u32 n)
{
    .reg .pred %p<6>;
    .reg .b32 %r<20>;
    ld.param.u32 %r9, [n];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    shr.u32 %r3, %r1, 5;
    mov.u32 %r4, smem;
    shl.b32 %r5, %r2, 2;
    add.u32 %r5, %r4, %r5;
    mov.u32 %r6, 0;
"""
#: In each turn all warps store in the words of their lanes, meet, read all words' first one, and meet again.
STORES = """
TURN:
    st.shared.u32 [%r5], {value};
    {met}
    ld.shared.u32 %r8, [%r4];
    {again}
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p1, %r6, %r9;
    @%p1 bra TURN;
    ret;
}}
"""
#: Warp 0 waits for warp 1, which first meets warp 2 in each turn. ``WORD`` is stored before and read behind.
WAITS = """
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra LAST;
TURN:
    bar.sync 2, 64;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p1, %r6, %r9;
    @%p1 bra TURN;
    setp.eq.u32 %p2, %r3, 2;
    @%p2 bra DONE;
    {before}
LAST:
    bar.sync 1, 64;
    setp.eq.u32 %p3, %r3, 1;
    @%p3 bra DONE;
    {behind}
DONE:
    ret;
}}
"""
#: Warps 0 and 1 store by one instruction under a guard, and meet in each other turn.
GUARDED = """
TURN:
    and.b32 %r7, %r6, 1;
    setp.eq.u32 %p2, %r7, {of};
    @%p2 st.shared.u32 [%r4], {value};
    setp.eq.u32 %p3, %r7, 0;
    @%p3 bra ON;
    bar.sync 0;
ON:
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p1, %r6, %r9;
    @%p1 bra TURN;
    ret;
}}
"""
#: Lanes of odd numbers store in turns 1 and 3, the others of warp 0 in turns 0 and 2, each in its own word.
#: Warp 1 stores in turn 3 where warp 0 does in turn 1: each warp has executed the store once before.
LANES = """
    setp.eq.u32 %p1, %r3, 2;
    and.b32 %r7, %r2, 1;
    setp.lt.u32 %p2, %r7, %r3;
    or.pred %p1, %p1, %p2;
    @%p1 bra OUT;
    mad.lo.s32 %r10, %r3, -12, 4;
    shl.b32 %r11, %r3, 3;
    mad.lo.u32 %r14, %r1, 4, 128;
TURN:
    and.b32 %r12, %r6, 1;
    shr.u32 %r13, %r6, 1;
    mad.lo.s32 %r13, %r13, %r10, %r11;
    setp.eq.u32 %p2, %r7, 0;
    selp.u32 %r13, %r14, %r13, %p2;
    add.u32 %r13, %r4, %r13;
    setp.eq.u32 %p3, %r12, %r7;
    @%p3 st.shared.u32 [%r13], {value};
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p1, %r6, 4;
    @%p1 bra TURN;
OUT:
    ret;
}}
"""
MEET = {"met": "bar.sync 0;", "again": "bar.sync 0;"}
WORD = {"before": "st.shared.u32 [%r4+512], 5;", "behind": "ld.shared.u32 %r8, [%r4+512];"}
GOOD = {
    "the number of the turn": STORES.format(value="%r6", **MEET),
    "a number": STORES.format(value="7", **MEET),
    "what the turn before read": STORES.format(value="%r8", **MEET).replace(
        "TURN:", "mov.u32 %r8, 0;\nTURN:"
    ),
    "a class waits": WAITS.format(before="", behind=""),
    "a class waits for a word": WAITS.format(**WORD),
}
#: Good ones that are proved, but whose graphs the judge does not follow to the end.
TURNS = {
    "turns that all warps choose": GUARDED.format(of="0", value="%r6"),
    "a number in turns of each warp": GUARDED.format(of="%r3", value="7"),
    "a number in turns of each lane": LANES.format(value="7"),
}
BAD = {
    "each thread's number": STORES.format(value="%r1", **MEET),
    "turns that no barrier parts": STORES.format(value="%r6", met="bar.sync 0;", again=""),
    "turns that a warp begins alone": STORES.format(value="%r6", met="", again="bar.sync 0;"),
    "turns of each warp": GUARDED.format(of="%r3", value="%r6"),
    "turns of each lane": LANES.format(value="%r6"),
    "a word that is stored too late": WAITS.format(before="", behind=WORD["behind"]).replace(
        "@%p3 bra DONE;", "@%p3 bra LATE;", 1
    ).replace("DONE:", f"bra DONE;\nLATE:\n{WORD['before']}\nDONE:"),
}  # fmt: skip


def asked(body: str, tmp_path: Path) -> tuple[Verdict, Rechecked | None]:
    """The verdict for every N, and what is said of its certificate."""
    path = tmp_path / "k.ptx"
    path.write_text(HEAD + body.replace("{{", "{").replace("}}", "}"))
    source, facts = read_source(path), LaunchFacts.of({"kernel": {"k": FACTS}})
    (report,) = check_source(source, facts=facts, scope=ScopeKind.ALL, replay=False)
    if report.verdict is not Verdict.PROVED or report.scope.kind is ScopeKind.EXACT:
        return report.verdict, None
    (done,) = recheck(dumps(certificates(source, facts, {}, [report])), "c.json", source, facts)
    return report.verdict, done


@pytest.mark.parametrize("name", GOOD)
def test_the_judge_accepts_graphs_of_good_kernels(name: str, tmp_path: Path) -> None:
    verdict, done = asked(GOOD[name], tmp_path)
    assert verdict is Verdict.PROVED
    assert done is not None and done.met.counts["nodes"] > 3 and done.judged, done


@pytest.mark.parametrize("name", TURNS)
def test_stores_of_one_value_in_turns_are_proved(name: str, tmp_path: Path) -> None:
    assert asked(TURNS[name], tmp_path)[0] is Verdict.PROVED


@pytest.mark.parametrize("name", BAD)
def test_the_judge_rejects_what_a_checker_that_sees_no_races_proves(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked(BAD[name], tmp_path)[0] is Verdict.REFUTED
    monkeypatch.setattr(accesses, "judge", lambda *_, **__: None)
    with pytest.raises(RejectedError, match="is not shown"):
        asked(BAD[name], tmp_path)
