"""CUDA programs that NVRTC compiles for cuda-python (``cuda.bindings.nvrtc``, ``cuda.core``) and CuPy.

The PTX that NVRTC holds after a compilation is taken where the binding offers it. ``cuda.core`` and CuPy call
NVRTC in compiled code: there the source and its options are taken, and compiled once more to PTX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from syncverify.watch.caught import Caught, Sink
from syncverify.watch.replaced import Undo, wrap

#: Options of NVRTC that change what a program means.
_MEANT = ("-I", "--include-path", "-D", "--define-macro", "-std", "--std")


def catch_bindings(nvrtc: ModuleType, sink: Sink) -> Undo:
    """Hands the PTX of every program that ``cuda.bindings.nvrtc`` compiles to ``sink``."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile_program(program: Any, *args: Any, **named: Any) -> Any:
            result = original(program, *args, **named)
            if int(result[0]) == 0:
                text = _ptx_of(nvrtc, program)
                if text:
                    sink(Caught("NVRTC", "", "ptx", text))
            return result

        return compile_program

    return wrap(nvrtc, "nvrtcCompileProgram", around)


def _ptx_of(nvrtc: ModuleType, program: Any) -> str:
    """The PTX of a compiled program; empty where there is none (link-time code, errors)."""
    status, size = nvrtc.nvrtcGetPTXSize(program)
    if int(status) != 0 or size < 2:
        return ""
    buffer = bytearray(size)
    view = bytes(buffer)
    (status, *_) = nvrtc.nvrtcGetPTX(program, view)
    return view.rstrip(b"\0").decode() if int(status) == 0 else ""


def catch_core(core: ModuleType, sink: Sink) -> Undo:
    """Hands the source of every C++ program that ``cuda.core.Program`` compiles to ``sink``."""

    def around(original: Any) -> Any:
        class Program(original):  # type: ignore[misc]
            def __init__(self, code: Any, code_type: str, options: Any = None) -> None:
                super().__init__(code, code_type, options)
                self._watched = (code, options) if code_type.lower() == "c++" else None

            def compile(self, *args: Any, **named: Any) -> Any:
                result = super().compile(*args, **named)
                if self._watched is not None:
                    code, options = self._watched
                    text = code.decode() if isinstance(code, bytes) else str(code)
                    sink(Caught("cuda.core", "", "cu", text, options=tuple(_core_options(options))))
                return result

        Program.__name__, Program.__qualname__, Program.__module__ = "Program", "Program", core.__name__
        return Program

    return wrap(core, "Program", around)


def _core_options(options: Any) -> Iterator[str]:
    """The options of a ``cuda.core.ProgramOptions`` that change what a program means."""
    folders, macros = (getattr(options, name, None) for name in ("include_path", "define_macro"))
    for flag, value in (("-I", folders), ("-D", macros)):
        one = isinstance(value, str) or (flag == "-D" and isinstance(value, tuple))
        for item in [value] if one else value or ():
            yield flag + ("=".join(map(str, item)) if isinstance(item, tuple) else str(item))
    if getattr(options, "std", None):
        yield f"-std={options.std}"


def catch_cupy(compiler: ModuleType, sink: Sink) -> Undo:
    """Hands the source of every program that ``cupy.cuda.compiler`` gives to NVRTC to ``sink``."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile_using_nvrtc(source: str, options: Iterable[str] = (), *args: Any, **named: Any) -> Any:
            options = tuple(options)
            result = original(source, options, *args, **named)
            sink(Caught("CuPy", "", "cu", source, options=meant(options)))
            return result

        return compile_using_nvrtc

    return wrap(compiler, "compile_using_nvrtc", around)


def meant(options: Iterable[str]) -> tuple[str, ...]:
    """Options that change what a program means, in the short form: ``-IDIR``, ``-DNAME``, ``-std=c++17``.

    >>> meant(["--gpu-architecture=sm_90", "-I", "inc", "--define-macro=N=2", "--std=c++20"])
    ('-Iinc', '-DN=2', '-std=c++20')
    """
    found: list[str] = []
    rest = iter(options)
    for option in rest:
        starts = (k for k in _MEANT if option == k or option.startswith(k if len(k) == 2 else f"{k}="))
        key = next(starts, None)
        if key is None:
            continue
        value = next(rest, "") if option == key else option.removeprefix(key).removeprefix("=")
        short = {"--include-path": "-I", "--define-macro": "-D"}.get(key, key)
        found.append(f"-std={value}" if short.endswith("std") else f"{short}{value}")
    return tuple(found)
