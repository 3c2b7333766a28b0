"""Processor time of execution alone: setting systems up, and stepping their agents, without the checker.

python benchmarks/checker/bench_execute.py [FILE.syncir] [NAME=VALUE ...]
"""

from __future__ import annotations

import sys
import time

from syncverify.frontends.ir.systems import IrSystem, systems
from syncverify.ir.text.parser import parse, parse_file
from syncverify.model.events import Ev

RING = """
kernel ring {
  launch grid [1] block [384]
  param N : i32 = 1024
  tensor a : f32[N * 1024] in
  tensor out : f32[N * 1024] out
  shared tile : f32[8, 1024] align 128
  mbarrier full[8]
  mbarrier empty[8]

  if warp == 0 {
    elect p
    if p {
      for s in 0..8 {
        mbarrier.init full[s], 1
        mbarrier.init empty[s], 352
      }
      fence.mbarrier_init
    }
  }
  bar.sync 0
  role producer warps 11..12 {
    elect q
    if q {
      for i in 0..N {
        mbarrier.wait empty[i % 8], (i / 8 + 1) % 2
        mbarrier.arrive.expect_tx full[i % 8], 4096
        bulk.load tile[i % 8], a[i * 1024 : 1024], full[i % 8]
      }
    }
  }
  role consumer warps 0..11 {
    for i in 0..N {
      mbarrier.wait full[i % 8], (i / 8) % 2
      ld.shared x, tile[i % 8][tid * 2 : 2]
      compute y = x * 2.0
      fence.proxy.async.shared_cta
      mbarrier.arrive empty[i % 8]
      st.global out[i * 1024 + tid * 2 : 2], y
    }
  }
}
""".replace("i / 8", "(i // 8)")


def main() -> None:
    values = {k: int(v) for k, _, v in (a.partition("=") for a in sys.argv[1:] if "=" in a)}
    files = [a for a in sys.argv[1:] if "=" not in a]
    for kernel in parse_file(files[0]) if files else parse(RING, "ring"):
        start = time.process_time()
        found = [s for s in systems(kernel, values) if isinstance(s, IrSystem)]
        print(f"{kernel.name}: {len(found)} systems set up in {1e3 * (time.process_time() - start):.1f} ms")
        for system in found[:4]:
            start = time.process_time()
            events = lanes = 0
            for agent in system.agents():
                width = system.info.classes[agent.cls].count
                step = agent.step
                while step(1)[0] not in (Ev.EXIT, Ev.UNKNOWN):
                    events += 1
                    lanes += width
            seconds = time.process_time() - start
            print(
                f"  block {system.info.block}: {len(system.info.classes)} classes, {events} events, "
                f"{1e9 * seconds / events:.0f} ns each, {lanes / seconds / 1e6:.1f} M lane events/s"
            )


if __name__ == "__main__":
    main()
