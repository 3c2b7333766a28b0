"""What exploration finds in kernels that misuse one construct each, and that it stays silent on good ones."""

from __future__ import annotations

import pytest

from syncverify.diagnostics import Policy
from syncverify.simulate import explore, sample
from syncverify.simulate.reduce import Reducer
from syncverify.source import InputError
from tests.simulate.support import kernel, ring
from tests.simulate.test_truth import LITMUS, THEORY


def rules(
    body: str, header: str = "launch grid [1] block [64]", policy: Policy = Policy.PRACTICAL
) -> set[str]:
    found = explore(kernel(body, header), policy=policy)
    assert found.unsupported is None
    return {h.rule for h in found.harms if h.kind != "order-violation"}


def test_ring_is_clean_and_small() -> None:
    found = explore(ring())
    assert found.harms == () and found.complete
    assert found.states < 1000


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"drop": "mbarrier.wait empty"}, {"SV105", "SV111", "SV112", "SV203"}),
        ({"drop": "mbarrier.wait full"}, {"SV110"}),
        ({"drop": "mbarrier.arrive empty"}, {"SV210"}),
        ({"drop": "mbarrier.arrive.expect_tx"}, {"SV210"}),
        ({"drop": "bulk.load"}, {"SV210"}),
        ({"drop": "bar.sync 0"}, {"SV204"}),
        ({"empty": 64}, {"SV201", "SV111"}),
        ({"empty": 160}, {"SV210"}),
        ({"full": 2}, {"SV210"}),
        ({"parity": "(i // 2) % 2"}, {"SV210"}),
    ],
)
def test_broken_rings(change: dict[str, object], expected: set[str]) -> None:
    found = explore(ring(**change), limit_states=5000)  # type: ignore[arg-type]
    assert {h.kind for h in found.harms} - {"order-violation"}
    assert found.rules & expected


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


@pytest.mark.parametrize(
    ("wait", "expected"), [("mbarrier.wait.cluster", set()), ("mbarrier.wait", {"SV110", "SV111"})]
)
def test_data_handed_over_between_ctas_needs_cluster_scope(wait: str, expected: set[str]) -> None:
    body = f"""shared x : f32[4]
      mbarrier b
      if tid == 0 {{
        mbarrier.init b, 1
        fence.mbarrier_init
      }}
      cluster.arrive.relaxed
      cluster.wait
      if tid == 0 and rank == 0 {{
        st.shared x @ 1, 1.0
        mbarrier.arrive.cluster b @ 1
      }}
      if tid == 0 and rank == 1 {{
        {wait} b, 0
        ld.shared v, x
      }}
      cluster.arrive
      cluster.wait"""
    found = rules(body, CLUSTER)
    assert found <= expected and bool(found) == bool(expected)


@pytest.mark.parametrize(("scope", "expected"), [("cta", {"SV112"}), ("cluster", set())])
def test_atomics_of_two_ctas_need_a_scope_with_both(scope: str, expected: set[str]) -> None:
    body = f"""shared x : i32[1]
      if tid == 0 and rank == 1 {{
        st.shared x, 0
      }}
      cluster.arrive
      cluster.wait
      if tid == 0 {{
        atom.shared.add.{scope} x @ 1, 1
      }}
      cluster.arrive
      cluster.wait"""
    assert rules(body, CLUSTER) == expected


def test_a_read_of_a_cta_that_may_have_left() -> None:
    body = """shared x : f32[4]
      if rank == 1 {{
        st.shared x, 1.0
      }}
      cluster.arrive
      cluster.wait
      if rank == 0 {{
        ld.shared v, x @ 1
      }}
      {}"""
    assert rules(body.format("cluster.arrive\ncluster.wait"), CLUSTER) == set()
    assert rules(body.format(""), CLUSTER) == {"SV211"}


