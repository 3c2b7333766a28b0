"""A launch from the table of a launch file; what it leaves open is drawn.

Numbers of parameters that the table does not give are small and even. Memory behind pointers is random, or
begins with what the table says that it holds. Tensors are four boxes wide in each dimension.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from syncverify.simulate.ptx.launch import Buffer, Launch, Parameter, TensorMap, buffer
from syncverify.simulate.ptx.syntax import Module, Variable

#: Bytes behind a pointer of which nothing is said.
MEMORY = 1 << 18
_SWIZZLES = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
_ELEMENTS = {
    "u8": (1, "u8"),
    "i8": (1, "u8"),
    "e4m3": (1, "u8"),
    "e5m2": (1, "u8"),
    "u16": (2, "u16"),
    "i16": (2, "u16"),
    "f16": (2, "f16"),
    "bf16": (2, "bf16"),
    "u32": (4, "u32"),
    "i32": (4, "s32"),
    "f32": (4, "f32"),
    "tf32": (4, "tf32"),
    "u64": (8, "u64"),
    "i64": (8, "s64"),
    "f64": (8, "f64"),
}
_FORMATS = {
    "i8": "<b",
    "u8": "<B",
    "i16": "<h",
    "u16": "<H",
    "i32": "<i",
    "u32": "<I",
    "i64": "<q",
    "u64": "<Q",
    "bool": "<?",
    "f32": "<f",
    "f64": "<d",
    "f16": "<e",
}


def drawn(
    module: Module,
    kernel: str,
    table: Mapping[str, Any],
    values: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Launch:
    """The launch of a kernel by the table of its launch facts.

    ``values``: numbers that a verdict is for (``grid.x``, ``params.2``); they win. ValueError for facts that
    this machine does not take (``assume``, fields of structures).
    """
    function = next(f for f in module.functions if f.name == kernel and f.entry)
    draw = np.random.default_rng(seed)
    given = dict(values or {})
    if table.get("assume"):
        raise ValueError("assume: the launch has to be given in numbers")
    params = [
        _parameter(v, table.get("params", {}).get(str(i)), given.get(f"params.{i}"), draw)
        for i, v in enumerate(function.params)
    ]
    required = function.directives.get("reqntid") or (32,)
    cluster = function.directives.get("reqnctapercluster") or (1,)
    block = _three(table.get("block", required))
    size = _three(table.get("cluster", cluster))
    asked = _three(table.get("grid", size))
    grid = _three([given.get(f"grid.{a}", n) for a, n in zip("xyz", asked, strict=True)])
    return Launch(
        block=block,
        grid=grid,
        cluster=size,
        shared=int(table.get("dynamic_smem", 0)),
        params=params,
        registers=int(table.get("registers", 0)),
    )


def _three(values: Any) -> tuple[int, int, int]:
    x, y, z = (*(int(v) for v in values), 1, 1)[:3]
    return x, y, z


def _parameter(v: Variable, fact: Any, number: int | None, draw: np.random.Generator) -> Parameter:
    if number is not None:
        return number
    if isinstance(fact, Mapping) and "tensormap" in fact:
        return _map(fact, draw)
    if fact == "ptr" or (isinstance(fact, Mapping) and "ptr" in fact):
        return _memory(fact.get("holds", ()) if isinstance(fact, Mapping) else (), draw)
    if isinstance(fact, Mapping):
        ((kind, value),) = [(k, x) for k, x in fact.items() if k in _FORMATS] or [("", None)]
        if not kind or isinstance(value, str | list):
            raise ValueError(f"parameter {v.name}: {fact!r} is no number")
        return struct.pack(_FORMATS[kind], value)
    if fact is not None:
        raise ValueError(f"parameter {v.name}: {fact!r} is not taken here")
    if v.size == 8 and v.type in ("u64", "b64"):
        return _memory((), draw)
    if v.size > 8:
        raise ValueError(f"parameter {v.name} of {v.size} bytes has no fact")
    return int(draw.choice([4, 8, 16, 64]))


def _memory(holds: Any, draw: np.random.Generator) -> Buffer:
    data = draw.integers(0, 1000, MEMORY // 4).astype(np.uint32)
    raw = b""
    for item in holds:
        ((kind, value),) = item.items()
        if kind not in _FORMATS:
            raise ValueError(f"holds: {item!r} is not taken here")
        for x in value if isinstance(value, list) else [value]:
            raw += struct.pack(_FORMATS[kind], x)
    data.view(np.uint8)[: len(raw)] = np.frombuffer(raw, np.uint8)
    return buffer(data)


def _map(fact: Mapping[str, Any], draw: np.random.Generator) -> TensorMap:
    size, kind = _ELEMENTS[fact.get("dtype", "f32")]
    if "box" not in fact:
        raise ValueError("a tensor map without a box")
    box = tuple(int(b) for b in fact["box"])
    dims = tuple(4 * b for b in box)
    strides = tuple(int(np.prod(dims[:d])) * size for d in range(1, len(dims)))
    data = buffer(draw.integers(0, 256, int(np.prod(dims)) * size).astype(np.uint8))
    return TensorMap(data, dims, strides, box, kind, _SWIZZLES[fact.get("swizzle", "none")])
