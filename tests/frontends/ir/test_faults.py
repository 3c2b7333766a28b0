"""Undefined behaviour that an agent sees on its own: rule, words, and that the agent goes on."""

from __future__ import annotations

import pytest

from syncverify.base.source import InputError
from syncverify.frontends.ir.systems import systems
from syncverify.ir import nodes
from syncverify.ir.expr import Binary, Expr, Var
from syncverify.model.events import Ev
from tests.frontends.ir.helpers import build, one_lane, only, run, streams

HEADER = """
  tensor a : f32[4, 64] inout
  tensormap A of a box [1, 64]
  tensormap B of a box [1, 64] swizzle 128B
  shared s : f32[2, 64] align 1024
  mbarrier b[2]
  fragment acc : f32[64, 64]
"""

FAULTS = [
    ("ld.shared x, s[2][0 : 4]", "SV114", "index 2 leaves s, which has 2"),
    ("ld.shared x, s[1][62 : 4]", "SV114", "elements 62..65 leave s[1], which has 64"),
    ("st.shared s[0][-1 : 2], 1.0", "SV114", "elements -1..0 leave s[0]"),
    ("ld.shared x, s[0][0 : 4 rows 3 pitch 32]", "SV114", "elements 0..67 leave s[0]"),
    ("ld.shared x, s[0][0 : 0 - 4]", "SV114", "negative count"),
    ("ld.shared x, s[0][0 : 4] @ 1", "SV114", "rank 1 is no CTA of the cluster"),
    ("bulk.load s[0][0 : 3], a[0 : 3], b[0]", "SV701", "12 bytes are no positive multiple of 16"),
    ("bulk.load s[0][1 : 4], a[0 : 4], b[0]", "SV701", "the destination at byte 4"),
    ("bulk.load s[0][0 : 4], a[2 : 4], b[0]", "SV701", "the global address is 8 bytes past"),
    ("bulk.store a[0 : 4], s[0][2 : 4]", "SV701", "the source at byte 8"),
    ("tma.load s[0][0 : 32], A[0, 0], b[0]", "SV701", "the box has 256 bytes, the destination 128"),
    ("tma.load s[][16 : 64], A[0, 0], b[0]", "SV701", "is not 128-byte aligned"),
    ("tma.load s[][32 : 64], B[0, 0], b[0]", "SV701", "is not 1024-byte aligned"),
    ("tma.store A[0, 0], s[0][0 : 32]", "SV701", "the box has 256 bytes, the source 128"),
    ("cp.async s[0][0 : 3], a[0 : 3]", "SV701", "4, 8 or 16 are possible"),
    ("cp.async s[0][2 : 4], a[0 : 4]", "SV701", "the destination at byte 8"),
    ("cp.async s[0][0 : 4], a[2 : 4]", "SV701", "the global address is not 16-byte aligned"),
    ("cp.async s[0][0 : 4], a[0 : 8]", "SV701", "are more than 16 bytes"),
    ("mbarrier.wait b[2], 0", "SV208", "b[2] does not exist; b has 2"),
    ("mbarrier.wait b[0], 2", "SV208", "parity 2"),
    ("mbarrier.arrive b[0] @ 1", "SV208", "b @ 1 is not mapped: the cluster has 1"),
    ("mbarrier.arrive b[0], count 0", "SV202", "an arrival of 0"),
    ("mbarrier.init b[0], 0", "SV202", "count 0 is outside"),
    ("mbarrier.expect_tx b[0], 1048576", "SV203", "1048576 bytes"),
    ("bulk.load s[0][0 : 4], a[0 : 4], b[0], multicast 2", "SV208", "multicast mask 0x2"),
    ("st.async s[0][0 : 1] @ 0, 1.0, b[0] @ 0", "SV208", "st.async into the executing CTA's own"),
    ("bulk.copy s[0][0 : 4] @ 0, s[1][0 : 4], b[0] @ 0", "SV208", "bulk.copy into the executing CTA's own"),
    ("let i = 17\n bar.sync i, 32", "SV301", "there is no barrier 17"),
    ("let i = 33\n bar.sync 1, i", "SV301", "33 threads are no positive multiple of 32"),
    ("let m = 2\n warp.sync m", "SV303", "lane 0 executes warp.sync with mask 0x2"),
    ("let c = 300\n setmaxnreg.inc c", "SV304", "300 registers"),
]


@pytest.mark.parametrize(("text", "rule", "words"), FAULTS, ids=[t for t, _, _ in FAULTS])
def test_fault(text: str, rule: str, words: str) -> None:
    got = one_lane(f"{text}\n fence.mbarrier_init", HEADER)
    faults = [e for e in got if e[0] == "FAULT"]
    assert [f[1] for f in faults] == [rule], faults
    assert words in faults[0][2]
    assert got[-2:] == [("INIT_FENCE",), ("EXIT",)]


