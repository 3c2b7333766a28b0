"""Small kernels for the simulator's tests."""

from __future__ import annotations

from syncverify.base.diagnostics import Policy
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.simulate.ir import explore

CLUSTER = "launch grid [2] block [32] cluster [2]"


def kernel(body: str, header: str = "launch grid [1] block [64]") -> Kernel:
    (k,) = parse(f"kernel k {{\n{header}\n{body}\n}}", "test.syncir")
    return k


def rules(
    body: str, header: str = "launch grid [1] block [64]", policy: Policy = Policy.PRACTICAL
) -> set[str]:
    """The rules of all harms of a kernel that are more than a difference between executions."""
    found = explore(kernel(body, header), policy=policy)
    assert found.unsupported is None
    return {h.rule for h in found.harms if h.kind != "order-violation"}


def ring(
    *, stages: int = 2, empty: int = 128, full: int = 1, drop: str = "", n: int = 6, parity: str = ""
) -> Kernel:
    """A producer warp and four consumer warps; ``drop`` leaves out a line that contains it."""
    flip = parity or f"(i // {stages} + 1) % 2"
    lines = f"""
      tensor a : f32[N * 256] in
      tensor out : f32[N * 256] out
      shared tile : f32[{stages}, 256]
      mbarrier full[{stages}]
      mbarrier empty[{stages}]
      param N : i32 = {n}
      if warp == 0 {{
        elect p
        if p {{
          for s in 0..{stages} {{
            mbarrier.init full[s], {full}
            mbarrier.init empty[s], {empty}
          }}
          fence.mbarrier_init
        }}
      }}
      bar.sync 0
      role producer warps 4..5 {{
        elect p
        if p {{
          for i in 0..N {{
            mbarrier.wait empty[i % {stages}], {flip}
            mbarrier.arrive.expect_tx full[i % {stages}], 1024
            bulk.load tile[i % {stages}], a[i * 256 : 256], full[i % {stages}]
          }}
        }}
      }}
      role consumer warps 0..4 {{
        for i in 0..N {{
          mbarrier.wait full[i % {stages}], (i // {stages}) % 2
          ld.shared x, tile[i % {stages}][tid * 2 : 2]
          compute y = x * 2.0 + 1.0
          st.global out[i * 256 + tid * 2 : 2], y
          mbarrier.arrive empty[i % {stages}]
        }}
      }}"""
    kept = [x for x in lines.splitlines() if not drop or drop not in x]
    return kernel("\n".join(kept), "launch grid [1] block [160]")
