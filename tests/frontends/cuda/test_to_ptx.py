"""CUDA text to PTX: places, options, headers, caching, and sources that nobody can compile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from syncverify.base import nvrtc
from syncverify.base.cache_dir import Store
from syncverify.base.source import InputError
from syncverify.frontends.cuda import to_ptx
from syncverify.frontends.cuda.lines import author_lines
from syncverify.frontends.cuda.options import CudaOptions
from syncverify.frontends.cuda.to_ptx import compile_cuda

KERNEL = """\
__global__ void k(float* p) {
  p[threadIdx.x] *= SCALE;
  __syncthreads();
}
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A cache into which CUDA's own headers are unpacked once."""
    return Store(tmp_path_factory.mktemp("cache"))


def _file(tmp_path: Path, text: str, name: str = "k.cu") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def _loc_before(ptx: str, instruction: str) -> tuple[str, int]:
    """File and line of the first instruction of this name."""
    head = ptx[: ptx.index(f"\t{instruction}")]
    _, index, line = head[head.rindex(".loc") :].splitlines()[0].split()[:3]
    file = next(row.split('"')[1] for row in ptx.splitlines() if row.startswith(f"\t.file {index} "))
    return file, int(line)


# ---------------------------------------------------------------- places


def test_places_are_lines_of_the_source_under_the_callers_name(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _file(tmp_path, KERNEL)
    monkeypatch.chdir(tmp_path)
    ptx = compile_cuda("k.cu", CudaOptions(defines=("SCALE=2.0f",)), store=store)
    assert _loc_before(ptx, "bar.sync") == ("k.cu", 3)


def test_what_a_prelude_function_does_stands_where_it_is_called(tmp_path: Path, store: Store) -> None:
    text = "__global__ void k() {\n  __shared__ uint64_t b;\n  mbarrier::init(toSmem(&b), 1);\n}\n"
    path = _file(tmp_path, text)
    ptx = compile_cuda(path, CudaOptions(prelude="nvfuser"), store=store)
    assert _loc_before(ptx, "mbarrier.init.shared.b64") == (str(path), 3)


def test_a_helper_of_the_authors_own_keeps_its_place(tmp_path: Path, store: Store) -> None:
    _file(tmp_path, "__forceinline__ void meet() {\n  __syncthreads();\n}\n", "meet.cuh")
    path = _file(tmp_path, '#include "meet.cuh"\n__global__ void k() { meet(); }\n')
    file, line = _loc_before(compile_cuda(path, store=store), "bar.sync")
    assert (Path(file).name, line) == ("meet.cuh", 2)


def test_line_zero_belongs_to_the_line_before() -> None:
    ptx = '\t.loc\t1 7 3\n\tmov.u32 %r1, 0;\n\t.loc\t1 0 3\n\tmov.u32 %r2, 0;\n\t.file\t1 "k.cu"\n'
    assert author_lines(ptx, "k.cu", ()).count(".loc") == 1


@pytest.mark.parametrize(
    ("file", "header", "shown"),
    [
        ("k.cu", "/home/me/inc/meet.cuh", "inc/meet.cuh"),
        ("./src/k.cu", "/home/me/inc/meet.cuh", "inc/meet.cuh"),
        ("src/k.cu", "/opt/lib/meet.cuh", "/opt/lib/meet.cuh"),
        ("/home/me/k.cu", "/home/me/inc/meet.cuh", "/home/me/inc/meet.cuh"),
    ],
)
def test_headers_are_named_as_the_caller_names_the_source(file: str, header: str, shown: str) -> None:
    source = file if file.startswith("/") else "/home/me/" + file.removeprefix("./")
    ptx = f'\t.loc\t1 7 3\n\t.loc\t2 2 3\n\t.file\t1 "{source}"\n\t.file\t2 "{header}"\n'
    named = author_lines(ptx, file, ())
    assert f'.file 1 "{file}"' in named and f'.file 2 "{shown}"' in named


# ---------------------------------------------------------------- options and headers


def test_defines_and_include_paths_reach_the_compiler(tmp_path: Path, store: Store) -> None:
    (tmp_path / "inc").mkdir()
    _file(tmp_path / "inc", "#define SCALE 3.0f\n", "scale.h")
    path = _file(tmp_path, "#include <scale.h>\n" + KERNEL)
    assert "0f40400000" in compile_cuda(
        path, CudaOptions(include_paths=(str(tmp_path / "inc"),)), store=store
    )


def test_the_standard_is_an_option(tmp_path: Path, store: Store) -> None:
    path = _file(tmp_path, "template <class T> concept small = sizeof(T) < 4;\n__global__ void k() {}\n")
    assert ".entry" in compile_cuda(path, CudaOptions(std="c++20"), store=store)
    with pytest.raises(InputError):
        compile_cuda(path, store=store)


@pytest.mark.parametrize("include", [(), ("inc",)])
def test_cudas_own_headers_are_found(tmp_path: Path, unpacked: Store, include: tuple[str, ...]) -> None:
    path = _file(
        tmp_path, "#include <cuda_fp16.h>\n__global__ void k(__half* p) { *p = __float2half(1.f); }\n"
    )
    options = CudaOptions(include_paths=include)
    assert "cvt.rn.f16.f32" in compile_cuda(path, options, store=unpacked)


# ---------------------------------------------------------------- the cache


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files handed to NVRTC."""
    seen: list[str] = []
    real = nvrtc.compile_file

    def counted(source: str, file: str, *rest: object) -> nvrtc.Compiled:
        seen.append(file)
        return real(source, file, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(nvrtc, "compile_file", counted)
    return seen


def test_the_same_source_is_compiled_once(tmp_path: Path, store: Store, compilations: list[str]) -> None:
    path = _file(tmp_path, "__global__ void k() {}\n")
    assert compile_cuda(path, store=store) == compile_cuda(path, store=store)
    assert len(compilations) == 1


def test_a_changed_header_is_another_source(tmp_path: Path, store: Store, compilations: list[str]) -> None:
    path = _file(tmp_path, '#include "scale.h"\n' + KERNEL)
    first, second = (_compiled_with(tmp_path, path, store, value) for value in ("1.0f", "2.0f"))
    assert first != second
    assert len(compilations) == 2


def _compiled_with(tmp_path: Path, path: Path, store: Store, value: str) -> str:
    _file(tmp_path, f"#define SCALE {value}\n", "scale.h")
    return compile_cuda(path, store=store)


@pytest.mark.parametrize("directive", ['/* first */ #include "scale.h"\n', '#inc\\\nlude "scale.h"\n'])
def test_a_header_is_followed_however_it_is_included(tmp_path: Path, store: Store, directive: str) -> None:
    path = _file(tmp_path, directive + KERNEL)
    first, second = (_compiled_with(tmp_path, path, store, value) for value in ("1.0f", "2.0f"))
    assert first != second


def test_a_source_that_asks_for_a_header_is_not_cached(
    tmp_path: Path, store: Store, compilations: list[str]
) -> None:
    asks = '#if __has_include("scale.h")\n#include "scale.h"\n#else\n#define SCALE 3.0f\n#endif\n'
    path = _file(tmp_path, asks + KERNEL)
    assert compile_cuda(path, store=store) != _compiled_with(tmp_path, path, store, "2.0f")


def test_an_include_through_a_macro_is_not_cached(
    tmp_path: Path, store: Store, compilations: list[str]
) -> None:
    _file(tmp_path, "#define SCALE 1.0f\n", "scale.h")
    path = _file(tmp_path, '#define WHAT "scale.h"\n#include WHAT\n' + KERNEL)
    compile_cuda(path, store=store)
    compile_cuda(path, store=store)
    assert len(compilations) == 2


# ---------------------------------------------------------------- what cannot be compiled


def test_a_compile_error_names_its_line(tmp_path: Path, store: Store) -> None:
    path = _file(tmp_path, KERNEL)
    with pytest.raises(InputError, match='identifier "SCALE" is undefined') as e:
        compile_cuda(path, store=store)
    assert (e.value.span.file, e.value.span.line) == (str(path), 2)


def test_a_kernel_that_lacks_its_prelude_is_told_so(tmp_path: Path, store: Store) -> None:
    path = _file(tmp_path, "__global__ void k(Tensor<float, 1, 1> T0) { nvfuser_index_t i0; }\n")
    with pytest.raises(InputError, match="needs --prelude nvfuser"):
        compile_cuda(path, store=store)


def test_a_missing_header_is_an_error_at_its_include(tmp_path: Path, unpacked: Store) -> None:
    path = _file(tmp_path, "\n#include <nowhere.h>\n")
    with pytest.raises(InputError, match=r"nowhere\.h.*-I.*__CUDACC_RTC__") as e:
        compile_cuda(path, store=unpacked)
    assert e.value.span.line == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [(CudaOptions(prelude="fuser"), "known: nvfuser"), (CudaOptions(std="c++1"), "invalid value for --std")],
)
def test_unknown_options(tmp_path: Path, store: Store, options: CudaOptions, message: str) -> None:
    with pytest.raises(InputError, match=message):
        compile_cuda(_file(tmp_path, "__global__ void k() {}\n"), options, store=store)


def test_unreadable_and_binary_sources(tmp_path: Path, store: Store) -> None:
    with pytest.raises(InputError, match="cannot read"):
        compile_cuda(tmp_path / "none.cu", store=store)
    (tmp_path / "k.cu").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        compile_cuda(tmp_path / "k.cu", store=store)


def test_without_nvrtc_the_extra_is_named(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise InputError("NVRTC is not installed (pip install 'syncverify[gpu]')")

    monkeypatch.setattr(nvrtc, "version", missing)
    with pytest.raises(InputError, match=r"syncverify\[gpu\]"):
        compile_cuda(_file(tmp_path, "__global__ void k() {}\n"), store=store)


# ---------------------------------------------------------------- the prelude


def test_what_a_kernel_defines_itself_replaces_the_preludes(tmp_path: Path, store: Store) -> None:
    text = """\
__device__ __inline__ void fenceAsyncProxy() { asm volatile("fence.proxy.async.shared::cta;\\n"::); }
namespace wgmma { __device__ __inline__ void fence() { asm volatile("wgmma.fence.sync.aligned;\\n"::); } }
__global__ void k() { fenceAsyncProxy(); wgmma::fence(); cpAsyncBulkCommitGroup(); }
"""
    ptx = compile_cuda(_file(tmp_path, text), CudaOptions(prelude="nvfuser"), store=store)
    assert "fence.proxy.async.shared::cta;" in ptx
    assert "cp.async.bulk.commit_group;" in ptx


def test_every_function_of_the_prelude_compiles(tmp_path: Path, store: Store) -> None:
    calls = Path(__file__).with_name("prelude_calls.cu").read_text("utf-8")
    ptx = compile_cuda(_file(tmp_path, calls), CudaOptions(prelude="nvfuser"), store=store)
    for instruction in (
        "mbarrier.init", "mbarrier.inval", "mbarrier.arrive.expect_tx", "mbarrier.arrive.shared.b64",
        "mbarrier.arrive.shared::cluster", "mapa.shared::cluster", "mbarrier.try_wait.shared",
        "mbarrier.try_wait.parity", "elect.sync", "cp.async.bulk.shared::cluster.global",
        "cp.async.bulk.global.shared::cta", "cp.async.bulk.tensor.1d.shared::cluster",
        "cp.async.bulk.tensor.5d.shared::cluster", ".multicast::cluster", "cp.async.bulk.tensor.3d.global",
        "fence.proxy.async", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group.read 1",
        "cp.async.wait_group 2", "setmaxnreg.inc", "setmaxnreg.dec", "wgmma.commit_group",
        "ldmatrix.sync.aligned.x4", "stmatrix.sync.aligned.x2", "barrier.cluster.arrive.relaxed",
        "barrier.cluster.wait", "st.async", "griddepcontrol.wait", "griddepcontrol.launch_dependents",
        "ld.global.acquire.gpu", "st.global.release.gpu", "shfl.sync.bfly", "bar.sync \t0", "bar.sync %r",
    ):  # fmt: skip
        assert instruction in ptx, instruction


def test_prelude_names() -> None:
    assert to_ptx.prelude_names() == ("nvfuser",)


def test_a_cache_that_cannot_be_written_is_only_slow(tmp_path: Path) -> None:
    kernel = _file(
        tmp_path, "#include <cuda_fp16.h>\n__global__ void k(__half* p) { *p = __float2half(1.f); }\n"
    )
    (tmp_path / "file").write_text("")
    ptx = compile_cuda(kernel, store=Store(tmp_path / "file" / "cache"))
    assert set(re.findall(r'^\s*\.file\s+\d+\s+"(.*)"', ptx, re.M)) <= {str(kernel)}
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["file", kernel.name])
