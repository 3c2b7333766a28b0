"""What a CUDA source calls the data that a statement accesses."""

from __future__ import annotations

import pytest

from syncverify.frontends.cuda.data_names import accessed


@pytest.mark.parametrize(
    ("line", "stores", "names"),
    [
        ("float a = sm.data[r.slot][threadIdx.x];", False, ["sm.data"]),
        ("  s.sum[i] = s.row[j] + bias[j];", True, ["s.sum"]),
        ("  s.sum[i] = s.row[j] + bias[j];", False, ["s.row"]),
        ("  s.sum[i] += s.row[j];", False, ["s.sum", "s.row"]),
        ("  if (s.n[0] == 1) s.a[i] = 0;", True, ["s.a"]),
        ("  load(&pipe->tile[k % N][0], src + k, &pipe->full[k % N]);", None, ["pipe->tile"]),
        ("  x = sm.data[sm.order[i]][0];", False, ["sm.data", "sm.order"]),
        ("  acc += ring.row(k, r)[i];  // s.row[0]", False, []),
        ("  out[i] = buffer[i];", False, []),
        ('  asm("ld.shared.f32 %0, [s.a[0]];");', None, []),
    ],
)
def test_members_that_a_statement_indexes(line: str, stores: bool | None, names: list[str]) -> None:
    assert accessed([line], 1, ["pipe->full[i]"], stores=stores) == names


def test_a_statement_goes_on_to_its_end() -> None:
    lines = [
        'asm volatile("cp.async.bulk [%0], [%1];"',
        '  ::"r"(at(sm.data[s])), "l"(in));',
        "s.other[0] = 1;",
    ]
    assert accessed(lines, 1) == ["sm.data"]
    assert accessed(lines, 9) == []
