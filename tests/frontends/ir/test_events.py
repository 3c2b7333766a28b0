"""Golden event streams: what each construct emits, in order."""

from __future__ import annotations

import pytest

from syncverify.model.events import Ev, Flag
from tests.frontends.ir.helpers import build, one_lane, only, run, streams

RING = """
  launch grid [1] block [96]
  param N : i32 = 3
  tensor a : f32[N * 64] in
  tensor out : f32[N * 64] out
  shared tile : f32[2, 64] align 128
  mbarrier full[2]
  mbarrier empty[2]
"""
RING_BODY = """
  if warp == 0 {
    elect p
    if p {
      for s in 0..2 {
        mbarrier.init full[s], 1
        mbarrier.init empty[s], 64
      }
      fence.mbarrier_init
    }
  }
  bar.sync 0
  role producer warps 2..3 {
    elect p
    if p {
      for i in 0..N {
        mbarrier.wait empty[i % 2], (i // 2 + 1) % 2
        mbarrier.arrive.expect_tx full[i % 2], 256
        bulk.load tile[i % 2], a[i * 64 : 64], full[i % 2]
      }
    }
  }
  role consumer warps 0..2 {
    for i in 0..N {
      mbarrier.wait full[i % 2], (i // 2) % 2
      ld.shared x, tile[i % 2][tid : 1]
      compute y = x * 2.0
      mbarrier.arrive empty[i % 2]
      st.global out[i * 64 + tid], y
    }
  }
"""


def test_ring() -> None:
    system = only(RING_BODY, RING)
    info = system.info
    got = streams(system)
    assert list(got) == [
        "cta0.warp0.lanes0,2-31", "cta0.warp0.lanes1", "cta0.warp1.lanes0-31",
        "cta0.warp2.lanes0,2-31", "cta0.warp2.lanes1",
    ]  # fmt: skip
    assert [c.role for c in info.classes] == ["consumer"] * 3 + ["producer"] * 2
    assert [b.name for b in info.barriers] == ["full[0]", "full[1]", "empty[0]", "empty[1]"]
    aligned = int(Flag.ALIGNED)
    mask = 0xFFFFFFFF
    assert got["cta0.warp2.lanes0,2-31"] == [("BARRIER_SYNC", 0, 0, aligned), ("ELECT", mask), ("EXIT",)]
    loads = [e for e in got["cta0.warp2.lanes1"] if e[0] == "BULK_LOAD"]
    assert [info.footprints[e[1][0][0]].intervals for e in loads] == [((0, 256),), ((256, 512),), ((0, 256),)]
    without = [e for e in got["cta0.warp2.lanes1"] if e[0] != "BULK_LOAD"]
    assert without == [
        ("BARRIER_SYNC", 0, 0, aligned), ("ELECT", mask),
        ("WAIT", 2, 1, 0), ("ARRIVE", 0, 1, 256, 0),
        ("WAIT", 3, 1, 0), ("ARRIVE", 1, 1, 256, 0),
        ("WAIT", 2, 0, 0), ("ARRIVE", 0, 1, 256, 0), ("EXIT",),
    ]  # fmt: skip
    assert got["cta0.warp0.lanes1"][:7] == [
        ("ELECT", mask), ("INIT", 0, 1), ("INIT", 2, 64), ("INIT", 1, 1), ("INIT", 3, 64), ("INIT_FENCE",),
        ("BARRIER_SYNC", 0, 0, aligned),
    ]  # fmt: skip
    consumer = got["cta0.warp1.lanes0-31"]
    assert [e[0] for e in consumer[1:6]] == ["WAIT", "READ", "ARRIVE", "USE", "GLOBAL_WRITE"]
    fp = info.footprints[consumer[2][1]]
    assert fp.intervals == ((128, 256),)
    assert fp.lanes[1] == (132, 136, 1)


def test_other_values() -> None:
    assert len(run(only(RING_BODY, RING, N=10).agents()[2])) == 1 + 5 * 10 + 1


def test_sites_are_the_source() -> None:
    system = only(RING_BODY, RING)
    event = system.agents()[2].step()
    site = system.info.sites[event[1]]
    assert site.text == "bar.sync 0"
    text = f"kernel k {{\n{RING}\n{RING_BODY}\n}}\n"
    assert text.splitlines()[site.span.line - 1].strip() == "bar.sync 0"


