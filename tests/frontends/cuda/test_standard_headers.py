"""Standard headers that NVRTC lacks: what device code takes from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.source import InputError
from syncverify.frontends.cuda import to_ptx
from syncverify.frontends.cuda.standard_headers import STANDARD_HEADERS

KERNEL = """
extern "C" __global__ void k(std::uint32_t* x, int64_t n, size_t m) {
  static_assert(sizeof(int8_t) == 1 && sizeof(uint16_t) == 2 && sizeof(uint64_t) == 8, "");
  if (x[0] == UINT32_MAX) printf("%d", (int)floorf(0.5f));
  x[m] = (uintptr_t)x & n;
}
"""


@pytest.fixture
def no_nvcc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(to_ptx, "nvcc", lambda: None)
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path / "cache"))


def _compiled(tmp_path: Path, includes: list[str]) -> str:
    (tmp_path / "k.cu").write_text("\n".join(f"#include <{x}>" for x in includes) + KERNEL)
    return to_ptx.compile_cuda(tmp_path / "k.cu")


@pytest.mark.usefixtures("no_nvcc")
def test_types_of_fixed_width_without_nvcc(tmp_path: Path) -> None:
    ptx = _compiled(tmp_path, list(STANDARD_HEADERS))
    assert ".entry k(" in ptx
    assert ".entry k(" in _compiled(tmp_path, [*STANDARD_HEADERS, "cuda/std/cstdint", "cuda/ptx"])


@pytest.mark.usefixtures("no_nvcc")
def test_headers_of_the_host_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='cannot open source file "vector"'):
        _compiled(tmp_path, ["cstdint", "vector"])


def test_infinity_needs_no_header(tmp_path: Path, no_nvcc: None) -> None:
    body = "__global__ void k(float* x) { x[0] = fmaxf(x[0], -INFINITY); x[1] = NAN; }\n"
    (tmp_path / "k.cu").write_text(body)
    assert "0fFF800000" in to_ptx.compile_cuda(tmp_path / "k.cu").replace("0fff800000", "0fFF800000")
    (tmp_path / "own.cu").write_text("#define INFINITY 3.0f\n#define NAN 4.0f\n" + body)
    assert "0fC0400000" in to_ptx.compile_cuda(tmp_path / "own.cu")
