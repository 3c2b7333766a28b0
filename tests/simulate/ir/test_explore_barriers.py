"""What exploration finds in kernels that misuse barriers, tokens and registers."""

from __future__ import annotations

import pytest

from syncverify.simulate.ir import explore
from tests.simulate.ir.support import CLUSTER, kernel, rules


def test_use_before_init_and_after_inval() -> None:
    assert "SV204" in rules(
        "mbarrier b\nif tid == 0 {\nmbarrier.init b, 1\n}\nif tid == 32 {\nmbarrier.arrive b\n}"
    )
    body = """mbarrier b
      if tid == 0 {
        mbarrier.init b, 1
      }
      bar.sync 0
      if tid == 0 {
        mbarrier.arrive b
        mbarrier.inval b
      }
      if tid == 32 {
        mbarrier.wait b, 0
      }"""
    assert rules(body) == {"SV205"}


def test_an_initialization_must_be_visible_in_the_other_cta() -> None:
    body = """mbarrier b
      if tid == 0 {{
        mbarrier.init b, 1
        {}
      }}
      cluster.arrive.relaxed
      cluster.wait
      if tid == 0 {{
        mbarrier.arrive.cluster b @ (1 - rank)
        mbarrier.wait.cluster b, 0
      }}
      cluster.arrive
      cluster.wait"""
    assert rules(body.format("fence.mbarrier_init"), CLUSTER) == set()
    assert rules(body.format(""), CLUSTER) == {"SV204"}
    assert rules(body.format("fence.acq_rel.cta"), CLUSTER) == {"SV204"}


def test_two_asynchronous_arrivals_may_close_two_phases() -> None:
    body = """mbarrier b
      if tid == 0 {
        mbarrier.init b, 1
      }
      bar.sync 0
      if tid < 2 {
        cp.async.mbarrier.arrive.noinc b
      }
      if tid == 32 {
        mbarrier.wait b, 0
      }"""
    assert rules(body) == {"SV210"}  # both land before the wait looks


def test_arrivals_that_count_in_different_rounds() -> None:
    body = "if warp < 2 {\nbar.arrive 1, 96\n} else {\nbar.sync 1, 96\n}\nbar.arrive 2, 64"
    found = explore(kernel(body, "launch grid [1] block [96]"))
    assert found.kinds == {"order-violation"} and found.rules == {"SV301"}


def test_a_count_beyond_the_block() -> None:
    body = "if warp == 0 {{\nbar.arrive 1, 96\nbar.sync 1, {n}\n}} else {{\nbar.arrive 1, 96\n}}"
    assert explore(kernel(body.format(n=96), "launch grid [1] block [64]")).rules == set()
    alone = "bar.sync 1, 96"
    assert explore(kernel(alone, "launch grid [1] block [64]")).rules == {"SV301"}


def test_a_token_of_a_phase_long_over() -> None:
    body = """mbarrier b
      if tid == 0 {{
        mbarrier.init b, 1
        let t = mbarrier.arrive b
        {}
        mbarrier.wait.token b, t
      }}"""
    assert rules(body.format("")) == set()
    assert rules(body.format("mbarrier.arrive b\nmbarrier.arrive b")) == {"SV201"}


@pytest.mark.parametrize(
    ("waited", "expected"), [("old", {"SV201"}), ("t", set()), ("older", {"SV201"}), ("one", {"SV201"})]
)
def test_a_copy_keeps_its_token_when_the_register_takes_another(waited: str, expected: set[str]) -> None:
    body = f"""mbarrier b
      if tid == 0 {{
        mbarrier.init b, 1
        let t = mbarrier.arrive b
        let old = t
        let older = old
        let t = mbarrier.arrive b
        let one = select(lane == 0, old, t)
        mbarrier.wait.token b, {waited}
      }}"""
    assert rules(body) == expected


def test_a_token_is_no_number() -> None:
    body = "mbarrier b\nif tid == 0 {\nmbarrier.init b, 1\nlet t = mbarrier.arrive b\nlet u = t + 1\n}"
    assert "a token is no number" in str(explore(kernel(body)).unsupported)


def test_reinit_of_a_live_object() -> None:
    assert rules("mbarrier b\nif tid == 0 {\nmbarrier.init b, 1\nmbarrier.init b, 1\n}") == {"SV205"}


def test_over_arrival_while_bytes_are_missing() -> None:
    body = """mbarrier b
      if tid == 0 {
        mbarrier.init b, 1
        mbarrier.arrive.expect_tx b, 16
        mbarrier.arrive b
      }"""
    assert rules(body) == {"SV202"}


def test_transaction_range() -> None:
    body = """mbarrier b
      if tid == 0 {
        mbarrier.init b, 1
        mbarrier.expect_tx b, 1048575
        mbarrier.expect_tx b, 16
      }"""
    assert rules(body) == {"SV203"}


