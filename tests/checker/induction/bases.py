"""Right kernels that the reading takes and the kernel accepts: what sweeps make mistakes in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from syncverify.ir.text.printer import print_kernel
from syncverify.matmul import Schedule, product
from syncverify.matmul.pipeline import build
from tests.checker.induction.guarded import phased
from tests.checker.induction.test_clusters import PAIR
from tests.checker.induction.test_flags import PAIR as BLOCKS
from tests.checker.induction.test_read import CORPUS, RING
from tests.checker.induction.test_strides import BY_3, STRIDED
from tests.checker.prover.rings.kernels import GOOD


@dataclass(frozen=True, slots=True)
class Base:
    """``given``: numbers of parameters that are not open. ``sizes``: at which mutants are run; none: at all
    small ones. A launch has its own numbers for parameters that are not named.
    """

    text: str
    given: dict[str, int] = field(default_factory=dict)
    sizes: tuple[Mapping[str, int], ...] = ()


def _tiles() -> str:
    """Each of T tiles has N steps of one ring."""
    text = RING.replace("param N", "param T : i32 = 2\n  param N").replace(
        "assume N", "assume T >= 1\n  assume N"
    )
    head, math = text.split("  role math")
    head = head.replace(
        "for i in 0..N {\n        mbarrier.wait", "for t in 0..T {\nfor i in 0..N {\n        mbarrier.wait"
    )
    head = head.replace(
        "          phase = phase ^ 1\n        }\n      }\n",
        "          phase = phase ^ 1\n        }\n      }\n      }\n",
    )
    math = math.replace("for i in 0..N {", "let n = 0\n    for t in 0..T {\n    for i in 0..N {")
    math = math.replace("i % 3", "n % 3").replace("i // 3", "n // 3")
    math = math.replace(
        "      mbarrier.arrive empty[n % 3]\n    }\n",
        "      mbarrier.arrive empty[n % 3]\n      n = n + 1\n    }\n    }\n",
    )
    return f"{head}  role math{math}"


_OF_RINGS = (
    "ring", "registers", "prefilled", "leader", "two consumers", "threads write", "two copies",
    "expect apart", "fenced", "staged store", "handed back",
)  # fmt: skip
IR: dict[str, Base] = {
    "ring of three": Base(RING),
    "ring that may be empty": Base(RING.replace("  assume N >= 1\n", "")),
    "tiles": Base(_tiles()),
    "pair": Base(PAIR),
    "blocks": Base(BLOCKS),
    "products": Base((CORPUS / "rulebook/E35_accumulator_read_in_flight.good.syncir").read_text("utf-8")),
    "one fence": Base((CORPUS / "rulebook/E01_missing_proxy_fence.good.syncir").read_text("utf-8")),
    **{f"{x}, two slots": Base(GOOD[x], {"S": 2}) for x in _OF_RINGS},
}  # fmt: skip
#: What stands under questions about turns.
ASKING: dict[str, Base] = {
    "phased by two": Base(phased(2)),
    "phased by three": Base(phased(3)),
    "strided": Base(STRIDED, {"B": 2}),
    "by three": Base(BY_3),
    "tiles": IR["tiles"],
}  # fmt: skip
#: More steps and turns than products have by themselves: surplus arrivals gather over many phases.
_LONG: tuple[Mapping[str, int], ...] = ({}, {"K": 64 * 40, "steps": 40}, {"K": 64 * 2, "steps": 2})
_OF_PRODUCTS = {
    "direct": Schedule(128, 64, stages=2),
    "pending": Schedule(128, 64, stages=3, pending=1),
    "tma": Schedule(128, 128, stages=2, store="tma"),
    "persistent": Schedule(128, 64, stages=3, persistent=True, registers=(40, 232)),
    "one consumer": Schedule(64, 64, consumers=1, stages=2, persistent=True, store="tma"),
}  # fmt: skip


def products() -> dict[str, Base]:
    """Products as the compiler makes them."""
    turned = ({"turns": 12},)
    return {
        f"product, {x}": Base(print_kernel(build(product(), s)), {}, _LONG + turned * s.persistent)
        for x, s in _OF_PRODUCTS.items()
    }


#: The compiled form of the ring of three, as NVRTC 13.5 writes it, with its launch.
PTX = (Path(__file__).with_name("ring.ptx")).read_text("utf-8")
PTX_FACTS = {
    "grid": ["B", 1, 1], "block": [64, 1, 1], "dynamic_smem": 816, "assume": ["N >= 1"],
    "params": {
        "0": {"ptr": "a", "align": 16}, "1": {"ptr": "out", "align": 16}, "2": {"i32": "B"},
        "3": {"i32": "N"},
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel of PTX, and the numbers of N at which it is executed."""

    text: str
    numbers: tuple[int, ...] = tuple(range(1, 9))


