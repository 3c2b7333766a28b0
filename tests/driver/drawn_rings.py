"""Rings of bulk loads of which strict mode asks more than practical mode does: drawn, with open turns.

One thread fills slots by bulk loads; lanes of other warps read them, at times write them, and give them back.
What orders a turn before the next load of its slot is drawn: who arrives, behind which fence of which lanes,
and whether the values have arrived. Most are right in both modes, some in practical mode alone, some in none.
On a further barrier consumers may arrive in each turn: strict mode asks that its phases are waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.frontends.ptx.execute_helpers import module_text

FENCE = "fence.proxy.async.shared::cta;"
ARRIVE_FURTHER = "mbarrier.arrive.shared::cta.b64 %state, [further];\n"
WAIT_FURTHER = (
    "and.b32 %r31, %r20, 1;\n"
    "DW:\nmbarrier.try_wait.parity.shared::cta.b64 %p7, [further], %r31;\n@!%p7 bra DW;\n"
)
#: What consumers do with a slot, and how they give it back: by each lane, or by the first one of a warp.
WORK = {
    "read": "ld.shared.u32 %r12, [%r11];\n st.global.u32 [%rd3], %r12;",
    "read late": "ld.shared.u32 %r12, [%r11];",
    "read twice": "ld.shared.u32 %r12, [%r11];\n ld.shared.u32 %r13, [%r11+4];\n add.u32 %r12, %r12, %r13;\n"
    "st.global.u32 [%rd3], %r12;",
    "write": "ld.shared.u32 %r12, [%r11];\n st.global.u32 [%rd3], %r12;\n st.shared.u32 [%r11], %r1;",
    "neighbour": "ld.shared.u32 %r12, [%r11];\n st.global.u32 [%rd3], %r12;",
}
GIVE = {
    "each": ("", "", True),
    "each, fenced": (FENCE, "", True),
    "first": ("bar.warp.sync -1;", "", False),
    "first, all fence": (FENCE + "\nbar.warp.sync -1;", "", False),
    "first, one fences": ("bar.warp.sync -1;", FENCE, False),
    "first, fenced behind": ("bar.warp.sync -1;\n" + FENCE, "", False),
    "first, alone": ("", "", False),
    "first, alone, fenced": (FENCE, "", False),
    "block": ("barrier.sync 1, {consumers};", "", False),
    "block, fenced": (FENCE + "\nbarrier.sync 1, {consumers};", "", False),
}


#: What consumers do with a further barrier, on which all of them arrive in each turn: its phase of the turn
#: has to be waited for before the next turn's arrivals (K14).
FURTHER = {
    "none": "",
    "unwaited": ARRIVE_FURTHER,
    "waited": ARRIVE_FURTHER + WAIT_FURTHER,
    "waited by one warp": f"{ARRIVE_FURTHER}@%p8 bra DN;\n{WAIT_FURTHER}DN:\n",
    "waited in odd turns": f"{ARRIVE_FURTHER}and.b32 %r31, %r20, 1;\nsetp.eq.u32 %p7, %r31, 0;\n"
    f"@%p7 bra DN;\n{WAIT_FURTHER}DN:\n",
    "waited but for the first": f"{ARRIVE_FURTHER}setp.eq.u32 %p7, %r20, 0;\n@%p7 bra DN;\n"
    f"{WAIT_FURTHER}DN:\n",
}  # fmt: skip


@dataclass(frozen=True)
class Ring:
    stages: int
    warps: int
    work: str
    give: str
    parity: int
    filled: bool
    relaxed: str
    further: str = "none"

    def text(self) -> str:
        ahead, one, every = GIVE[self.give]
        consumers = 32 * self.warps
        block = self.give.startswith("block")
        count = consumers if every else 1 if block else self.warps
        guard = "" if every else "setp.eq.u32 %p5, %r1, 32;" if block else "setp.eq.u32 %p5, %r2, 0;"
        step = 128 * self.warps
        late = "st.global.u32 [%rd3], %r12;" if self.work == "read late" else ""
        neighbour = "add.u32 %r11, %r11, 4;\n" if self.work == "neighbour" else ""
        body = f"""
.shared .align 128 .b8 s[{step * self.stages + 128}];
.shared .align 8 .b64 full[{self.stages}];
.shared .align 8 .b64 empty[{self.stages}];
.shared .align 8 .b64 further;
ld.param.u64 %rd1, [k_in];
ld.param.u64 %rd2, [k_out];
ld.param.u32 %r9, [k_n];
mov.u32 %r1, %tid.x;
and.b32 %r2, %r1, 31;
mov.u32 %r4, s;
mov.u32 %r5, full;
mov.u32 %r6, empty;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra I;
{
            "".join(
                f'''
mbarrier.init.shared::cta.b64 [%r5+{8 * i}], 1;
mbarrier.init.shared::cta.b64 [%r6+{8 * i}], {count};'''
                for i in range(self.stages)
            )
        }
