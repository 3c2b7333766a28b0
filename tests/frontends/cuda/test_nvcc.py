"""Files with host code: left to nvcc where there is one. A script stands for it here."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncverify.base.cache_dir import Store
from syncverify.base.diagnostics import Verdict
from syncverify.base.source import InputError
from syncverify.driver.files import check_source, read_source
from syncverify.frontends.cuda import nvcc
from syncverify.frontends.cuda.nvcc import MARK, has_host_code
from syncverify.frontends.cuda.options import CudaOptions
from syncverify.frontends.cuda.to_ptx import compile_cuda
from syncverify.frontends.launch_facts import read_facts
from tests.frontends.ptx.execute_helpers import module_text

HOST = """#include <stdio.h>
__global__ void k() { __syncthreads(); }
int main() { k<<<1, 64>>>(); }
"""
DEVICE = "__global__ void k() { __syncthreads(); }\n"
PTX = module_text(".loc 1 2 3\n bar.sync 0;\n .loc 2 9 1\n mov.u32 %r1, 0;\n ret;")
FILES = '.file 1 "k.cu"\n.file 2 "/cuda/targets/x86_64-linux/include/cuda_fp16.hpp"\n'


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that writes the file ``made`` beside it, or complains with the file ``log``."""
    home = tmp_path / "cuda" / "bin"
    home.mkdir(parents=True)
    (home / "made").write_text(PTX + FILES)
    script = home / "nvcc"
    script.write_text(
        '#!/bin/sh\nhere=$(dirname "$0"); echo "$@" > $here/asked\n'
        "[ -f $here/log ] && { cat $here/log >&2; exit 1; }\n"
        'while [ "$1" != -o ]; do shift; done; cat $here/made > $2\n'.replace("\\\n", "\n")
    )
    script.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(home.parent))
    return home


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "k.cu"
    path.write_text(HOST)
    return path


def test_host_code_is_seen() -> None:
    assert has_host_code(HOST) and has_host_code("cudaMalloc(&p, 4);")
    assert not has_host_code(DEVICE)


def test_a_program_is_checked(tool: Path, source: Path, tmp_path: Path) -> None:
    (facts := tmp_path / "k.toml").write_text("[kernel.k]\nblock = [64]\n")
    options = CudaOptions(include_paths=("inc",), defines=("N=4",), std="c++20")
    ptx = compile_cuda(source, options, store=Store(tmp_path / "cache"))
    assert ptx.endswith(MARK) and ".loc 1 2 3" in ptx and ".loc 2" not in ptx
    asked = (tool / "asked").read_text().split()
    assert {"-ptx", "-lineinfo", "-arch=sm_90a", "-std=c++20", "-Iinc", "-DN=4", str(source)} <= set(asked)
    (report,) = check_source(read_source(source, options), facts=read_facts(facts), repairs=False)
    assert report.verdict is Verdict.PROVED
    assert "the PTX that nvcc makes: NVRTC takes no host code" in report.assumptions


def test_it_is_compiled_once(tool: Path, source: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "cache")
    first = compile_cuda(source, store=store)
    (tool / "asked").unlink()
    assert compile_cuda(source, store=store) == first
    assert not (tool / "asked").exists()


@pytest.mark.parametrize(
    ("log", "message", "line"),
    [
        ('k.cu(2): error: identifier "x" is undefined\n', r'identifier "x" is undefined \(nvcc\)$', 2),
        ("k.cu:1:10: fatal error: a.h: No such file or directory\n", r"a\.h: No such file.*; use -I$", 1),
        ("nvcc fatal : out of luck\n", "nvcc cannot compile it: nvcc fatal : out of luck", 0),
    ],
)
def test_its_errors_have_places(
    tool: Path, source: Path, tmp_path: Path, log: str, message: str, line: int
) -> None:
    (tool / "log").write_text(log)
    with pytest.raises(InputError, match=message) as e:
        compile_cuda(source, store=Store(tmp_path / "cache"))
    assert e.value.span.line == line


def test_where_nvrtc_lacks_a_header_the_error_is_that_of_nvcc(tool: Path, tmp_path: Path) -> None:
    (path := tmp_path / "d.cu").write_text("#include <stdio.h>\n" + DEVICE)
    (tool / "log").write_text('d.cu(2): error: identifier "x" is undefined\n')
    with pytest.raises(InputError, match=r'"x" is undefined \(nvcc\)$'):
        compile_cuda(path, store=Store(tmp_path / "cache"))


def test_without_nvcc_the_message_names_it(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syncverify.frontends.cuda.to_ptx.nvcc", lambda: None)
    with pytest.raises(InputError, match=r"stdio\.h.*nvcc, if it is on the path"):
        compile_cuda(source, store=Store(tmp_path / "cache"))


def test_device_code_alone_asks_no_nvcc(tool: Path, tmp_path: Path) -> None:
    (path := tmp_path / "d.cu").write_text(DEVICE)
    assert not compile_cuda(path, store=Store(tmp_path / "cache")).endswith(MARK)
    (path := tmp_path / "e.cu").write_text("__global__ void k() { wrong; }\n")
    with pytest.raises(InputError, match="wrong"):
        compile_cuda(path, store=Store(tmp_path / "cache"))
    assert not (tool / "asked").exists()


def test_a_template_that_nothing_instantiates(tmp_path: Path) -> None:
    (path := tmp_path / "t.cu").write_text("template <int N> __global__ void k() { __syncthreads(); }\n")
    with pytest.raises(InputError, match="a template is compiled where something instantiates it"):
        read_source(path)


def test_the_toolkit_of_the_environment_comes_first(tool: Path) -> None:
    assert nvcc.nvcc() == str(tool / "nvcc")
