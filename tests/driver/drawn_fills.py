"""Kernels of several shared arrays whose block nothing gives: what a block of one row does, thread by thread.

A kernel is a row of accesses to arrays of elements of 1 to 16 bytes, each by the threads of a guard, and of
barriers. In a block of ``n`` threads it is ``right`` where none leaves its array, and no two threads meet in
a byte between two barriers, one by a store. This is counted here from the statements; no PTX is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from tests.frontends.ptx.execute_helpers import module_text

TYPES = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "v4.u32"}
#: What is stored is the thread's number, at every place; what is loaded goes elsewhere.
STORED = {1: "%rs1", 2: "%rs1", 4: "%r1", 8: "%rd9", 16: "{%r1, %r1, %r1, %r1}"}
LOADED = {1: "%rs2", 2: "%rs2", 4: "%r10", 8: "%rd8", 16: "{%r10, %r11, %r12, %r13}"}
USUAL = (32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Access:
    """``array[(t * factor ^ flip) + step & mask]`` by threads below ``below``, of an array's elements."""

    store: bool
    array: int
    factor: int
    flip: int
    step: int
    mask: int
    below: int

    def element(self, t: int) -> int:
        return ((t * self.factor ^ self.flip) + self.step) & self.mask

    def comes_back(self, threads: int) -> bool:
        """Whether a thread's place does not lie behind that of the thread before."""
        return any(self.element(t) <= self.element(t - 1) for t in range(1, threads))