def test_piece_of_a_copy_closes_the_phase() -> None:
    """32 bytes land, 16 were announced: the first half may close the phase before the rest lands."""
    body = """tensor a : f32[8] in
      shared x : f32[8]
      mbarrier b
      if tid == 0 {
        mbarrier.init b, 1
        mbarrier.arrive.expect_tx b, 16
        bulk.load x, a[0 : 8], b
        mbarrier.wait b, 0
        ld.shared v, x
      }"""
    assert "SV110" in rules(body)


def test_named_barriers() -> None:
    assert rules("if warp == 0 {\nbar.sync 1, 64\n}") == {"SV301"}
    assert rules("bar.sync 1, 40") >= {"SV301"}
    assert "SV301" in rules("bar.arrive 1, 96\nbar.arrive 1, 96")
    assert rules("if warp == 0 {\nbar.sync 1, 64\n} else {\nbar.sync 1, 96\n}") == {"SV301"}
    assert rules("if lane < 16 {\nbar.sync 0\n}") >= {"SV302"}
    assert rules("if tid >= 32 {\nexit\n}\nbar.sync 0") == set()  # it waits for no warp that has left
    assert rules("if lane >= 16 {\nexit\n}\nbar.sync 0") == set()
    assert rules("if warp == 0 {\nbar.arrive 1, 64\n} else {\nbar.sync 1, 64\n}") == set()


def test_barrier_orders_stores_and_loads() -> None:
    access = "shared x : f32[64]\nst.shared x[][tid : 1], 1.0\n{}\nld.shared v, x[][63 - tid : 1]"
    assert rules(access.format("")) == {"SV110", "SV111"}
    assert rules(access.format("bar.sync 0")) == set()
    assert rules(access.format("warp.sync")) == {"SV110", "SV111"}


def test_warp_sync_orders_lanes() -> None:
    access = "shared x : f32[32]\nst.shared x[][tid : 1], 1.0\n{}\nld.shared v, x[][31 - tid : 1]"
    one_warp = "launch grid [1] block [32]"
    assert rules(access.format(""), one_warp) == {"SV110"}
    assert rules(access.format("warp.sync"), one_warp) == set()
    assert rules("if lane < 8 {\nwarp.sync 0xF\n}", one_warp) >= {"SV303"}


def test_polls_may_fail() -> None:
    body = """tensor a : f32[8] in
      shared x : f32[8]
      mbarrier b
      if tid == 0 {{
        mbarrier.init b, 1
        mbarrier.arrive.expect_tx b, 32
        bulk.load x, a[0 : 8], b
        let p = mbarrier.try b, 0
        {}
        ld.shared v, x
      }}"""
    assert "SV110" in rules(body.format(""))
    assert rules(body.format("if not p {\nmbarrier.wait b, 0\n}")) == set()


def test_tokens() -> None:
    body = """mbarrier b
      if tid == 0 {
        mbarrier.init b, 2
      }
      bar.sync 0
      if lane == 0 {
        let t = mbarrier.arrive b
        mbarrier.wait.token b, t
      }"""
    assert rules(body) == set()
    assert rules(body.replace("b, 2", "b, 3")) == {"SV210"}


def test_relaxed_arrival_publishes_nothing() -> None:
    body = """shared x : f32[4]
      mbarrier b
      if tid == 0 {{
        mbarrier.init b, 1
      }}
      bar.sync 0
      if tid == 0 {{
        st.shared x[][0 : 1], 1.0
        {}
        mbarrier.arrive{} b
      }}
      if tid == 32 {{
        mbarrier.wait b, 0
        ld.shared v, x[][0 : 1]
      }}"""
    assert rules(body.format("", "")) == set()
    assert rules(body.format("", ".relaxed")) == {"SV110"}
    assert rules(body.format("fence.release.cta", ".relaxed")) == set()


def test_setmaxnreg() -> None:
    launch = "launch grid [1] block [256] registers 128"
    good = "if wg == 0 {\nsetmaxnreg.dec 64\n} else {\nsetmaxnreg.inc 192\n}"
    assert rules(good, launch) == set()
    assert rules(good.replace("192", "200"), launch) == {"SV304"}
    assert rules(good.replace("dec 64", "dec 144"), launch) == {"SV304"}
    assert "SV304" in rules("if warp == 0 {\nsetmaxnreg.dec 64\n}", launch)
    assert "SV304" in rules("setmaxnreg.dec 64\nsetmaxnreg.dec 40", launch)
    assert rules("setmaxnreg.dec 64\nbar.sync 0\nsetmaxnreg.dec 40", launch) == set()
