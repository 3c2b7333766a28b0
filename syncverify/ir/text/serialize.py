"""Kernels as JSON, for a cache: the same kernel comes back, spans and all."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

from syncverify.base import source
from syncverify.ir import expr, nodes

#: What stands before the items of a tuple; the fields of an object follow its class's name.
_TUPLE = 0
_CLASSES: dict[str, type] = {
    name: x
    for module in (nodes, expr)
    for name, x in vars(module).items()
    if is_dataclass(x) and isinstance(x, type)
} | {"Span": source.Span}
_FIELDS: dict[str, tuple[str, ...]] = {
    n: tuple(f.name for f in sorted(fields(c), key=lambda f: bool(f.kw_only))) for n, c in _CLASSES.items()
}
#: Classes with a span, which comes last and is given by its name.
_SPANNED = frozenset(n for n, c in _CLASSES.items() if any(f.kw_only for f in fields(c)))


def dumped(kernel: nodes.Kernel) -> bytes:
    """A kernel's JSON."""
    return json.dumps(_plain(kernel), separators=(",", ":")).encode()


def restored(data: bytes) -> nodes.Kernel | None:
    """The kernel; None where the data is none."""
    spans: dict[tuple[Any, ...], source.Span] = {}

    def made(x: Any) -> Any:
        if not isinstance(x, list):
            return x
        name, *rest = x
        if name == "Span":
            return spans.get(key := tuple(rest)) or spans.setdefault(key, source.Span(*rest))
        if name == _TUPLE:
            return tuple(map(made, rest))
        values = list(map(made, rest))
        if name in _SPANNED:
            return _CLASSES[name](*values[:-1], span=values[-1])
        return _CLASSES[name](*values)

    try:
        found = made(json.loads(data))
    except (ValueError, KeyError, TypeError, IndexError):
        return None
    return found if isinstance(found, nodes.Kernel) else None


def _plain(x: Any) -> Any:
    if isinstance(x, tuple):
        return [_TUPLE, *map(_plain, x)]
    if x is None or isinstance(x, bool | int | float | str):
        return x
    name = type(x).__name__
    return [name, *(_plain(getattr(x, f)) for f in _FIELDS[name])]


__all__ = ["dumped", "restored"]
