"""Terms of floats that are one number, were nothing rounded: beside exact fractions."""

from fractions import Fraction
from random import Random

import pytest

from syncverify.frontends.ptx.analysis.registers.real_identities import Term, equal_over_the_reals

A, B, C, D = (("own", n) for n in range(4))


def op(kind: str, *of: Term) -> Term:
    return ("computes", f"{kind}.f32", *of)


def merged(m: Term, n: Term, a: Term, b: Term) -> Term:
    """The mean of ``a`` values of mean ``m`` and ``b`` of mean ``n``."""
    return op("add", m, op("mul", op("sub", n, m), op("div", b, op("add", a, b))))


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (merged(A, B, C, D), merged(B, A, D, C), True),
        (merged(A, B, C, D), merged(B, A, C, D), False),
        (op("neg", op("sub", A, B)), op("sub", B, A), True),
        (op("mul", A, op("rcp", B)), op("div", A, B), True),
        (op("fma.rn", ("commutes", "factors", A, B), C), op("add", C, op("mul", B, A)), True),
        (op("add", A, A), op("mul", A, A), False),
        # another operation, another type, and what has no value
        (op("max", A, B), op("max", A, B), False),
        (("computes", "add.s32", A, B), ("computes", "add.s32", B, A), False),
        (op("rcp", op("sub", A, A)), op("rcp", op("sub", A, A)), False),
    ],
)
def test_identities(one: Term, other: Term, equal: bool) -> None:
    assert equal_over_the_reals(one, other) is equal


def drawn(random: Random, depth: int) -> Term:
    if depth == 0 or random.random() < 0.2:
        return random.choice((A, B, C))
    kind = random.choice(("add", "sub", "mul", "div", "neg"))
    return op(kind, *(drawn(random, depth - 1) for _ in range(1 if kind == "neg" else 2)))


def value(term: Term, point: dict[Term, Fraction]) -> Fraction:
    if term in point:
        return point[term]
    a, *rest = [value(x, point) for x in term[2:]]  # type: ignore[arg-type]
    match str(term[1]).split(".")[0]:
        case "add":
            return a + rest[0]
        case "sub":
            return a - rest[0]
        case "mul":
            return a * rest[0]
        case "div":
            return a / rest[0]
    return -a


def test_random_terms_beside_fractions() -> None:
    """Two terms are equal if they are at 12 points of fractions; those that have no value there are left."""
    random = Random(11)
    seen = {True: 0, False: 0}
    for _ in range(3000):
        one, other = drawn(random, 2), drawn(random, 2)
        points: list[dict[Term, Fraction]] = [
            {x: Fraction(random.randrange(1, 99), 7 + n) for x in (A, B, C)} for n in range(12)
        ]
        try:
            expected = all(value(one, p) == value(other, p) for p in points)
        except ZeroDivisionError:
            continue
        assert equal_over_the_reals(one, other) is expected, (one, other)
        seen[expected] += 1
    assert min(seen.values()) > 50
