"""What is known of a product of sizes that no register holds is part of the state."""

from __future__ import annotations

from collections.abc import Iterator, Set

import pytest

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.checker.prover.parametric.strategy import problem_of, prove
from syncverify.checker.prover.reach.domain import affine_sets
from syncverify.driver.certificates import RejectedError, certify, dumps, recheck
from syncverify.driver.ir import check_kernel
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.parser import parse
from syncverify.symbolic.context import SymbolicContext
from syncverify.symbolic.inequalities import Sum
from syncverify.symbolic.path_condition import PathCondition
from syncverify.symbolic.product_facts import NEVER, known_symbols, residues
from tests.checker.prover.parametric.brute import fallback

_KERNEL = """kernel product {{
  launch grid [1] block [64]
  param T : i32 = 3
  param K : i32 = 5
  param M : i32 = 1
  assume T >= 1
  assume K >= 1
  assume M >= 0
  shared tile : f32[64]

  if {first} {{
    bar.sync 0
  }} else {{
    bar.sync 0
  }}
  if M > 0 {{
    bar.sync 1
  }}
  if {then} {{
    st.shared tile[][tid : 1], 1.0
    {between}
    ld.shared x, tile[][63 - tid : 1]
  }}
}}
"""
#: A question about the product, and what is done then for other answers to it.
CASES = {
    "a number": ("T * K < 2", "T * K >= 7"),
    "a remainder": ("(T * K) % 2 == 0", "(T * K) % 2 == 1"),
    "a later remainder": ("(T * K) % 6 == 2", "(T * K) % 4 == 3"),
    "a bound": ("T * K >= 9", "T * K == 4"),
    "of three": ("T * K * M < 1", "T * K * M == 6"),
    "a sum": ("T * K == M", "T * K == M + 2"),
}


def kernel(name: str, between: str) -> Kernel:
    first, then = CASES[name]
    (found,) = parse(_KERNEL.format(first=first, then=then, between=between), "product.syncir")
    return found


@pytest.mark.parametrize("name", CASES)
def test_another_answer_is_not_covered(name: str) -> None:
    bad = kernel(name, "")
    found = prove(problem_of(bad, {}, lambda v: check_kernel(bad, v).verdict), Policy.PRACTICAL, small=False)
    assert found.verdict is not Verdict.PROVED
    assert check_kernel(bad, scope=ScopeKind.ALL).verdict is Verdict.REFUTED


@pytest.mark.parametrize("name", CASES)
def test_the_good_one_is_proved(name: str) -> None:
    good = kernel(name, "bar.sync 0")
    report = check_kernel(good, scope=ScopeKind.ALL)
    assert (report.verdict, fallback(report)) == (Verdict.PROVED, None)
    (done,) = recheck(dumps([certify(good, report)]), "c.json", {good.name: good})
    assert done.kind == "sizes"


def _without_products(path: PathCondition, atoms: Set[int]) -> Iterator[Sum]:
    """What is known of the registers' symbols alone."""
    yield from ((c, p) for p, c in path.inequalities.items())
    for a in atoms:
        low, high = path.interval(a)
        yield from () if low is None else [(-low, ((a, 1),))]
        yield from () if high is None else [(high, ((a, -1),))]


@pytest.mark.parametrize("name", ["a bound", "of three"])
def test_recheck_finds_out_a_search_that_forgets_products(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = kernel(name, "")
    monkeypatch.setattr(affine_sets, "known_symbols", _without_products)
    monkeypatch.setattr(affine_sets, "residues", lambda path, atoms: ())
    report = check_kernel(bad, scope=ScopeKind.ALL)
    assert report.verdict is Verdict.PROVED
    with pytest.raises(RejectedError, match="does not follow"):
        recheck(dumps([certify(bad, report)]), "c.json", {bad.name: bad})


# ---------------------------------------------------------------- paths


def _space() -> tuple[SymbolicContext, int, int, int]:
    """Two symbols of 1 or more, and their product."""
    space = SymbolicContext()
    x, y = (space.of(space.symbol(name, 1, 1000))[1][0][0] for name in "xy")
    ((xy, _),) = space.times((0, ((x, 1),)), (0, ((y, 1),)))[1]
    return space, x, y, xy


def test_a_product_that_is_one_says_what_its_factors_are() -> None:
    space, x, y, xy = _space()
    space.path.assume(1, ((xy, -1),))
    assert space.path.resolve(0, ((x, 1), (y, 1))) == (2, ())


def test_a_product_that_is_nothing_says_so_once_a_factor_is_something() -> None:
    space = SymbolicContext()
    x, y = (space.of(space.symbol(name, 0, 1000))[1][0][0] for name in "xy")
    ((xy, _),) = space.times((0, ((x, 1),)), (0, ((y, 1),)))[1]
    space.path.assume(0, ((xy, -1),))
    assert space.path.decide(-1, ((y, 1),)) is None
    space.path.assume(-1, ((x, 1),))
    assert space.path.decide(-1, ((y, 1),)) is False


def test_ties_are_told() -> None:
    space, x, y, xy = _space()
    q = space.of(space.symbol("q", 0, 50))[1][0][0]
    path = space.path
    path.substitute(xy, 5, ((q, 12),))
    path.eliminate({x, y})
    assert list(residues(path, {x, y})) == [((-5, ((xy, 1),)), 12)]
    facts = set(known_symbols(path, {x, y}))
    assert {(-5, ((xy, 1),)), (605, ((xy, -1),))} <= facts
    assert path.resolve(0, ((xy, 1),)) == (5, ((q, 12),))


def test_an_unknown_of_two_ties_is_not_kept_for_both() -> None:
    space, x, y, xy = _space()
    ((xx, _),) = space.times((0, ((x, 1),)), (0, ((x, 1),)))[1]
    q = space.of(space.symbol("q", 0, 50))[1][0][0]
    path = space.path
    path.substitute(xy, 5, ((q, 12),))
    path.substitute(xx, 1, ((q, 6),))
    assert NEVER in known_symbols(path, {x, y})
    path.eliminate({x, y})
    assert path.products == set()
    assert path.resolve(0, ((xy, 1), (xx, -2))) == (0, ((xy, 1), (xx, -2)))


def test_a_factor_that_is_rewritten_leaves_an_equation() -> None:
    space, x, y, xy = _space()
    path = space.path
    path.substitute(xy, 12, ())
    path.substitute(x, 3, ())
    assert path.resolve(0, ((y, 1),)) == (4, ())
    assert not path.products


def test_what_several_inequalities_say_of_few_values() -> None:
    space = SymbolicContext()
    x, y = (space.of(space.symbol(name, 0, 6))[1][0][0] for name in "xy")
    path = space.path
    path.assume(-3, ((x, 1), (y, 1)))  # x + y >= 3
    path.assume(1, ((x, 1), (y, -1)))  # y <= x + 1
    assert path.interval(x) == (0, 6)
    path.eliminate({x, y})
    assert path.interval(x) == (1, 6)
    path.assume(5, ((x, -2), (y, -1)))  # 2 x + y <= 5
    path.eliminate({x, y})
    assert path.interval(x) == (1, 2)