STATEMENTS = [
    ("mbarrier.init b, 7", [("INIT", 0, 7)]),
    ("mbarrier.inval b", [("INVAL", 0)]),
    ("mbarrier.arrive b", [("ARRIVE", 0, 1, -1, 0)]),
    ("mbarrier.arrive.relaxed.cluster b, count 3", [("ARRIVE", 0, 3, -1, 3)]),
    ("mbarrier.arrive.expect_tx.drop b, 64", [("ARRIVE", 0, 1, 64, int(Flag.DROP))]),
    ("mbarrier.arrive.no_complete b, count 2", [("ARRIVE", 0, 2, -1, int(Flag.NO_COMPLETE))]),
    ("mbarrier.expect_tx b, 48", [("EXPECT_TX", 0, 48)]),
    ("mbarrier.complete_tx b, 48", [("COMPLETE_TX", 0, 48)]),
    ("mbarrier.wait.relaxed b, 1", [("WAIT", 0, 1, 1)]),
    ("let p = mbarrier.test b, 0", [("POLL", 0, 0, 0)]),
    ("let p = mbarrier.try.cluster b, 0", [("POLL", 0, 0, int(Flag.CLUSTER | Flag.MAY_SUSPEND))]),
    ("fence.mbarrier_init", [("INIT_FENCE",)]),
    ("bar.sync 3, 64", [("BARRIER_SYNC", 3, 64, 32)]),
    ("barrier.sync 3, 64", [("BARRIER_SYNC", 3, 64, 0)]),
    ("bar.red 3, 64", [("BARRIER_SYNC", 3, 64, 96)]),
    ("bar.arrive 4, 96", [("BARRIER_ARRIVE", 4, 96, 32)]),
    ("warp.sync", [("WARP_SYNC", 1)]),
    ("cluster.arrive.relaxed.aligned", [("CLUSTER_ARRIVE", 33)]),
    ("cluster.wait", [("CLUSTER_WAIT", 0)]),
    ("elect p", [("ELECT", 1)]),
    ("setmaxnreg.dec 40", [("SETMAXNREG", 0, 40)]),
    ("setmaxnreg.inc 232", [("SETMAXNREG", 1, 232)]),
    ("griddep.wait", [("GRID_WAIT",)]),
    ("griddep.launch", [("GRID_LAUNCH",)]),
    ("cp.async s[][0 : 4], a[4 : 4]", [("CP_ASYNC", 0, -1)]),
    ("cp.async.commit", [("CP_COMMIT",)]),
    ("cp.async.wait 2", [("CP_WAIT", 2)]),
    ("cp.async.wait_all", [("CP_WAIT", -1)]),
    ("cp.async.mbarrier.arrive b", [("CP_ARRIVE", 0, 0)]),
    ("cp.async.mbarrier.arrive.noinc b", [("CP_ARRIVE", 0, 1)]),
    ("bulk.load s[][0 : 16], a[0 : 16], b", [("BULK_LOAD", ((0, 0, 64),), -1, -1)]),
    ("bulk.store a[0 : 16], s[][0 : 16]", [("BULK_STORE", 0, -1, -1, 0)]),
    ("bulk.reduce.add a[0 : 16], s[][0 : 16]", [("BULK_STORE", 0, -1, -1, 1)]),
    ("bulk.prefetch a[0 : 16]", []),
    ("tma.load s[][0 : 64], A[0, 0], b", [("BULK_LOAD", ((0, 0, 256),), -1, 0)]),
    ("tma.store A[0, 0], s[][0 : 64]", [("BULK_STORE", 0, -1, 0, 0)]),
    ("tma.reduce.add A[0, 0], s[][0 : 64]", [("BULK_STORE", 0, -1, 0, 1)]),
    ("tma.prefetch A[0, 0]", []),
    ("bulk.commit", [("BULK_COMMIT",)]),
    ("bulk.wait 1", [("BULK_WAIT", 1, 0)]),
    ("bulk.wait.read 0", [("BULK_WAIT", 0, 1)]),
    ("fence.acq_rel.cta", [("FENCE", int(Flag.ACQUIRE | Flag.RELEASE), 0)]),
    ("fence.sc.gpu", [("FENCE", int(Flag.ACQUIRE | Flag.RELEASE | Flag.SC), 2)]),
    ("fence.acquire.sync_restrict", [("FENCE", int(Flag.ACQUIRE | Flag.SYNC_RESTRICT), 1)]),
    ("fence.proxy.async", [("PROXY_FENCE", 7, 0)]),
    ("fence.proxy.async.global", [("PROXY_FENCE", 4, 0)]),
    ("fence.proxy.async.shared_cta", [("PROXY_FENCE", 1, 0)]),
    ("fence.proxy.async.shared_cluster", [("PROXY_FENCE", 3, 0)]),
    ("fence.proxy.async.release", [("PROXY_FENCE", 1, int(Flag.RELEASE))]),
    ("fence.proxy.async.acquire", [("PROXY_FENCE", 3, int(Flag.ACQUIRE))]),
    ("fence.proxy.tensormap.release.gpu", [("MAP_RELEASE", 2)]),
    ("fence.proxy.tensormap.acquire.gpu A", [("MAP_ACQUIRE", 0, 2)]),
    ("tensormap.replace A, global_address, 1", [("MAP_REPLACE", 0, 0)]),
    ("tensormap.cp_fence.gpu A", [("MAP_CP_FENCE", 0, 2)]),
    ("wgmma.fence", [("WGMMA_FENCE",)]),
    ("wgmma.mma acc, s[][0 : 64], s[][64 : 64]", [("WGMMA", 0, 0, -1, 1, 1, -1)]),
    ("wgmma.mma acc, fa, s[][64 : 64], scale_d 0", [("WGMMA", 0, -1, 1, 0, 0, -1)]),
    ("wgmma.commit", [("WGMMA_COMMIT",)]),
    ("wgmma.wait 1", [("WGMMA_WAIT", 1)]),
    ("frag.write acc, 0.0", [("FRAG_WRITE", 0)]),
    ("frag.read x, acc", [("FRAG_READ", 0)]),
    ("ld.shared x, s[][1 : 1]", [("READ", 0, -1)]),
    ("ldmatrix fa, s[][0 : 64]", [("ELECT", 1), ("READ", 0, -1), ("FRAG_WRITE", 1)]),
    ("st.shared s[][1 : 1], 1.0", [("WRITE", 0)]),
    ("stmatrix s[][0 : 64], 1.0", [("ELECT", 1), ("WRITE", 0)]),
    ("atom.shared.add.cluster s[][1 : 1], 1.0", [("ATOMIC", 0, 1)]),
    ("ld.global x, a[0]", [("GLOBAL_READ", -1, 0, 2)]),
    ("st.global a[0], 1.0", [("GLOBAL_WRITE", -1, 0, 2, None)]),
    ("atom.global.add a[0], 1.0", [("GLOBAL_ATOMIC", -1, int(Flag.STRONG), 2, "add", None)]),
    ("multimem.ld_reduce.add x, a[0]", [("GLOBAL_READ", -1, 0, 3)]),
    ("let n = load a[0]", [("UNKNOWN", "control depends on data loaded from a")]),
    ("exit", []),
]
HEADER = """
  tensor a : f32[4, 64] inout
  tensormap A of a box [1, 64]
  shared s : f32[128] align 1024
  mbarrier b
  fragment acc : f32[64, 64]
  fragment fa : bf16[64, 16]
"""


