"""Right kernels that the reading takes and the kernel accepts: what sweeps make mistakes in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.checker.induction.test_clusters import PAIR
from tests.checker.induction.test_flags import PAIR as BLOCKS
from tests.checker.induction.test_read import CORPUS, RING
from tests.checker.prover.rings.kernels import GOOD


@dataclass(frozen=True, slots=True)
class Base:
    """``given``: numbers of parameters that are not open."""

    text: str
    given: dict[str, int] = field(default_factory=dict)


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
#: The compiled form of the ring of three, as NVRTC 13.5 writes it, with its launch.
PTX = (Path(__file__).with_name("ring.ptx")).read_text("utf-8")
PTX_FACTS = {
    "grid": ["B", 1, 1], "block": [64, 1, 1], "dynamic_smem": 816, "assume": ["N >= 1"],
    "params": {
        "0": {"ptr": "a", "align": 16}, "1": {"ptr": "out", "align": 16}, "2": {"i32": "B"},
        "3": {"i32": "N"},
    },
}  # fmt: skip
