"""Waits on phase tokens, for every size."""

from __future__ import annotations

import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.checker.prover.parametric.strategy import problem_of, prove
from syncverify.checker.prover.reach.state.phase_tokens import age_of
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.symbolic.context import NotConcrete
from syncverify.symbolic.phase_tokens import Token, number


def kernel(body: str, before: str = "", barriers: int = 1) -> Kernel:
    """Two warps that meet at every tile; ``body`` is what each thread does there."""
    (found,) = parse(
        f"""kernel tokens {{
  launch grid [1] block [64]
  param T : i32 = 6
  assume T >= 0
  shared tile : f32[64]
  mbarrier ready[{barriers}]
  elect p
  if warp == 0 and p {{
    for b in 0..{barriers} {{
      mbarrier.init ready[b], 64
    }}
    fence.mbarrier_init
  }}
  bar.sync 0
  {before}
  for t in 0..T {{
    {body}
  }}
}}
""",
        "tokens.syncir",
    )
    return found


def verdict(k: Kernel) -> tuple[Verdict, ScopeKind]:
    found = check_kernel(k, scope=ScopeKind.ALL)
    return found.verdict, found.scope.kind


def reason(k: Kernel) -> str | None:
    """Why a kernel is not decided for every size, small ones not tried."""
    problem = problem_of(k, {}, lambda v: check_kernel(k, v).verdict)
    found = prove(problem, Policy.PRACTICAL, small=False)
    assert found.verdict is not Verdict.REFUTED
    return found.reason


EXCHANGE = """st.shared tile[][tid : 1], 1.0
    let token = mbarrier.arrive ready[0]
    {wait}
    ld.shared x, tile[][(tid + 32) % 64 : 1]
    bar.sync 0"""


@pytest.mark.parametrize(
    "wait",
    [
        "mbarrier.wait.token ready[0], token",
        "let q = mbarrier.try.token ready[0], token\nif q == 0 {\nmbarrier.wait.token ready[0], token\n}",
    ],
)
def test_a_token_is_waited_for_in_every_turn(wait: str) -> None:
    assert verdict(kernel(EXCHANGE.format(wait=wait))) == (Verdict.PROVED, ScopeKind.ALL)


def test_without_the_wait_it_is_refuted() -> None:
    assert verdict(kernel(EXCHANGE.format(wait="")))[0] is Verdict.REFUTED


def test_a_token_may_be_one_phase_old_and_no_more() -> None:
    before = "let one = mbarrier.arrive ready[0]\nlet two = one"
    late = "let next = mbarrier.arrive ready[0]\nmbarrier.wait.token ready[0], {which}\ntwo = one\none = next"
    now = "mbarrier.wait.token ready[0], one\nlet next = mbarrier.arrive ready[0]\none = next"
    good = kernel(now, before)
    assert verdict(good) == (Verdict.PROVED, ScopeKind.ALL)
    far = kernel(f"bar.sync 0\n{late.format(which='two')}", before)
    assert verdict(far)[0] is Verdict.REFUTED


def test_what_is_computed_from_a_token_is_not_followed() -> None:
    # numbers of phases are no part of states: a branch on one is never proved for every size
    body = "let token = mbarrier.arrive ready[0]\nmbarrier.wait.token ready[0], token\n{more}\nbar.sync 0"
    for more in ("if token == 9 {\nbar.sync 1, 32\n}", "let x = token + 1\nif x > 40 {\nbar.sync 1, 32\n}"):
        assert reason(kernel(body.format(more=more))) == "the number of a phase is looked at"


def test_a_token_of_another_barrier_is_not_followed() -> None:
    body = """let a = mbarrier.arrive ready[0]
    mbarrier.wait.token ready[0], a
    if t % 2 == 0 {
      let b = mbarrier.arrive ready[1]
      mbarrier.wait.token ready[1], {which}
    }
    bar.sync 0"""
    assert verdict(kernel(body.replace("{which}", "b"), barriers=2)) == (Verdict.PROVED, ScopeKind.ALL)
    assert "of the same barrier" in (reason(kernel(body.replace("{which}", "a"), barriers=2)) or "")


def test_a_token_is_one_object_and_tells_no_number() -> None:
    token = Token(3, 1, 1)
    assert token is Token(3, 1, 1)
    assert {(token, 5): "found"}[Token(3, 1, 1), 5] == "found"
    assert type(number(token)) is int
    for look in (
        lambda: token == 3, lambda: token < 5, lambda: 5 - token, lambda: token % 2, lambda: bool(token),
        lambda: [0, 1, 2, 3][int(token)], lambda: 7 & token, lambda: -token, lambda: token != token,
    ):  # fmt: skip
        with pytest.raises(NotConcrete):
            look()
    assert age_of(None, 3) == 3  # type: ignore[arg-type]
