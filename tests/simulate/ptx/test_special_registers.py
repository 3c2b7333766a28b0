"""The special registers of a warp are those of its place, and are kept for the next execution."""

from __future__ import annotations

import numpy as np
import pytest

from syncverify.simulate.ptx import Launch, buffer, run
from tests.simulate.ptx.support import kernel

NAMES = (
    "tid.x", "tid.y", "tid.z", "ntid.x", "ntid.y", "ntid.z", "ctaid.x", "ctaid.y", "nctaid.x", "nctaid.y", "laneid",
    "cluster_ctarank", "cluster_nctarank", "clusterid.x", "cluster_ctaid.x", "lanemask_lt", "lanemask_ge",
)  # fmt: skip


def expected(name: str, thread: int, at: tuple[int, int], block: tuple[int, int, int], cluster: int) -> int:
    x, y, _ = block
    lane = thread % 32
    return {
        "tid.x": thread % x, "tid.y": thread // x % y, "tid.z": thread // (x * y),
        "ntid.x": x, "ntid.y": y, "ntid.z": block[2], "ctaid.x": at[0], "ctaid.y": at[1],
        "nctaid.x": 4, "nctaid.y": 2, "laneid": lane, "cluster_ctarank": at[0] % cluster,
        "cluster_nctarank": cluster, "clusterid.x": at[0] // cluster, "cluster_ctaid.x": at[0] % cluster,
        "lanemask_lt": (1 << lane) - 1, "lanemask_ge": 0xFFFFFFFF & ~((1 << lane) - 1),
    }[name]  # fmt: skip


@pytest.mark.parametrize(("block", "cluster"), [((8, 3, 2), 1), ((64, 1, 1), 2), ((5, 1, 7), 4)])
@pytest.mark.parametrize("seed", [0, 1])
def test_each_thread_has_its_own(block: tuple[int, int, int], cluster: int, seed: int) -> None:
    threads = int(np.prod(block))
    lines = ["mov.u32 %r2, %tid.y; mad.lo.u32 %r2, %tid.z, %ntid.y, %r2; mad.lo.u32 %r2, %r2, %ntid.x, %r1;"]
    lines.append("mad.lo.u32 %r3, %ctaid.y, 4, %ctaid.x; mul.lo.u32 %r4, %ntid.x, %ntid.y;")
    lines.append("mul.lo.u32 %r4, %r4, %ntid.z; mad.lo.u32 %r2, %r3, %r4, %r2;")
    lines.append(f"mad.wide.u32 %rd2, %r2, {4 * len(NAMES)}, %rd1;")
    for n, name in enumerate(NAMES):
        lines.append(f"mov.u32 %r5, %{name}; st.global.u32 [%rd2+{4 * n}], %r5;")
    out = buffer(np.zeros(8 * threads * len(NAMES), np.uint32))
    launch = Launch(block, (4, 2, 1), (cluster, 1, 1), params=(out,))
    done = run(kernel("\n".join(lines)), "k", launch, seed=seed)
    assert done.harm is None
    held = done.memory(out).reshape(8, threads, len(NAMES))
    for b in range(8):
        for t in range(threads):
            want = [expected(name, t, (b % 4, b // 4), block, cluster) for name in NAMES]
            assert held[b, t].tolist() == want
