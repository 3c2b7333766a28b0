"""Every synchronization of a good kernel is needed: without any one of them the checker refutes it.

The exceptions are listed with their reason; one that the checker comes to refute must leave the list.
"""

import random
import re

from syncverify.diagnostics import Verdict
from syncverify.ir.parser import parse
from syncverify.verify import check_kernel
from tests.random import copies, meetings, rings
from tests.random.generate import Family
from tests.random.program import Program, places

SYNC = re.compile(
    r"^(mbarrier\.(?!inval)|bar\.|warp\.sync|cluster\.|fence\.|bulk\.(wait|commit)|cp\.async\.(wait|commit|mb)"
    r"|wgmma\.(fence|commit|wait)|setmaxnreg)"
)

#: Good kernels: a family, and the seed of a program that laps its buffers.
KERNELS: tuple[tuple[Family, int], ...] = tuple(
    (family, seed)
    for family in (rings.ring, copies.store, copies.cpasync, copies.handover, meetings.named, meetings.lanes,
                   meetings.lifetime, meetings.cluster, meetings.mma)
    for seed in range(4)
)  # fmt: skip


def good(family: Family, seed: int) -> Program:
    return family(random.Random(seed), "none")


def verdict(program: Program) -> Verdict:
    (kernel,) = parse(program.text(), "random.syncir")
    return check_kernel(kernel, {}).verdict


def candidates() -> list[tuple[str, int, int, str]]:
    out = []
    for k, (family, seed) in enumerate(KERNELS):
        for n, (where, i) in enumerate(places(good(family, seed).body)):
            if SYNC.match(str(where[i])):
                out.append((f"{family.__name__}{seed}", k, n, str(where[i])))
    return out
