"""Cost of a proof for all sizes: a persistent pipeline with two consumer warpgroups, tiles times steps.

    python benchmarks/checker/bench_symbolic.py [STAGES...]

Each row is a process of its own: processor time, peak memory, decisions and events of the exploration.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from resource import RUSAGE_SELF, getrusage

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.checker.prover.parametric.strategy import all_sizes
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse


def pipeline(stages: int) -> str:
    """Tiles dealt to the blocks of a grid of any size; stage and phase carry over from tile to tile."""
    return f"""kernel pipeline {{
  launch grid [G] block [384] registers 168
  param G : i32 = 132
  param T : i32 = 9
  param K : i32 = 8
  assume K >= 1
  tensor a : f32[T * K * 256 + 256] in
  tensor out : f32[T * 256] inout
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
      let stage = 0
      let phase = 1
      for t in block..T step grid {{
        for k in 0..K {{
          mbarrier.wait empty[stage], phase
          mbarrier.arrive.expect_tx full[stage], 1024
          bulk.load tile[stage], a[(t * K + k) * 256 : 256], full[stage]
          stage = stage + 1
          if stage == {stages} {{
            stage = 0
            phase = 1 - phase
          }}
        }}
      }}
    }}
  }}
  role math warpgroups 0..2 {{
    setmaxnreg.inc 240
    let stage = 0
    let phase = 0
    for t in block..T step grid {{
      compute sum = 0.0
      for k in 0..K {{
        mbarrier.wait full[stage], phase
        ld.shared x, tile[stage][tid : 1]
        compute sum = sum + x
        fence.proxy.async.shared_cta
        mbarrier.arrive empty[stage]
        stage = stage + 1
        if stage == {stages} {{
          stage = 0
          phase = 1 - phase
        }}
      }}
      st.global out[t * 256 + tid : 1], sum
    }}
  }}
}}
"""


def measure(stages: int) -> dict[str, float]:
    (kernel,) = parse(pipeline(stages), "pipeline.syncir")
    start = time.process_time()
    found = all_sizes(kernel, {}, Policy.PRACTICAL, lambda v: check_kernel(kernel, v).verdict)
    seconds = time.process_time() - start
    if found.verdict is not Verdict.PROVED:
        raise SystemExit(f"{stages} stages: {found.verdict}: {found.reason}")
    peak = getrusage(RUSAGE_SELF).ru_maxrss / 1024
    return {"stages": stages, "seconds": seconds, "peak": peak, **found.stats}


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(int(sys.argv[2]))))
        return
    if not all(s.isdecimal() for s in sys.argv[1:]):
        raise SystemExit(f"{__doc__}\nusage: bench_symbolic.py [STAGES ...]")
    print("stages  seconds  peak MiB  decisions  events")
    for stages in sys.argv[1:] or ("4", "8", "16", "32"):
        command = [sys.executable, __file__, "--one", stages]
        r = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(
            f"{r['stages']:6d}  {r['seconds']:7.2f}  {r['peak']:8.0f}  {r['nodes']:9d}  {r['events']:6d}",
            flush=True,
        )


if __name__ == "__main__":
    main()
