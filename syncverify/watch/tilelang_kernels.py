"""Kernels of TileLang: the CUDA source that it lowers a program to, with block, grid and shared memory.

The source includes TileLang's templates, which lie in its package, and is compiled once more to PTX. Boxes of
tensor maps stand in the host function, as the arguments of the driver's encoder.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from syncverify.watch.caught import Caught, Sink, symbol
from syncverify.watch.replaced import Undo, wrap

_INTEGERS = {"int32": "i32", "int64": "i64", "uint32": "u32", "uint64": "u64"}


def catch(lower: ModuleType, sink: Sink) -> Undo:
    """Hands what ``tilelang.engine.lower`` makes to ``sink``."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def lowered(*args: Any, **named: Any) -> Any:
            artifact = original(*args, **named)
            for found in caught(artifact):
                sink(found)
            return artifact

        return lowered

    name = "lower_with_context" if hasattr(lower, "lower_with_context") else "lower"
    return wrap(lower, name, around)


def without_cache(environment: ModuleType, _sink: Sink) -> Undo:
    """Has every kernel lowered while ``tilelang.env`` is watched: one that its cache holds is not seen."""
    env = environment.env
    if not env.is_cache_enabled():
        return lambda: None
    env.disable_cache()
    return lambda: env.enable_cache()


def caught(artifact: Any) -> Iterator[Caught]:
    """The kernels of a lowered program for CUDA."""
    text = getattr(artifact, "kernel_source", None)
    if not text or "__global__" not in text:
        return
    options, maps = includes(), tensor_maps(str(artifact.host_mod))
    for name, function in artifact.device_mod.functions.items():
        attributes = function.attrs
        extents = {str(k): _number(v) for k, v in attributes["thread_extent"].items()}
        facts: dict[str, Any] = {}
        block = [extents.get(f"threadIdx.{axis}", 1) for axis in "xyz"]
        if None not in block:
            facts["block"] = block
        grid = [extents.get(f"blockIdx.{axis}", 1) for axis in "xyz"]
        shared = attributes["dyn_shared_memory_buf"] if "dyn_shared_memory_buf" in attributes else 0
        facts["dynamic_smem"] = _number(shared) or 0
        found = {str(i): _fact(param, maps) for i, param in enumerate(function.params)}
        params = {i: fact for i, fact in found.items() if fact is not None}
        if params:
            facts["params"] = params
        known = tuple(n for n in grid if n is not None)
        entry = str(name.name_hint)
        yield Caught("TileLang", entry, "cu", text, facts, known if len(known) == 3 else None, options)


def _fact(param: Any, maps: Mapping[str, dict[str, Any]]) -> dict[str, Any] | None:
    """What a launch file says of a parameter; None: it stays open."""
    name, dtype = symbol(str(param.name), ""), str(param.dtype)
    if not name or name.endswith("_desc"):
        return maps.get(name)
    return {"ptr": name} if "handle" in dtype else {_INTEGERS[dtype]: name} if dtype in _INTEGERS else None


_ENCODED = re.compile(r'T\.call_packed\("__tvm_tensormap_create_tiled", ')
#: Element types and swizzles, as the driver numbers them.
_ELEMENTS = dict(enumerate("u8 u16 u32 i32 u64 i64 f16 f32 f64 bf16 f32 f32".split()))
_SWIZZLES = ("none", "32B", "64B", "128B")


def tensor_maps(host: str) -> dict[str, dict[str, Any]]:
    """The tensor maps that a host function makes, by name; those whose box is no number are left out.

    The encoder takes name, type, rank, address, then ``rank`` extents, strides, sizes of the box and strides
    of elements, and interleave, swizzle, promotion and fill.
    """
    found: dict[str, dict[str, Any]] = {}
    for match in _ENCODED.finditer(host):
        end, depth = match.end(), 1
        while depth and end < len(host):
            depth += (host[end] in "([{") - (host[end] in ")]}")
            end += 1
        try:
            call = ast.parse(f"f({host[match.end() : end - 1]})", mode="eval").body
            assert isinstance(call, ast.Call)
            name, rest = call.args[0], call.args[1:]
            rank = _literal(rest[1])
            box = [_literal(x) for x in rest[3 + 2 * rank : 3 + 3 * rank]]
            element, swizzle = _ELEMENTS[_literal(rest[0])], _SWIZZLES[_literal(rest[-3])]
        except (SyntaxError, ValueError, IndexError, KeyError, AssertionError):
            continue
        if isinstance(name, ast.Name):
            found[name.id] = {"tensormap": name.id, "dtype": element, "box": box, "swizzle": swizzle}
    return found


def _literal(node: ast.expr) -> int:
    """The number in ``64`` or ``T.int64(64)``. Raises ValueError for anything else."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    raise ValueError(ast.dump(node))


def _number(value: Any) -> int | None:
    """A size that is a number; None for an expression."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def includes() -> tuple[str, ...]:
    """Where the headers lie that the sources of TileLang include."""
    import tilelang

    home = Path(tilelang.__file__).parent
    places = (home / "src", home / "3rdparty" / "cutlass" / "include")
    return tuple(f"-I{place}" for place in places if place.is_dir())
