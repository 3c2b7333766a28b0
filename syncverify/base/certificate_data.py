"""The plain data of certificates: how it is read, compared and digested."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from syncverify.base.source import InputError

FORMAT = "syncverify certificate"
VERSION = 7


class RejectedError(Exception):
    """A certificate proves nothing of a kernel: what is wrong, and where in it."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}" if where else what)
        self.where = where
        self.what = what


def digest(data: Any) -> str:
    """The hash of plain data, without the digests in it."""
    return hashlib.sha256(_written(data).encode()).hexdigest()


def _written(data: Any) -> str:
    if isinstance(data, Mapping):
        data = {k: v for k, v in data.items() if k != "digest"}
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def sealed(data: dict[str, Any]) -> dict[str, Any]:
    """The data with its own digest."""
    return {**data, "digest": digest(data)}


def take(data: Any, where: str, *names: str, optional: Sequence[str] = ()) -> list[Any]:
    """The fields of an object, in order; the object must have these and no others."""
    if not isinstance(data, dict):
        raise RejectedError(where, "not an object")
    wrong = sorted((set(names) ^ set(data)) - set(optional))
    if wrong:
        state = "missing" if wrong[0] in names else "not known"
        raise RejectedError(where, f"field {wrong[0]!r} is {state}")
    return [data.get(name) for name in (*names, *optional)]


def number(x: Any, where: str, least: int | None = None) -> int:
    """An integer, and neither a truth value nor less than ``least``."""
    if type(x) is not int or (least is not None and x < least):
        raise RejectedError(where, f"{x!r} is no number that can stand here")
    return x


def listed(x: Any, where: str) -> list[Any]:
    """A list."""
    if not isinstance(x, list):
        raise RejectedError(where, "not a list")
    return x


def same(found: Any, claimed: Any, where: str) -> None:
    """What was derived from the kernel must be what the certificate says; names the first difference."""
    if isinstance(found, dict) and isinstance(claimed, dict) and set(found) == set(claimed):
        for key in found:
            same(found[key], claimed[key], f"{where}.{key}")
    elif isinstance(found, list) and isinstance(claimed, list):
        if len(found) != len(claimed):
            raise RejectedError(where, f"{len(claimed)} entries, but the kernel has {len(found)}")
        for i, (f, c) in enumerate(zip(found, claimed, strict=True)):
            same(f, c, f"{where}[{i}]")
    elif type(found) is not type(claimed) or found != claimed:
        raise RejectedError(where, f"{_short(claimed)}, but the kernel gives {_short(found)}")


def _short(x: Any) -> str:
    text = json.dumps(x)
    return text if len(text) < 80 else f"{text[:76]} ..."


def read(text: str, file: str) -> dict[str, Any]:
    """A certificate from its text; InputError where it is no certificate of this version at all."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise InputError(f"{file}: not a certificate: {e}") from e
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InputError(f"{file}: not a certificate")
    if data.get("version") != VERSION or type(data.get("version")) is not int:
        raise InputError(f"{file}: version {data.get('version')!r} is not supported, {VERSION} is")
    return data


def write(data: Mapping[str, Any]) -> str:
    """The text of a certificate."""
    return json.dumps(data, separators=(",", ":")) + "\n"
