"""What exploration finds between the CTAs of a cluster and between blocks."""

from __future__ import annotations

import pytest

from tests.simulate.ir.support import CLUSTER, rules


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