def changed(*edits: tuple[str, str]) -> str:
    """The compiled ring with other text in some places."""
    text = PTX
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


LOADED = "ld.param.u32 \t%r20, [ring_param_3];\n"
BEGUN = "mov.u32 \t%r97, %r95;\n\n$L__BB0_5:\n"
WRAPPED = """	add.s32 	%r72, %r97, 1;
	setp.eq.s32 	%p10, %r72, 3;
	selp.b32 	%r97, 0, %r72, %p10;
	selp.u32 	%r73, 1, 0, %p10;
	xor.b32  	%r96, %r96, %r73;
"""
ENDED = "\t@%p11 bra \t$L__BB0_5;\n"
#: Bytes 64 to 576 of three slots of 256.
STORED = """	bar.warp.sync 	0xffffffff;
	shl.b32 	%r53, %r4, 3;
	mov.u32 	%r54, smem;
	add.s32 	%r55, %r54, %r53;
	mov.u32 	%r61, 0;
	st.shared.v2.u32 	[%r55+64], {%r61, %r61};
"""


def until_bytes(more: int = 0) -> str:
    """Both loops go on until their bytes are as many as N steps have. ``more``: bytes that the consumer takes
    besides these.
    """
    edits = [("%rd<9>", "%rd<12>")]
    for p, counter, extra in (("%p11", "%r95", more), ("%p17", "%r98", 0)):
        asked = f"setp.lt.s32 \t{p}, {counter}, %r20;"
        counted = f"mul.wide.s32 \t%rd9, {counter}, 256;\n\tmul.wide.s32 \t%rd10, %r20, 256;\n"
        counted += f"\tadd.s64 \t%rd11, %rd10, {extra};\n\tsetp.ne.b64 \t{p}, %rd9, %rd11;"
        edits.append((asked, counted))
    return changed(*edits)


#: The compiled ring as other compilers write it. ``quotient``: (N + 15) / 16 steps. ``until equal``: loops go
#: on until the counter is N. ``until bytes``: until 256 times the counter is 256 N. ``first turn``: the
#: consumer goes on to the next slot where a turn begins, from slot -1 on. ``reused``: behind its loop the
#: consumer writes over the slots.
COMPILED = {
    "ring": Compiled(PTX),
    "quotient": Compiled(
        changed((LOADED, LOADED + "\tadd.s32 \t%r20, %r20, 15;\n\tshr.s32 \t%r20, %r20, 4;\n")),
        (1, 16, 17, 33, 50, 70, 100, 128),
    ),
    "until equal": Compiled(changed(("setp.lt.s32 \t%p11", "setp.ne.s32 \t%p11"),
                                    ("setp.lt.s32 \t%p17", "setp.ne.s32 \t%p17"))),
    "until bytes": Compiled(until_bytes()),
    "first turn": Compiled(changed((WRAPPED, ""), (BEGUN, BEGUN.replace("%r95;", "-1;") + WRAPPED))),
    "reused": Compiled(changed((ENDED, ENDED + STORED))),
}  # fmt: skip
