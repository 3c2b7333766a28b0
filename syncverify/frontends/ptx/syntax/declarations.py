"""Declarations: variables, parameters, registers, and the headers of functions (PTX ISA, 5 and 11)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod

from syncverify.frontends.ptx.syntax.initializers import initial
from syncverify.frontends.ptx.syntax.lexer import Malformed, constant, integer, pieces, shown
from syncverify.frontends.ptx.syntax.nodes import Variable

SPACES = frozenset({"reg", "sreg", "const", "global", "local", "param", "shared", "tex"})
_LINKAGE = frozenset({"visible", "weak", "extern", "common"})
_WIDTHS = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "e4m3": 1, "e5m2": 1,
    "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "e4m3x2": 2, "e5m2x2": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "u16x2": 4, "s16x2": 4, "tf32": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f32x2": 8, "b128": 16,
    "texref": 8, "samplerref": 8, "surfref": 8,
}  # fmt: skip
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
#: The components of a vector register.
COMPONENTS = "xyzw"

_WORD = re.compile(r"\s*+\.([a-zA-Z_]\w*+)(?:::\w++)?\s*+(?:(\d\w*+)|(\([^()]*+(?:\([^()]*+\)[^()]*+)*\)))?")
_LIST = r"\{[^{}]*+\}"
for _ in range(4):  # a list for each dimension
    _LIST = rf"\{{(?:[^{{}}]++|{_LIST})*\}}"
_DECLARATOR = re.compile(
    r"\s*+([%$\w]++)\s*+(?:<\s*+(\w++)\s*+>\s*+)?((?:\[[^\[\]]*+\]\s*+)*)"
    rf"(?:=\s*+({_LIST}|[^,{{}}]++)\s*+)?(?:,|$)",
    re.DOTALL,
)
_HEADER = re.compile(
    r"(?:\s*+\.(?:visible|weak|extern))*\s*+\.(entry|func)\b((?:\s*+\.\w++(?:\([^()]*+(?:\([^()]*+\)[^()]*+)*\))?)*)"
    r"\s*+(?:\(([^()]*+)\)\s*+)?([A-Za-z_$%][\w$]*+)\s*+(?:\(([^()]*+)\))?(.*+)$",
    re.DOTALL,
)
_BOUNDS = re.compile(r"\.(\w++)\s*+(?:\([^()]*+\))?\s*+((?:\w++\s*+(?:,\s*+)?)*)")
_MOST_BYTES = 1 << 40


@dataclass(frozen=True, slots=True)
class Declaration:
    """``.space .align .type`` and its names: (name, range or None, dimensions, initial values)."""

    space: str
    type: str
    align: int
    vector: int
    linkage: frozenset[str]
    ptr: str | None
    names: tuple[tuple[str, int | None, tuple[int, ...], str | None], ...]

    @property
    def width(self) -> int:
        """Bytes of one element."""
        return _WIDTHS[self.type] * self.vector

    def variables(self, line: int) -> tuple[Variable, ...]:
        out = []
        for name, count, dimensions, text in self.names:
            if count is not None:
                raise Malformed(f"{name}<{count}>: only registers are declared in ranges")
            values, size = None, self.width * prod(dimensions)
            if text is not None:
                more = (self.vector,) if self.vector > 1 else ()
                floats = self.type in ("f32", "f64")
                values, size = initial(text, _WIDTHS[self.type], (*dimensions, *more), floats=floats)
            out.append(
                Variable(
                    name=name,
                    space=self.space,
                    type=self.type,
                    size=size,
                    align=self.align,
                    extern="extern" in self.linkage,
                    initial=values,
                    ptr=self.ptr,
                    line=line,
                )
            )
        return tuple(out)


@dataclass(slots=True)
class _Words:
    """What the words before the names of a declaration say."""

    text: str
    space: str = ""
    kind: str = ""
    align: int = 0
    vector: int = 1
    ptr: str | None = None
    pointee: int = 0  # the alignment of what a parameter points to
    linkage: set[str] = field(default_factory=set)

    def take(self, word: str, number: str | None, brackets: str | None) -> None:
        """One word, with the number or the brackets behind it."""
        if word == "align":
            self._aligned(number)
        elif number is not None:
            raise Malformed(f"expected a name, found {shown(number)} in {shown(self.text)}")
        elif word in _LINKAGE:
            self.linkage.add(word)
        elif word in SPACES:
            self._placed(word)
        elif word == "ptr":
            self.ptr = "generic"
        elif word in _VECTORS:
            self.vector = _VECTORS[word]
        elif word in _WIDTHS:
            self.kind = word
        elif word not in ("attribute", "unique") and brackets is None:
            raise Malformed(f"expected a state space, an alignment or a type, found .{word}")

    def _aligned(self, number: str | None) -> None:
        """The alignment of the variable; behind ``.ptr`` that of what it points to."""
        if number is None:
            raise Malformed(f"expected a number after .align in {shown(self.text)}")
        value = integer(number)
        if value == 0 or value & (value - 1) or value > 1 << 30:
            raise Malformed(f".align {value}: an alignment is a power of two")
        if self.ptr is None:
            self.align = value
        else:
            self.pointee = value

    def _placed(self, word: str) -> None:
        """The space of the variable; behind ``.ptr`` that of what it points to."""
        if self.space and self.ptr is not None:
            self.ptr = word
        elif self.space:
            raise Malformed(f"a second state space .{word} in {shown(self.text)}")
        else:
            self.space = word


def declaration(text: str) -> Declaration:
    """Reads ``.shared .align 16 .b8 x[64]`` and its like; ``text`` has no semicolon."""
    said = _Words(text)
    at = 0
    while m := _WORD.match(text, at):
        at = m.end()
        said.take(m[1], m[2], m[3])
    if not said.space:
        raise Malformed(f"expected a declaration with a state space, found {shown(text)}")
    if not said.kind:
        raise Malformed(f"expected a type in the declaration {shown(text)}")
    return Declaration(
        space=said.space,
        type=said.kind,
        align=said.pointee or said.align or _WIDTHS[said.kind] * said.vector,
        vector=said.vector,
        linkage=frozenset(said.linkage),
        ptr=said.ptr,
        names=_names(text, at),
    )


def _names(text: str, at: int) -> tuple[tuple[str, int | None, tuple[int, ...], str | None], ...]:
    out: list[tuple[str, int | None, tuple[int, ...], str | None]] = []
    end = len(text.rstrip())
    while at < end or not out:
        m = _DECLARATOR.match(text, at, end)
        if m is None:
            raise Malformed(f"expected a name in the declaration {shown(text[at:] or text)}")
        name, count, dimensions, init = m.groups()
        sizes = tuple(
            _number(size) if size.strip() else 0 for size in dimensions.replace("]", "").split("[")[1:]
        )
        if prod(sizes) > _MOST_BYTES:
            raise Malformed(f"{name} has {prod(sizes)} elements")
        out.append((name, None if count is None else integer(count), sizes, init))
        at = m.end()
    return tuple(out)


def _number(text: str) -> int:
    value = constant(text)
    if not isinstance(value, int) or value < 0:
        raise Malformed(f"expected a size, found {shown(text)}")
    return value


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the body of a function."""

    name: str
    entry: bool
    params: tuple[Declaration, ...]
    results: tuple[Declaration, ...]
    directives: dict[str, tuple[int, ...]]


def header(text: str) -> Header:
    """Reads ``.visible .entry name(params) .reqntid 128`` and its like."""
    m = _HEADER.match(text)
    if m is None:
        raise Malformed(f"expected .entry or .func with a name and parameters, found {shown(text)}")
    kind, before, results, name, params, after = m.groups()
    return Header(
        name=name,
        entry=kind == "entry",
        params=_parameters(params),
        results=_parameters(results),
        directives=_directives(before + after),
    )


def _parameters(text: str | None) -> tuple[Declaration, ...]:
    return tuple(declaration(p) for p in pieces(text or ""))


def _directives(text: str) -> dict[str, tuple[int, ...]]:
    text = re.sub(r'"[^"]*"\s*;?', "", text)
    out: dict[str, tuple[int, ...]] = {}
    at = 0
    end = len(text.rstrip())
    while at < end:
        if text[at].isspace():
            at += 1
            continue
        m = _BOUNDS.match(text, at)
        if m is None:
            raise Malformed(f"expected a directive of the function or its body, found {shown(text[at:])}")
        if m[1] != "pragma":
            out[m[1]] = tuple(integer(n) for n in m[2].replace(",", " ").split())
        at = m.end()
    return out
