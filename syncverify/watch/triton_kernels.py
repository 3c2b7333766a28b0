"""Kernels of Triton, and so those of torch.compile: each has its PTX and its metadata when it is compiled.

From the metadata come shared memory and clusters, from the signature the types of arguments, from the
specialization what divides them. Sizes stay open, as does the grid: one kernel is launched with many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from syncverify.watch.caught import Caught, Sink, symbol
from syncverify.watch.replaced import Undo, wrap

#: Integers, as launch files call them.
_INTEGERS = {f"{sign}{bits}": f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64)} | {
    "i1": "u8",
    "u1": "u8",
}
#: Types of which a pointer leads to elements of so many bytes; to single bytes for others.
_BYTES = {
    name: size
    for size, names in {8: "fp64 i64 u64", 4: "fp32 i32 u32", 2: "fp16 bf16 i16 u16"}.items()
    for name in names.split()
}
#: Element types of tensor maps, as Triton numbers them, and swizzles.
_ELEMENTS = tuple("u8 u16 u32 i32 u64 i64 f16 f32 f32 f64 bf16".split())
_SWIZZLES = ("none", "32B", "64B", "128B")
#: What a kernel's last parameters point to.
_SCRATCH = ("global_scratch", "profile_scratch")
_grid: ContextVar[tuple[int, ...] | None] = ContextVar("grid", default=None)


class _UnknownError(Exception):
    """An argument whose place among the parameters of the PTX is not known."""


def catch(compiler: ModuleType, sink: Sink) -> Undo:
    """Hands every kernel that ``triton.compiler.compiler`` makes, or takes from its cache, to ``sink``."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def made(kernel: Any, *args: Any, **named: Any) -> None:
            original(kernel, *args, **named)
            found = caught(kernel)
            if found is not None:
                sink(found)

        return made

    return wrap(compiler.CompiledKernel, "__init__", around)


def catch_grids(jit: ModuleType) -> Undo:
    """Remembers the grid of a call of ``triton.runtime.jit`` while its kernel is compiled."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(function: Any, *args: Any, **named: Any) -> Any:
            grid = named.get("grid")
            known = isinstance(grid, tuple | list) and all(isinstance(n, int) for n in grid)
            token = _grid.set(tuple(grid) if known and grid is not None else None)
            try:
                return original(function, *args, **named)
            finally:
                _grid.reset(token)

        return run

    return wrap(jit.JITFunction, "run", around)


def caught(kernel: Any) -> Caught | None:
    """What is known of a compiled kernel; None for one of another target."""
    text = kernel.asm.get("ptx") if "ptx" in kernel.asm else None
    if not text:
        return None
    text = text.decode() if isinstance(text, bytes) else text
    meta = kernel.metadata
    ctas = int(getattr(meta, "num_ctas", 1) or 1)
    facts: dict[str, Any] = {"dynamic_smem": int(meta.shared)}
    if ctas > 1:
        facts["cluster"] = [ctas, 1, 1]
    assume: list[str] = []
    count = _parameters_of(text, kernel.name)
    try:
        params = list(_leaves(kernel.src, list(getattr(meta, "tensordesc_meta", None) or []), assume))
        params += [{"ptr": name} for name in _SCRATCH[: max(count - len(params), 0)]]
    except (_UnknownError, AttributeError, TypeError, KeyError, IndexError, ValueError):
        params = []
    if len(params) == count:  # else all stays open
        facts["params"] = {str(i): p for i, p in enumerate(params) if p is not None}
        if assume:
            facts["assume"] = assume
    grid = _grid.get()
    if grid is not None:
        x, y, z = (*grid, 1, 1)[:3]
        grid = (x * ctas, y, z)
    return Caught("Triton", kernel.name, "ptx", text, facts, grid)


def _parameters_of(text: str, name: str) -> int:
    """How many parameters the kernel has in its PTX."""
    _, _, rest = text.partition(f".entry {name}(")
    return rest.partition(")")[0].count(".param")


def _leaves(source: Any, maps: list[Any], assume: list[str]) -> Iterator[Mapping[str, Any] | None]:
    """For each parameter what a launch file says of it; None: it stays open."""
    for index, (name, type_) in enumerate(source.signature.items()):
        attributes = dict(dict(source.attrs or {}).get((index,), []))
        yield from _of_argument(str(name), type_, attributes.get("tt.divisibility", 1), maps, assume)


def _of_argument(
    name: str, type_: Any, divisor: int, maps: list[Any], assume: list[str]
) -> Iterator[Mapping[str, Any] | None]:
    called = symbol(name, f"arg_{name}")
    if isinstance(type_, tuple):
        for i, part in enumerate(type_):
            yield from _of_argument(f"{name}_{i}", part, 1, maps, assume)
    elif type_ == "constexpr":
        return
    elif type_.startswith("tensordesc"):
        meta = maps.pop(0)
        if not meta or meta.get("fp4_padded"):
            raise _UnknownError
        box = list(reversed(meta["block_size"]))
        dtype, swizzle = _ELEMENTS[meta["elem_type"]], _SWIZZLES[meta["swizzle"]]
        yield {"tensormap": called, "dtype": dtype, "box": box, "swizzle": swizzle}
        yield from ({"i32": f"{called}_shape{i}"} for i in range(len(box)))
        yield from ({"i64": f"{called}_stride{i}"} for i in range(len(box)))
    elif type_.startswith("*"):
        align = 16 if divisor % 16 == 0 else _BYTES.get(type_.removeprefix("*k").removeprefix("*"), 1)
        yield {"ptr": called} if align == 16 else {"ptr": called, "align": align}
    elif type_ in _INTEGERS:
        if divisor > 1:
            assume.append(f"{called} % {divisor} == 0")
        yield {_INTEGERS[type_]: called}
    else:
        yield None
