"""What exploration finds in kernels that misuse one construct each, and that it stays silent on good ones."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.simulate.ir import explore, sample
from syncverify.simulate.ir.reduce import Reducer
from tests.simulate.ir.support import kernel, ring, rules
from tests.simulate.ir.test_truth import LITMUS, THEORY


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
    found = explore(ring(**change), limit_states=1000)  # type: ignore[arg-type]
    assert {h.kind for h in found.harms} - {"order-violation"}
    assert found.rules & expected


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


def test_a_block_that_differs_from_all_others() -> None:
    body = "shared t : f32[65]\nst.shared t[][tid : 1], 1.0\nld.shared x, t[][tid + (block == 37) : 1]"
    assert rules(body, "launch grid [64] block [64]") == {"SV110"}
    assert rules(body, "launch grid [37] block [64]") == set()


def test_lanes_of_one_store_that_differ() -> None:
    same = "shared x : f32[4]\nif warp == 0 {\nst.shared x[][0 : 1], 1.0\n}"
    assert rules(same) == set()
    assert rules(same.replace("1.0", "lane * 1.0")) == {"SV112"}


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
