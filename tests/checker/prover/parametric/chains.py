"""Random kernels whose blocks hand on flags, right or nearly so."""

from __future__ import annotations

from random import Random
from typing import TypeVar

T = TypeVar("T")

_HEAD = """kernel chain {{
  launch grid [S] block [64]
  param S : i32
  assume S >= {least}
  tensor ws : f32[S * 128 + 256] inout
  tensor flag : u32[S * 4 + 20] inout
  tensor out : f32[S * 128 + 256] inout
  shared tile : f32[128]

  elect p
"""
_WORK = (
    "ld.global y, ws[tid * 2 : 2]\nst.global ws[tid * 2 : 2], y + 1.0",
    "st.global ws[block * 128 + tid * 2 : 2], 1.0",
    "if block > 0 {\nld.global y, ws[(block - 1) * 128 + tid * 2 : 2]\n}",
    "if block + 1 < grid {\nld.global y, ws[(block + 1) * 128 + tid * 2 : 2]\n}",
    "st.global out[block * 128 + tid * 2 : 2], 1.0",
    "st.global out[block * 100 + tid * 2 : 2], 1.0",
    "if block == 1 {\nst.global out[tid * 2 : 2], 1.0\n}",
    "if block + 1 == grid {\nld.global y, ws[tid * 2 : 2]\n}",
    "st.shared tile[][tid * 2 : 2], 1.0\nfence.proxy.async.shared_cta\nbar.sync 0\n"
    "if warp == 0 and p {\nbulk.store ws[block * 128 : 128], tile\nbulk.commit\nbulk.wait 0\n}",
)  # fmt: skip


class Chain:
    """Chooses each part of one kernel."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.least = self.random.choice((1, 1, 2, 3))  # blocks

    def text(self) -> str:
        counts = self.random.random() < 0.5
        look, raised = ("0", "0") if counts else self.places()
        told = self.rarely(">= block" if counts else ">= 1", "== block", "> 0", ">= block", ">= 2", "!= 1")
        left = self.rarely("block + 1" if counts else "1", "block + 1", "2", "1", "block")
        guard = self.rarely("block > 0", "tid >= 0", "block > 1", "block + 1 < grid", "block % 2 == 1")
        acquire = self.rarely("acquire.gpu", "relaxed.gpu", "acquire.cta")
        last = self.rarely(
            "tid == 0", "tid == 0 and block + 1 < grid", "tid == 32", "tid == 0 and block != 2"
        )
        store = self.random.random() < 0.8
        raises = (
            f"st.global.relaxed.gpu flag[{raised}], {left}" if store else f"atom.global.add flag[{raised}], 1"
        )
        spin = f"spin.global.{acquire} flag[{look}] {told}"
        parts = [
            self.work(0.2),
            f"if {guard} {{\nif tid == 0 {{\n{spin}\n}}\n{self.barrier()}\n}}",
            self.work(0.7),
            self.work(0.4),
            self.barrier(),
            f"if {last} {{\n{self.rarely('fence.acq_rel.gpu', '', 'fence.acq_rel.cta')}\n{raises}\n}}",
            self.work(0.2),
        ]
        return _HEAD.format(least=self.least) + "\n".join(filter(None, parts)) + "\n}\n"

    def places(self) -> tuple[str, str]:
        """Where a block looks, and which flag it raises."""
        return self.rarely(
            ("block - 1", "block"), ("block", "block + 1"), ("block * 4 - 4", "block * 4"),
            ("block", "block"), ("block - 2", "block"), ("block * 2", "block"),
            ("block - 1", "select(block == 2, 3, block)"),
        )  # fmt: skip

    def rarely(self, usual: T, *others: T) -> T:
        """What is right, or now and then something else."""
        return self.random.choice(others) if self.random.random() < 0.12 else usual

    def barrier(self) -> str:
        return self.rarely("bar.sync 0", "")

    def work(self, often: float) -> str:
        return self.random.choice(_WORK) if self.random.random() < often else ""
