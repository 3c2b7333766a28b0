"""Random PTX kernels whose blocks share global memory in block groups, right or nearly so."""

from __future__ import annotations

from random import Random
from typing import TypeVar

from tests.frontends.ptx.execute_helpers import module_text

T = TypeVar("T")
PARAMS = ".param .u64 k_sums, .param .u64 k_flag"
_HEAD = """
    .shared .align 128 .b8 tile[512];
    ld.param.u64 %rd1, [k_sums];
    ld.param.u64 %rd2, [k_flag];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r4, %tid.x;
    div.u32 %r2, %r1, {size};
    rem.u32 %r3, %r1, {size};
    mov.u32 %r9, tile;
    shl.b32 %r10, %r4, 3;
    add.u32 %r11, %r9, %r10;
    mov.f32 %f1, 0f3F800000;
    setp.ne.u32 %p2, %r4, 0;
    {flag}
    mul.wide.u32 %rd3, %r5, 4;
    add.u64 %rd4, %rd2, %rd3;
"""
_PLACE = """
    {place}
    mul.wide.u32 %rd5, %r6, 4;
    add.u64 %rd6, %rd1, %rd5;
    mul.wide.u32 %rd7, %r4, 8;
    add.u64 %rd8, %rd6, %rd7;
"""
_READ, _WRITE = "ld.global.v2.f32 {%f2, %f3}, [%rd8];", "st.global.v2.f32 [%rd8], {%f1, %f1};"
_BULK = """
    st.shared.v2.f32 [%r11], {{%f1, %f1}};
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p2 bra BULK{n};
    {copy} [%rd6], [%r9], 512;
    cp.async.bulk.commit_group;
    {wait}
    BULK{n}:
    bar.sync 0;
"""
_STORE = "cp.async.bulk.global.shared::cta.bulk_group"
_ADD = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32"


class Team:
    """Chooses each part of one kernel."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.copies = 0

    def text(self) -> str:
        """The kernel."""
        size = self.random.choice((2, 2, 3))
        flag = self.rarely(
            "mov.u32 %r5, %r2;",
            "shl.b32 %r5, %r2, 2;",
            "add.u32 %r5, %r2, 1;",
            "shr.u32 %r5, %r1, 1;",
            "mov.u32 %r5, %r1;",
            "mad.lo.u32 %r5, %r2, 2, %r3;",
        )
        parts = [
            _HEAD.format(size=size, flag=flag),
            self.work(0.15, size),
            self.wait(size),
            self.work(0.8, size),
            self.work(0.3, size),
            self.rarely("bar.sync 0;", ""),
            self.go(size),
            self.work(0.15, size),
            "ret;",
        ]
        return module_text("\n".join(parts), params=PARAMS)

    def rarely(self, usual: T, *others: T) -> T:
        """What is right, or now and then something else."""
        return self.random.choice(others) if self.random.random() < 0.15 else usual

    def wait(self, size: int) -> str:
        """One lane waits for those before its block."""
        skips = self.rarely("eq.u32 %p1, %r3, 0", f"ne.u32 %p1, %r3, {size - 1}", "ne.u32 %p1, %r3, 1")
        load = self.rarely("acquire.gpu", "relaxed.gpu", "acquire.cta")
        until = self.rarely("lt.u32 %p3, %r8, %r3", "ne.u32 %p3, %r8, %r3", "lt.u32 %p3, %r8, 1")
        return f"""
    setp.{skips};
    @%p1 bra NEXT;
    @%p2 bra MET;
    SPIN:
    ld.{load}.global.u32 %r8, [%rd4];
    setp.{until};
    @%p3 bra SPIN;
    {self.rarely("fence.proxy.async.global;", "")}
    MET:
    {self.rarely("bar.sync 0;", "")}
    NEXT:
"""

    def go(self, size: int) -> str:
        """One lane lets the next block go on."""
        signals = self.rarely("%p2", "%p1", "!%p2")
        add = "red.relaxed.gpu.global.add.u32 [%rd4], 1;"
        stored = f"add.u32 %r12, %r3, {self.rarely(1, 0)};\n    st.relaxed.gpu.global.u32 [%rd4], %r12;"
        return f"""
    @{signals} bra GONE;
    {self.rarely("fence.acq_rel.gpu;", "", "fence.acq_rel.cta;")}
    {add if self.random.random() < 0.6 else stored}
    GONE:
"""

    def work(self, often: float, size: int) -> str:
        """Something with the sums."""
        if self.random.random() >= often:
            return ""
        place = self.rarely(
            "shl.b32 %r6, %r2, 7;",
            f"mul.lo.u32 %r6, %r2, {128 * size};\n    mad.lo.u32 %r6, %r3, 128, %r6;",
            "shl.b32 %r6, %r1, 7;",
            "mul.lo.u32 %r6, %r2, 100;",
            "mov.u32 %r6, 0;",
        )
        before, kind = _PLACE.format(place=place), self.random.randrange(5)
        if kind < 3:
            return before + (_READ, _WRITE, f"{_READ}\n    {_WRITE}")[kind]
        self.copies += 1
        wait = self.rarely("cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 0;")
        copy = (_STORE, _ADD)[kind - 3]
        return before + _BULK.format(n=self.copies, copy=copy, wait=wait)
