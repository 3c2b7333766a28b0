"""Every way to change one leaf or one entry of plain data."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

Path = tuple[Any, ...]


def changes(data: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """All changes: numbers by one, strings, truth values, entries left out, repeated and swapped."""
    if isinstance(data, dict):
        for key in (k for k in data if k != "digest"):
            yield (*path, key), "left out"
            yield from changes(data[key], (*path, key))
    elif isinstance(data, list):
        for i, x in enumerate(data):
            yield (*path, i), "left out"
            yield (*path, i), "repeated"
            if i + 1 < len(data) and x != data[i + 1]:
                yield (*path, i), "swapped"
            yield from changes(x, (*path, i))
    elif isinstance(data, bool):
        yield path, "other"
    elif isinstance(data, int):
        yield path, "more"
        yield path, "less"
    else:
        yield path, "text"


def changed(data: Any, path: Path, how: str) -> Any:
    """A copy with one change."""
    out = deepcopy(data)
    at = out
    for step in path[:-1]:
        at = at[step]
    key = path[-1]
    match how:
        case "left out":
            del at[key]
        case "repeated":
            at.insert(key, deepcopy(at[key]))
        case "swapped":
            at[key], at[key + 1] = at[key + 1], at[key]
        case "other":
            at[key] = not at[key]
        case "more":
            at[key] += 1
        case "less":
            at[key] -= 1
        case _:
            at[key] = f"{at[key]}x"
    return out


_UNORDERED = ("nodes", "facts", "parts", "cases", "ranks", "shift", "lag", "end")


def unordered(path: Path, how: str) -> bool:
    """Whether an order means nothing: of nodes and what is known at them, parts, and what proofs for every
    number of stages say by key; or that in which agents go on, where they ask the same in the other one."""
    if path[-1] == "asks_last":
        return how == "left out"
    return how == "swapped" and path[-2:-1] in [(name,) for name in _UNORDERED]


def elsewise(path: Path, how: str) -> bool:
    """Whether a change may give another proof: steps of a path, and how far ranks grow."""
    if how in ("more", "less", "left out") and "certificate" in path:
        inside = path[path.index("certificate") + 1 :]
        return len(inside) > 3 and (inside[0] == "paths" or inside[::2] == ("ranks", 1))
    return False
