"""``syncverify check kernel.cu``: options, names, findings on lines of the source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from syncverify.cli.main import run
from tests.corpus.entries import CORPUS

KERNELS = """\
#include "stages.h"
__global__ void ring(int n) {
  __shared__ unsigned long long b;
  unsigned a = (unsigned)__cvta_generic_to_shared(&b);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(a), "r"(COUNT) : "memory");
  __syncthreads();
  for (int i = 0; i < n; ++i) {
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(a) : "memory");
    unsigned done;
    do {
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                   : "=r"(done) : "r"(a), "r"(i & 1) : "memory");
    } while (!done);
  }
}
namespace lib {
template <int N> __global__ void other() { __syncthreads(); }
template __global__ void other<STAGES>();
}
"""
FACTS = """\
[kernel."*"]
grid = [1, 1, 1]
block = [32, 1, 1]
[kernel.ring.params]
0 = {i32 = 4}
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "stages.h").write_text("#define STAGES 3\n")
    path = tmp_path / "k.cu"
    path.write_text(KERNELS)
    Path(f"{path}.launch.toml").write_text(FACTS)
    return path


def _check(source: Path, *options: str) -> int:
    return run(["check", str(source), "-I", str(source.parent / "inc"), *options])


def test_kernels_are_proved_with_include_path_and_define(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _check(source, "-D", "COUNT=32", "--format", "json") == 0
    names = [k["name"] for k in json.loads(capsys.readouterr().out)["kernels"]]
    assert names == ["_Z4ringi", "_ZN3lib5otherILi3EEEvv"]


@pytest.mark.parametrize("pattern", ["ring", "_Z4ringi", "r*"])
def test_a_kernel_is_called_for_by_its_function_name(
    source: Path, pattern: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _check(source, "-D", "COUNT=32", "--kernel", pattern) == 0
    assert "1 kernel: 1 proved" in capsys.readouterr().out


def test_findings_stand_on_lines_of_the_source(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _check(source, "-D", "COUNT=33", "--kernel", "ring", "--format", "json") == 1
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    errors = [d for d in kernel["diagnostics"] if d["severity"] == "error"]
    assert all(d["file"] == str(source) for d in errors)
    assert KERNELS.splitlines()[errors[0]["line"] - 1].strip()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), 'k.cu:5: identifier "COUNT" is undefined'),
        (("-D", "COUNT=32", "--prelude", "fuser"), "no prelude 'fuser'; known: nvfuser"),
        (("-D", "COUNT=32", "--kernel", "none"), "no kernel matches"),
    ],
)
def test_bad_input_is_status_2(
    source: Path, options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _check(source, *options) == 2
    assert message in capsys.readouterr().err


def test_a_kernel_without_facts_is_named_where_it_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "__shared__ int s[1024]; s[threadIdx.x] = 1; __syncwarp(); a[threadIdx.x] = s[threadIdx.x ^ 32];"
    (tmp_path / "k.cu").write_text(f"\n\n__global__ void k(int *a) {{\n  {body}\n}}\n")
    assert run(["check", str(tmp_path / "k.cu")]) == 3
    out = capsys.readouterr().out
    assert "give block in a launch file" in out and "k.cu:3\n" in out and "__global__ void k" in out


def test_the_header_beside_the_source_is_found_without_an_option(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (source.parent / "stages.h").write_text("#define STAGES 3\n#define COUNT 32\n")
    assert run(["check", str(source)]) == 0


def test_a_kernel_as_nvfuser_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = str(CORPUS / "cuda" / "two_async_warps" / "v6_mended.cu")
    assert run(["check", kernel, "--prelude", "nvfuser", "--param", "R=8"]) == 0
    capsys.readouterr()
    assert run(["check", kernel, "--param", "R=8", "--format", "json"]) == 0
    assert "the runtime of nvfuser is the prelude of that name" in capsys.readouterr().out
