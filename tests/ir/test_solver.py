"""The solver against evaluation, and what it proves, refutes and leaves open."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from syncverify.ir import solver
from syncverify.ir.expr import BINARY_OPS, Binary, Call, Expr, Int, Unary, Var, evaluate
from syncverify.ir.layout import layout
from syncverify.ir.text.parser import parse

i, j, n, s = Var("i"), Var("j"), Var("n"), Var("s")

_leaves = st.one_of(st.integers(-9, 9).map(Int), st.sampled_from([i, j]))


def _grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    ops = [op for op in BINARY_OPS if op not in ("/", "<<", ">>", "&", "|", "^")]
    return st.one_of(
        st.builds(Unary, st.sampled_from(["-", "not", "~"]), inner),
        st.builds(Binary, st.sampled_from(ops), inner, inner),
        st.builds(Binary, st.sampled_from(["&", "|", "^", "<<", ">>"]), inner, st.integers(0, 9).map(Int)),
        st.builds(Call, st.sampled_from(["min", "max", "cdiv"]), st.tuples(inner, inner)),
        st.builds(Call, st.just("select"), st.tuples(inner, inner, inner)),
        st.builds(Call, st.just("abs"), st.tuples(inner)),
    )


_exprs: st.SearchStrategy[Expr] = st.recursive(_leaves, _grow, max_leaves=6)


@settings(deadline=None, max_examples=150)
@given(_exprs, st.integers(-9, 9), st.integers(-9, 9))
def test_the_encoding_agrees_with_evaluation(e: Expr, a: int, b: int) -> None:
    try:
        value = evaluate(e, {"i": a, "j": b})
    except ZeroDivisionError:
        assume(False)
    point = [i.eq(a), j.eq(b)]
    assert solver.satisfiable([*point, e.eq(value)]) is True
    assert solver.satisfiable([*point, e.ne(value)]) is False


@pytest.mark.parametrize(
    ("fact", "assumptions", "answer"),
    [
        ((i // 2) * 2 + i % 2 <= i, [], True),
        (i > 5, [i > 4], False),
        (i % s < s, [s >= 1], True),
        ((i % 4 >= 0), [], True),
        (Binary("^", i, Int(1)).ne(i), [], True),
        (Binary("&", i, j) <= i, [], None),
        (Call("cdiv", (n, Int(4))) * 4 >= n, [], True),
        (i // n >= 0, [i >= 0, n > 0], True),
        ((i % 2).eq(0), [], False),
    ],
)
def test_prove(fact: Expr, assumptions: list[Expr], answer: bool | None) -> None:
    assert solver.prove(fact, assumptions) is answer


def test_a_budget_of_nothing_decides_nothing() -> None:
    hard = (i * i * i + j * j * j + n * n * n).eq(42)
    assert solver.prove(hard.eq(0), rlimit=1) is None


def test_counterexample_meets_the_assumptions_only() -> None:
    found = solver.counterexample(i + j > 10, [i > 5, j > 3])
    assert found is not None
    assert found["i"] > 5 and found["j"] > 3 and found["i"] + found["j"] <= 10
    assert solver.counterexample(i > 4, [i > 4]) is None


def test_what_is_asked_again_is_not_solved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    import z3

    facts = [(i * 7).eq(j * 5 + 123), i > 40]
    first = solver.model(facts)
    assert first is not None and evaluate(facts[0], first)
    dict.update(first, i=0)  # who asked may change what it was given
    monkeypatch.setattr(z3, "Context", None)
    again = solver.model(iter(facts))
    assert again is not None and evaluate(facts[0], again) and evaluate(facts[1], again)
    with pytest.raises(TypeError):
        solver.model([*facts, j > 0])  # another question


def test_the_same_question_has_the_same_answer() -> None:
    question = (i * j > n), [i > 3, n > i]
    first = solver.counterexample(*question)
    solver.prove(i > j)
    assert solver.counterexample(*question) == first


KERNEL = parse(
    """kernel k {
  shared a : f32[4, 64]
  shared b : f32[64] offset 256
  shared c : f32[64] offset 384
  ld.shared x, a[i][tid * 2 : 2]
  ld.shared x, a[(i + 1) % 4][0 : 64]
  ld.shared x, a[i][1 : 1 rows 4 pitch 4]
  ld.shared x, a[i][2 : 2 rows 4 pitch 4]
  ld.shared x, b[][0 : 32]
  ld.shared x, b[][0 : 33]
  ld.shared x, c
}"""
)[0]
STAGE, NEXT, ROWS, BETWEEN, HALF, MORE, C = (stmt.src for stmt in KERNEL.body)  # type: ignore[attr-defined]


def test_overlap() -> None:
    inside = [i >= 0, i < 4, Var("tid") >= 0, Var("tid") < 32]
    assert solver.overlap(KERNEL, STAGE, NEXT, inside) is False
    assert solver.overlap(KERNEL, STAGE, STAGE, inside) is True
    assert solver.overlap(KERNEL, ROWS, BETWEEN, inside) is False
    assert solver.overlap(KERNEL, ROWS, STAGE, [*inside, Var("tid").eq(0)]) is True
    assert solver.overlap(KERNEL, HALF, C) is False
    assert solver.overlap(KERNEL, MORE, C) is True
    assert solver.overlap(KERNEL, STAGE, C, inside) is False
    assert solver.overlap(KERNEL, HALF, C, layout=layout(KERNEL)) is False


def test_z3_is_imported_when_asked_only() -> None:
    code = (
        "import sys; import syncverify.ir.solver, syncverify.ir.check.well_formed;"
        "import syncverify.ir.builder.kernel_builder;"
        "assert 'z3' not in sys.modules and 'lark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
