"""What a CUDA source calls the barriers that a line of it initializes."""

from __future__ import annotations

import pytest

from syncverify.frontends.cuda.barrier_names import initialized


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("    mbar_init(&s.full[i], 1);", ["s.full[i]"]),
        ("for (...) { init(&full[i], 1); init(&empty[i], N); }", ["full[i]", "empty[i]"]),
        ("  shared.pipe.full[stage].init(128);", ["shared.pipe.full[stage]"]),
        ("  bars->init(4);  // init(x)", ["bars"]),
        ("  cutlass::arch::ClusterBarrier::init(ptr, 1);", ["ptr"]),
        ("  mbarrier_init(reinterpret_cast<uint64_t*>(&smem->done), 1);", []),
        ("  init(base + 8 * i, 1);", []),
        ("  wait(&full[i], 0);", []),
    ],
)
def test_names(line: str, names: list[str]) -> None:
    assert initialized(line) == names
