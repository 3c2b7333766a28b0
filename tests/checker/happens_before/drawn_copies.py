"""Small kernels whose copies overlap, or do not: what a drawn one does, byte by byte.

A kernel is a row of steps. A copy is started by some threads, each of which brings some bytes to a place of
its own; a wait makes those of the threads that wait complete; a meeting hands on what is complete, within a
block. ``new`` waits for the sources alone, and writes them anew.

Two copies race where they write a common byte, the first is not known to be complete where the second is
started, not both reduce, and they bring different bytes there. That is computed here from lists of copies:
nothing is read of PTX, no clocks are kept, and no schedule is tried.

Example: warps 0 and 1 each store 32 bytes at ``16 * warp``. Bytes 16 to 31 come from both: a race.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.frontends.ptx.execute_helpers import module_text

THREADS = 96
#: Bytes of the source array, and of the places: of global memory, or of shared memory.
ROOM = 4096
#: Who starts a copy: the guard, and whether a thread is among them; None: one in each turn.
STARTERS: dict[str, tuple[str, Callable[[int, int], bool] | None]] = {
    "first": ("setp.eq.u32 %p1, %r1, 0;", lambda t, n: t == 0),
    "33": ("setp.eq.u32 %p1, %r1, 33;", lambda t, n: t == 33),
    "lanes": ("setp.lt.u32 %p1, %r1, {n};", lambda t, n: t < n),
    "warps": ("setp.eq.u32 %p1, %r2, 0;", lambda t, n: t % 32 == 0),
    "lanes of two": ("add.u32 %r9, %r1, -30; setp.lt.u32 %p1, %r9, 4;", lambda t, n: 30 <= t < 34),
    "lane of the turn": ("setp.eq.u32 %p1, %r1, %r20;", None),
    "odd lanes": ("and.b32 %r9, %r1, 33; setp.eq.u32 %p1, %r9, 1;", lambda t, n: t & 33 == 1),
}
KINDS = {
    "store": "cp.async.bulk.global.shared::cta.bulk_group [%rd5], [%r6], {size};",
    "add": "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd5], [%r6], {size};",
    "min": "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.u32 [%rd5], [%r6], {size};",
}
HEAD = """
    .shared .align 128 .b8 s[4096];
    .shared .align 128 .b8 d[4096];
    .shared .align 8 .b64 bar[8];
    ld.param.u64 %rd1, [k_out];
    ld.param.u64 %rd2, [k_in];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 31;
    shr.u32 %r3, %r1, 5;
    mov.u32 %r4, %ctaid.x;
"""
#: Each thread writes words of its own, in which every block, turn and place differs.
STORED = """
    mov.u32 %r5, s;
    shl.b32 %r7, %r1, 2;
    add.u32 %r5, %r5, %r7;
    mad.lo.u32 %r12, %r4, 10000, %r1;
