"""Advice on the fences of CUDA kernels, and where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.diagnostics import Verdict
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.cuda.options import CudaOptions
from syncverify.frontends.launch_facts import default_path, read_facts

KERNEL = """\
__global__ void copy(float* in, float* out) {
  alignas(16) extern __shared__ char array[];
  float* tile = reinterpret_cast<float*>(array);
  tile[threadIdx.x] = in[threadIdx.x];
  FENCES
  __syncthreads();
  if (threadIdx.x < 32 && Hopper::electSync(4294967295U)) {
    Hopper::cpAsyncBulkS2G((Hopper::CpAsyncBulkS2GIndex{out, 512U}), toSmem(tile));
    cpAsyncBulkCommitGroup();
    cpAsyncBulkWaitGroup<0LL>();
  }
}
"""
SHARED = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
FACTS = """\
[kernel."*"]
grid = [1, 1, 1]
block = [128, 1, 1]
dynamic_smem = 512
[kernel."*".params]
0 = {ptr = "in"}
1 = {ptr = "out"}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path / "cache"))


def _advice(tmp_path: Path, text: str) -> list[tuple[str, int]]:
    path = tmp_path / "k.cu"
    path.write_text(text)
    default_path(path).write_text(FACTS)
    source = read_source(path, CudaOptions(prelude="nvfuser"))
    (report,) = check_source(source, facts=read_facts(default_path(path)), advice=True)
    assert report.verdict is Verdict.PROVED, report.reason
    return [(d.rule, d.span.line) for d in report.diagnostics if d.rule.startswith("SV6")]


def test_the_fence_that_the_kernel_needs_gets_none(tmp_path: Path) -> None:
    assert _advice(tmp_path, KERNEL.replace("FENCES", SHARED)) == []


def test_a_wide_fence(tmp_path: Path) -> None:
    assert _advice(tmp_path, KERNEL.replace("FENCES", "fenceAsyncProxy();")) == [("SV601", 5)]


def test_a_second_fence(tmp_path: Path) -> None:
    # on one line they are one fence to the author, so each stands on its own
    assert _advice(tmp_path, KERNEL.replace("FENCES", f"{SHARED}\n  {SHARED}")) == [("SV602", 5)]


def test_a_kernel_that_writes_global_memory_itself_gets_none(tmp_path: Path) -> None:
    text = KERNEL.replace("FENCES", "fenceAsyncProxy();").replace("float* in,", "float* in, float* log,")
    text = text.replace("  __syncthreads();", "  log[threadIdx.x] = 1.0f;\n  __syncthreads();", 1)
    facts = FACTS.replace('1 = {ptr = "out"}', '1 = {ptr = "log"}\n2 = {ptr = "out"}')
    path = tmp_path / "k.cu"
    path.write_text(text)
    default_path(path).write_text(facts)
    source = read_source(path, CudaOptions(prelude="nvfuser"))
    (report,) = check_source(source, facts=read_facts(default_path(path)), advice=True)
    assert report.verdict is Verdict.PROVED, report.reason
    assert not [d for d in report.diagnostics if d.rule.startswith("SV6")]


def test_advice_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(KERNEL.replace("FENCES", "fenceAsyncProxy();"))
    default_path(path).write_text(FACTS)
    (report,) = check_source(
        read_source(path, CudaOptions(prelude="nvfuser")), facts=read_facts(default_path(path))
    )
    assert report.diagnostics == ()
