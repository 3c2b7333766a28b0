"""Kernels caught in a process, with modules that stand in for the compilers; then checked or written down."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import syncverify.triton
from syncverify.base.diagnostics import Verdict
from syncverify.base.source import InputError
from syncverify.cli.main import run
from syncverify.frontends.launch_facts import read_facts
from syncverify.watch import cute_kernels, nvrtc_programs, tilelang_kernels, triton_kernels
from syncverify.watch.caught import Caught, launch_file
from syncverify.watch.compilers import watch
from syncverify.watch.folder import Folder
from syncverify.watch.on_import import when_imported
from syncverify.watch.session import Session, UnverifiedKernelError

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
PARAMS = ".param .u64 k_param_0, .param .u32 k_param_1, .param .u64 k_param_2, .param .u64 k_param_3"
#: ``n`` barriers; the second warp leaves the last one out.
RIGHT = (
    HEAD
    + f""".visible .entry k({PARAMS}) .reqntid 64 {{ .reg .pred %p<2>; .reg .b32 %r<4>;
ld.param.u32 %r0, [k_param_1]; mov.u32 %r1, 0;
L: setp.ge.s32 %p0, %r1, %r0; @%p0 bra E; bar.sync 0; add.u32 %r1, %r1, 1; bra L;
E: ret; }}
"""
)
ALONE = "mov.u32 %r2, %tid.x; setp.lt.u32 %p1, %r2, 32; @%p1 bar.sync 1, 64;"
WRONG = RIGHT.replace("E: ret;", f"E: {ALONE} ret;")
SIGNATURE = {"x": "*fp32", "n": "i32", "B": "constexpr"}


def _kernel(text: str = RIGHT, signature: Mapping[Any, Any] = SIGNATURE, **metadata: Any) -> Any:
    """A compiled kernel as Triton has it."""
    attributes = {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]}
    return SimpleNamespace(
        name="k",
        asm={"ptx": text},
        metadata=SimpleNamespace(**{"shared": 0, "num_ctas": 1, "num_warps": 2, **metadata}),
        src=SimpleNamespace(signature=signature, attrs=attributes),
    )


# ---------------------------------------------------------------- facts


def test_facts_come_from_signature_and_metadata() -> None:
    found = triton_kernels.caught(_kernel(shared=128))
    assert found is not None
    assert found.facts == {
        "dynamic_smem": 128,
        "params": {"0": {"ptr": "x"}, "1": {"i32": "n"}, "2": {"ptr": "global_scratch"},
                   "3": {"ptr": "profile_scratch"}},
        "assume": ["n % 16 == 0"],
    }  # fmt: skip


def test_clusters_multiply_the_grid() -> None:
    token = triton_kernels._grid.set((8, 2))
    try:
        found = triton_kernels.caught(_kernel(num_ctas=2))
    finally:
        triton_kernels._grid.reset(token)
    assert found is not None and (found.facts["cluster"], found.grid) == ([2, 1, 1], (16, 2, 1))


def test_a_pointer_that_nothing_is_said_of_has_the_alignment_of_its_elements() -> None:
    found = triton_kernels.caught(_kernel(signature={"B": "constexpr", "a": "*i8", "x": "*fp16", "n": "i32"}))
    assert found is not None  # attributes are of the places 0 and 1
    assert found.facts["params"]["1"] == {"ptr": "x", "align": 2}


@pytest.mark.parametrize("name", ["min", "x.y"])
def test_names_that_launch_files_do_not_take_are_replaced(name: str) -> None:
    found = triton_kernels.caught(_kernel(signature={"x": "*fp32", name: "i32"}))
    assert found is not None
    (given,) = found.facts["params"]["1"].values()
    assert given == f"arg_{name}"


def test_a_descriptor_is_a_tensor_map_with_its_shape_and_strides() -> None:
    meta = {"swizzle": 3, "elem_size": 2, "elem_type": 6, "block_size": [128, 64], "fp4_padded": False}
    params = ", ".join(f".param .b64 p{i}" for i in range(7))
    text = RIGHT.replace(PARAMS, params)
    found = triton_kernels.caught(_kernel(text, {"d": "tensordesc<fp16[128, 64]>"}, tensordesc_meta=[meta]))
    assert found is not None
    assert list(found.facts["params"].values()) == [
        {"tensormap": "d", "dtype": "f16", "box": [64, 128], "swizzle": "128B"},
        {"i32": "d_shape0"}, {"i32": "d_shape1"}, {"i64": "d_stride0"}, {"i64": "d_stride1"},
        {"ptr": "global_scratch"}, {"ptr": "profile_scratch"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "signature",
    [
        {"d": "tensordesc<fp16[128, 64]>"},  # nothing is said of its box
        {f"x{i}": "*fp32" for i in range(9)},  # more than the PTX has
    ],
)
def test_parameters_that_are_not_understood_stay_open(signature: dict[str, str]) -> None:
    found = triton_kernels.caught(_kernel(signature=signature))
    assert found is not None and "params" not in found.facts


def test_a_kernel_of_another_target_is_none_of_ours() -> None:
    assert triton_kernels.caught(SimpleNamespace(asm={"amdgcn": "s_endpgm"}, name="k")) is None


def test_a_launch_file_says_what_was_caught(tmp_path: Path) -> None:
    found = triton_kernels.caught(_kernel())
    assert found is not None
    (path := tmp_path / "k.launch.toml").write_text(launch_file(found), "utf-8")
    assert read_facts(path).table("k") == found.facts


def test_options_that_change_a_program_are_kept() -> None:
    given = ["--gpu-architecture=sm_90", "-I", "inc", "--define-macro=N=2", "--std=c++20", "-lineinfo"]
    assert nvrtc_programs.meant(given) == ("-Iinc", "-DN=2", "-std=c++20")


def test_boxes_of_tensor_maps_are_read_from_the_host_function() -> None:
    call = 'T.call_packed("__tvm_tensormap_create_tiled", {})'
    numbers = "64, 256, 2, 512, 64, 128, 1, 1, 0, 3, 2, 0"
    known = call.format(f"A_desc, 6, 2, T.handle(0), {numbers}")
    open_ = call.format(f"B_desc, 6, 2, p, {numbers.replace('64, 128', 'n, 128')}")
    assert tilelang_kernels.tensor_maps(f"{known}\n{open_}\n") == {
        "A_desc": {"tensormap": "A_desc", "dtype": "f16", "box": [64, 128], "swizzle": "128B"}
    }


# ---------------------------------------------------------------- catching


def _module(name: str, **content: Any) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(content)
    return module


def test_a_kernel_of_triton_is_caught_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    class CompiledKernel:
        def __init__(self, text: str) -> None:
            vars(self).update(vars(_kernel(text)))

    module = _module("triton.compiler.compiler", CompiledKernel=CompiledKernel)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    found: list[Caught] = []
    end = watch(found.append, ["triton"])
    CompiledKernel(RIGHT)
    end()
    CompiledKernel(WRONG)
    assert [c.text for c in found] == [RIGHT]


def test_the_grid_of_a_call_is_known_while_its_kernel_is_compiled() -> None:
    seen = []

    class JITFunction:
        def run(self, *_args: Any, grid: Any, warmup: bool = False) -> None:
            seen.append(triton_kernels._grid.get())

    undo = triton_kernels.catch_grids(_module("triton.runtime.jit", JITFunction=JITFunction))
    JITFunction().run(1, grid=(8, 2))
    JITFunction().run(1, grid=lambda meta: (meta["n"],))
    undo()
    JITFunction().run(1, grid=(8, 2))
    assert seen == [(8, 2), None, None]


def test_the_cute_dsl_keeps_ptx_while_it_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTE_DSL_KEEP", "ir")
    monkeypatch.delenv("CUTE_DSL_DUMP_DIR", raising=False)
    import os

    undo = cute_kernels.keep_ptx()
    assert os.environ["CUTE_DSL_KEEP"] == "ir,ptx" and Path(os.environ["CUTE_DSL_DUMP_DIR"]).is_dir()
    undo()
    assert os.environ["CUTE_DSL_KEEP"] == "ir" and "CUTE_DSL_DUMP_DIR" not in os.environ
    found = cute_kernels.caught(RIGHT + "\0")
    assert (found.name, found.text) == ("k", RIGHT)


def test_nvrtc_is_asked_for_the_ptx_of_what_it_compiled() -> None:
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    found: list[Caught] = []
    end = watch(found.append, ["nvrtc"])
    try:
        source = b'extern "C" __global__ void f(int* a) { __syncthreads(); *a = 1; }'
        _, program = nvrtc.nvrtcCreateProgram(source, b"f.cu", 0, [], [])
        nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90a"])
    finally:
        end()
    assert [(c.kind, ".entry f(" in c.text) for c in found] == [("ptx", True)]


def test_cupy_hands_over_source_and_options() -> None:
    module = _module("cupy.cuda.compiler", compile_using_nvrtc=lambda source, options=(): (b"cubin", {}))
    found: list[Caught] = []
    nvrtc_programs.catch_cupy(module, found.append)
    assert module.compile_using_nvrtc("__global__ void f() {}", ("-DN=2", "-arch=sm_90")) == (b"cubin", {})
    assert (found[0].kind, found[0].options) == ("cu", ("-DN=2",))


def test_a_module_is_met_when_it_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "compiler_of_a_test.py").write_text("value = 1\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    met = []
    before = list(sys.meta_path)
    when_imported("compiler_of_a_test", lambda module: met.append(module.value))
    assert met == []
    import compiler_of_a_test  # type: ignore[import-not-found]

    assert met == [1] and sys.meta_path == before
    when_imported("compiler_of_a_test", lambda module: met.append(compiler_of_a_test.value + 1))
    assert met == [1, 2]


def test_a_compiler_that_there_is_not_is_an_error() -> None:
    with pytest.raises(InputError, match="no compiler 'tritn' can be watched; known: triton, cute"):
        watch(lambda caught: None, ["tritn"])


# ---------------------------------------------------------------- checking


def _caught(text: str, **more: Any) -> Caught:
    found = triton_kernels.caught(_kernel(text))
    assert found is not None
    return found


def test_a_session_checks_each_kernel_once_and_reports() -> None:
    said: list[str] = []
    session = Session("report", write=said.append)
    for text in (RIGHT, WRONG, WRONG):
        session(_caught(text))
    assert [r.verdict for r in session.reports] == [Verdict.PROVED, Verdict.REFUTED]
    assert len(session.met) == 3
    assert len(said) == 1 and "SV301" in said[0]
    assert session.summary() == "syncverify: 2 kernels compiled: 1 proved, 1 refuted"


def test_a_session_raises_where_a_kernel_is_refuted() -> None:
    session = Session("raise")
    session(_caught(RIGHT))
    for _ in range(2):  # each time that it is compiled
        with pytest.raises(UnverifiedKernelError, match="SV301") as error:
            session(_caught(WRONG))
    assert error.value.reports[0].verdict is Verdict.REFUTED


def test_what_cannot_be_read_is_told_and_stops_nothing() -> None:
    said: list[str] = []
    session = Session("report", write=said.append)
    session(Caught("Triton", "k", "ptx", HEAD + ".visible .entry k() { nonsense.u32 %r1; ret; }"))
    assert session.reports == [] and len(session.faults) == 1
    assert said[0].startswith("syncverify: not checked: Triton kernel k: ")


def test_a_cuda_source_is_compiled_with_its_options() -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    source = 'extern "C" __global__ void __launch_bounds__(N) f(int* a) { __syncthreads(); *a = 1; }'
    session = Session("collect")
    session(Caught("CuPy", "", "cu", source, options=("-DN=64",)))
    assert [(r.name, r.verdict) for r in session.reports] == [("f", Verdict.PROVED)], session.faults


def test_install_is_the_public_way() -> None:
    session = syncverify.triton.install("collect", compilers=())
    try:
        assert session.action == "collect"
        with pytest.raises(InputError, match="action is 'stop'"):
            syncverify.triton.install("stop")  # type: ignore[arg-type]
    finally:
        syncverify.triton.uninstall()


# ---------------------------------------------------------------- the command

#: A package that compiles as Triton does.
FAKE = f"""
from types import SimpleNamespace
class CompiledKernel:
    def __init__(self, text):
        self.name, self.asm = "k", {{"ptx": text}}
        self.metadata = SimpleNamespace(shared=0, num_ctas=1)
        self.src = SimpleNamespace(signature={SIGNATURE!r}, attrs={{}})
