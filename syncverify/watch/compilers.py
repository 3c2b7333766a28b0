"""Which compilers are watched, and by which module each is seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType

from syncverify.base.source import InputError
from syncverify.watch import cute_kernels, nvrtc_programs, tilelang_kernels, triton_kernels
from syncverify.watch.caught import Sink
from syncverify.watch.on_import import when_imported
from syncverify.watch.replaced import Undo

_Catch = Callable[[ModuleType, Sink], Undo]


def _grids(module: ModuleType, _sink: Sink) -> Undo:
    return triton_kernels.catch_grids(module)


#: By the name that users give: the modules to wait for, and what then catches kernels.
COMPILERS: dict[str, tuple[tuple[str, _Catch], ...]] = {
    "triton": (("triton.compiler.compiler", triton_kernels.catch), ("triton.runtime.jit", _grids)),
    "cute": (("cutlass.base_dsl.jit_executor", cute_kernels.catch),),
    "tilelang": (
        ("tilelang.env", tilelang_kernels.without_cache),
        ("tilelang.engine.lower", tilelang_kernels.catch),
    ),
    "nvrtc": (
        ("cuda.bindings.nvrtc", nvrtc_programs.catch_bindings),
        ("cuda.core", nvrtc_programs.catch_core),
        ("cupy.cuda.compiler", nvrtc_programs.catch_cupy),
    ),
}


def watch(sink: Sink, names: Iterable[str] = tuple(COMPILERS)) -> Undo:
    """Hands the kernels that these compilers make from now on to ``sink``. Returns what ends it."""
    undo: list[Undo] = []
    for name in names:
        if name not in COMPILERS:
            raise InputError(f"no compiler {name!r} can be watched; known: {', '.join(COMPILERS)}")
        if name == "cute":
            undo.append(cute_kernels.keep_ptx())
        for module, catch in COMPILERS[name]:

            def begin(found: ModuleType, catch: _Catch = catch) -> None:
                undo.append(catch(found, sink))

            undo.append(when_imported(module, begin))

    def end() -> None:
        while undo:
            undo.pop()()

    return end


__all__ = ["COMPILERS", "watch"]
