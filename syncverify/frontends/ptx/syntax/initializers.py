"""Initial values of variables (PTX ISA, 5.4.4): numbers, and addresses of other variables.

Example: of ``.global .u64 t[3] = {7, generic(x)+4}`` the bytes are those of 7 and sixteen zeros. At byte 8
stands the generic address of ``x`` plus 4. ``0xff00(x)`` is the second byte of an address.
"""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from math import prod

from syncverify.frontends.ptx.syntax.lexer import Malformed, constant, shown
from syncverify.frontends.ptx.syntax.nodes import Initial, InitialAddress

_PIECE = re.compile(r"[{},]|[^{},]++")
_DECIMAL = re.compile(r"\s*+[-+]?\s*+\d*+(?:\d\.|\.\d|\d[eE])[-+.\deE]*+\s*+")
_ADDRESS = re.compile(
    r"\s*+(?:(0[xX][fF]{2}(?:00)*)\s*+\(\s*+)?(generic\s*+\(\s*+)?([A-Za-z_$%][\w$]*+)\s*+(?(2)\)\s*+)"
    r"(?:\+([^()]*+|\s*+\([^()]*+\)\s*+)|(-\s*+\d[^()]*+))?(?(1)\))\s*+"
)
_LARGEST = 1 << 20  # bytes of a variable whose initial values are kept


def initial(text: str, width: int, dimensions: tuple[int, ...], *, floats: bool) -> tuple[Initial, int]:
    """The initial values of a variable of elements of so many bytes, and its size.

    ``dimensions``: a first one of 0 is as long as the values ask for.
    """
    values = _values(text)
    rows = 1 + max((at[0] for at, _ in values if at), default=-1)
    if dimensions and not dimensions[0]:
        dimensions = (rows, *dimensions[1:])
    size = width * prod(dimensions)
    if len(values) * width > size:
        raise Malformed(f"{len(values)} initial values for {size} bytes")
    out, addresses = bytearray(), []
    for at, (_, value) in enumerate(values):
        found = _value(value, width, floats=floats)
        if isinstance(found, InitialAddress):
            addresses.append(replace(found, at=at * width, width=width))
            found = bytes(width)
        out += found
    known = size <= _LARGEST and all(
        _position(place, dimensions) == at for at, (place, _) in enumerate(values)
    )
    return Initial(bytes(out).ljust(size, b"\0") if known else None, tuple(addresses)), size


def _values(text: str) -> list[tuple[tuple[int, ...], str]]:
    """The values with their places in the lists around them, from the outer one on."""
    counts: list[int] = []
    out: list[tuple[tuple[int, ...], str]] = []
    for m in _PIECE.finditer(text):
        match m[0]:
            case "{":
                counts.append(0)
            case "}" | "," if not counts:
                raise Malformed(f"expected initial values, found {shown(text)}")
            case "}":
                counts.pop()
            case ",":
                counts[-1] += 1
            case value if value.strip():
                out.append((tuple(counts), value))
    return out


def _position(place: tuple[int, ...], dimensions: tuple[int, ...]) -> int | None:
    """Which element stands at a place; None where the lists are not those of the dimensions.

    One list may hold the elements of all dimensions.
    """
    if len(place) < 2:
        return place[0] if place else 0
    if len(place) != len(dimensions) or any(n >= most for n, most in zip(place, dimensions, strict=True)):
        return None
    at = 0
    for n, most in zip(place, dimensions, strict=True):
        at = at * most + n
    return at


def _value(text: str, width: int, *, floats: bool) -> bytes | InitialAddress:
    """The bytes of one value, or the address that it is."""
    if floats and width == 4 and _DECIMAL.fullmatch(text):
        return struct.pack("<f", float(text.replace(" ", "")))
    try:
        value = constant(text)
    except Malformed:
        if m := _ADDRESS.fullmatch(text):
            return _address(m)
        raise
    if isinstance(value, tuple):
        bits, own = value
        if own != 8 * width:
            raise Malformed(f"a {own}-bit floating-point constant for {width} bytes")
        value = bits
    return (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")


def _address(m: re.Match[str]) -> InitialAddress:
    """``generic(x)+4``, ``0xff00(x)``: the place and the width are set later."""
    mask, generic, name, plus, minus = m.groups()
    more = constant(plus or minus) if plus or minus else 0
    if not isinstance(more, int):
        raise Malformed(f"expected an offset in bytes, found {shown(m[0])}")
    return InitialAddress(0, 0, name, more, generic is not None, -1 if mask is None else len(mask) // 2 - 2)


__all__ = ["initial"]