"""
NEW = (
    "add.u32 %r12, %r12, 100000;\n"
    + "".join(f"add.u32 %r13, %r12, {384 * n};\nst.shared.u32 [%r5+{384 * n}], %r13;\n" for n in range(6))
    + "fence.proxy.async.shared::cta;\nbar.sync 0;"
)


@dataclass(frozen=True)
class Place:
    """``by + thread * a + warp * b + block * c`` in units of 16 bytes, masked to so many units."""

    by: int
    thread: int
    warp: int
    block: int
    mask: int = 255

    def of(self, t: int, block: int) -> int:
        return 16 * ((self.by + self.thread * t + self.warp * (t // 32) + self.block * block) & self.mask)

    def text(self, into: str) -> list[str]:
        return [
            f"mov.u32 {into}, {self.by};",
            f"mad.lo.u32 {into}, %r1, {self.thread}, {into};",
            f"mad.lo.u32 {into}, %r3, {self.warp}, {into};",
            f"mad.lo.u32 {into}, %r4, {self.block}, {into};",
            f"and.b32 {into}, {into}, {self.mask};",
            f"shl.b32 {into}, {into}, 4;",
        ]


@dataclass(frozen=True)
class Copy:
    kind: str
    who: str
    lanes: int
    size: int
    source: Place
    target: Place

    def threads(self, turn: int) -> list[int]:
        _, among = STARTERS[self.who]
        return [t for t in range(THREADS) if (t == turn if among is None else among(t, self.lanes))]


#: A copy, or ``wait``, ``read`` (a wait for the sources alone), ``meet``, ``new``.
Step = Copy | str


@dataclass(frozen=True)
class Started:
    """A copy that a thread has started, and which bytes of the source it brings."""

    copy: Copy
    thread: int
    block: int
    turn: int
    version: int
    ended: set[int]  # threads that know that it is complete

    @property
    def lo(self) -> int:
        return self.copy.target.of(self.thread, self.block)

    def brings(self, byte: int) -> tuple[int, ...]:
        """What it brings to a byte."""
        return self.block, self.version, self.copy.source.of(self.thread, self.block) + byte - self.lo


@dataclass(frozen=True)
class Kernel:
    """``engine``: ``bulk`` copies to global memory, ``load`` bulk copies to shared memory by one mbarrier
    for each step, ``async`` for ``cp.async``. ``turns``: the steps are repeated."""

    engine: str
    blocks: int
    turns: int
    steps: tuple[Step, ...]

    def label(self) -> str:
        """``race``; ``alike`` where copies in no order bring the same bytes, or reduce by two operations;
        else ``right``. Lanes of a warp that start one copy of one source are ``right``."""
        found = set[str]()
        started: list[Started] = []
        for block in range(self.blocks):
            mine: list[Started] = []
            version = 0
            for turn, step in itertools.product(range(self.turns), self.steps):
                if isinstance(step, Copy):
                    for t in step.threads(turn):
                        new = Started(step, t, block, turn, version, set())
                        found |= {self._meet(one, new) for one in (*started, *mine)}
                        mine.append(new)
                elif step == "wait":
                    for one in mine:
                        one.ended.update(range(THREADS) if self.engine == "load" else [one.thread])
                elif step in ("meet", "new"):
                    version += step == "new"
                    for one in mine:
                        one.ended.update(range(THREADS) if one.ended else ())
            started += mine
        return next(x for x in ("race", "alike", "right") if x in found | {"right"})

    def _meet(self, one: Started, other: Started) -> str:
        a, b, near = one.copy, other.copy, one.block == other.block
        common = range(max(one.lo, other.lo), min(one.lo + a.size, other.lo + b.size))
        if not common or (near and other.thread in one.ended) or not (near or self.engine == "bulk"):
            return "right"
        if "store" not in (a.kind, b.kind):
            return "right" if a.kind == b.kind else "alike"
        if a.kind != b.kind or any(one.brings(k) != other.brings(k) for k in common):
            return "race"
        together = near and a is b and one.turn == other.turn and one.thread // 32 == other.thread // 32
        whole = self.engine == "bulk" and one.lo == other.lo
        return "right" if together and whole else "alike"

    def text(self) -> str:
        lines = [HEAD]
        if self.engine == "load":
            lines += ["mov.u32 %r8, bar;", "setp.ne.u32 %p2, %r1, 0;", "@%p2 bra I;"]
            lines += [f"mbarrier.init.shared::cta.b64 [%r8+{8 * n}], 1;" for n in range(len(self._copies()))]
            lines += ["fence.mbarrier_init.release.cluster;", "I:", "bar.sync 0;"]
        elif self.engine == "bulk":
            lines += [STORED, NEW]
        lines += ["mov.u32 %r20, 0;", *["L:"] * (self.turns > 1)]
        started: list[int] = []
        for n, step in enumerate(self.steps):
            if isinstance(step, Copy):
                lines += self._copy(step, n, len(self._copies(n)))
                started.append(len(self._copies(n)))
            elif self.engine == "load":
                lines += [*self._waits(started), ""] if step == "wait" else ["bar.sync 0;"] * (step == "meet")
                started = [] if step == "wait" else started
            elif step == "new":
                lines += ["cp.async.bulk.wait_group.read 0;", "bar.sync 0;", NEW]
            else:
                read = "cp.async.bulk.wait_group.read 0;" if self.engine == "bulk" else ""
                wait = "cp.async.bulk.wait_group 0;" if self.engine == "bulk" else "cp.async.wait_all;"
                lines.append({"wait": wait, "read": read, "meet": "bar.sync 0;"}[step])
        if self.turns > 1:
            lines += ["add.u32 %r20, %r20, 1;", f"setp.lt.u32 %p4, %r20, {self.turns};", "@%p4 bra L;"]
        if self.engine == "load":
            lines += self._waits(started)
        lines += {"bulk": ["cp.async.bulk.wait_group 0;"], "async": ["cp.async.wait_all;"], "load": []}[
            self.engine
        ]
        lines.append("ret;")
        return module_text("\n".join(lines), ".param .u64 k_out, .param .u64 k_in")

    def _copies(self, before: int | None = None) -> list[Copy]:
        return [s for s in self.steps[:before] if isinstance(s, Copy)]

    def _waits(self, started: list[int]) -> list[str]:
        found = []
        for n in started:
            parity = "%r21" if self.turns > 1 else "0"
            found += ["and.b32 %r21, %r20, 1;"] * (self.turns > 1)
            found += [
                "{",
                ".reg .pred %q;",
                "W:",
                f"mbarrier.try_wait.parity.shared::cta.b64 %q, [%r8+{8 * n}], {parity};",
                "@!%q bra W;",
                "}",
            ]
        return found

    def _copy(self, c: Copy, n: int, number: int) -> list[str]:
        guard, _ = STARTERS[c.who]
        lines = []
        if self.engine == "load":
            count = len(c.threads(0))
            lines += [
                "setp.ne.u32 %p2, %r1, 0;",
                f"@%p2 bra X{n};",
                f"mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%r8+{8 * number}], {c.size * count};",
                f"X{n}:",
            ]
        lines += [guard.format(n=c.lanes), f"@!%p1 bra S{n};"]
        lines += [*c.source.text("%r6"), *c.target.text("%r10")]
        if self.engine == "bulk":
            lines += [
                "mov.u32 %r11, s;",
                "add.u32 %r6, %r6, %r11;",
                "cvt.u64.u32 %rd3, %r10;",
                "add.s64 %rd5, %rd1, %rd3;",
                KINDS[c.kind].format(size=c.size),
                "cp.async.bulk.commit_group;",
            ]
        else:
            lines += [
                "cvt.u64.u32 %rd3, %r6;",
                "add.s64 %rd5, %rd2, %rd3;",
                "mov.u32 %r11, d;",
                "add.u32 %r10, %r10, %r11;",
            ]
            lines.append(
                f"cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r10], [%rd5], {c.size}, "
                f"[%r8+{8 * number}];"
                if self.engine == "load"
                else "cp.async.cg.shared.global [%r10], [%rd5], 16;"
            )
        return [*lines, f"S{n}:"]


def place(draw: Random, *, blocks: int) -> Place:
    by = draw.choice([0, 0, 0, 1, 2, 4, 8])
    kinds = [(0, 0), (1, 0), (2, 0), (4, 0), (0, 1), (0, 2), (0, 4), (1, 64)]
    thread, warp = draw.choice(kinds)
    return Place(
        by,
        thread,
        warp,
        draw.choice([0, 64, 64, 64]) if blocks > 1 else 0,
        draw.choice([255, 255, 255, 3, 31]),
    )


def kernel(seed: int) -> Kernel:
    draw = Random(seed)
    engine = draw.choice(["bulk", "bulk", "bulk", "load", "async"])
    blocks = draw.choice([1, 1, 2]) if engine == "bulk" else 1
    turns = draw.choice([1, 1, 1, 2, 3])
    steps: list[Step] = []
    starters = list(STARTERS)
    if engine == "load":  # so many bytes are announced in each turn
        starters.remove("lane of the turn")
    for _ in range(draw.randint(1, 3)):
        source = Place(draw.choice([0, 1, 3]), draw.choice([0, 0, 1, 2]), draw.choice([0, 0, 2]), 0, 63)
        kind = draw.choice(["store", "store", "store", "add", "add", "min"]) if engine == "bulk" else "store"
        size = 16 if engine == "async" else draw.choice([16, 32, 64])
        steps.append(
            Copy(
                kind, draw.choice(starters), draw.choice([2, 4, 8]), size, source, place(draw, blocks=blocks)
            )
        )
        between = [[], ["meet"], ["wait"], ["wait", "meet"], ["wait", "meet"], ["meet", "wait"]]
        between += [["read", "meet"], ["read"], ["new"], ["new"]] if engine == "bulk" else []
        steps += draw.choice(between)
    if engine == "load" and turns > 1:  # a phase is over before the next one is announced
        steps += ["wait", "meet"]
    return Kernel(engine, blocks, turns, tuple(steps))
