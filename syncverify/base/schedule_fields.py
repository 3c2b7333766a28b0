"""Whether the fields of a schedule hold what their declarations say."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from syncverify.base.source import InputError


def check_fields(schedule: Any) -> None:
    """Raises InputError for a field of another type, or with a word that is none of those it knows."""
    for name, kind in _declared(type(schedule)).items():
        value = getattr(schedule, name)
        if not _fits(value, kind):
            raise InputError(f"schedule: {name} is {value!r}: use {_said(kind)}")


_known: dict[Any, dict[str, Any]] = {}


def _declared(kind: Any) -> dict[str, Any]:
    """The types of a class's fields; to read them takes longer than to compare."""
    if kind not in _known:
        _known[kind] = get_type_hints(kind)
    return _known[kind]


def _fits(value: object, kind: Any) -> bool:
    match get_origin(kind):
        case None:
            return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        case origin if origin is Literal:
            return any(type(value) is type(x) and value == x for x in get_args(kind))
        case origin if origin in (Union, UnionType):
            return any(_fits(value, k) for k in get_args(kind))
        case origin if origin is tuple:
            of = get_args(kind)
            if not isinstance(value, tuple) or (of[-1] is not ... and len(value) != len(of)):
                return False
            return all(_fits(x, of[0]) for x in value)
    return isinstance(value, Mapping)


def _said(kind: Any) -> str:
    match get_origin(kind):
        case None:
            return {int: "a whole number", bool: "True or False", NoneType: "None"}.get(kind, str(kind))
        case origin if origin is Literal:
            return " or ".join(repr(x) for x in get_args(kind))
        case origin if origin in (Union, UnionType):
            return " or ".join(_said(k) for k in get_args(kind))
        case origin if origin is tuple:
            return "a tuple of whole numbers"
    return "a mapping"


__all__ = ["check_fields"]
