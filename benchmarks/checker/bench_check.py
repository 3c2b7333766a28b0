"""Check time against stages, warps and trip count: near linear, or something is wrong.

python benchmarks/checker/bench_check.py [--out FILE.json] [--quick]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.ir.text.parser import parse


@dataclass(frozen=True)
class Shape:
    """A ring: consumer warps, stages, trips."""

    warps: int
    stages: int
    trips: int


@dataclass(frozen=True)
class Result:
    """One measured check."""

    shape: Shape
    verdict: str
    events: int
    thread_events: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.thread_events / self.seconds


def ring(shape: Shape) -> str:
    """A warp-specialized ring: one producer warp, all others read, use and release each stage."""
    consumers = shape.warps - 1
    count = 32 * consumers
    return f"""kernel ring {{
  launch block [{32 * shape.warps}]
  tensor a : f32[{shape.trips * count}] in
  tensor out : f32[{shape.trips * count}] out
  shared tile : f32[{shape.stages}, {count}] align 128
  mbarrier full[{shape.stages}]
  mbarrier empty[{shape.stages}]
  if warp == 0 {{
    elect p
    if p {{
      for s in 0..{shape.stages} {{
        mbarrier.init full[s], 1
        mbarrier.init empty[s], {count}
      }}
    }}
  }}
  bar.sync 0
  role producer warps {consumers}..{consumers + 1} {{
    elect q
    if q {{
      for i in 0..{shape.trips} {{
        mbarrier.wait empty[i % {shape.stages}], (i // {shape.stages} + 1) % 2
        mbarrier.arrive.expect_tx full[i % {shape.stages}], {4 * count}
        bulk.load tile[i % {shape.stages}], a[i * {count} : {count}], full[i % {shape.stages}]
      }}
    }}
  }}
  role consumer warps 0..{consumers} {{
    for i in 0..{shape.trips} {{
      mbarrier.wait full[i % {shape.stages}], (i // {shape.stages}) % 2
      ld.shared x, tile[i % {shape.stages}][tid : 1]
      compute y = x * 2.0
      fence.proxy.async.shared_cta
      mbarrier.arrive empty[i % {shape.stages}]
      st.global out[i * {count} + tid : 1], y
    }}
  }}
}}
"""


def measure(shape: Shape, repeat: int) -> Result:
    """The fastest of a few checks of one ring."""
    (kernel,) = parse(ring(shape), "ring.syncir")
    reports = [check_kernel(kernel, {}, Policy.STRICT) for _ in range(repeat)]
    best = min(reports, key=lambda r: r.seconds)
    if best.verdict is not Verdict.PROVED:
        raise SystemExit(f"{shape}: {best.verdict}, {best.reason} {[d.message for d in best.diagnostics]}")
    events, lanes = best.stats["events"], best.stats["thread_events"]
    return Result(shape, str(best.verdict), events, lanes, best.seconds)


SERIES = {
    "trips": [Shape(5, 4, n) for n in (64, 128, 256, 512, 1024)],
    "warps": [Shape(w, 4, 64) for w in (3, 5, 9, 17, 32)],
    "stages": [Shape(5, s, 128) for s in (1, 2, 4, 8, 16)],
    "384 threads, 8 stages, 64 trips": [Shape(12, 8, 64)],
}


def main() -> int:
    parser = argparse.ArgumentParser(description="check time against stages, warps and trip count")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="one run of each shape")
    options = parser.parse_args()
    results: dict[str, list[Result]] = {}
    print(f"{'series':34} warps stages  trips   events     lanes        s    lanes/s")
    for name, shapes in SERIES.items():
        results[name] = []
        for shape in shapes:
            r = measure(shape, 1 if options.quick else 3)
            results[name].append(r)
            print(
                f"{name:34} {shape.warps:5} {shape.stages:6} {shape.trips:6} {r.events:8} {r.thread_events:9}"
                f" {r.seconds:8.3f} {r.rate:10.3g}"
            )
    if options.out:
        data = {k: [asdict(r) | {"thread_events_per_second": r.rate} for r in v] for k, v in results.items()}
        options.out.write_text(json.dumps(data, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
