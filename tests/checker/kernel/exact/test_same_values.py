"""Stores of one instruction that meet: with one value that is no race, but others need an order of their own.

Each kernel is asked of the checker and of the judge of launches, which share no code for it.
"""

from __future__ import annotations

import pytest

import syncverify
from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.checker.kernel.exact import NotJudgedError
from syncverify.checker.outcome import Outcome
from syncverify.driver.certificates import RejectedError
from syncverify.driver.ptx.check import Checker, check_module
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.model.events import System
from tests.driver.certificates.test_exact import follow

HEAD = """
.version 8.3
.target sm_90a
.address_size 64
.shared .align 16 .b8 smem[512];
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    shr.u32 %r3, %r1, 5;
    mov.u32 %r4, smem;
    shl.b32 %r5, %r2, 2;
    add.u32 %r5, %r4, %r5;
"""
#: Warp 0 reads, warp 1 waits for that; both it and warp 2 store by ``STORE``.
WARPS = """
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra READ;
    setp.eq.u32 %p2, %r3, 1;
    @%p2 bra WAIT;
    {second}
    bra STORE;
WAIT:
    bar.sync 1, {threads};
STORE:
    st.shared.u32 [%r5], {value};
    ret;
READ:
    ld.shared.u32 %r6, [%r5];
    bar.arrive 1, {threads};
    ret;
}}
"""
#: Each lane stores in its own word, then in the next one; ``BEFORE`` and ``AFTER`` touch its own.
LANES = """
    {before}
    {sync}
    mov.u32 %r7, 0;
    mov.u32 %r8, 7;
TURN:
    add.u32 %r9, %r2, %r7;
    and.b32 %r9, %r9, 31;
    shl.b32 %r9, %r9, 2;
    add.u32 %r9, %r4, %r9;
    st.shared.u32 [%r9], %r8;
    add.u32 %r7, %r7, 1;
    setp.lt.u32 %p1, %r7, 2;
    @%p1 bra TURN;
    {sync}
    {after}
    ret;
}}
"""
OWN = {"before": "", "after": "", "sync": ""}


def judged(text: str, threads: int, cluster: int = 1) -> tuple[str, str]:
    """The checker's verdict, and what the judge says of the launch."""
    said: list[str] = []

    def judge(system: System, policy: Policy) -> Outcome:
        try:
            follow(system)
            said.append("holds")
        except NotJudgedError as e:
            said.append(f"not judged: {e}")
        except RejectedError:
            said.append("rejected")
        return Outcome(Verdict.PROVED)

    facts = {"kernel": {"k": {"block": [threads], "grid": [cluster], "cluster": [cluster]}}}
    module = parse(text, "k.ptx")
    check_module(
        module, LaunchFacts.of(facts), Policy.PRACTICAL, Checker(judge), kernel="k", values={},
        source_hash="", scope=ScopeKind.EXACT,
    )  # fmt: skip
    (report,) = syncverify.check(text, facts=facts, scope="exact", replay=False, advice=False)
    # what is asked besides, on words that several blocks access, comes behind the proof
    assert all(x == said[0] or x.startswith("not judged: hand-over") for x in said[1:])
    return str(report.verdict), said[0]


@pytest.mark.parametrize("value", ["%r2", "7"])
def test_a_store_beside_another_follows_what_that_follows(value: str) -> None:
    """Warp 2 does not know of the read that warp 1 waited for: by lane as by block."""
    alone = HEAD + WARPS.format(second="", threads=64, value=value)
    assert judged(alone, 96) == ("refuted", "rejected")
    both = HEAD + WARPS.format(second="bar.sync 1, 96;", threads=96, value=value)
    assert judged(both, 96) == ("proved", "holds")


def test_a_store_of_other_values_is_a_race() -> None:
    text = HEAD + WARPS.format(second="bar.sync 1, 96;", threads=96, value="%r1")
    assert judged(text, 96) == ("refuted", "rejected")


@pytest.mark.parametrize(
    "more", [{"before": "ld.shared.u32 %r6, [%r5];"}, {"after": "st.shared.u32 [%r9], %r1;"}]
)
def test_lanes_of_a_warp_that_store_one_value(more: dict[str, str]) -> None:
    """A lane's access is in no order with the store of the lane before it."""
    verdict, said = judged(HEAD + LANES.format(**OWN | more), 32)
    assert verdict != "proved"
    assert said == "rejected"
    assert judged(HEAD + LANES.format(**OWN | more | {"sync": "bar.warp.sync -1;"}), 32) == (
        "proved",
        "holds",
    )


#: Both blocks of a cluster add 1 to a word of the first one, at scope ``SCOPE``.
ADDS = """
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra DONE;
    mapa.shared::cluster.u32 %r6, %r4, 0;
    red.relaxed.{scope}.shared::cluster.add.u32 [%r6], 1;
DONE:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ret;
}}
"""


@pytest.mark.parametrize(
    ("scope", "said"), [("cluster", ("proved", "holds")), ("cta", ("refuted", "rejected"))]
)
def test_atomics_of_one_value_need_their_scope(scope: str, said: tuple[str, str]) -> None:
    assert judged(HEAD + ADDS.format(scope=scope), 32, cluster=2) == said