def test_a_write_to_a_cta_that_may_not_have_started() -> None:
    body = """shared x : f32[32]
      {}
      if rank == 0 {{
        st.shared x[][tid : 1] @ 1, 1.0
      }}
      cluster.arrive
      cluster.wait"""
    assert rules(body.format("cluster.arrive.relaxed\ncluster.wait"), CLUSTER) == set()
    assert rules(body.format(""), CLUSTER) == {"SV114"}


def test_global_memory_between_proxies_of_one_block() -> None:
    back = """tensor ws : f32[64] inout
      shared t : f32[64]
      if tid == 0 {{
        st.shared t, 1.0
        fence.proxy.async.shared_cta
        bulk.store ws[0 : 64], t
        bulk.commit
        bulk.wait{} 0
        ld.global x, ws[0 : 64]
      }}"""
    assert rules(back.format("")) == set()
    assert rules(back.format(".read")) == {"SV501"}
    forth = """tensor ws : f32[64, 8] inout
      tensormap W of ws box [8, 8]
      shared t : f32[64]
      mbarrier b
      if tid == 0 {{
        mbarrier.init b, 1
        st.global ws[{} : 8], 1.0
        {}
        mbarrier.arrive.expect_tx b, 256
        tma.load t, W[8, 0], b
        mbarrier.wait b, 0
      }}"""
    assert rules(forth.format(64, "fence.proxy.async.global")) == set()
    assert rules(forth.format(64, "")) == {"SV101"}
    assert rules(forth.format(56, "")) == set()  # just before the box


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


def test_a_block_that_differs_from_all_others() -> None:
    body = "shared t : f32[65]\nst.shared t[][tid : 1], 1.0\nld.shared x, t[][tid + (block == 37) : 1]"
    assert rules(body, "launch grid [64] block [64]") == {"SV110"}
    assert rules(body, "launch grid [37] block [64]") == set()


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
    assert rules("if tid >= 32 {\nexit\n}\nbar.sync 0") == {"SV302"}
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


def test_lanes_of_one_store_that_differ() -> None:
    same = "shared x : f32[4]\nif warp == 0 {\nst.shared x[][0 : 1], 1.0\n}"
    assert rules(same) == set()
    assert rules(same.replace("1.0", "lane * 1.0")) == {"SV112"}


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


