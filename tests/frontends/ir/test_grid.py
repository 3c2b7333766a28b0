"""Blocks and clusters: which are run, and what they see of each other."""

from __future__ import annotations

import pytest

from syncverify.frontends.ir.systems import IrSystem, systems
from syncverify.ir.launch_grid import Grid
from syncverify.ir.text.parser import parse
from syncverify.model.events import GLOBAL_MEMORY, Ev, Unanalysable
from tests.frontends.ir.helpers import build, only, run, streams

SHARED = "shared s : f32[4, 64]\n mbarrier b[4]\n tensor a : f32[1 << 20] inout"


def test_a_kernel_that_ignores_its_block_runs_once() -> None:
    body = "bulk.load s[0][0 : 4], a[block * 4 : 4], b[0]\n st.global c[block * 64 + tid], 1.0"
    header = f"launch grid [1000] block [32]\n{SHARED}\n tensor c : f32[1 << 20] out"
    assert [s.info.block for s in build(body, header)] == [(0, 0, 0)]


KERNELS = [
    "mbarrier.wait b[block % 3], 0",
    "mbarrier.wait b[0], (block >> 1) & 1",
    "if block == 5 {\n bulk.commit\n }",
    "if block * 32 + tid < 200 {\n bulk.commit\n }",
    "for i in 0..4 {\n if (block * 4 + i) * 32 + tid < 700 {\n bulk.commit\n }\n }",
    "for t in block..20 step grid {\n bulk.commit\n }",
    "for t in block..20 step grid {\n mbarrier.wait b[t % 4], 0\n }",
    "let t = block\n for k in 0..3 {\n if t < 25 {\n mbarrier.wait b[k], 0\n }\n t = t + grid\n }",
    "let t = block\n for k in 0..3 {\n mbarrier.wait b[(k + t) % 4], 0\n t = t + 3\n }",
    "let n = min(30 - block * 4, 9)\n for i in 0..n {\n bulk.commit\n }",
    "let x = 0\n if block < 3 {\n x = 1\n }\n mbarrier.wait b[0], x",
    "bulk.load s[0][0 : 4], a[block : 4], b[0]",
    "if 12 % (block + 1) == 0 {\n bulk.commit\n }",
    "if 7 // (block - 4) == 1 {\n bulk.commit\n }",
    "if block * block > 20 + tid {\n bulk.commit\n }",
    "st.shared s[0][select(block > 3, 0, 8) + tid : 1], 1.0",
    "if block * 2 + 7 == tid {\n bulk.commit\n }",
    "for i in 0..300 {\n if block * 7 + i * 3 + tid * 100 > 900 {\n bulk.commit\n }\n }",
    "for i in 0..3 {\n for j in 0..2 {\n if block + i * 5 + j * 2 != 9 {\n bulk.commit\n }\n }\n }",
]


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("body", KERNELS)
def test_representatives_cover_every_block(body: str, cluster: int) -> None:
    """Every cluster of the grid behaves as one of those that are run; no two of them need be the same."""
    body = body.replace("7 // (block - 4)", "(7 // (block - 4))")
    header = f"launch grid [10] block [32] cluster [{cluster}]\n{SHARED}"
    found = build(body, header)
    first = found[0]
    seen = [streams(s) for s in found]
    for c in range(first.grid.clusters):
        every = IrSystem.fresh(first.program, first.grid, {}, c, first.elected, "")
        assert streams(every) in seen, c
    assert len(seen) <= first.grid.clusters


@pytest.mark.parametrize(
    ("body", "grid", "expected"),
    [
        ("if block * 1024 + tid * 16 < N {\n bulk.commit\n }", "cdiv(N, 1024)", 2),
        ("for i in 0..8 {\n if (block * 8 + i) * 256 + tid < N {\n bulk.commit\n }\n }", "cdiv(N, 2048)", 2),
        ("for t in block..cdiv(N, 256) step grid {\n bulk.commit\n }", "132", 2),
        ("let t = block\n for k in 0..9 {\n if t < 1000 {\n bulk.commit\n }\n t = t + grid\n }", "132", 2),
        ("mbarrier.wait b[block % 4], 0", "1 << 20", 4),
    ],
)
def test_large_grids_need_few(body: str, grid: str, expected: int) -> None:
    found = build(body, f"launch grid [{grid}] block [64]\n param N : i32 = 1000000\n {SHARED}")
    assert expected <= len(found) <= expected + 2


