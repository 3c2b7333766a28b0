"""Reads, and what shows that their values have arrived: arithmetic, overwriting, several values at once."""

from __future__ import annotations

import pytest

from tests.frontends.ir.helpers import one_lane, only, run

HEADER = "shared s : f32[64]\n tensor a : f32[64] inout\n fragment f : f32[64, 64]\n mbarrier b"
#: Only of buffers that bulk copies write it matters when their reads are over.
COPY = "\n if 0 {\n bulk.load s, a[0 : 64], b\n }"


def shown(body: str) -> list[tuple[object, ...]]:
    """READ with its handle, USE with its handle, other events by name."""
    out: list[tuple[object, ...]] = []
    for e in one_lane(body + COPY, HEADER):
        out.append(("READ", e[2]) if e[0] == "READ" else e if e[0] == "USE" else (e[0],))
    return out[:-1]


def test_a_value_that_reaches_no_memory() -> None:
    assert shown("ld.shared x, s[][0 : 1]") == [("READ", -1)]
    assert shown("ld.shared x, s[][0 : 1]\n compute y = x * 2.0\n compute z = y") == [("READ", -1)]
    assert shown("ld.shared x, s[][0 : 1]\n frag.write f, x\n frag.read y, f") == [
        ("READ", -1), ("FRAG_WRITE",), ("FRAG_READ",),
    ]  # fmt: skip


def test_arithmetic_is_no_use() -> None:
    load, store = "ld.shared x, s[][0 : 1]\n", "\n mbarrier.arrive b\n st.global a[0], z"
    for sums in (
        "compute z = x",
        "compute y = x\n compute z = y * y + 1.0",
        "shfl.bfly z, x, 1",
        "frag.write f, x\n frag.read z, f",
    ):
        got = [e for e in shown(load + sums + store) if e[0] in ("READ", "ARRIVE", "USE", "GLOBAL_WRITE")]
        assert got == [("READ", 0), ("ARRIVE",), ("USE", 0), ("GLOBAL_WRITE",)], sums


def test_only_the_first_use_counts() -> None:
    body = "ld.shared x, s[][0 : 1]\n compute y = x * 2.0\n st.global a[0], y\n st.global a[1], x"
    assert shown(body) == [("READ", 0), ("USE", 0), ("GLOBAL_WRITE",), ("GLOBAL_WRITE",)]


def test_two_values_are_both_used() -> None:
    body = "ld.shared x, s[][0 : 1]\n ld.shared y, s[][1 : 1]\n compute z = x + y\n st.global a[0], z"
    assert shown(body) == [("READ", 0), ("READ", 1), ("USE", 0), ("USE", 1), ("GLOBAL_WRITE",)]


def test_each_read_has_its_own_handle() -> None:
    body = """
      ld.shared x, s[][0 : 1]
      compute old = x
      ld.shared x, s[][1 : 1]
      st.global a[0], x
      st.global a[1], old
    """
    assert shown(body) == [
        ("READ", 0), ("READ", 1), ("USE", 1), ("GLOBAL_WRITE",), ("USE", 0), ("GLOBAL_WRITE",),
    ]  # fmt: skip


def test_sums_over_turns_are_of_the_last_read() -> None:
    """The handle is that of the last turn: what earlier turns read is distinguished no more."""
    body = """
      compute t = 0.0
      for i in 0..3 {
        ld.shared x, s[][i : 1]
        compute t = t + x
      }
      st.global a[0], t
    """
    assert shown(body) == [("READ", 0)] * 3 + [("USE", 0), ("GLOBAL_WRITE",)]


@pytest.mark.parametrize(
    ("fence", "ends"),
    [("fence.proxy.async", True), ("fence.proxy.async.shared_cta", True), ("fence.acq_rel.cta", True),
     ("fence.proxy.async.global", False), ("fence.release.cta", False)],
)  # fmt: skip
def test_a_fence_ends_the_reads_before_it(fence: str, ends: bool) -> None:
    """Their values are awaited no more, so that loops with a fence come back to the same state."""
    body = f"""
      ld.shared x, s[][0 : 1]
      {fence}
      st.global a[0], x
    """
    assert (("USE", 0) not in shown(body)) == ends


def test_a_value_of_an_earlier_turn_never_counts() -> None:
    """``old`` holds what the read brought a turn before; a use of that is none of the new value."""
    body = """
      compute old = 0.0
      for i in 0..3 {
        ld.shared x, s[][i : 1]
        st.global a[i], old
        compute old = x * 2.0
      }
      st.global a[3], old
    """
    assert shown(body) == [("READ", 0), ("GLOBAL_WRITE",)] * 3 + [("USE", 0), ("GLOBAL_WRITE",)]


def test_an_overwritten_value_is_forgotten() -> None:
    body = "ld.shared x, s[][0 : 1]\n ld.global x, a[0]\n st.global a[1], x"
    assert shown(body) == [("READ", 0), ("GLOBAL_READ",), ("GLOBAL_WRITE",)]


def test_stores_use_their_value() -> None:
    shared = ("st.shared s[][8 : 1], x", "stmatrix s[][8 : 8], x", "atom.shared.add s[][8 : 1], x")
    others = ("st.global a[0], x", "atom.global.add a[0], x", "multimem.st a[0], x")
    for store in shared + others:
        got = shown(f"ld.shared x, s[][0 : 1]\n {store}")
        assert got[:2] == [("READ", 0), ("USE", 0)], store
        assert len(got) >= 3


def test_software_pipelining() -> None:
    body = """
      ld.shared x, s[][0 : 1]
      for i in 0..3 {
        compute now = x
        ld.shared x, s[][i : 1]
        st.global a[i], now
      }
    """
    assert shown(body) == [
        ("READ", 0),
        ("READ", 1), ("USE", 0), ("GLOBAL_WRITE",),
        ("READ", 1), ("GLOBAL_WRITE",),
        ("READ", 1), ("GLOBAL_WRITE",),
    ]  # fmt: skip


def test_the_use_stands_at_the_using_statement() -> None:
    body = "ld.shared x, s[][0 : 1]\n compute y = x * 2.0\n st.global a[0], y"
    system = only(body, f"launch grid [1] block [32]\n{HEADER}")
    use = run(system.agents()[0])[1]
    assert system.info.sites[use[1]].text == "st.global a[0], y"


def overlap(body: str) -> bool:
    system = only(body, f"launch grid [1] block [32]\n{HEADER}")
    (write,) = [e for e in run(system.agents()[0]) if e[0].name == "WRITE"]
    return system.info.footprints[write[2]].overlap


def test_lanes_that_write_the_same_byte() -> None:
    assert not overlap("st.shared s[][0 : 1], 1.0")
    assert overlap("st.shared s[][0 : 1], tid")
    assert overlap("st.shared s[][lane >> 1 : 1], tid")
    assert not overlap("st.shared s[][lane : 1], tid")
    assert overlap("st.shared s[][lane : 2], tid")
    assert overlap("ld.shared x, s[][lane : 1]\n st.shared s[][0 : 1], x")
    assert not overlap("ld.shared x, s[][3 : 1]\n st.shared s[][0 : 1], x")
    assert not overlap("st.shared s[][lane >> 1 : 1], 2.0")
    assert overlap("frag.read x, f\n compute y = x + 1.0\n st.shared s[][0 : 1], y")
