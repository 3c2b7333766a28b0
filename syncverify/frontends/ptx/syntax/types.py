"""Widths and kinds of types; the generic address space."""

from __future__ import annotations

import re
from functools import cache

#: Windows of the generic address space; see docs/ptx.md.
WINDOW = 60
#: Windows of the generic address space. No sum of two of them is a third, so that an address that is
#: converted twice lies in none.
WINDOWS = {"shared": 1, "shared::cta": 1, "shared::cluster": 1, "local": 4, "param": 6, "param::entry": 6}
RANK = 24

_TYPE = re.compile(r"([a-z]+?)(\d+)(x\d)?")


@cache
def width(type_: str) -> int:
    """Bits of a type, of all parts of a packed one; a predicate has one."""
    if type_ == "pred":
        return 1
    m = _TYPE.fullmatch(type_)
    return int(m[2]) * int((m[3] or "x1")[1:]) if m else 32


@cache
def kind(type_: str) -> str:
    """u, s, b, f or pred."""
    if type_ == "pred":
        return type_
    m = _TYPE.fullmatch(type_)
    if m is None or m[3] or type_.startswith(("f", "bf", "tf", "e")):
        return "f"
    return m[1]