"""


def _program(tmp_path: Path, text: str) -> Path:
    package = tmp_path / "triton" / "compiler"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("", "utf-8")
    (package / "compiler.py").write_text(FAKE, "utf-8")
    lines = [
        "import subprocess, sys",
        "from triton.compiler.compiler import CompiledKernel",
        f"CompiledKernel({text!r})",
        "if len(sys.argv) > 1: sys.exit(int(sys.argv[1]))",
    ]
    (path := tmp_path / "app.py").write_text("\n".join(lines), "utf-8")
    return path


def test_a_program_is_watched_and_its_kernels_are_checked(tmp_path: Path, capfd: Any) -> None:
    program = _program(tmp_path, WRONG)
    kept = tmp_path / "kept"
    status = run(["watch", "--keep", str(kept), "--format", "json", "--no-cache", "--", str(program), "4"])
    said = capfd.readouterr()
    assert status == 1
    assert '"verdict": "refuted"' in said.out and "app.py ended with status 4" in said.err
    assert sorted(p.suffix for p in kept.iterdir()) == [".ptx", ".toml"]


def test_a_program_that_compiles_nothing_has_its_own_status(tmp_path: Path, capfd: Any) -> None:
    (path := tmp_path / "app.py").write_text("import sys; sys.exit(5)", "utf-8")
    assert run(["watch", "--", str(path)]) == 5
    assert "no kernel was compiled in it" in capfd.readouterr().err


def test_a_refuted_kernel_can_stop_the_program(tmp_path: Path, capfd: Any) -> None:
    program = _program(tmp_path, WRONG)
    assert run(["watch", "--raise", "--compiler", "triton", "--", str(program)]) == 1
    assert "UnverifiedKernelError" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("args", "why"), [([], "name the program"), (["--", "no-such-program"], "cannot be run")]
)
def test_a_program_that_cannot_be_run_is_an_error(args: list[str], why: str, capfd: Any) -> None:
    assert run(["watch", *args]) == 2
    assert why in capfd.readouterr().err


def test_a_site_module_that_is_hidden_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')", "utf-8")
    from syncverify.cli.watch import _variables

    folder = tmp_path / "kept"
    folder.mkdir()
    variables = _variables({"PYTHONPATH": str(tmp_path)}, folder, ["triton"], False, False)
    command = [sys.executable, "-c", ""]
    assert subprocess.run(command, env=variables, capture_output=True, text=True).stdout == "mine\n"


def test_files_are_written_once_and_whole(tmp_path: Path) -> None:
    sink = Folder(tmp_path)
    for _ in range(2):
        sink(_caught(RIGHT))
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".ptx", ".toml"]


# ---------------------------------------------------------------- the real compiler


def test_triton_itself_is_watched(capsys: pytest.CaptureFixture[str]) -> None:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from tests.watch.triton_kernel import scale

    session = Session("collect")
    end = watch(session, ["triton"])
    try:
        signature = {"x": "*fp32", "out": "*fp32", "n": "i32", "B": "constexpr"}
        triton.compile(ASTSource(scale, signature, {"B": 256}), target=GPUTarget("cuda", 90, 32))
    finally:
        end()
    (report,) = session.reports
    assert (report.name, report.verdict) == ("scale", Verdict.PROVED), session.faults


def test_tilelang_lowers_what_its_cache_holds_while_it_is_watched() -> None:
    class Environment:
        enabled = True

        def is_cache_enabled(self) -> bool:
            return self.enabled

        def disable_cache(self) -> None:
            self.enabled = False

        def enable_cache(self) -> None:
            self.enabled = True

    module: Any = ModuleType("tilelang.env")
    module.env = Environment()
    undo = tilelang_kernels.without_cache(module, lambda caught: None)
    assert not module.env.enabled
    tilelang_kernels.without_cache(module, lambda caught: None)()  # off already: stays off
    assert not module.env.enabled
    undo()
    assert module.env.enabled
