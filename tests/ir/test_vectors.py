"""Index expressions for many threads at once have the value that each thread gives them alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncverify.ir.expr import Binary, Call, Expr, Int, Unary, Var, evaluate
from syncverify.ir.vectors import evaluate_all

OPS = ("+", "-", "*", "//", "%", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=", "and", "or")


def _grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(Unary, st.sampled_from(("-", "~", "not")), inner),
        st.builds(Binary, st.sampled_from(OPS), inner, inner),
        st.builds(
            lambda f, a: Call(f, tuple(a)), st.sampled_from(("min", "max")), st.lists(inner, min_size=1)
        ),
        st.builds(lambda a: Call("abs", (a,)), inner),
        st.builds(lambda a, b: Call("cdiv", (a, b)), inner, inner),
        st.builds(lambda c, a, b: Call("select", (c, a, b)), inner, inner, inner),
    )


LEAVES: st.SearchStrategy[Expr] = st.one_of(
    st.builds(Int, st.integers(-9, 9)), st.sampled_from((Var("tid"), Var("block"), Var("n")))
)


@settings(max_examples=200, deadline=None)
@given(st.recursive(LEAVES, _grown, max_leaves=6))
def test_same_values_as_one_by_one(e: Expr) -> None:
    tid, block = np.arange(8), np.arange(8) // 3
    try:
        alone = [
            evaluate(e, {"tid": t, "block": b, "n": 5}) for t, b in zip(range(8), block.tolist(), strict=True)
        ]
    except ZeroDivisionError:
        return
    with np.errstate(all="ignore"):
        try:
            found = evaluate_all(e, {"tid": tid, "block": block, "n": 5})
        except ZeroDivisionError:
            return  # in a branch of a select that nobody takes
    assert np.broadcast_to(found, (8,)).tolist() == alone


def test_shifts() -> None:
    e = Binary(">>", Binary("<<", Int(1), Var("tid")), Int(1))
    assert evaluate_all(e, {"tid": np.arange(4)}).tolist() == [0, 1, 2, 4]


def test_numbers_stay_exact() -> None:
    assert evaluate_all(Binary("*", Int(1 << 40), Int(1 << 40)), {}) == 1 << 80


def test_what_has_no_value() -> None:
    with pytest.raises(KeyError):
        evaluate_all(Var("tid"), {})
    with pytest.raises(ZeroDivisionError):
        evaluate_all(Binary("//", Int(1), Int(0)), {})
    for evaluator in (evaluate, evaluate_all):
        with pytest.raises(TypeError):
            evaluator(Binary("/", Int(1), Int(2)), {})