mbarrier.init.shared::cta.b64 [further], {consumers};
fence.mbarrier_init.release.cluster;
I:
bar.sync 0;
mov.u32 %r20, 0;
mov.u32 %r21, 0;
mov.u32 %r22, 0;
setp.ge.u32 %p2, %r1, 32;
@%p2 bra C;
@%p1 bra END;
P:
setp.ge.u32 %p3, %r20, %r9;
@%p3 bra END;
shl.b32 %r23, %r21, 3;
add.u32 %r24, %r6, %r23;
xor.b32 %r25, %r22, {self.parity};
PW:
mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r24], %r25;
@!%p4 bra PW;
add.u32 %r24, %r5, %r23;
mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%r24], {step};
mad.lo.u32 %r26, %r21, {step}, %r4;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r26], [%rd1], {step}, [%r24];
{self._next()}
bra P;
C:
add.u32 %r30, %r1, -32;
shl.b32 %r30, %r30, 2;
cvt.u64.u32 %rd3, %r30;
add.s64 %rd3, %rd2, %rd3;
{guard}
setp.ge.u32 %p8, %r1, 64;
K:
setp.ge.u32 %p3, %r20, %r9;
@%p3 bra END;
shl.b32 %r23, %r21, 3;
add.u32 %r24, %r5, %r23;
KW:
mbarrier.try_wait.parity{self.relaxed}.shared::cta.b64 %p4, [%r24], %r22;
@!%p4 bra KW;
mad.lo.u32 %r26, %r21, {step}, %r4;
add.u32 %r11, %r26, %r30;
{neighbour}{WORK[self.work]}
{ahead.format(consumers=consumers)}
add.u32 %r24, %r6, %r23;
{"" if every else "@!%p5 bra N;"}
{one}
mbarrier.arrive.shared::cta.b64 %state, [%r24];
N:
{late}
{FURTHER[self.further]}
{self._next()}
bra K;
END:
ret;
"""
        if not self.filled:
            body = body.replace("KW:\n", "").replace("@!%p4 bra KW;\n", "")
        return module_text(body, ".param .u64 k_in, .param .u64 k_out, .param .u32 k_n")

    def _next(self) -> str:
        if self.stages == 1:
            return "add.u32 %r20, %r20, 1;\nxor.b32 %r22, %r22, 1;"
        return f"""add.u32 %r20, %r20, 1;
add.u32 %r21, %r21, 1;
setp.eq.u32 %p6, %r21, {self.stages};
selp.b32 %r21, 0, %r21, %p6;
selp.b32 %r27, 1, 0, %p6;
xor.b32 %r22, %r22, %r27;"""

    def facts(self, turns: int | None = None) -> dict[str, Any]:
        given: dict[str, Any] = {"0": "ptr", "1": "ptr"}
        if turns is not None:
            given["2"] = turns
        return {"kernel": {"k": {"grid": [1, 1, 1], "block": [32 + 32 * self.warps, 1, 1], "params": given}}}


#: How a slot is given back as strict mode asks: each reader fences before it arrives, or before readers meet.
AS_STRICT = ("each, fenced", "first, all fence", "block, fenced")


def ring(seed: int) -> Ring:
    """A ring; seven of eight give slots back as strict mode asks, but may have a further barrier."""
    draw = Random(seed)
    if seed % 8:
        stages, warps = draw.choice([1, 2, 2, 3, 4]), draw.choice([1, 1, 2])
        work = "read late" if draw.random() < 0.9 else draw.choice(("read", "write"))
        give = draw.choice(AS_STRICT)
        further = draw.choice(("none",) * 5 + ("waited",) * 3 + tuple(FURTHER)[1:])
        return Ring(stages, warps, work, give, 1, filled=True, relaxed="", further=further)
    return Ring(
        draw.choice([1, 2, 2, 3]),
        draw.choice([1, 1, 2]),
        draw.choice(list(WORK)),
        draw.choice(list(GIVE)),
        draw.choice([1, 1, 1, 1, 1, 1, 0]),
        draw.random() < 0.95,
        draw.choice(["", "", "", "", ".relaxed.cta"]),
        draw.choice(("none", "none", "unwaited")),
    )
