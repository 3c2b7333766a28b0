"""Statements around plain global accesses are left out where no event depends on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from syncverify.base.diagnostics import ScopeKind, Verdict
from syncverify.driver.ir import check_kernel
from syncverify.frontends.ir.slice_silent import sliced
from syncverify.ir import nodes as n
from syncverify.ir.evaluate import statements
from syncverify.ir.expr import Int
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.ir.value_uses import holders, reaching_memory
from tests.system.random.generate import program

CORPUS = Path(__file__).resolve().parents[3] / "corpus"

HEAD = """kernel k {
  launch grid [1] block [64]
  param N : i32 = 7
  assume N >= 0
  tensor a : f32[N] in
  tensor b : f32[N] out
  shared s : f32[64]
  mbarrier full
"""
#: Only of buffers that bulk copies write it matters when their reads are over.
COPY = "\nif 0 {\n bulk.load s[][0 : 4], a[0 : 4], full\n }"


def kernel(body: str) -> n.Kernel:
    (k,) = parse(HEAD + body + "\n}", "k.syncir")
    return k


def guards(k: n.Kernel) -> int:
    return sum(isinstance(s, n.If | n.For) for s in statements(k.body))


TAIL = "if tid < N {\n ld.global x, a[tid]\n st.global b[tid], x\n }"


def test_accesses_to_watched_tensors_stay() -> None:
    k = kernel(TAIL)
    assert guards(sliced(k, frozenset())) == 0
    for name in ("a", "b"):
        assert guards(sliced(k, frozenset({name}))) == 1
    place = kernel("let at = tid * N\nif tid < N {\n st.global b[at], 1.0\n}")
    for watched, lets in ((frozenset[str](), 0), (frozenset({"b"}), 1)):
        assert sum(isinstance(s, n.Let) for s in sliced(place, watched).body) == lets


def test_a_predicated_tail_is_left_out() -> None:
    k = kernel(TAIL + "\nbar.sync 0")
    assert guards(k) == 1 and guards(sliced(k)) == 0
    report = check_kernel(k, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


@pytest.mark.parametrize(
    "body",
    [
        "if tid < N {\n ld.global x, a[tid]\n bar.sync 0\n }",  # an event
        "if tid < N {\n ld.global x, a[tid]\n exit\n }",  # lanes leave
        "ld.shared y, s[][tid : 1]\nif tid < N {\n st.global b[tid], y\n }",  # a use of a shared read
        "ld.shared y, s[][tid : 1]\ncompute z = y\nif tid < N {\n st.global b[tid], z\n }",
        "let c = 0\nif tid < N {\n ld.global x, a[tid]\n c = 1\n }\nif c == 1 {\n bar.sync 0\n }",  # hands on
        "ld.shared x, s[][tid : 1]\nif tid < N {\n ld.global x, a[tid]\n }\nst.shared s[][tid : 1], x",
        "if (tid // N) < 1 {\n ld.global x, a[tid]\n }",  # may have no value
        "if tid < N {\n ld.global.acquire.gpu x, a[tid]\n }",
        "if tid < N {\n ld.global x, a[tid]\n }\ngriddep.wait",
        "compute x = 0.0\nfor k in 0..N {\n ld.global x, a[k]\n let c = k\n }\nbar.sync c & 0",
    ],
)
def test_what_may_matter_stays(body: str) -> None:
    k = kernel(body + COPY)
    assert sliced(k).body == k.body


WAIT = "griddep.wait\ngriddep.launch\n"


def test_behind_a_wait_of_all_threads_no_access_is_early() -> None:
    k = kernel("let n = N + 1\n" + WAIT + TAIL + "\nbar.sync 0")
    assert guards(sliced(k)) == 0
    report = check_kernel(k, scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


def test_barriers_may_be_set_up_before_the_wait() -> None:
    set_up = "if tid == 0 {\n mbarrier.init full, 1\n }\nbar.sync 0\n"
    k = kernel(set_up + WAIT + TAIL + "\nbar.sync 0")
    assert guards(sliced(k)) == 1  # what sets up stays
    assert check_kernel(k, scope=ScopeKind.ALL).verdict is Verdict.PROVED


def test_what_is_prefetched_before_the_wait_is_a_hint() -> None:
    k = kernel("if tid == 0 and N > 3 {\n bulk.prefetch a[0 : 4]\n }\n" + WAIT + TAIL + "\nbar.sync 0")
    assert guards(k) == 2 and guards(sliced(k)) == 0
    for scope, values in ((ScopeKind.ALL, {}), (ScopeKind.EXACT, {"N": 50})):
        assert check_kernel(k, values, scope=scope).verdict is Verdict.PROVED


def test_a_cluster_may_meet_before_the_wait() -> None:
    met = "cluster.arrive.relaxed\ncluster.wait\n"
    (k,) = parse(
        HEAD.replace("block [64]", "block [64] cluster [2]").replace("grid [1]", "grid [2]")
        + met + WAIT + TAIL + "\nbar.sync 0\n}",
        "k.syncir",
    )  # fmt: skip
    assert guards(sliced(k)) == 0
    late = TAIL + "\n" + met + WAIT
    (k,) = parse(HEAD + late + "\n}", "k.syncir")
    assert sliced(k).body == k.body


@pytest.mark.parametrize(
    "body",
    [
        TAIL + "\n" + WAIT,
        "if tid == 0 {\n mbarrier.init full, 1\n ld.global x, a[tid]\n }\nbar.sync 0\n" + WAIT,
        "if tid == 0 {\n griddep.wait\n }\n" + TAIL,
        "if tid == 0 {\n bulk.prefetch a[0 : 4]\n }\n" + TAIL + "\n" + WAIT,
        "griddep.launch\n" + TAIL + "\ngriddep.wait",
        "if tid < 32 {\n griddep.wait\n }\n" + TAIL,
        "role late warps 0..1 {\n griddep.wait\n }\n" + TAIL,
    ],
)
def test_an_early_access_is_still_found(body: str) -> None:
    k = kernel(body)
    assert sliced(k).body == k.body
    report = check_kernel(k, {"N": 50}, scope=ScopeKind.EXACT)
    assert report.verdict is Verdict.REFUTED and {d.rule for d in report.diagnostics} >= {"SV503"}


def test_a_dependent_launch_has_to_wait() -> None:
    text = HEAD.replace("block [64]", "block [64] dependent")
    (without,) = parse(text + TAIL + "\n}", "k.syncir")
    (waits,) = parse(text + WAIT + TAIL + "\n}", "k.syncir")
    assert print_kernel(waits).count("dependent") == 1 and sliced(without).body == without.body
    for scope in (ScopeKind.EXACT, ScopeKind.ALL):
        report = check_kernel(without, {"N": 50} if scope is ScopeKind.EXACT else {}, scope=scope)
        assert report.verdict is Verdict.REFUTED and {d.rule for d in report.diagnostics} >= {"SV503"}
        assert (
            check_kernel(waits, {"N": 50} if scope is ScopeKind.EXACT else {}, scope=scope).verdict
            is Verdict.PROVED
        )


def test_values_made_inside_are_no_uses_of_others() -> None:
    k = kernel("ld.shared x, s[][tid : 1]\nst.shared s[][tid : 1], x\n" + TAIL)
    assert guards(sliced(k)) == 0


SUM = """compute t = 0.0
for k in 0..N {
  ld.global x, a[k]
  compute t = t + x
}
st.shared s[][tid : 1], t"""


def test_a_loop_that_hands_on_data_becomes_a_load_of_it() -> None:
    k = sliced(kernel(SUM))
    assert [type(s).__name__ for s in k.body] == ["Compute", "LdGlobal", "StShared"]
    report = check_kernel(kernel(SUM), scope=ScopeKind.ALL)
    assert (report.verdict, report.scope.kind) == (Verdict.PROVED, ScopeKind.ALL)


def test_data_that_a_loop_hands_on_differs_between_lanes() -> None:
    same = SUM.replace("[][tid : 1]", "[][0 : 1]").replace("block [64]", "block [32]")
    assert check_kernel(kernel(same), scope=ScopeKind.EXACT).verdict is Verdict.REFUTED
    assert check_kernel(kernel(same), scope=ScopeKind.ALL).verdict is Verdict.REFUTED


#: A loop that only computes, and what it hands on: of each lane its own, the same for all.
COUNTED = """compute t = 0.0
for k in 0..N {{
  compute t = t + {}
}}
st.shared s[][{} : 1], t"""


@pytest.mark.parametrize(
    ("term", "place", "kept", "verdict"),
    [
        ("select(tid < k, 1.0, 0.0)", "tid", 0, Verdict.PROVED),
        ("select(tid < k, 1.0, 0.0)", "0", 0, Verdict.REFUTED),
        ("1.0", "tid", 1, Verdict.PROVED),
        ("1.0", "0", 1, Verdict.PROVED),  # lanes write one value
    ],
)
def test_a_loop_that_only_computes(term: str, place: str, kept: int, verdict: Verdict) -> None:
    k = kernel(COUNTED.format(term, place))
    k = replace(k, launch=replace(k.launch, block=(32, 1, 1)))
    assert guards(sliced(k)) == kept
    assert guards(sliced(k, frozenset({"a", "b"}))) == 1  # no tensor is left that it could come from
    for scope in (ScopeKind.EXACT, ScopeKind.ALL):
        assert check_kernel(k, scope=scope).verdict is verdict


def test_a_loop_that_computes_for_nothing_is_left_out() -> None:
    body = COUNTED.format("select(tid < k, 1.0, 0.0)", "tid").replace(
        "st.shared s[][tid : 1], t", "bar.sync 0"
    )
    assert guards(sliced(kernel(body))) == 0


GUARDED = "ld.shared x, s[][tid : 1]\ncompute y = x * 2.0\nif tid < N {\n st.global b[tid], y\n }"


def test_a_guarded_store_of_a_sum_stays() -> None:
    """What was computed from a read is stored by some lanes only: nothing ends the others' reads."""
    assert guards(sliced(kernel(GUARDED + "\nbar.sync 0" + COPY))) == 2


def test_reads_of_what_no_copy_writes_are_not_awaited() -> None:
    other = COPY.replace("s[][", "u[][")
    k = kernel("shared u : f32[4]\n" + GUARDED + "\nbar.sync 0" + other)
    assert guards(sliced(k)) == 1


def test_overlapping_buffers_count_as_one() -> None:
    other = COPY.replace("s[][", "u[][")
    k = kernel("shared u : f32[4] offset 0\n" + GUARDED + "\nbar.sync 0" + other)
    assert guards(sliced(k)) == 2


@pytest.mark.parametrize(
    ("between", "kept"),
    [
        ("", False),
        ("mbarrier.wait full, 0\n", False),
        ("if tid < 3 {\n st.shared s[][tid : 1], 0.0\n }\n", False),
        ("for k in 0..N {\n st.shared s[][tid : 1], 0.0\n }\n", False),
        ("bar.sync 0\n", True),
        ("warp.sync\n", True),
        ("if tid < 3 {\n mbarrier.arrive full\n }\n", True),
        ("for k in 0..N {\n mbarrier.arrive full\n }\n", True),
        ("if tid < 3 {\n exit\n }\n", True),
        ("st.global.release.gpu b[0], 0.0\n", True),
        ("if tid < 3 {\n fence.proxy.async.shared_cta\n }\nbar.sync 0\n", True),
        ("for k in 0..N {\n fence.proxy.async.shared_cta\n }\nbar.sync 0\n", True),
    ],
)
def test_a_fence_before_any_hand_over_ends_the_reads_whatever_is_stored(between: str, kept: bool) -> None:
    k = kernel(f"{GUARDED}\n{between}fence.proxy.async.shared_cta\n{COPY}")
    left = [s for s in statements(sliced(k).body) if isinstance(s, n.If) and s.cond != Int(0)]
    asks_n = any("N" in str(s.cond) for s in left)
    assert asks_n == kept


READ = "ld.shared x, s[][tid : 1]\ncompute y = x * 2.0\nst.shared s[][tid : 1], y\n"
AGAIN = "if tid < N {\n st.global b[tid], y\n }"


@pytest.mark.parametrize(
    ("between", "kept"),
    [
        ("compute y = 1.0\n", False),
        ("ld.global y, a[tid]\n", False),
        ("frag.read y, f\n", False),
        ("ld.shared y, u[][0 : 1]\n", False),  # of what no copy writes
        ("frag.write f, 1.0\nfrag.read y, f\n", False),
        ("for i in 0..3 {\n compute y = 1.0\n compute y = y + 1.0\n }\ncompute y = 2.0\n", False),
        ("if tid < 3 {\n compute y = 1.0\n }\nelse {\n compute y = 2.0\n }\n", False),
        ("", True),
        ("compute y = y + 1.0\n", True),
        ("compute z = y\ncompute y = 1.0\ncompute y = z\n", True),
        ("shfl.bfly y, x, 1\n", True),
        ("frag.write f, x\nfrag.read y, f\n", True),
        ("frag.write f, x\nfrag.write f, 1.0, start 0\nfrag.read y, f\n", True),
        ("ld.shared y, s[][0 : 1]\n", True),
        ("if tid < 3 {\n compute y = 1.0\n }\n", True),  # by some lanes only
        ("for i in 0..N {\n compute y = 1.0\n }\n", True),  # or perhaps never
        ("role some warps 0..1 {\n compute y = 1.0\n }\n", True),
    ],
)
def test_a_register_that_was_given_another_value_is_no_use(between: str, kept: bool) -> None:
    k = kernel(f"shared u : f32[4]\nfragment f : f32[64, 64]\n{READ}{between}{AGAIN}\nbar.sync 0{COPY}")
    left = [s for s in statements(sliced(k).body) if isinstance(s, n.If) and "N" in str(s.cond)]
    assert bool(left) == kept
    assert awaited(sliced(k)) == awaited(k)


def test_a_later_turn_stores_what_an_earlier_one_read() -> None:
    """``y`` is given another value only behind the store, or in front of it."""
    loop = "compute y = 0.0\nfor i in 0..N {{\n{}\n}}\nbar.sync 0"
    turn = "ld.shared x, s[][tid : 1]\ncompute {} = x\nst.shared s[][tid : 1], x"
    for parts, kept in (
        (("compute y = 0.0", AGAIN, turn.format("y")), False),
        ((AGAIN, turn.format("y")), True),
        ((AGAIN, turn.format("y"), "compute y = 0.0"), False),
    ):
        left = statements(sliced(kernel(loop.format("\n".join(parts)) + COPY)).body)
        assert any(isinstance(s, n.If) and "N" in str(s.cond) for s in left) == kept, parts


def test_a_fence_in_the_next_turn_comes_too_late() -> None:
    loop = "for k in 0..N {{\n{}\n{}\n}}\nfence.proxy.async.shared_cta"
    quiet, told = loop.format(GUARDED, ""), loop.format("mbarrier.arrive full", GUARDED)
    for body, kept in ((quiet, False), (told, True)):
        left = statements(sliced(kernel(body + COPY)).body)
        assert any(isinstance(s, n.If) and "N" in str(s.cond) for s in left) == kept


def awaited(kernel: n.Kernel) -> set[str]:
    """Registers into which refilled buffers are read and whose values reach memory."""
    return set(holders(kernel)) & reaching_memory(kernel.body)


def test_a_fragment_read_again_stays_while_its_registers_wait() -> None:
    (kernel,) = parse(
        """
kernel k {
  launch block [32]
  tensor out : f32[64] inout
  shared s : f32[64]
  mbarrier full
  fragment f : f32[8, 8]
  ld.shared x, s[][tid : 1]
  frag.write f, x
  frag.read y, f
  frag.read z, f
  st.global out[tid : 1], z
  if 0 {
    bulk.load s, out[0 : 64], full
  }
}
""",
        "k",
    )
    assert awaited(sliced(kernel)) == awaited(kernel) == {"x"}


def test_what_reaches_memory_is_the_same_without_quiet_code() -> None:
    """Over the corpus and random kernels: a read that looked dead would count as over at once."""
    texts = [p.read_text("utf-8") for p in sorted(CORPUS.rglob("*.syncir"))]
    texts += [program(seed).text() for seed in range(24_200, 24_400)]
    kernels = [k for text in texts for k in parse(text, "k")]
    assert sum(bool(awaited(k)) for k in kernels) > 200
    for k in kernels:
        assert awaited(sliced(k)) == awaited(k), k.name


RING = """
kernel k {{
  launch block [64]
  param N : i32 = 5
  param n : i32 = 3
  assume N >= 0
  tensor a : f32[N * 32] in
  tensor out : f32[N * 32] out
  shared s : f32[32]
  shared t : f32[32]
  mbarrier full
  mbarrier empty
  if tid == 0 {{
    mbarrier.init full, 1
    mbarrier.init empty, 32
  }}
  bar.sync 0
  role produce warps 0..1 {{
    if lane == 0 {{
      for i in 0..N {{
        mbarrier.wait empty, (i + 1) % 2
        mbarrier.arrive.expect_tx full, 128
        bulk.load s, a[i * 32 : 32], full
      }}
    }}
  }}
  role consume warps 1..2 {{
    for i in 0..N {{
      mbarrier.wait full, i % 2
      ld.shared x, s[][lane : 1]
      {}
    }}
  }}
}}
"""
STORE = "if lane < n {\n st.global out[i * 32 + lane : 1], x\n }"
FENCE, TELL = "fence.proxy.async.shared_cta", "mbarrier.arrive empty"


@pytest.mark.parametrize("scope", [ScopeKind.EXACT, ScopeKind.ALL])
@pytest.mark.parametrize(
    ("order", "verdict"),
    [
        ((STORE, FENCE, TELL), Verdict.PROVED),
        ((FENCE, TELL, STORE), Verdict.PROVED),
        ((STORE, TELL, FENCE), Verdict.REFUTED),
        ((TELL, STORE, FENCE), Verdict.REFUTED),
        (("st.shared t[][lane : 1], x", TELL, "compute x = 0.0", STORE), Verdict.PROVED),
        (("compute x = 0.0", STORE, TELL), Verdict.REFUTED),
        ((TELL, "if lane < n {\n compute x = 0.0\n }", STORE), Verdict.REFUTED),
    ],
)
def test_guarded_stores_in_a_ring(order: tuple[str, ...], verdict: Verdict, scope: ScopeKind) -> None:
    (k,) = parse(RING.format("\n".join(order)), "k")
    report = check_kernel(k, scope=scope)
    assert (report.verdict, report.scope.kind) == (verdict, scope) or verdict is Verdict.REFUTED
    clean = verdict is Verdict.PROVED and FENCE in order  # without a fence K1 is a warning
    assert {d.rule for d in report.diagnostics} == (set() if clean else {"SV105"})
