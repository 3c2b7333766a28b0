"""Defaults of ``check`` from a file: ``[tool.syncverify]`` of pyproject.toml, or syncverify.toml.

The nearest one counts, from the working directory upwards; in one directory syncverify.toml comes first.
Keys are the long options without their dashes, and ``files``. Paths are relative to the file.

    [tool.syncverify]
    files = ["kernels"]
    policy = "strict"
    timeout = 120
    output = ["json:report.json"]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from syncverify.base.source import InputError, Span, decode, read_bytes

Kind = Literal["text", "number", "flag", "texts", "path", "paths", "outputs"]


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the file: the option's parameter, and what its value is."""

    parameter: str
    kind: Kind


KEYS: dict[str, Key] = {
    "baseline": Key("baseline", "path"),
    "color": Key("color", "text"),
    "define": Key("define", "texts"),
    "fail-on": Key("fail_on", "text"),
    "files": Key("files", "paths"),
    "format": Key("format_", "text"),
    "ignore": Key("ignore", "texts"),
    "include": Key("include", "paths"),
    "jobs": Key("jobs", "number"),
    "kernel": Key("kernel", "text"),
    "launch": Key("launch", "path"),
    "max-memory": Key("max_memory", "number"),
    "no-advice": Key("no_advice", "flag"),
    "no-cache": Key("no_cache", "flag"),
    "no-infer": Key("no_infer", "flag"),
    "no-replay": Key("no_replay", "flag"),
    "on-unknown": Key("on_unknown", "text"),
    "output": Key("output", "outputs"),
    "param": Key("params", "texts"),
    "policy": Key("policy", "text"),
    "prelude": Key("prelude", "text"),
    "select": Key("select", "texts"),
    "statistics": Key("statistics", "flag"),
    "std": Key("std", "text"),
    "timeout": Key("timeout", "number"),
    "witness-dir": Key("witness_dir", "path"),
}
OWN, PROJECT = "syncverify.toml", "pyproject.toml"


def find(directory: Path) -> Path | None:
    """The configuration that holds in a directory; None if there is none."""
    for folder in (directory, *directory.parents):
        if (folder / OWN).is_file():
            return folder / OWN
        project = folder / PROJECT
        if project.is_file() and _project_table(project) is not None:
            return project
    return None


def _project_table(path: Path) -> Any:
    """``[tool.syncverify]``, None without it. A pyproject.toml that is broken is other tools' matter too."""
    try:
        text = path.read_text("utf-8")
        if "syncverify" not in text:
            return None
        import tomllib

        tool = tomllib.loads(text).get("tool", {})
    except (OSError, ValueError):
        return None
    return tool.get("syncverify") if isinstance(tool, dict) else None


def read(path: Path) -> dict[str, Any]:
    """The parameters that a configuration gives. Raises InputError for what it must not hold."""
    import tomllib

    span = Span(str(path))
    try:
        data: Any = tomllib.loads(decode(read_bytes(path), str(path)))
    except (tomllib.TOMLDecodeError, RecursionError) as e:
        raise InputError(f"not a TOML file: {e}", span) from e
    if path.name == PROJECT:
        data = data.get("tool", {})
        data = data.get("syncverify", {}) if isinstance(data, dict) else {}
    if not isinstance(data, Mapping):
        raise InputError("[tool.syncverify] must be a table", span)
    return {KEYS[key].parameter: _value(key, value, path) for key, value in _known(data, span)}


def _known(data: Mapping[str, Any], span: Span) -> list[tuple[str, Any]]:
    for key in data:
        if key not in KEYS:
            close = get_close_matches(key, KEYS, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(KEYS)}"
            raise InputError(f"unknown key {key!r}: {hint}", span)
    return list(data.items())


def _value(key: str, value: Any, path: Path) -> Any:
    kind = KEYS[key].kind
    match kind:
        case "flag":
            fits = isinstance(value, bool)
        case "number":
            fits = isinstance(value, int | float) and not isinstance(value, bool)
        case "text" | "path":
            fits = isinstance(value, str)
        case _:
            value = [value] if isinstance(value, str) else value
            fits = isinstance(value, list) and all(isinstance(x, str) for x in value)
    if not fits:
        said = {"flag": "true or false", "number": "a number", "text": "a string", "path": "a path"}
        raise InputError(f"{key} = {value!r}: give {said.get(kind, 'a list of strings')}", Span(str(path)))
    if kind == "path":
        return str(path.parent / value)
    if kind == "paths":
        return [str(path.parent / x) for x in value]
    if kind == "outputs":
        return [_output(x, path.parent) for x in value]
    return value


def _output(given: str, folder: Path) -> str:
    form, colon, file = given.partition(":")
    return f"{form}:{folder / file}" if colon else str(folder / given)


__all__ = ["KEYS", "OWN", "PROJECT", "find", "read"]
