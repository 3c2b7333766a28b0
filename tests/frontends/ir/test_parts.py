"""The parts against plain definitions: expressions, footprints."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from syncverify.ir.evaluate import closure, condition, fold, shared_parts, shift_left, shift_right, source
from syncverify.ir.expr import Binary, Call, Expr, Int, Unary, Var, evaluate, names
from syncverify.ir.footprints import Range, box_ranges, footprint, locate, locate_shifted
from syncverify.ir.layout import BufferLayout
from syncverify.model.intervals import merge

SLOTS = {"x": 0, "y": 1, "tid": 2}
numbers = st.integers(-40, 40)


def expressions() -> st.SearchStrategy[Expr]:
    leaves = st.one_of(numbers.map(Int), st.sampled_from([Var(n) for n in SLOTS]))

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        ops = ["+", "-", "*", "//", "%", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=", "and", "or"]
        return st.one_of(
            st.builds(Binary, st.sampled_from(ops), inner, inner),
            st.builds(lambda op, a, n: Binary(op, a, Int(n)), st.sampled_from(["<<", ">>"]), inner,
                      st.integers(0, 6)),
            st.builds(Unary, st.sampled_from(["-", "not", "~"]), inner),
            st.builds(lambda n, a, b: Call(n, (a, b)), st.sampled_from(["min", "max", "cdiv"]), inner, inner),
            st.builds(lambda a, b, c: Call("select", (a, b, c)), inner, inner, inner),
            st.builds(lambda a: Call("abs", (a,)), inner),
        )  # fmt: skip

    return st.recursive(leaves, grow, max_leaves=12)


def value(thunk: object) -> int | str:
    try:
        return int(thunk())  # type: ignore[operator]
    except ArithmeticError:
        return "none"


@given(expressions(), numbers, numbers, numbers)
def test_expressions_agree(e: Expr, x: int, y: int, tid: int) -> None:
    env = {"x": x, "y": y, "tid": tid}
    r = [x, y, tid]
    expected = value(lambda: evaluate(e, env))
    space = {"r": r, "shift_left": shift_left, "shift_right": shift_right}
    got = [
        value(lambda: closure(e, SLOTS)(r)),
        value(lambda: eval(source(e, SLOTS), space)),
        value(lambda: closure(fold(e, {"x": Int(x)}), SLOTS)(r)),
    ]
    truth = value(lambda: bool(eval(condition(e, SLOTS), space)))
    if expected == "none":
        return  # "and" and "or" may stop before the zero divisor
    assert got == [expected] * 3
    assert truth == int(bool(expected))


@given(expressions(), numbers, numbers, numbers, numbers)
def test_shared_parts_decide(e: Expr, x: int, y: int, other: int, tid: int) -> None:
    """Equal shared parts, and the same lane, give the same value."""
    varying = frozenset({"tid", "y"})
    parts = list(shared_parts(e, varying, frozenset({"y"})))
    assert all("tid" not in names(p) for p in parts)
    one, two = {"x": x, "y": y, "tid": tid}, {"x": other, "y": y, "tid": tid}
    if all(value(lambda p=p: evaluate(p, one)) == value(lambda p=p: evaluate(p, two)) for p in parts):
        assert value(lambda: evaluate(e, one)) == value(lambda: evaluate(e, two))


ranges = st.builds(Range, st.integers(0, 60), st.integers(0, 9), st.integers(0, 3), st.integers(0, 12))


def covered(r: Range) -> set[int]:
    return {r.lo + i * r.pitch + j for i in range(r.rows) for j in range(r.size)}


@given(st.lists(ranges, min_size=1, max_size=6), st.booleans())
def test_footprint_of_lanes(found: list[Range], varying: bool) -> None:
    lanes = [3 * i for i in range(len(found))]
    fp = footprint(0, found, lanes, varying=varying)
    every = [covered(r) for r in found]
    assert {b for lo, hi in fp.intervals for b in range(lo, hi)} == set().union(*every)
    assert all(a[1] < b[0] for a, b in pairwise(fp.intervals))
    assert list(fp.lanes) == sorted(fp.lanes)
    for lane, bytes_ in zip(lanes, every, strict=True):
        assert {b for lo, hi, who in fp.lanes if who == lane for b in range(lo, hi)} == bytes_
    shared = any(every[i] & every[j] for i in range(len(every)) for j in range(i))
    assert fp.overlap == (varying and shared)


@given(st.lists(st.integers(0, 30), min_size=2, max_size=5), st.integers(0, 4), st.integers(0, 3),
       st.integers(0, 6), st.booleans())  # fmt: skip
def test_lanes_that_differ_in_place_only(
    starts: list[int], count: int, rows: int, pitch: int, varying: bool
) -> None:
    buffer = BufferLayout("s", 64, (2, 20), 4)
    places = [locate(buffer, [1], s, count, rows, pitch) for s in starts]
    shifted = locate_shifted(buffer, [1], starts, count, rows, pitch)
    if shifted is None:
        assert any(p.problem for p in places)
        return
    assert not any(p.problem for p in places)
    lanes = range(len(starts))
    expected = footprint(0, [p.range for p in places], lanes, varying=varying)
    assert footprint(0, shifted, lanes, varying=varying) == expected


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), max_size=12))
def test_merge(runs: list[tuple[int, int]]) -> None:
    spans = [(a, a + n) for a, n in runs if n]
    merged = merge(spans)
    assert {b for a, z in merged for b in range(a, z)} == {b for a, z in spans for b in range(a, z)}
    assert all(a[1] < b[0] for a, b in pairwise(merged))


@given(st.lists(st.integers(-2, 3), max_size=2), st.integers(-3, 9), st.integers(-1, 9), st.integers(0, 3),
       st.integers(0, 6))  # fmt: skip
def test_locate(index: list[int], start: int, count: int, rows: int, pitch: int) -> None:
    buffer = BufferLayout("s", 64, (2, 3, 8), 4)
    got = locate(buffer, index, start, count, rows, pitch)
    rest = {0: 48, 1: 24, 2: 8}[len(index)]
    cells = [start + i * pitch + j for i in range(rows) for j in range(count)]
    inside = all(0 <= i < d for i, d in zip(index, buffer.shape, strict=False))
    flat = 0
    for i, d in zip(index, buffer.shape, strict=False):
        flat = flat * d + i
    wanted = {64 + (flat * rest + c) * 4 + b for c in cells for b in range(4)}
    if got.problem is None:
        assert inside
        assert all(0 <= c < rest for c in cells)
        assert covered(got.range) == wanted
        assert got.bytes == 4 * len(cells)
    else:
        bad = not inside or count < 0 or any(not 0 <= c < rest for c in cells)
        assert bad or not cells
        assert covered(got.range) <= set(range(64, 64 + 192))


@given(st.integers(-3, 5), st.integers(-3, 9), st.integers(1, 4), st.integers(1, 5))
def test_boxes(row: int, column: int, height: int, width: int) -> None:
    shape = (4, 6)
    cells = {(r, c) for r in range(row, row + height) for c in range(column, column + width)}
    expected = {(r * 6 + c) * 2 + b for r, c in cells if 0 <= r < 4 and 0 <= c < 6 for b in range(2)}
    got = [covered(r) for r in box_ranges(shape, (height, width), (row, column), 2)]
    assert set().union(*got) == expected