def test_too_many_different_blocks() -> None:
    body = "for i in 0..block {\n bulk.commit\n }"
    (kernel,) = parse(f"kernel k {{\n launch grid [100000] block [32]\n {SHARED}\n {body}\n }}")
    (found,) = systems(kernel, {})
    assert isinstance(found, Unanalysable)
    assert "4096" in found.reason


def test_clusters_share_offsets_and_barriers() -> None:
    body = """
      if rank == 0 {
        bulk.load s[1][0 : 16], a[0 : 16], b[2], multicast 3
        mbarrier.arrive.cluster b[1] @ 1
        bulk.copy s[2][0 : 4] @ 1, s[3][0 : 4], b[3] @ 1
        st.async s[0][0 : 1] @ 1, 1.0, b[0] @ 1
        ld.shared x, s[0][0 : 1] @ 1
      }
    """
    system = only(body, f"launch grid [4] block [1] cluster [2]\n {SHARED}")
    info = system.info
    assert (info.ctas, info.clusters, len(info.barriers)) == (2, 1, 8)
    assert [(b.cta, b.name) for b in info.barriers[3:5]] == [(0, "b[3]"), (1, "b[0]")]
    load, arrive, copy, store, read, _ = streams(system)["cta0.warp0.lanes0"]
    targets = [(info.footprints[fp].memory, info.footprints[fp].intervals, bar) for fp, bar, _ in load[1]]
    assert targets == [(0, ((256, 320),), 2), (1, ((256, 320),), 6)]
    assert arrive[:2] == ("ARRIVE", 5)
    assert (info.footprints[copy[1]].memory, info.footprints[copy[2]].memory, copy[3:]) == (0, 1, (7, 16))
    assert (info.footprints[store[1]].memory, store[2:]) == (1, (4, 4, 0))
    assert info.footprints[read[1]].memory == 1
    assert streams(system)["cta1.warp0.lanes0"] == [("EXIT",)]


def test_blocks_that_wait_for_each_other_run_together() -> None:
    body = """
      st.global a[block * 4 + 1 : 2], 1.0
      if block == 0 {
        spin.global.acquire.gpu a[100] >= 3
      } else {
        atom.global.add.release.gpu a[100], 1
      }
    """
    system = only(body, f"launch grid [4] block [32]\n tensor z : f32[8] in\n {SHARED}")
    info = system.info
    assert info.tracks_global
    assert (info.clusters, [c.cta for c in info.classes]) == (4, [0, 1, 2, 3])
    for agent in system.agents():
        events = run(agent)
        fp = info.footprints[events[0][2]]
        start = (1 << 40) + 4 * (4 * info.classes[agent.cls].cta + 1)
        assert (fp.memory, fp.intervals) == (GLOBAL_MEMORY, ((start, start + 8),))
    assert run(system.agents()[0])[1][0] == Ev.SPIN
    assert run(system.agents()[0])[1][5:] == (">=", 3)
    assert run(system.agents()[1])[1][-2:] == ("add", 1)


def test_a_large_grid_that_spins_is_not_analysed() -> None:
    body = "atom.global.add.release.gpu a[0], 1\n spin.global.acquire.gpu a[0] >= 17"
    (kernel,) = parse(f"kernel k {{\n launch grid [17] block [32]\n {SHARED}\n {body}\n }}")
    (found,) = systems(kernel, {})
    assert isinstance(found, Unanalysable)
    assert "17 clusters" in found.reason


def test_boxes_in_global_memory() -> None:
    header = """
      launch grid [1] block [1]
      tensor a : f32[8, 16] inout
      tensormap A of a box [2, 4]
      shared s : f32[8]
      mbarrier b
    """
    body = "tma.store A[3, 14], s\n tma.load s, A[-1, 12], b\n tma.load s, A[9, 0], b\n" \
           " st.global.release.gpu a[0], 1.0"  # fmt: skip
    system = only(body, header)
    fps = [system.info.footprints[e[3]] for e in run(system.agents()[0])[:3]]
    row = 64
    assert fps[0].intervals == ((3 * row + 56, 4 * row), (4 * row + 56, 5 * row))
    assert fps[1].intervals == ((48, 64),)
    assert fps[2].intervals == ()


def test_grid_numbers_blocks_x_fastest() -> None:
    g = Grid((4, 6, 2), (32, 1, 1), (2, 3, 1))
    blocks = [g.block_of(c, r) for c in range(g.clusters) for r in range(g.ctas)]
    assert sorted(blocks) == list(range(48))
    assert g.coordinates(g.block_of(1, 0)) == (2, 0, 0)
    assert g.coordinates(g.block_of(2, 3)) == (1, 4, 0)
    assert g.builtins(2, 3, 1, (0, 5))["tid"] == (32, 37)
