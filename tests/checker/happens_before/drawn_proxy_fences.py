"""A store and an asynchronous read of it, with drawn fences, halves of fences and meetings between them.

Each lane of a warp stores a word; a lane of another warp starts a bulk copy that reads all of them. Before
and behind the store, and before and behind the wait, stand fences in a drawn order. What orders the two comes
of three lists here, by the text of the ISA (docs/model.md, B60 to B63 and K3). Nothing is read of PTX, and no
clocks are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.frontends.ptx.execute_helpers import module_text

#: Fences by the names that they have here.
FENCES = {
    "full": "fence.proxy.async.shared::cta;",
    "release half": "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;",
    "acquire half": "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
    "generic": "fence.acq_rel.cta;",
}
#: How the copier comes to know of the store: the end of the writers, and its own.
MEETINGS = {
    "block": ("bar.sync 0;", "bar.sync 0;"),
    "named": ("barrier.arrive 1, 64;", "barrier.sync 1, 64;"),
    "phase": ("mbarrier.arrive.shared::cta.b64 %state, [bar];", "{wait}"),
    "relaxed arrival": ("mbarrier.arrive.relaxed.cta.shared::cta.b64 %state, [bar];", "{wait}"),
    "relaxed wait": ("mbarrier.arrive.shared::cta.b64 %state, [bar];", "{relaxed}"),
    "both relaxed": ("mbarrier.arrive.relaxed.cta.shared::cta.b64 %state, [bar];", "{relaxed}"),
    "nothing": ("", ""),
}
WAIT = "W: mbarrier.try_wait.parity{}.shared::cta.b64 %p4, [bar], 0; @!%p4 bra W;"


@dataclass(frozen=True)
class Handover:
    """``before`` and ``behind`` the store, of the writers; ``ahead`` of the wait and ``after`` it."""

    meeting: str
    before: tuple[str, ...]
    behind: tuple[str, ...]
    ahead: tuple[str, ...]
    after: tuple[str, ...]

    def text(self) -> str:
        def fences(some: tuple[str, ...]) -> str:
            return "\n".join(FENCES[x] for x in some)

        arrive, wait = MEETINGS[self.meeting]
        wait = wait.format(wait=WAIT.format(""), relaxed=WAIT.format(".relaxed.cta"))
        body = f"""
.shared .align 128 .b8 s[128];
.shared .align 8 .b64 bar;
ld.param.u64 %rd1, [k_out];
mov.u32 %r1, %tid.x;
mov.u32 %r4, s;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra I;
mbarrier.init.shared::cta.b64 [bar], 32;
fence.mbarrier_init.release.cluster;
I:
bar.sync 0;
setp.ge.u32 %p2, %r1, 32;
@%p2 bra C;
{fences(self.before)}
mad.lo.u32 %r5, %r1, 4, %r4;
st.shared.u32 [%r5], %r1;
{fences(self.behind)}
{arrive}
bra E;
C:
{fences(self.ahead)}
{wait}
{fences(self.after)}
setp.ne.u32 %p3, %r1, 32;
@%p3 bra E;
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r4], 128;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
E:
ret;
"""
        return module_text(body, ".param .u64 k_out")

    @property
    def has_a_half(self) -> bool:
        """Whether a half of a fence stands between the two accesses, at whichever side."""
        return any("half" in x for x in self.behind + self.after)

    def label(self) -> str:
        """``right``, ``wrong``, or ``open``: the halves may order what nothing else does.

        A relaxed arrival releases what comes before the last generic fence ahead of it, and a relaxed wait
        acquires for what comes behind the first one.
        """
        behind, after = self.behind, self.after
        if self.meeting in ("relaxed arrival", "both relaxed"):
            behind = behind[: max((n for n, x in enumerate(behind) if x == "generic"), default=-1) + 1]
        if self.meeting in ("relaxed wait", "both relaxed"):
            after = after[next((n for n, x in enumerate(after) if x == "generic"), len(after)) :]
        released = self.meeting in ("block", "named", "phase", "relaxed wait") or bool(behind)
        acquired = self.meeting in ("block", "named", "phase", "relaxed arrival") or bool(after)
        ordered = self.meeting != "nothing" and released and acquired
        bridged = "full" in behind + after
        bridged |= "release half" in behind or "acquire half" in after  # either side (K3)
        if ordered and bridged:
            return "right"
        halves = "release half" in self.behind and "acquire half" in self.ahead + self.after
        return "open" if halves and not ordered else "wrong"


def handover(seed: int) -> Handover:
    draw = Random(seed)

    def some(most: int, kinds: tuple[str, ...] = tuple(FENCES)) -> tuple[str, ...]:
        return tuple(draw.choice(kinds) for _ in range(draw.choice((0, 0, 1, 1, most))))

    return Handover(draw.choice(list(MEETINGS)), some(1), some(2), some(1), some(2))
