"""The second layout of shared variables: what leaves one for another in both, counted byte by byte."""

from __future__ import annotations

import random

import pytest

from syncverify.frontends.ptx.exec.second_layout import second_layout
from syncverify.frontends.ptx.exec.tables import Layout, layout, shared_variables
from syncverify.frontends.ptx.syntax.parser import parse
from tests.frontends.ptx.execute_helpers import module_text


def both(sizes: list[tuple[int, int]], dynamic: int | None, spread: int) -> tuple[Layout, Layout]:
    """The two layouts of arrays of some sizes and alignments, and of dynamic memory behind them."""
    body = "".join(f".shared .align {align} .b8 s{n}[{size}];\n" for n, (size, align) in enumerate(sizes))
    names = [f"s{n}" for n in range(len(sizes))] + ["more"] * (dynamic != 0)
    body += "".join(f"mov.u32 %r1, {n};\n" for n in names) + "ret;\n"
    module = parse(module_text(body, ".param .u64 k_p", ".extern .shared .align 16 .b8 more[];\n"))
    first = layout(module, module.entries[0], dynamic, spaced=spread)
    variables = shared_variables(module, module.entries[0])
    return first, second_layout(first, variables, names, spread)


def lands(made: Layout, name: str) -> set[int]:
    """The offsets from a variable that lead to a byte of another one, in words of 4 bytes."""
    at = made.shared[name]
    return {
        (byte - at) // 4 for low, high, other in made.names if other != name for byte in range(low, high, 4)
    }


@pytest.mark.parametrize("seed", range(12))
def test_no_offset_leads_to_another_array_in_both_layouts(seed: int) -> None:
    r = random.Random(seed)
    count = r.randint(2, 9)
    sizes = [(4 * r.randint(1, 300), r.choice((4, 16, 128, 1024))) for _ in range(count)]
    first, second = both(sizes, r.choice((0, 0, 4096, None)), r.choice((1 << 24, 1 << 24, 1 << 18)))
    assert not first.crowded
    if second.crowded:
        return
    assert second.names != first.names
    for name, at in second.shared.items():
        assert (at - first.shared[name]) % 1024 == 0
        assert lands(first, name).isdisjoint(lands(second, name))
    assert sorted(b - a for a, b, _ in first.names) == sorted(b - a for a, b, _ in second.names)


def test_where_no_gap_tells_the_layouts_apart_no_array_has_room() -> None:
    """Beside a product, dynamic memory of no given size takes most of what descriptors name."""
    first, second = both([(256, 16)], None, 1 << 18)
    assert first.spaced and second.crowded and not second.spaced
    first, second = both([(256, 16)], 4096, 1 << 18)
    assert first.spaced and second.spaced
