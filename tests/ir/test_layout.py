"""Byte offsets of shared memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncverify.base.source import InputError
from syncverify.ir import nodes
from syncverify.ir.expr import Expr, Int, Var
from syncverify.ir.layout import SHARED_LIMIT, BarrierLayout, BufferLayout, layout


def shared(name: str, size: Expr | int, **options: object) -> nodes.Shared:
    return nodes.Shared(name, "b8", (size if isinstance(size, Expr) else Int(size),), **options)  # type: ignore[arg-type]


def kernel(*items: nodes.Shared | nodes.Barrier, params: tuple[nodes.Param, ...] = ()) -> nodes.Kernel:
    buffers = tuple(x for x in items if isinstance(x, nodes.Shared))
    return nodes.Kernel("k", params=params, shared=buffers,
                        barriers=tuple(x for x in items if isinstance(x, nodes.Barrier)))  # fmt: skip


def error(k: nodes.Kernel) -> str:
    with pytest.raises(InputError) as caught:
        layout(k)
    return caught.value.message


def test_buffers_then_barriers_in_order() -> None:
    made = layout(kernel(nodes.Barrier("full", Int(3)), shared("a", 100), shared("b", 8)))
    assert made.buffers["a"] == BufferLayout("a", 0, (100,), 1)
    assert made.buffers["b"].offset == 128
    assert made.barriers["full"] == BarrierLayout("full", 136, 3)
    assert made.size == 160


def test_strides() -> None:
    s = nodes.Shared("t", "bf16", (Int(3), Int(4), Int(5)))
    t = layout(kernel(s)).buffers["t"]
    assert (t.strides, t.size, t.element) == ((40, 10, 2), 120, 2)


def test_sizes_from_parameters() -> None:
    k = kernel(shared("a", Var("S") * 64), params=(nodes.Param("S", default=2),))
    assert layout(k).size == 128
    assert layout(k, {"S": 5}).size == 320


def test_explicit_offsets_may_alias_and_are_avoided_by_the_rest() -> None:
    made = layout(kernel(shared("a", 128), shared("b", 64, offset=Int(128)), shared("c", 64, offset=Int(128)),
                         shared("d", 10)))  # fmt: skip
    assert {n: b.offset for n, b in made.buffers.items()} == {"a": 0, "b": 128, "c": 128, "d": 256}


def test_swizzle_raises_the_alignment() -> None:
    made = layout(kernel(shared("a", 16), shared("b", 16, swizzle="128B"), shared("c", 16, swizzle="32B")))
    assert [b.offset for b in made.buffers.values()] == [0, 1024, 1280]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (shared("a", 0), "must be at least 1, not 0"),
        (shared("a", Int(4) - 9), "must be at least 1, not -5"),
        (shared("a", Int(4) // 0), "cannot be computed"),
        (shared("a", Var("Q")), "needs a value for Q"),
        (shared("a", SHARED_LIMIT + 1), f"needs {SHARED_LIMIT + 1} bytes of shared memory"),
        (shared("a", 4, offset=Int(64)), "not a multiple of 128"),
        (
            shared("a", 4, offset=Int(128), swizzle="64B"),
            "not a multiple of 512 (swizzle 64B repeats every 512)",
        ),
        (shared("a", 4, offset=Int(-128)), "must not be negative"),
        (shared("a", 4, align=24), "must be a power of two"),
        (nodes.Barrier("b", Int(0)), "must be at least 1, not 0"),
        (nodes.Barrier("b", offset=Int(4)), "not a multiple of 8"),
        (nodes.Barrier("b", offset=Int(SHARED_LIMIT)), "bytes of shared memory"),
    ],
)
def test_errors(item: nodes.Shared | nodes.Barrier, message: str) -> None:
    assert message in error(kernel(item))


def test_the_whole_limit_is_usable() -> None:
    assert layout(kernel(shared("a", SHARED_LIMIT))).size == SHARED_LIMIT


_items = st.lists(
    st.tuples(st.integers(1, 300), st.sampled_from([1, 8, 128]), st.none() | st.integers(0, 20)), max_size=8
)


@given(_items)
def test_what_has_no_offset_overlaps_nothing(items: list[tuple[int, int, int | None]]) -> None:
    buffers = [
        shared(f"b{i}", size, align=align, offset=None if at is None else Int(at * 128))
        for i, (size, align, at) in enumerate(items)
    ]
    made = layout(kernel(*buffers, nodes.Barrier("m", Int(5))))
    placed: list[BufferLayout | BarrierLayout] = [*made.buffers.values(), *made.barriers.values()]
    for i, (_, align, at) in enumerate(items):
        a = placed[i]
        assert a.offset % align == 0
        if at is None:
            assert all(b is a or a.end <= b.offset or b.end <= a.offset for b in placed)
    assert made.size == max(b.end for b in placed)
