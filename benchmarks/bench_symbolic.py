"""Cost of a proof for every trip count: a persistent pipeline with two consumer warpgroups, 4 to 32 stages.

    python benchmarks/bench_symbolic.py [STAGES...]

Prints the time, the process's peak memory so far, and how many exact runs and events the proof took.
"""

from __future__ import annotations

import sys
import time
from resource import RUSAGE_SELF, getrusage

from syncverify.diagnostics import Policy, Verdict
from syncverify.ir.parser import parse
from syncverify.sizes import all_sizes
from syncverify.verify import check_kernel


def pipeline(stages: int) -> str:
    """Tiles dealt to the blocks of a grid; stage and parity carry over from tile to tile."""
    return f"""kernel pipeline {{
  launch grid [132] block [384] registers 168
  param T : i32 = 9
  assume T >= 1
  tensor a : f32[T * 132 * 256] in
  tensor out : f32[T * 132 * 256] out
  shared tile : f32[{stages}, 256]
  mbarrier full[{stages}]
  mbarrier empty[{stages}]
  if warp == 8 {{
    elect p
    if p {{
      for s in 0..{stages} {{
        mbarrier.init full[s], 1
        mbarrier.init empty[s], 256
      }}
      fence.mbarrier_init
    }}
  }}
  bar.sync 0
  role producer warpgroups 2..3 {{
    setmaxnreg.dec 24
    elect p
    if warp == 8 and p {{
      for t in 0..T {{
        mbarrier.wait empty[t % {stages}], (t // {stages} + 1) % 2
        mbarrier.arrive.expect_tx full[t % {stages}], 1024
        bulk.load tile[t % {stages}], a[(t * 132 + block) * 256 : 256], full[t % {stages}]
      }}
    }}
  }}
  role math warpgroups 0..2 {{
    setmaxnreg.inc 240
    for t in 0..T {{
      mbarrier.wait full[t % {stages}], (t // {stages}) % 2
      ld.shared x, tile[t % {stages}][tid : 1]
      compute y = x * 2.0
      fence.proxy.async.shared_cta
      mbarrier.arrive empty[t % {stages}]
      st.global out[(t * 132 + block) * 256 + tid], y
    }}
  }}
}}
"""


def measure(stages: int) -> tuple[float, dict[str, int]]:
    (kernel,) = parse(pipeline(stages), "pipeline.syncir")
    start = time.perf_counter()
    found = all_sizes(kernel, {}, Policy.PRACTICAL, lambda v: check_kernel(kernel, v).verdict)
    seconds = time.perf_counter() - start
    if found.verdict is not Verdict.PROVED:
        raise SystemExit(f"{stages} stages: {found.verdict}: {found.reason}")
    return seconds, found.stats


def main() -> None:
    print("stages  seconds  peak MiB  exact runs  events")
    for stages in map(int, sys.argv[1:] or ("4", "8", "16", "32")):
        seconds, stats = measure(stages)
        peak = getrusage(RUSAGE_SELF).ru_maxrss / 1024
        row = f"{stages:6d}  {seconds:7.2f}  {peak:8.0f}  {stats['runs']:10d}  {stats['events']:6d}"
        print(row, flush=True)


if __name__ == "__main__":
    main()