@dataclass(frozen=True)
class Kernel:
    """``arrays``: the bytes of an element, and how many there are. ``steps``: accesses, or barriers.
    ``asks``: the kernel reads ``%ntid``; ``roles``: its threads meet at an mbarrier."""

    arrays: tuple[tuple[int, int], ...]
    steps: tuple[Access | str, ...]
    asks: bool
    roles: bool

    def label(self, threads: int) -> str:
        """``wrong``, ``alike`` where threads store one value to a byte in no order, else ``right``."""
        seen: dict[tuple[int, int], list[tuple[int, int | None]]] = {}
        found = "right"
        for step in self.steps:
            if step == "bar":
                seen = {}
            elif step == "warp":
                seen = {at: who for at, who in seen.items() if len({t // 32 for t, _ in who}) > 1}
            elif isinstance(step, Access):
                size, count = self.arrays[step.array]
                for t in range(min(threads, step.below)):
                    at = step.element(t)
                    if at >= count:
                        return "wrong"
                    for k in range(size):
                        stored = t >> 8 * (k % 4 if size == 16 else k) & 255 if step.store else None
                        here = seen.setdefault((step.array, size * at + k), [])
                        others = {v for u, v in here if u != t and (stored, v) != (None, None)}
                        if others - {stored}:
                            return "wrong"
                        found = "alike" if others else found
                        here.append((t, stored))
        return found

    @property
    def filling(self) -> int:
        """The threads that have an element each in the largest array, by the narrowest access."""
        used = [self.arrays[s.array] for s in self.steps if isinstance(s, Access)]
        return max(size * count for size, count in used) // min(size for size, _ in used)

    def fills(self, threads: int) -> bool:
        """Whether so many threads fill an array: each has an element of the largest, or stores of them all
        write each byte of it once, or of twice as many two store to one byte where none of these do."""
        used = {s.array for s in self.steps if isinstance(s, Access)}
        largest = max(s * c for n, (s, c) in enumerate(self.arrays) if n in used)
        for n, (size, count) in enumerate(self.arrays):
            by_all = [step for _, step in self._stores(n) if step.below >= threads]
            stored = {at for step in by_all for at in self._bytes(step, threads)}
            whole = sorted(byte for _, byte in stored) == list(range(size * count))
            if whole and size * count == largest:
                return True
        return threads == self.filling or bool(self._meetings(2 * threads) - self._meetings(threads))

    def _stores(self, array: int) -> Iterator[tuple[int, Access]]:
        for n, step in enumerate(self.steps):
            if isinstance(step, Access) and step.store and step.array == array:
                yield n, step

    def _bytes(self, step: Access, threads: int) -> Iterator[tuple[int, int]]:
        """The threads that execute an access, each with the bytes of its place."""
        size, _ = self.arrays[step.array]
        for t in range(min(threads, step.below)):
            yield from ((t, size * step.element(t) + k) for k in range(size))

    def _meetings(self, threads: int) -> set[tuple[int, int]]:
        """The stores that two threads of a block share a byte by, but for two that come back to places."""
        found = set()
        for array in range(len(self.arrays)):
            who: dict[int, set[tuple[int, int]]] = {}
            for n, step in self._stores(array):
                for t, byte in self._bytes(step, threads):
                    who.setdefault(byte, set()).add((n, t))
            found |= {(n, m) for some in who.values() for n, t in some for m, u in some if t != u}
        back = {n for n, s in enumerate(self.steps) if isinstance(s, Access) and s.comes_back(threads)}
        return {pair for pair in found if not back.issuperset(pair)}

    def text(self) -> str:
        lines = [f".shared .align 16 .b8 a{n}[{s * c}];" for n, (s, c) in enumerate(self.arrays)]
        lines += [".shared .align 8 .b64 bar;"] * self.roles
        lines += [
            "ld.param.u64 %rd1, [k_out];",
            "mov.u32 %r1, %tid.x;",
            "cvt.u64.u32 %rd9, %r1;",
            "cvt.u16.u32 %rs1, %r1;",
        ]
        lines += [f"mov.u32 %r{n}, %r1;" for n in range(10, 14)]
        if self.roles:
            lines += [
                "mov.u32 %r3, bar;",
                "setp.ne.u32 %p1, %r1, 0;",
                "@%p1 bra I;",
                "mbarrier.init.shared::cta.b64 [%r3], 1;",
                "I:",
                "bar.sync 0;",
            ]
        for n, step in enumerate(self.steps):
            if isinstance(step, Access):
                lines += self._access(step, n)
            else:
                lines.append({"bar": "bar.sync 0;", "warp": "bar.warp.sync -1;"}[step])
        lines += ["mov.u32 %r20, %ntid.x;"] * self.asks
        lines += ["add.u32 %r10, %r10, %r20;"] * self.asks
        lines += [
            "mul.wide.u32 %rd2, %r1, 4;",
            "add.s64 %rd1, %rd1, %rd2;",
            "st.global.u32 [%rd1], %r10;",
            "ret;",
        ]
        return module_text("\n".join(lines), ".param .u64 k_out")

    def _access(self, a: Access, n: int) -> Iterator[str]:
        size, _ = self.arrays[a.array]
        if a.below < 4096:
            yield f"setp.ge.u32 %p1, %r1, {a.below};"
            yield f"@%p1 bra E{n};"
        yield f"mul.lo.u32 %r5, %r1, {a.factor};"
        yield f"xor.b32 %r5, %r5, {a.flip};"
        yield f"add.u32 %r5, %r5, {a.step};"
        yield f"and.b32 %r5, %r5, {a.mask};"
        yield f"mul.lo.u32 %r5, %r5, {size};"
        yield f"mov.u32 %r6, a{a.array};"
        yield "add.u32 %r6, %r6, %r5;"
        op = f"shared.{TYPES[size]}"
        yield f"st.{op} [%r6], {STORED[size]};" if a.store else f"ld.{op} {LOADED[size]}, [%r6];"
        yield f"E{n}:"


def kernel(seed: int) -> Kernel:
    draw = Random(seed)
    base = draw.choice([64, 64, 128, 256])
    arrays = tuple(
        (draw.choice([1, 2, 4, 4, 4, 8, 16]), base * draw.choice([1, 1, 1, 2]) // draw.choice([1, 1, 1, 2]))
        for _ in range(draw.randint(1, 3))
    )
    steps: list[Access | str] = []
    for n in range(draw.randint(2, 5)):
        array = draw.randrange(len(arrays))
        count = arrays[array][1]
        mask = draw.choice([4095, 4095, 4095, 4095, count - 1, base - 1, 63])
        flip = draw.choice([0, 0, 0, 1, 32, 64, count - 1])
        steps.append(
            Access(
                n == 0 or draw.random() < 0.4,
                array,
                draw.choice([1, 1, 1, 1, 1, 2]),
                flip,
                draw.choice([0, 0, 0, 0, 1]),
                mask,
                draw.choice([4096, 4096, 4096, base, 32, 1]),
            )
        )
        steps += draw.choice([["bar"], ["bar"], ["bar"], ["warp"], []])
    return Kernel(arrays, tuple(steps), draw.random() < 0.15, draw.random() < 0.1)
