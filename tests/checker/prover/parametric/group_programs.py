"""Random kernels whose blocks share global memory in block groups, right or nearly so."""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import TypeVar

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.checker.prover.parametric.strategy import all_sizes
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse

T = TypeVar("T")
SEEDS = range(60)

_HEAD = """kernel team {{
  launch grid [T * {size}] block [64]
  param T : i32
  assume T >= 1
  tensor sums : f32[T * 2048 + 2048] inout
  tensor flag : u32[T * 64 + 64] inout
  shared tile : f32[128]

  elect p
  let team = (block // {size})
  let place = block % {size}
"""
_READ, _WRITE = "ld.global y, sums[{} + tid * 2 : 2]", "st.global sums[{} + tid * 2 : 2], 1.0"
_BULK = (
    "st.shared tile[][tid * 2 : 2], 1.0\nfence.proxy.async.shared_cta\nbar.sync 0\n"
    "if warp == 0 and p {{\n{} sums[{} : 128], tile\nbulk.commit\n{}\n}}\nbar.sync 0"
)


class Team:
    """Chooses each part of one kernel."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.sizes: tuple[int, ...] = (2, 2, 3)

    def text(self) -> str:
        size = self.random.choice(self.sizes)
        flag = self.rarely("team", "team * 4", "team * 2 + place % 2", "team + 1", "(block // 2)", "block")
        guard = self.rarely(
            "place > 0", f"place == {size - 1}", "place == 1", "tid >= 0", f"place < {size - 1}"
        )
        told = self.rarely(">= place", "== place", f">= {size - 1}", ">= 1", "> 0", f"== {size - 1}")
        acquire = self.rarely("acquire.gpu", "relaxed.gpu", "acquire.cta")
        signal = self.rarely(
            "tid == 0", f"tid == 0 and place < {size - 1}", "tid == 32", "tid >= 63", "tid == 0 and place > 0"
        )
        add = self.random.random() < 0.6
        raised = f"atom.global.add.relaxed.gpu flag[{flag}], 1"
        raised = (
            raised if add else f"st.global.relaxed.gpu flag[{flag}], {self.rarely('place + 1', '1', 'place')}"
        )
        parts = [
            self.work(0.15, size),
            f"if {guard} {{\nif tid == 0 {{\nspin.global.{acquire} flag[{flag}] {told}\n{self.bridge()}\n}}\n"
            f"{self.rarely('bar.sync 0', '')}\n}}",
            self.work(0.8, size),
            self.work(0.3, size),
            self.rarely("bar.sync 0", ""),
            f"if {signal} {{\n{self.rarely('fence.acq_rel.gpu', '', 'fence.acq_rel.cta')}\n{raised}\n}}",
            self.work(0.15, size),
        ]
        return _HEAD.format(size=size) + "\n".join(filter(None, parts)) + "\n}\n"

    def rarely(self, usual: T, *others: T) -> T:
        """What is right, or now and then something else."""
        return self.random.choice(others) if self.random.random() < 0.15 else usual

    def bridge(self) -> str:
        return self.rarely("fence.proxy.async.global", "")

    def work(self, often: float, size: int) -> str:
        if self.random.random() >= often:
            return ""
        place = self.rarely(
            "team * 128", f"team * {128 * size} + place * 128", "block * 128", "team * 100", "0"
        )
        kind = self.random.randrange(5)
        if kind < 3:
            return (_READ, _WRITE, f"{_READ}\n{_WRITE}")[kind].replace("{}", place)
        how = ("bulk.store", "bulk.reduce.add")[kind - 3]
        return _BULK.format(how, place, self.rarely("bulk.wait 0", "bulk.wait.read 0"))


@lru_cache(maxsize=len(SEEDS))
def kernel_of(seed: int) -> Kernel:
    (kernel,) = parse(Team(seed).text(), f"team{seed}")
    return kernel


@lru_cache(maxsize=len(SEEDS))
def proved(kernel: Kernel) -> bool:
    """Whether it is proved for every grid; no exact check is made for it."""
    return all_sizes(kernel, {}, Policy.PRACTICAL, lambda _: Verdict.UNKNOWN).verdict is Verdict.PROVED
