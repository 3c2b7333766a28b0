"""Rings with the mistakes that only some sizes show."""

from __future__ import annotations

from syncverify.base.diagnostics import Policy
from syncverify.checker.prover.parametric.strategy import ParametricResult, all_sizes
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse

WAIT = "mbarrier.wait empty[stage], phase"
ARRIVE = "mbarrier.arrive empty[stage]"
LOAD = "bulk.load tile[stage], a[(t * K + k) * 64 : 64], full[stage]"


def proof(text: str, policy: Policy = Policy.PRACTICAL) -> ParametricResult:
    """What is found for all sizes of a kernel."""
    (kernel,) = parse(text, "kernel.syncir")
    return all_sizes(kernel, {}, policy, lambda v: check_kernel(kernel, v, policy).verdict)


def producer(turn: str, wait: str = WAIT, load: str = LOAD) -> str:
    """Warp 2 fills a ring with T tiles of K steps; ``turn`` moves it on."""
    return f"""role producer warps 2..3 {{
    elect p
    if p {{
      let stage = 0
      let phase = 1
      for t in 0..T {{
        for k in 0..K {{
          {wait}
          mbarrier.arrive.expect_tx full[stage], 256
          {load}
          {turn}
        }}
      }}
    }}
  }}"""


def ring(
    stages: int = 2,
    *,
    consumer_trips: str = "N",
    release: str = "mbarrier.arrive empty[i % {S}]",
    parity: str = "(i // {S}) % 2",
    before: str = "",
    bytes_: int = 1024,
    assume: str = "N >= 0",
) -> Kernel:
    """A producer and one consumer warpgroup; the parts of the consumer's loop can be replaced."""
    s = stages
    text = f"""kernel ring {{
  launch grid [B] block [160]
  param B : i32 = 2
  param N : i32 = 4
  assume {assume}
  tensor a : f32[B * N * 256 + 256] in
  tensor out : f32[B * N * 256 + 256] out
  shared tile : f32[{s}, 256]
  mbarrier full[{s}]
  mbarrier empty[{s}]
  if warp == 4 {{
    elect p
    if p {{
      for s in 0..{s} {{
        mbarrier.init full[s], 1
        mbarrier.init empty[s], 128
      }}
      fence.mbarrier_init
    }}
  }}
  bar.sync 0
  role producer warps 4..5 {{
    elect p
    if p {{
      for i in 0..N {{
        mbarrier.wait empty[i % {s}], (i // {s} + 1) % 2
        mbarrier.arrive.expect_tx full[i % {s}], {bytes_}
        bulk.load tile[i % {s}], a[(block * N + i) * 256 : 256], full[i % {s}]
      }}
    }}
  }}
  role consumer warps 0..4 {{
    {before.format(S=s)}
    for i in 0..({consumer_trips}) {{
      mbarrier.wait full[i % {s}], {parity.format(S=s)}
      ld.shared x, tile[i % {s}][tid * 2 : 2]
      compute y = x * 2.0
      fence.proxy.async.shared_cta
      {release.format(S=s)}
      st.global out[(block * N + i) * 256 + tid * 2 : 2], y
    }}
  }}
}}
"""
    (kernel,) = parse(text, "ring.syncir")
    return kernel


def skipping(condition: str) -> str:
    """A release that is left out where ``condition`` fails."""
    return f"if {condition} {{{{\n mbarrier.arrive empty[i % {{S}}]\n }}}}"


def adding(amount: int) -> Kernel:
    """Bytes announced on one barrier in every iteration, and never copied: the count overflows in the end."""
    text = f"""kernel adding {{
  launch grid [1] block [32]
  param N : i32 = 4
  assume N >= 1
  mbarrier done
  if tid == 0 {{
    mbarrier.init done, 1
    for i in 0..N {{
      mbarrier.expect_tx done, {amount}
    }}
    for i in 0..N {{
      mbarrier.complete_tx done, {amount}
    }}
    mbarrier.arrive done
    mbarrier.wait done, 0
  }}
}}
"""
    (kernel,) = parse(text, "adding.syncir")
    return kernel
