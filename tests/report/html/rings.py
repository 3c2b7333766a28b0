"""Two rings that are wrong, and their reports: one races, one hangs."""

from __future__ import annotations

from pathlib import Path

from syncverify import Verdict, check_file
from syncverify.base.diagnostics import KernelReport

RING = """
kernel ring {{
  launch grid [1] block [64]
  param N : i32 = 3
  tensor a : f32[N * 64] in
  tensor out : f32[N * 32] out
  shared tile : f32[2, 64]
  mbarrier full[2]
  mbarrier empty[2]
  if tid == 0 {{
    for s in 0..2 {{
      mbarrier.init full[s], 1
      mbarrier.init empty[s], 32
    }}
  }}
  bar.sync 0
  if warp == 0 {{
    elect p
    if p {{
      for i in 0..N {{
        mbarrier.wait empty[i % 2], (i // 2 + {first}) % 2
        mbarrier.arrive.expect_tx full[i % 2], 256
        bulk.load tile[i % 2], a[i * 64 : 64], full[i % 2]
      }}
    }}
  }} else {{
    for i in 0..N {{
      mbarrier.wait full[i % 2], (i // 2) % 2
      {early}
      ld.shared x, tile[i % 2][lane * 2 : 1]
      compute y = x * 2.0
      {late}
      st.global out[i * 32 + lane], y
    }}
  }}
}}
"""
RELEASE = "fence.proxy.async.shared_cta\n      mbarrier.arrive empty[i % 2]"


def early_release(directory: Path) -> KernelReport:
    """The consumer frees its slot before it reads it."""
    return _check(directory / "early_release.syncir", first=1, early=RELEASE, late="")


def wrong_parity(directory: Path) -> KernelReport:
    """The producer's first wait asks for phase 0, which only the consumer could complete."""
    return _check(directory / "wrong_parity.syncir", first=0, early="", late=RELEASE)


def _check(file: Path, **parts: object) -> KernelReport:
    file.write_text(RING.format(**parts))
    (report,) = check_file(str(file), values={"N": 3})
    assert report.verdict is Verdict.REFUTED
    return report