def test_remote_faults_in_a_cluster() -> None:
    body = """
      mbarrier.init b[0] @ 1, 1
      mbarrier.wait b[0] @ 1, 0
      let t = mbarrier.arrive b[0] @ 1
      bulk.copy s[0][0 : 4] @ 1, s[1][0 : 4], b[0] @ 0
      bulk.store a[0 : 4], s[0][0 : 4] @ 1
    """
    got = streams(only(body, f"launch grid [2] block [1] cluster [2]\n{HEADER}"))
    mine = [e for e in got["cta0.warp0.lanes0"] if e[0] == "FAULT"]
    assert [e[1] for e in mine] == ["SV208", "SV208", "SV208", "SV208", "SV701"]
    assert [e[0] for e in got["cta0.warp0.lanes0"] if e[0] != "FAULT"] == ["ARRIVE", "BULK_STORE", "EXIT"]
    # to CTA 1 itself the same barrier is its own
    theirs = [e for e in got["cta1.warp0.lanes0"] if e[0] != "FAULT"]
    assert [e[0] for e in theirs] == ["INIT", "WAIT", "ARRIVE", "BULK_STORE", "EXIT"]


def test_own_cta_as_the_target_of_a_push() -> None:
    body = """
      st.async s[0][0 : 1] @ rank, 1.0, b[0] @ rank
      red.async.add s[0][0 : 1] @ rank, 1.0, b[0] @ rank
    """
    got = streams(only(body, f"launch grid [2] block [1] cluster [2]\n{HEADER}"))["cta1.warp0.lanes0"]
    assert [e[0] for e in got] == ["ST_ASYNC", "FAULT", "ST_ASYNC", "EXIT"]
    assert got[1][2] == "red.async into the executing CTA's own shared memory"


def test_faulty_bytes_are_clipped_to_the_buffer() -> None:
    system = only("st.shared s[1][60 : 8], 1.0", f"launch grid [1] block [1]\n{HEADER}")
    events = run(system.agents()[0])
    assert [e[0] for e in events] == [Ev.FAULT, Ev.WRITE, Ev.EXIT]
    assert system.info.footprints[events[1][2]].intervals == ((496, 512),)


def test_a_lane_out_of_bounds_is_named() -> None:
    system = only("st.shared s[0][tid * 4 : 4], 1.0", f"launch grid [1] block [32]\n{HEADER}")
    fault = run(system.agents()[0])[0]
    assert fault[0] == Ev.FAULT
    assert fault[3] == "lane 16: elements 64..67 leave s[0], which has 64"


UNKNOWNS = [
    ("let z = 0\n bar.sync 1 % z, 32", "an index expression has no value"),
    ("let z = 0\n let y = 1 // z", "an index expression has no value"),
    ("let z = 0 - 1\n let y = 1 << z", "shift by -1"),
    ("let z = 0\n for i in 0..4 step z {\n bulk.commit\n }", "the step of a loop must be positive"),
    ("let z = 0 - 1\n bulk.wait z", "cannot be negative"),
    ("for i in 0..1000000000000 {\n let y = i\n }", "no event within"),
]


@pytest.mark.parametrize(("text", "words"), UNKNOWNS, ids=[t for t, _ in UNKNOWNS])
def test_unknown(text: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncverify.frontends.ir.systems._MAX_JUMPS", 1000)
    text = text.replace("1 // z", "(1 // z)")
    agent = only(f"{text}\n fence.mbarrier_init", f"launch grid [1] block [1]\n{HEADER}").agents()[0]
    events = run(agent)
    assert events[-1][0] == Ev.UNKNOWN
    assert words in events[-1][2]
    assert agent.step() == events[-1]


def test_the_site_of_a_zero_divisor() -> None:
    body = "fence.mbarrier_init\n let z = 0\n bar.sync 1 % z, 32"
    system = only(body, "launch grid [1] block [64]")
    for agent in system.agents():
        event = run(agent)[-1]
        assert system.info.sites[event[1]].text == "bar.sync 1 % z, 32"


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("launch grid [0] block [32]", "is empty"),
        ("launch grid [3] block [32] cluster [2]", "is no multiple of the cluster"),
        ("param M : i32\n launch grid [M] block [32]", "needs a value for M"),
        ("param M : i32 = 0\n launch grid [4 % M] block [32]", "cannot be computed"),
    ],
)
def test_launches_that_cannot_be(header: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        build("bulk.commit", header)


def test_deep_expressions() -> None:
    launch = nodes.Launch(block=(32, 1, 1))
    deep: Expr = Var("tid")
    for _ in range(2000):
        deep = Binary("^", Var("tid"), deep)
    with pytest.raises(InputError, match="too deep"):
        list(systems(nodes.Kernel("k", launch, body=(nodes.Let("x", deep),)), {}))


def test_long_sums() -> None:
    total = " + ".join(["tid"] * 180)
    assert streams(only(f"let x = {total}\n bar.arrive x % 16, 32", "launch grid [1] block [1]")) == {
        "cta0.warp0.lanes0": [("BARRIER_ARRIVE", 0, 32, 32), ("EXIT",)]
    }