@pytest.mark.parametrize(("text", "expected"), STATEMENTS, ids=[t for t, _ in STATEMENTS])
def test_statement(text: str, expected: list[tuple[object, ...]]) -> None:
    got = one_lane(text, HEADER)
    end = [] if expected and expected[-1][0] == "UNKNOWN" else [("EXIT",)]
    assert got == expected + end


def test_tokens_and_polls_are_answered() -> None:
    body = """
      let t = mbarrier.arrive b
      mbarrier.wait.token b, t
      let p = mbarrier.test b, 0
      if p {
        fence.mbarrier_init
      }
    """
    got = one_lane(body, "mbarrier b", answer=1)
    assert [e[0] for e in got] == ["ARRIVE", "WAIT_TOKEN", "POLL", "INIT_FENCE", "EXIT"]
    assert got[1] == ("WAIT_TOKEN", 0, 1, 0)
    got = one_lane(body, "mbarrier b", answer=0)
    assert [e[0] for e in got] == ["ARRIVE", "WAIT_TOKEN", "POLL", "EXIT"]
    assert got[0][4] == Flag.TOKEN


def test_loops() -> None:
    body = """
      let k = 10
      for i in 1..8 step 3 {
        for j in i..i + 2 {
          bar.arrive (i + j) % 16, 32
          k = k + j
        }
      }
      for i in 3..3 {
        fence.mbarrier_init
      }
      bar.arrive k % 16, 32
    """
    ids = [e[1] for e in one_lane(body) if e[0] == "BARRIER_ARRIVE"]
    pairs = [(i, j) for i in range(1, 8, 3) for j in (i, i + 1)]
    assert ids == [*(((i + j) % 16) for i, j in pairs), (10 + sum(j for _, j in pairs)) % 16]


