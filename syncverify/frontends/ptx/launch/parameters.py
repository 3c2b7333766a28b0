"""What a launch file says about one parameter, laid out by the alignment rules of C."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import pairwise
from math import prod
from typing import Any, NoReturn

from syncverify.frontends.ptx.decode.effects import MapFacts
from syncverify.frontends.ptx.syntax.nodes import Variable
from syncverify.ir.expr import Expr, evaluate, names
from syncverify.ir.text.expressions import parse_expr

#: Integer kinds: bytes, and the range of their values.
INTEGERS = {
    f"{sign}{bits}": (
        bits // 8,
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if sign == "i" else (0, (1 << bits) - 1),
    )
    for sign in "iu"
    for bits in (8, 16, 32, 64)
} | {"bool": (1, (0, 1))}
_FLOATS = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
_FORMATS = {"f16": "<e", "f32": "<f", "f64": "<d"}
_POINTER, _TENSOR_MAP, _MAP_ALIGN = 8, 128, 64
#: Bytes of an element of a tensor map.
ELEMENTS = {
    "u8": 1, "i8": 1, "e4m3": 1, "e5m2": 1, "u16": 2, "i16": 2, "f16": 2, "bf16": 2,
    "u32": 4, "i32": 4, "f32": 4, "tf32": 4, "u64": 8, "i64": 8, "f64": 8,
}  # fmt: skip
_SWIZZLES = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
_MAP_KEYS = frozenset({"dtype", "box", "swizzle", "bytes"})
_DEEPEST = 16
Fail = Callable[[str], NoReturn]


@dataclass(frozen=True, slots=True)
class Leaf:
    """``size`` bytes at ``offset`` of a parameter.

    ``kind``: ptr, an integer (i8 to u64, bool), a float (f16, bf16, f32, f64), tensormap, bytes, or open: its
    type is not known. ``value``: an int (of a float: its bits; of a ptr: an address, null for example), an
    expression over sizes, or bytes; None for a ptr or tensormap, and for a float that is not given.
    ``name``: of the pointer, the tensor map, or what the file leaves open (not ``given``).
    """

    offset: int
    size: int
    kind: str
    value: int | Expr | bytes | None = None
    name: str = ""
    align: int = 0
    map: MapFacts | None = None
    given: bool = True
    holds: tuple[Leaf, ...] = ()  # of a ptr: what lies there while the kernel runs
    written_before: bool = True  # of a ptr or tensor map: the grid before may write what it leads to

    @property
    def end(self) -> int:
        return self.offset + self.size


def leaves(spec: Any, param: Variable, where: str, fail: Fail) -> tuple[Leaf, ...]:
    """The leaves that a parameter's entry gives, in order of their offsets; checked against its size."""
    if spec == "ptr" and param.size == 8:
        spec = {"ptr": param.name}  # a pointer without a name; no size is called so
    if not isinstance(spec, list | dict):
        spec = {_own_kind(param, spec, where, fail): spec}
    found, end, align = _laid_out(spec, where, fail, 0)
    if isinstance(spec, dict) and "align" not in spec and param.ptr is not None and param.align > 1:
        found = [replace(leaf, align=param.align) for leaf in found]  # what the text says of a pointer
    for leaf in found:
        if leaf.end > param.size:
            fail(f"{where}: {leaf.kind} at byte {leaf.offset} ends at {leaf.end}, beyond {param.size} bytes")
    size = -(-end // align) * align
    if not _placed(spec) and size != param.size:
        what = "the struct" if isinstance(spec, list) else found[0].kind
        fail(
            f"{where}: {what} has {size} bytes, the kernel's parameter {param.size} (.{param.type}); "
            "give each field its place with at = OFFSET to leave others out"
        )
    found = sorted(found, key=lambda leaf: leaf.offset)
    for a, b in pairwise(found):
        if a.end > b.offset:
            fail(f"{where}: {a.kind} at byte {a.offset} and {b.kind} at byte {b.offset} overlap")
    return tuple(found)


def _own_kind(param: Variable, value: Any, where: str, fail: Fail) -> str:
    """The kind of a bare value: the parameter's own type."""
    signs = {"s": "i", "u": "u", "b": "u"}
    if param.type in _FLOATS:
        return param.type
    kind = signs.get(param.type[0], "") + param.type[1:]
    if kind not in INTEGERS or param.size != INTEGERS[kind][0]:
        fail(f"{where}: give the fields of {param.size} bytes of .{param.type} in a list, not {value!r}")
    if kind[0] == "u" and isinstance(value, int) and value < 0:
        return f"i{kind[1:]}"
    return kind


def _placed(spec: Any) -> bool:
    """Whether a place is given for some field."""
    if isinstance(spec, list):
        return any(map(_placed, spec))
    return isinstance(spec, dict) and "at" in spec


def _laid_out(spec: Any, where: str, fail: Fail, depth: int) -> tuple[list[Leaf], int, int]:
    """A struct's or field's leaves, the end of the last one, and the largest alignment."""
    if depth > _DEEPEST:
        fail(f"{where}: structs nested deeper than {_DEEPEST}")
    out: list[Leaf] = []
    end, most = 0, 1
    for i, field in enumerate(spec if isinstance(spec, list) else [spec]):
        what = f"{where}[{i}]" if isinstance(spec, list) else where
        if isinstance(field, list):
            inner, size, align = _laid_out(field, what, fail, depth + 1)
            at = -(-end // align) * align
            out += [replace(leaf, offset=at + leaf.offset) for leaf in inner]
            end = at + -(-size // align) * align
        else:
            align = 1
            for n, leaf in enumerate(_field(field, what, fail)):
                align = max(align, _alignment(leaf))
                at = -(-end // align) * align
                if n == 0 and "at" in field:
                    at = _whole(field["at"], f"{what}.at", fail)
                out.append(replace(leaf, offset=at))
                end = at + leaf.size
        most = max(most, align)
    return out, end, most


def _alignment(leaf: Leaf) -> int:
    if leaf.kind == "bytes":
        return 1
    return _MAP_ALIGN if leaf.kind == "tensormap" else leaf.size


def _whole(value: Any, where: str, fail: Fail) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        fail(f"{where}: give a number from 0, not {value!r}")
    return int(value)


def _field(field: Any, where: str, fail: Fail) -> list[Leaf]:
    """The leaves of one field, several for a list of numbers, without their places."""
    if not isinstance(field, dict):
        fail(f"{where}: give a table such as {{i32 = 64}}, not {field!r}")
    known = [k for k in ("tensormap", "ptr", "bytes", *INTEGERS, *_FLOATS) if k in field]
    kind = known[0] if known else ""
    own = {"at", kind}
    if kind in ("tensormap", "ptr"):
        own |= _MAP_KEYS | {"align", "written_before"}
    if kind == "ptr":
        own.add("holds")
    for key in field:
        if key in known and key not in own:
            more = f"; a ptr to a tensor map takes the map's keys ({', '.join(sorted(_MAP_KEYS))})"
            fail(f"{where}: both {kind!r} and {key!r}" + (more if "ptr" in known else ""))
        if key not in own:
            every = ["ptr", "tensormap", "bytes", "at", "align", "holds", "written_before"]
            every += [*INTEGERS, *_FLOATS, *_MAP_KEYS]
            close = get_close_matches(key, every, 1)
            fail(f"{where}: unknown key {key!r}" + (f": did you mean {close[0]!r}?" if close else ""))
    if not kind:
        fail(f"{where}: say what it is: ptr, tensormap, bytes, {', '.join(INTEGERS)}, {', '.join(_FLOATS)}")
    value = field[kind]
    if kind == "ptr":
        return [_pointer(field, where, fail)]
    if kind == "tensormap":
        name = _text(value, f"{where}.tensormap", fail)
        facts, written = _map(name, field, where, fail), _written(field, where, fail)
        return [Leaf(0, _TENSOR_MAP, kind, name=name, map=facts, written_before=written)]
    if kind == "bytes":
        data = _bytes(value, where, fail)
        return [Leaf(0, len(data), kind, data)]
    size = INTEGERS[kind][0] if kind in INTEGERS else _FLOATS[kind]
    values = value if isinstance(value, list) else [value]
    read = _integer if kind in INTEGERS else _float
    return [Leaf(0, size, kind, read(kind, v, where, fail)) for v in values]


def _text(value: Any, where: str, fail: Fail) -> str:
    if not isinstance(value, str) or not value:
        fail(f"{where}: give a name, not {value!r}")
    return value


def _pointer(field: Mapping[str, Any], where: str, fail: Fail) -> Leaf:
    value = field["ptr"]
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < 1 << 64:
            fail(f"{where}.ptr: {value} is no address")
        return Leaf(0, _POINTER, "ptr", value)
    name = _text(value, f"{where}.ptr", fail)
    align = _whole(field.get("align", 16), f"{where}.align", fail)
    if align == 0 or align & (align - 1):
        fail(f"{where}.align: {align} is no power of two")
    facts = _map(name, field, where, fail) if _MAP_KEYS & field.keys() else None
    held = _held(field["holds"], f"{where}.holds", fail) if "holds" in field else ()
    written = _written(field, where, fail)
    return Leaf(0, _POINTER, "ptr", name=name, align=align, map=facts, holds=held, written_before=written)


def _written(field: Mapping[str, Any], where: str, fail: Fail) -> bool:
    """Whether the grid before may write what a pointer or tensor map leads to."""
    value = field.get("written_before", True)
    if not isinstance(value, bool):
        fail(f"{where}.written_before: give true or false, not {value!r}")
    return bool(value)


def _held(spec: Any, where: str, fail: Fail) -> tuple[Leaf, ...]:
    """What a pointer leads to, as fields: numbers, bytes, pointers."""
    found = sorted(_laid_out(spec, where, fail, 1)[0], key=lambda leaf: leaf.offset)
    for leaf in found:
        if not isinstance(leaf.value, int | bytes) and leaf.kind != "ptr":
            fail(f"{where}: give numbers: at byte {leaf.offset} stands {leaf.value}")
    for a, b in pairwise(found):
        if a.end > b.offset:
            fail(f"{where}: {a.kind} at byte {a.offset} and {b.kind} at byte {b.offset} overlap")
    return tuple(found)


def _map(name: str, field: Mapping[str, Any], where: str, fail: Fail) -> MapFacts:
    """What a field says about a tensor map."""
    dtype = field.get("dtype")
    if dtype is not None and dtype not in ELEMENTS:
        fail(f"{where}.dtype: {dtype!r} is none of {', '.join(ELEMENTS)}")
    element = None if dtype is None else ELEMENTS[dtype]
    swizzle = field.get("swizzle", "none")
    if swizzle not in _SWIZZLES and swizzle not in _SWIZZLES.values():
        fail(f"{where}.swizzle: {swizzle!r} is none of {', '.join(_SWIZZLES)}")
    box = field.get("box")
    if box is not None:
        if not isinstance(box, list) or not 1 <= len(box) <= 5:
            fail(f"{where}.box: give one to five sizes, innermost first")
        box = tuple(_whole(b, f"{where}.box", fail) for b in box)
        if not all(1 <= b <= 256 for b in box):
            fail(f"{where}.box: each size is from 1 to 256")
    size = None if box is None or element is None else prod(box) * element
    if "bytes" in field:
        given = _whole(field["bytes"], f"{where}.bytes", fail)
        if size is not None and given != size:
            fail(f"{where}.bytes: {given}, but the box has {size} bytes")
        size = given
    span = _SWIZZLES.get(swizzle, swizzle)
    if box is not None and element is not None:
        _encodable(box[0] * element, span, where, fail)
    return MapFacts(name, box, element, span, size)


def _encodable(inner: int, span: int, where: str, fail: Fail) -> None:
    """What the driver demands of the innermost side of a box, in bytes; it makes no other map."""
    if inner % 16:
        fail(f"{where}.box: the innermost side has {inner} bytes, which is no multiple of 16")
    if span and inner > span:
        fail(f"{where}.box: the innermost side has {inner} bytes, the swizzle spans {span}")


def _bytes(value: Any, where: str, fail: Fail) -> bytes:
    try:
        data = bytes.fromhex(value)
    except (TypeError, ValueError):
        fail(f'{where}.bytes: give hexadecimal digits such as "00ff", not {value!r}')
    if not data:
        fail(f"{where}.bytes: no bytes")
    return data


def _integer(kind: str, value: Any, where: str, fail: Fail) -> int | Expr:
    low, high = INTEGERS[kind][1]
    if kind == "bool" and isinstance(value, bool):
        return int(value)
    number = expression(value, f"{where}.{kind}", fail)
    if isinstance(number, int) and not low <= number <= high:
        fail(f"{where}.{kind}: {number} is no {kind}")
    return number


def _float(kind: str, value: Any, where: str, fail: Fail) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        fail(f"{where}.{kind}: give a number, not {value!r}")
    try:
        if kind == "bf16":
            bits = int.from_bytes(struct.pack("<f", value), "little")
            return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 if value == value else bits >> 16
        return int.from_bytes(struct.pack(_FORMATS[kind], value), "little")
    except (OverflowError, struct.error):
        fail(f"{where}.{kind}: {value} is beyond the largest {kind}")


def expression(value: Any, where: str, fail: Fail) -> int | Expr:
    """A number, or a string that holds an expression; without names in it, its value."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        fail(f"{where}: give an integer or an expression in quotes, not {value!r}")
    try:
        parsed = parse_expr(value)
        return parsed if names(parsed) else evaluate(parsed, {})
    except ZeroDivisionError:
        fail(f"{where}: division by zero in {value!r}")
    except (OverflowError, MemoryError):
        fail(f"{where}: {value!r} is too large")
    except ValueError as e:
        fail(f"{where}: {e}")