MMA = "wgmma.fence\nwgmma.mma acc, a[0], b\nwgmma.commit\n"
WGMMA = """tensor g : bf16[8192] in
  shared a : bf16[2, 64, 16]
  shared b : bf16[16, 64]
  fragment acc : f32[64, 64]
  {}"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("wgmma.fence\nwgmma.mma acc, a[0], b\nwgmma.commit\nwgmma.wait 0\nfrag.read x, acc", set()),
        ("wgmma.mma acc, a[0], b\nwgmma.commit\nwgmma.wait 0", {"SV402"}),
        ("wgmma.fence\nwgmma.mma acc, a[0], b\nwgmma.commit\nfrag.read x, acc\nwgmma.wait 0", {"SV401"}),
        (MMA + "wgmma.wait 1\nbar.sync 0\nst.shared a[0][tid : 1], 1.0", {"SV111"}),
        (MMA + "wgmma.wait 0\nbar.sync 0\nst.shared a[0][tid : 1], 1.0", set()),
        ("if warp == 0 {\nwgmma.fence\nwgmma.mma acc, a[0], b\nwgmma.commit\nwgmma.wait 0\n}", {"SV303"}),
        ("if lane < 4 {\nelect p\n}", {"SV303"}),
    ],
)  # fmt: skip
def test_wgmma(body: str, expected: set[str]) -> None:
    assert rules(WGMMA.format(body), "launch grid [1] block [128]") == expected


def test_in_flight_at_exit() -> None:
    store = """tensor out : f32[8] out
      shared x : f32[8]
      if tid == 0 {{
        st.shared x, 1.0
        fence.proxy.async.shared_cta
        bulk.store out[0 : 8], x
        {}
      }}"""
    assert rules(store.format("bulk.commit\nbulk.wait.read 0")) == set()
    assert rules(store.format("bulk.commit")) == {"SV211"}
    assert rules(store.format("bulk.wait.read 0")) == {"SV211"}
    load = """tensor a : f32[8] in
      shared x : f32[8]
      mbarrier b
      if tid == 0 {
        mbarrier.init b, 1
        mbarrier.arrive.expect_tx b, 32
        bulk.load x, a[0 : 8], b
      }"""
    assert rules(load) == {"SV211"}


def test_cp_async() -> None:
    body = """tensor a : f32[128] in
      shared x : f32[128]
      mbarrier b
      if tid == 0 {{
        mbarrier.init b, 32
      }}
      bar.sync 0
      if warp == 0 {{
        cp.async x[][lane * 4 : 4], a[lane * 4 : 4]
        cp.async.commit
        {}
      }} else {{
        mbarrier.wait b, 0
        ld.shared v, x[][lane * 4 : 4]
      }}"""
    assert rules(body.format("cp.async.mbarrier.arrive.noinc b")) == set()
    assert rules(body.format("cp.async.wait 0\nmbarrier.arrive b")) == set()
    assert rules(body.format("mbarrier.arrive b")) == {"SV110"}
    assert rules(body.format("cp.async.mbarrier.arrive b")) == {"SV210"}


CLUSTER = "launch grid [2] block [32] cluster [2]"


def test_cluster_and_remote_accesses() -> None:
    body = """shared x : f32[8]
      shared y : f32[8]
      mbarrier b
      if tid == 0 {{
        mbarrier.init b, 1
        fence.mbarrier_init
      }}
      cluster.arrive{}
      cluster.wait
      if rank == 0 and tid == 0 {{
        st.shared x, 1.0
        fence.proxy.async
        bulk.copy y @ 1, x, b @ 1
      }}
      if rank == 1 and tid == 0 {{
        mbarrier.arrive.expect_tx b, 32
        mbarrier.wait b, 0
        ld.shared v, y
      }}
      {}"""
    end = "cluster.arrive\ncluster.wait"
    assert rules(body.format("", end), CLUSTER) == set()
    assert rules(body.format(".relaxed", end), CLUSTER) == set()
    assert "SV211" not in rules(body.format("", end), CLUSTER)
    alone = "if rank == 0 {\ncluster.arrive\ncluster.wait\n} else {\nbar.sync 1, 64\n}"
    assert rules(alone, CLUSTER) == {"SV301"}
    remote = "mbarrier b\nif tid == 0 and rank == 0 {\nmbarrier.init b @ 1, 1\n}"
    assert rules(remote, CLUSTER) == {"SV208"}


def test_copy_into_a_cta_that_has_left() -> None:
    body = """mbarrier b
      if tid == 0 {
        mbarrier.init b, 1
        fence.mbarrier_init
      }
      cluster.arrive
      cluster.wait
      if rank == 0 and tid == 0 {
        mbarrier.arrive.cluster b @ 1
      }"""
    assert rules(body, CLUSTER) == {"SV211"}


def test_flags_between_blocks() -> None:
    body = """tensor data : f32[4] inout
      tensor flag : i32[1] inout
      if block == 0 and tid == 0 {{
        st.global data[0], 1.0
        st.global.release.{0} flag[0], 1
      }}
      if block == 1 and tid == 0 {{
        spin.global.acquire.{0} flag[0] >= 1
        ld.global v, data[0]
      }}"""
    launch = "launch grid [2] block [32]"
    assert rules(body.format("gpu"), launch) == set()
    assert rules(body.format("cta"), launch) == {"SV110"}
    assert rules(body.format("gpu").replace(">= 1", ">= 2"), launch) == {"SV210"}


def test_bulk_store_before_flag() -> None:
    body = """tensor data : f32[8] inout
      tensor flag : i32[1] inout
      shared x : f32[8]
      if block == 0 and tid == 0 {{
        st.shared x, 1.0
        fence.proxy.async
        bulk.store data[0 : 8], x
        bulk.commit
        bulk.wait{} 0
        st.global.release.gpu flag[0], 1
      }}
      if block == 1 and tid == 0 {{
        spin.global.acquire.gpu flag[0] >= 1
        ld.global v, data[0 : 8]
      }}"""
    launch = "launch grid [2] block [32]"
    assert rules(body.format(""), launch) == set()
    assert rules(body.format(".read"), launch) == {"SV501"}


def test_dependent_launch_and_tensor_maps() -> None:
    read = "tensor a : f32[64] in\n{}ld.global v, a[tid]{}"
    assert rules(read.format("griddep.wait\n", "")) == set()
    assert rules(read.format("", "\ngriddep.wait")) == {"SV503"}
    edit = """tensor a : f32[64, 64] in
      tensormap A of a box [8, 8]
      shared x : f32[8, 8]
      mbarrier b
      if tid == 0 {{
        mbarrier.init b, 1
        tensormap.replace A, global_dim, 32
        {}
        mbarrier.arrive.expect_tx b, 256
        tma.load x, A[0, 0], b
        mbarrier.wait b, 0
      }}"""
    fences = "fence.proxy.tensormap.release.gpu\nfence.proxy.tensormap.acquire.gpu A"
    assert rules(edit.format(fences)) == set()
    assert rules(edit.format("")) == {"SV502"}


def test_addresses() -> None:
    assert rules("shared x : f32[8]\nld.shared v, x[][tid : 1]") == {"SV114"}
    load = """tensor a : f32[64] in
      shared x : f32[8]
      mbarrier b
      if tid == 0 {
        mbarrier.init b, 1
        mbarrier.arrive.expect_tx b, 8
        bulk.load x[][0 : 2], a[0 : 2], b
        mbarrier.wait b, 0
      }"""
    assert rules(load) == {"SV701"}
    assert rules("mbarrier b[2]\nif tid == 0 {\nmbarrier.init b[2], 1\n}") == {"SV208"}
    header = "shared x : f32[4] offset 0\nmbarrier b offset 0\n"
    assert "SV208" in rules(header + "if tid == 0 {\nmbarrier.init b, 1\nld.shared v, x\n}")


def test_division_by_zero_is_a_harm_not_a_traceback() -> None:
    assert rules("let z = 0\nfor i in 0..(4 // z) {\nbar.sync 0\n}") == {"SV901"}


def test_input_errors() -> None:
    with pytest.raises(InputError, match="needs a value"):
        explore(kernel("bar.sync 0", "launch grid [1] block [32]\nparam N : i32"))
    with pytest.raises(InputError, match="no parameter 'M'"):
        explore(ring(), {"M": 1})
    with pytest.raises(InputError, match="assumption"):
        explore(kernel("bar.sync 0", "launch grid [1] block [32]\nparam N : i32 = 0\nassume N >= 1"))


def test_loaded_control_is_unsupported_by_name() -> None:
    found = explore(kernel("tensor t : i32[4] in\nlet c = load t[0]\nif c == 0 {\nbar.sync 0\n}"))
    assert found.unsupported is not None and "test.syncir:4" in found.unsupported
    assert not found.complete


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("name", [*THEORY, *LITMUS])
def test_trying_actions_alone_loses_no_harm(
    name: str, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    k = THEORY.get(name) or LITMUS[name]
    reduced = explore(k, policy=policy)
    monkeypatch.setattr(Reducer, "alone", lambda *args: None)
    full = explore(k, policy=policy)
    assert full.complete and reduced.complete
    assert reduced.kinds == full.kinds
    assert reduced.states <= full.states


def test_random_schedules_find_the_lapped_lane() -> None:
    found = sample(THEORY["lanes_without_syncwarp"], seed=1, runs=200)
    assert not found.complete
    assert {"hang", "stale-value"} <= found.kinds
    assert sample(ring(n=40), seed=2, runs=5).harms == ()


def test_same_seed_same_harms() -> None:
    one, two = (sample(THEORY["two_arrives_even_wait"], seed=7, runs=20) for _ in range(2))
    assert one == two