def test_bounds_are_evaluated_once() -> None:
    body = """
      let n = 3
      for i in 0..n {
        n = 100
        fence.mbarrier_init
      }
    """
    assert len(one_lane(body)) == 4


def test_exit_inside_a_branch() -> None:
    got = streams(only("if lane == 3 {\n exit\n }\n fence.mbarrier_init", "launch grid [1] block [32]"))
    assert got["cta0.warp0.lanes3"] == [("EXIT",)]
    assert got["cta0.warp0.lanes0-2,4-31"] == [("INIT_FENCE",), ("EXIT",)]


def test_an_agent_stays_at_its_end() -> None:
    agent = only("fence.mbarrier_init", "launch grid [1] block [32]").agents()[0]
    assert [agent.step()[0] for _ in range(4)] == [Ev.INIT_FENCE, Ev.EXIT, Ev.EXIT, Ev.EXIT]


def test_fork_and_snapshot() -> None:
    tokens = "let t = mbarrier.arrive b[0]\n mbarrier.wait.token b[0], t"
    body = f"for i in 0..5 {{\n mbarrier.arrive b[i % 2]\n {tokens}\n}}"
    agent = only(body, "launch grid [1] block [32]\n mbarrier b[2]").agents()[0]
    for _ in range(4):
        agent.step(3)
    twin = agent.fork()
    assert twin.snapshot() == agent.snapshot()
    assert twin.step(7) == agent.step(7)
    assert twin.snapshot() == agent.snapshot()
    before = agent.snapshot()
    rest = run(twin)
    assert agent.snapshot() == before
    assert run(agent) == rest


def test_elected_lane_of_a_partial_warp() -> None:
    system = only("elect p\n if p {\n fence.mbarrier_init\n }", "launch grid [1] block [33]")
    got = streams(system)
    assert system.info.elected_lane == 1
    assert got["cta0.warp1.lanes0"] == [("ELECT", 1), ("INIT_FENCE",), ("EXIT",)]
    assert got["cta0.warp0.lanes1"] == [("ELECT", 0xFFFFFFFF), ("INIT_FENCE",), ("EXIT",)]


def test_no_set_of_lanes_told_apart_is_left_out() -> None:
    guards = "\n".join(f"if lane == {i} {{ \n st.shared t[][{i} : 1], 1.0 \n }}" for i in (3, 5, 8, 13, 21))
    body = "elect p\nif p {\n st.shared t[][0 : 1], 1.0\n}\n" + guards
    lanes = {s.info.elected_lane for s in build(body, "launch grid [1] block [32]\nshared t : f32[32]")}
    assert {3, 5, 8, 13, 21} <= lanes


def test_lane_0_is_elected_too_where_guards_name_lanes() -> None:
    body = "elect p\n if p {\n fence.mbarrier_init\n }\n if lane < 2 {\n bulk.commit\n }"
    lanes = [s.info.elected_lane for s in build(body, "launch grid [1] block [32]")]
    assert lanes == [2, 0]
    uniform = body.replace("lane < 2", "(tid.x // 32) == 0")
    assert [s.info.elected_lane for s in build(uniform, "launch grid [1] block [64]")] == [1]
