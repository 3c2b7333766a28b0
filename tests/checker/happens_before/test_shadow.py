"""The interval shadow against one record per byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from syncverify.checker.happens_before.shadow import Record, Shadow, same_lanes
from syncverify.model.events import Footprint
from syncverify.model.proxies import Access

SIZE = 40
accesses = st.lists(
    st.tuples(st.booleans(), st.integers(0, SIZE - 1), st.integers(1, SIZE), st.integers(0, 2)), max_size=25
)


@given(accesses)
def test_bytes(operations: list[tuple[bool, int, int, int]]) -> None:
    shadow = Shadow()
    last: list[Record | None] = [None] * SIZE
    reads: list[dict[tuple[int, int], Record]] = [{} for _ in range(SIZE)]
    for time, (is_write, lo, length, cls) in enumerate(operations, 1):
        hi = min(SIZE, lo + length)
        kind = Access.ASYNC_WRITE if is_write else Access.ASYNC_READ
        r = Record(kind, cls, time, 0, 0)
        if is_write:
            shadow.write(lo, hi, r)
        else:
            shadow.read(lo, hi, r)
        for i in range(lo, hi):
            if is_write:
                last[i], reads[i] = r, {}
            else:
                reads[i][cls, 0] = r
    for i in range(SIZE):
        found = list(shadow.overlapping(i, i + 1))
        assert len(found) <= 1
        assert (found[0].write if found else None) is last[i]
        assert set(found[0].reads.values() if found else ()) == set(reads[i].values())


def test_unused_reads_are_kept_beside_later_ones() -> None:
    """What bridges a later read of the same lane need not bridge one whose value is still unused (K1)."""
    shadow = Shadow()
    first = Record(Access.GENERIC_READ, 0, 1, 0, 0)
    second = Record(Access.GENERIC_READ, 0, 2, 0, 0, used=2)
    shadow.read(0, 4, first)
    shadow.read(0, 4, second)
    (segment,) = shadow.overlapping(0, 4)
    assert set(segment.reads.values()) == {first, second}


def test_same_lanes() -> None:
    a = Footprint(0, ((0, 8),), ((0, 4, 0), (4, 8, 1)))
    b = Footprint(0, ((0, 8),), ((0, 4, 1), (4, 8, 1)))
    everybody = Footprint(0, ((0, 8),))
    assert same_lanes(a, a, 0, 8)
    assert not same_lanes(a, b, 0, 8) and same_lanes(a, b, 4, 8)
    assert not same_lanes(a, everybody, 0, 8)


_PARTS = st.lists(
    st.tuples(st.integers(0, SIZE), st.integers(1, 6), st.integers(0, 2)), min_size=1, max_size=12
)


@given(_PARTS, _PARTS, st.integers(0, SIZE), st.integers(0, SIZE))
def test_same_lanes_byte_by_byte(
    first: list[tuple[int, int, int]], second: list[tuple[int, int, int]], lo: int, hi: int
) -> None:
    def touched(parts: list[tuple[int, int, int]], byte: int) -> set[int]:
        return {lane for a, size, lane in parts if a <= byte < a + size}

    a, b = (
        Footprint(0, ((0, SIZE + 6),), tuple(sorted((p, p + size, lane) for p, size, lane in parts)))
        for parts in (first, second)
    )
    pairs = {(x, y) for i in range(lo, hi) for x in touched(first, i) for y in touched(second, i)}
    assert same_lanes(a, b, lo, hi) == all(x == y for x, y in pairs)


def test_what_an_atomic_comes_after_stays_on_record() -> None:
    """Another atomic need not come after the first one, so it is compared with what lies under it, too."""
    shadow = Shadow()
    store, read = Record(Access.GENERIC_WRITE, 0, 1, 0, 0), Record(Access.GENERIC_READ, 1, 1, 0, 1)
    shadow.write(0, 8, store)
    shadow.read(0, 4, read)
    count = Record(Access.GENERIC_WRITE, 0, 2, 1, 2, atomic=True)
    shadow.write(0, 12, count)
    first, second, third = shadow.overlapping(0, 12)
    assert (first.lo, first.hi, set(first.reads.values())) == (0, 4, {store, read})
    assert (second.lo, second.hi, set(second.reads.values())) == (4, 8, {store})
    assert (third.lo, third.hi, set(third.reads.values())) == (8, 12, set())
    assert {s.write for s in (first, second, third)} == {count}
    shadow.write(0, 12, Record(Access.GENERIC_WRITE, 0, 3, 1, 3))
    assert [(s.lo, s.hi, s.reads) for s in shadow.overlapping(0, 12)] == [(0, 12, {})]


def test_atomics_of_one_class_stand_for_each_other() -> None:
    shadow = Shadow()
    for time in range(1, 9):
        shadow.write(0, 4, Record(Access.GENERIC_WRITE, time % 2, time, 0, 0, atomic=True))
    (segment,) = shadow.overlapping(0, 4)
    assert segment.write is not None and segment.write.time == 8
    assert sorted(r.time for r in segment.reads.values()) == [6, 7]
