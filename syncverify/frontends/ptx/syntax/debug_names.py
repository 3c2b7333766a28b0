"""The names of parameters in the debug information of a PTX file (DWARF, as ``nvcc -G`` writes it).

A subprogram's entry holds its linkage name, and one entry below it for each parameter::

    .section .debug_info { .b32 1475  .b8 2,0 ... .b8 114,111,119,115,0 ... }

Sections are lists of bytes; labels represent numbers that only the linker knows, so places of code are zeros
here. What this reader does not know ends the reading: the parameters then keep their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from syncverify.frontends.ptx.syntax.nodes import Function, Module

_SECTION = re.compile(r"\.section\s+(\.debug_\w+)\s*\{(.*?)\}", re.DOTALL)
_ITEM = re.compile(r"\.b(8|16|32|64)\s+([^\n]*)|([$\w]+)\s*:")
#: Bytes of the other forms: an address, numbers, flags, references, an offset.
_WIDTHS = {0x01: 8, 0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x0C: 1, 0x19: 0, 0x17: 4} | {
    0x11 + n: 1 << n for n in range(4)
}
_LEB = (0x0D, 0x0F, 0x15)
#: Forms of blocks, and the bytes of their length (0: LEB128).
_BLOCKS = {0x03: 2, 0x04: 4, 0x09: 0, 0x0A: 1, 0x18: 0}
_STRING, _STRING_AT, _REFERENCE = 0x08, 0x0E, 0x10
_SUBPROGRAM, _PARAMETER = 0x2E, 0x05
_NAME, _LINKAGE = 0x03, (0x6E, 0x2007)


class _UnreadableError(Exception):
    """The debug information has a form that this reader does not know."""


def with_debug_names(module: Module, text: str) -> Module:
    """The module with the names that its debug information gives the parameters of its entries."""
    if ".debug_info" not in text:
        return module
    try:
        known = dict(_subprograms(text))
    except (_UnreadableError, LookupError, ValueError):
        return module
    return replace(module, functions=tuple(_named(f, known.get(f.name, ())) for f in module.functions))


def _named(f: Function, names: tuple[str, ...]) -> Function:
    if not f.entry or len(names) != len(f.params):
        return f
    params = tuple(replace(p, source_name=name) for p, name in zip(f.params, names, strict=True))
    return replace(f, params=params)


@dataclass(slots=True)
class _Section:
    """The bytes of a section; ``labels``: where each stands; ``words``: the text of what is no number."""

    data: bytearray = field(default_factory=bytearray)
    labels: dict[str, int] = field(default_factory=dict)
    words: dict[int, str] = field(default_factory=dict)

    def string(self, at: int) -> str:
        return self.data[at : self.data.index(0, at)].decode()


def _sections(text: str) -> dict[str, _Section]:
    found: dict[str, _Section] = {}
    for name, inside in _SECTION.findall(text):
        section = found.setdefault(name, _Section())
        for width, values, label in _ITEM.findall(inside):
            if label:
                section.labels[label] = len(section.data)
                continue
            size = int(width) // 8
            for value in values.split(","):
                word = value.strip()
                try:
                    number = int(word, 0)
                except ValueError:
                    section.words[len(section.data)], number = word, 0
                section.data += (number & (1 << 8 * size) - 1).to_bytes(size, "little")
    return found


def _leb(data: bytearray, at: int) -> tuple[int, int]:
    """The LEB128 number at a place, without sign, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _abbreviations(data: bytearray) -> dict[int, tuple[int, bool, list[tuple[int, int]]]]:
    """By code: the tag, whether entries have children, attributes and their forms."""
    found: dict[int, tuple[int, bool, list[tuple[int, int]]]] = {}
    at = 0
    while at < len(data):
        code, at = _leb(data, at)
        if code == 0:
            break
        tag, at = _leb(data, at)
        children, at = bool(data[at]), at + 1
        pairs: list[tuple[int, int]] = []
        while True:
            attribute, at = _leb(data, at)
            form, at = _leb(data, at)
            if (attribute, form) == (0, 0):
                break
            pairs.append((attribute, form))
        found[code] = tag, children, pairs
    return found


def _subprograms(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each function with the names of its parameters, by its linkage name where it has one."""
    sections = _sections(text)
    info, strings = sections[".debug_info"], sections.get(".debug_str", _Section())
    codes = _abbreviations(sections.get(".debug_abbrev", _Section()).data)
    version = int.from_bytes(info.data[4:6], "little")
    if not 2 <= version <= 4:
        raise _UnreadableError
    end = min(len(info.data), 4 + int.from_bytes(info.data[:4], "little"))
    above: list[tuple[str, list[str]]] = []  # what is open: a function's name and parameters; else no name
    at = 11  # behind the unit's header
    while at < end:
        code, at = _leb(info.data, at)
        if code == 0:
            if above:
                name, parameters = above.pop()
                if name:
                    yield name, tuple(parameters)
            continue
        tag, children, pairs = codes[code]
        names: dict[int, str] = {}
        for attribute, form in pairs:
            value, at = _value(info, strings, at, form, version)
            names[attribute] = value
        name = next((names[a] for a in _LINKAGE if a in names), names.get(_NAME, ""))
        if tag == _PARAMETER and above:
            above[-1][1].append(names.get(_NAME, ""))
        if children:
            above.append((name if tag == _SUBPROGRAM else "", []))


def _value(info: _Section, strings: _Section, at: int, form: int, version: int) -> tuple[str, int]:
    """The text of an attribute, empty where it is none, and where it ends."""
    if form == _STRING:
        found = info.string(at)
        return found, at + len(found.encode()) + 1
    if form == _STRING_AT:
        word = info.words.get(at, "")
        label, _, offset = word.partition("+")
        base = strings.labels.get(label, 0)
        number = int(offset, 0) if offset else int.from_bytes(info.data[at : at + 4], "little")
        return strings.string(base + number), at + 4
    if form in _LEB:
        return "", _leb(info.data, at)[1]
    if form in _BLOCKS:
        width = _BLOCKS[form]
        size, start = _leb(info.data, at) if not width else (
            int.from_bytes(info.data[at : at + width], "little"), at + width)  # fmt: skip
        return "", start + size
    if form == _REFERENCE:
        return "", at + (8 if version == 2 else 4)
    if form not in _WIDTHS:
        raise _UnreadableError
    return "", at + _WIDTHS[form]
