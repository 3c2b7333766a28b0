"""Facts that no launch meets are an error, with the lines that contradict each other."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from syncverify.base.source import Span
from syncverify.ir.check.path_facts import demand_launch
from syncverify.ir.consistency import UNDECIDED, Fact, NoLaunchError, conflict, demand
from syncverify.ir.expr import evaluate, names
from syncverify.ir.text.expressions import parse_expr
from syncverify.ir.text.parser import parse

BAD = [
    (["n > 4", "n < 3"], ["n > 4", "n < 3"]),
    (["m >= 1", "n > 4", "n < 3"], ["n > 4", "n < 3"]),
    (["n % 4 == 0", "n % 4 == 1"], ["n % 4 == 0", "n % 4 == 1"]),
    (["a < b", "b < c", "c < a", "a > 7"], ["a < b", "b < c", "c < a"]),
    (["n // 8 == 2", "n > 24"], ["n // 8 == 2", "n > 24"]),
    (["n != n"], ["n != n"]),
    (["min(a, b) > 5", "a == 3"], ["min(a, b) > 5", "a == 3"]),
]
GOOD = [
    [],
    ["n > 4", "n < 6"],
    ["n == 77", "m == n + 1"],
    ["n % 128 == 0", "n >= 128"],
    ["a * b == 12", "a > b"],
]


def _facts(texts: list[str]) -> list[Fact]:
    return [Fact(parse_expr(t), t, Span("k.launch.toml", i)) for i, t in enumerate(texts, 3)]


@pytest.mark.parametrize(("texts", "core"), BAD)
def test_contradictions_are_found_and_minimal(texts: list[str], core: list[str]) -> None:
    found = conflict(_facts(texts))
    assert found is not UNDECIDED
    assert sorted(f.text for f in found) == sorted(core)


@pytest.mark.parametrize("texts", GOOD)
def test_facts_with_a_model_are_kept(texts: list[str]) -> None:
    assert conflict(_facts(texts)) == ()


def test_against_enumeration() -> None:
    """Every pair and triple of conditions over two names of -3 to 12, tried number by number."""
    menu = ["a > 4", "a < 3", "a % 3 == 1", "a == b", "b == 5", "a + b == 9", "a * 2 == b", "b // 2 == a"]
    bounded = ["a >= -3", "a <= 12", "b >= -3", "b <= 12"]
    for size in (2, 3):
        for some in combinations(menu, size):
            facts = _facts([*bounded, *some])
            exists = any(
                all(evaluate(f.expr, {"a": a, "b": b}) for f in facts)
                for a, b in product(range(-3, 13), repeat=2)
            )
            found = conflict(facts)
            assert found is not UNDECIDED
            assert (not found) == exists, some


def test_the_error_names_each_line_that_it_needs() -> None:
    with pytest.raises(NoLaunchError) as e:
        demand(_facts(["m >= 1", "n > 4", "n < 3"]), "ring", Span("k.launch.toml"))
    assert str(e.value) == (
        "k.launch.toml:4: no launch of kernel ring meets these facts together:\n"
        "  line 4: n > 4\n"
        "  line 5: n < 3"
    )


def test_what_the_solver_cannot_tell_is_assumed_aloud() -> None:
    facts = _facts(["a >= 1", "a < 999", "a & b == 5", "a | b == 77", "b > 70", "a != 9"])
    assert all(names(f.expr) for f in facts)
    assert len(demand(facts, "k", Span("f"))) == 1


@pytest.mark.parametrize(
    ("lines", "at"),
    [
        (["param n : i32", "assume n > 4", "assume n < 3"], (3, 4)),
        (["param n : u32", "assume n < 0"], (3,)),
        (["param n : i32", "launch grid [n]", "assume n == 0"], (4,)),
        (["param n : i64", "param m : i64", "assume n < m", "assume m < n"], (4, 5)),
    ],
)
def test_kernels_of_the_ir(lines: list[str], at: tuple[int, ...]) -> None:
    (kernel,) = parse("\n".join(["kernel k {", *lines, "}"]), "k.syncir")
    with pytest.raises(NoLaunchError) as e:
        demand_launch(kernel)
    assert e.value.span.line == at[0]
    assert all(f"line {n}: assume" in str(e.value) for n in at)
