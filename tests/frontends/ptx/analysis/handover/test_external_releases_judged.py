"""Kernels whose blocks access words of one pointer, judged by the words that each block touches."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from tests.frontends.ptx.execute_helpers import module_text
from tests.frontends.ptx.global_helpers import PARAMS

#: Text of an access to ``%rd5``, what it does, and whether two of such a kind do not race.
KINDS = {
    "load": ("ld.global.u32 %r9, [%rd5];", "reads", False),
    "store": ("st.global.u32 [%rd5], %r1;", "writes", False),
    "same": ("st.global.u32 [%rd5], 7;", "writes", False),
    "sum": ("red.global.add.u32 [%rd5], 1;", "both", True),
    "float sum": ("red.relaxed.gpu.global.add.f32 [%rd5], 0f3F800000;", "both", True),
    "atomic": ("atom.global.max.u32 %r9, [%rd5], %r1;", "both", True),
    "swap": ("atom.relaxed.sys.global.exch.b32 %r9, [%rd5], %r1;", "both", True),
    "narrow sum": ("red.relaxed.cta.global.add.u32 [%rd5], 1;", "both", False),
    "relaxed load": ("ld.relaxed.gpu.global.u32 %r9, [%rd5];", "reads", True),
    "volatile load": ("ld.volatile.global.u32 %r9, [%rd5];", "reads", True),
    "narrow load": ("ld.relaxed.cta.global.u32 %r9, [%rd5];", "reads", False),
    "relaxed store": ("st.relaxed.gpu.global.u32 [%rd5], 7;", "writes", True),
    "copy": ("cp.async.ca.shared.global [tile], [%rd5], 4;\n    cp.async.wait_all;", "reads", False),
}
FACTS = """
[kernel.k]
grid = [{grid}]
block = [1]
[kernel.k.params]
0 = {{ptr = "out"}}
1 = {{ptr = "flag"}}
2 = {{i32 = 3}}
"""


#: What ``k_n`` holds.
SIZE = 3


@dataclass(frozen=True)
class Step:
    """An access of each block, or of the first alone, to the word ``a * block + b``; a parameter holds an
    ``a`` of ``SIZE``."""

    kind: str
    a: int
    b: int
    alone: bool

    def words(self, blocks: int) -> Iterator[tuple[int, int]]:
        for block in range(1 if self.alone else blocks):
            yield block, self.a * block + self.b


def races(steps: list[Step], blocks: int) -> bool:
    """Whether two blocks touch a word in no order and one writes it; stores beside stores left out."""
    for one, other in product(steps, steps):
        (_, does, strong), (_, does_too, strong_too) = KINDS[one.kind], KINDS[other.kind]
        if (strong and strong_too) or (does == does_too and does != "both"):
            continue
        if any(i != j and u == v for (i, u), (j, v) in product(one.words(blocks), other.words(blocks))):
            return True
    return False


def stored_twice(steps: list[Step], blocks: int) -> bool:
    """Whether two blocks store in a word, and not both strongly."""
    stores = [s for s in steps if KINDS[s.kind][1] != "reads"]
    return any(
        i != j and u == v and not (KINDS[x.kind][2] and KINDS[y.kind][2])
        for x, y in product(stores, stores)
        for (i, u), (j, v) in product(x.words(blocks), y.words(blocks))
    )


def text(steps: list[Step]) -> str:
    body = [".shared .align 4 .b8 tile[4];", "ld.param.u64 %rd1, [k_out];", "mov.u32 %r1, %ctaid.x;",
            "ld.param.u32 %r30, [k_n];", "setp.ne.u32 %p1, %r1, 0;"]  # fmt: skip
    for n, s in enumerate(steps):
        access, *_ = KINDS[s.kind]
        body += [f"@%p1 bra PAST{n};"] * s.alone
        body += [
            f"mad.lo.u32 %r4, %r1, {'%r30' if s.a == SIZE else s.a}, {s.b};",
            "mul.wide.u32 %rd3, %r4, 4;",
            "add.u64 %rd5, %rd1, %rd3;",
        ]
        body += [access, f"PAST{n}:"]
    return module_text("\n    ".join([*body, "ret;"]), params=PARAMS)


def drawn(draw: random.Random) -> tuple[list[Step], int]:
    steps = [
        Step(
            draw.choice(list(KINDS)),
            draw.choice([0, 1, 1, 2, SIZE]),
            draw.choice([0, 1, 2]),
            draw.random() < 0.2,
        )
        for _ in range(draw.choice([1, 2, 2, 3, 3]))
    ]
    return steps, draw.choice([1, 2, 3, 3])


def _agrees(check: Any, seed: int) -> None:
    steps, blocks = drawn(random.Random(seed))
    report = check(text(steps), blocks, FACTS)
    if races(steps, blocks):
        assert report["verdict"] != "proved", (seed, steps, blocks)
    elif not stored_twice(steps, blocks):
        assert report["verdict"] == "proved", (seed, steps, blocks, report["reason"])


@pytest.mark.parametrize("seed", range(40))
def test_verdicts_agree_with_the_words_that_blocks_touch(check: Any, seed: int) -> None:
    _agrees(check, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 440))
def test_so_they_do_on_more_kernels(check: Any, seed: int) -> None:
    _agrees(check, seed)
