"""Operands (PTX ISA, 6) by their text: a scope is a table from texts to operands that fills itself."""

from __future__ import annotations

import re

from syncverify.frontends.ptx.syntax.lexer import Malformed, constant, pieces, shown
from syncverify.frontends.ptx.syntax.nodes import (
    FloatImm,
    Imm,
    Mem,
    Not,
    Operand,
    Pair,
    Reg,
    Selected,
    Sink,
    Special,
    Sym,
    Vector,
)

_NAME = re.compile(r"[A-Za-z_$%][\w$]*+(?:\.[a-z]\w?)?")
_SUM = re.compile(r"\s*+([A-Za-z_$%][\w$]*+(?:\.[a-z]\w*+)?|\d\w*+)\s*+(?:\+([^+].*+)|(-.*+))?", re.DOTALL)
#: The number of lanes, which a constant expression may begin with.
_WIDTH = re.compile(r"WARP_SZ(?!\w)")
_COLORS = str.maketrans("rgba", "xyzw")
_SELECTORS = frozenset({"b0", "b1", "b2", "b3", "h0", "h1"})
_SPECIAL = re.compile(
    r"%(?:(?:n?tid|n?ctaid|n?clusterid|cluster_n?ctaid)\.[xyzw]|laneid|n?warpid|n?smid|gridid"
    r"|is_explicit_cluster|cluster_n?ctarank|lanemask_(?:eq|le|lt|ge|gt)|clock(?:_hi|64)?|pm[0-7](?:_64)?"
    r"|envreg(?:\d|[12]\d|3[01])|globaltimer(?:_lo|_hi)?|reserved_smem_offset_(?:begin|end|cap|[01])"
    r"|(?:total|aggr|dynamic)_smem_size|current_graph_exec)"
)


class Scope(dict[str, Operand]):
    """The operands that texts mean between two braces.

    ``names``: what is declared here; a register under its unique name until it is used.
    """

    __slots__ = ("labels", "names", "parent", "tables")

    def __init__(self, parent: Scope | None) -> None:
        super().__init__()
        self.parent = parent
        self.names: dict[str, Operand | str] = {}
        self.labels: dict[str, tuple[str, int]] = {}  # unique name, instruction
        self.tables: dict[str, str] = {}

    def __missing__(self, text: str) -> Operand:
        operand = self[text] = self._resolve(text)
        return operand

    def _resolve(self, text: str) -> Operand:
        name = text.strip()
        own = self.names.get(name)
        if own is not None:
            if isinstance(own, str):
                own = self.names[name] = Reg(own)
            return own
        base, _, component = name.partition(".")
        if component and base in self.names and _NAME.fullmatch(name):
            return self._component(name, self[base], component)
        if self.parent is not None and (not self.names or _NAME.fullmatch(name)):
            return self.parent[name]
        return self._read(name)

    def _read(self, text: str) -> Operand:
        match text[:1]:
            case "%":
                if _SPECIAL.fullmatch(text):
                    return Special(text)
            case "[":
                if text[-1] == "]":
                    return self._memory(text[1:-1])
            case "{":
                if text[-1] == "}":
                    return Vector(tuple(map(self.__getitem__, pieces(text[1:-1]))))
            case "!":
                if _NAME.fullmatch(text, 1) and isinstance(reg := self[text[1:]], Reg):
                    return Not(reg)
            case "_" if text == "_":
                return Sink()
            case "":
                raise Malformed("expected an operand between the commas")
        width = _WIDTH.match(text) is not None
        if text.count("|") == 1 and text[0] not in "0123456789-+~(" and not width:
            first, _, second = text.partition("|")
            return Pair(self[first], self[second])
        if text[0] in "0123456789-+~(.!" or width:
            value = constant(text)
            return Imm(value) if isinstance(value, int) else FloatImm(*value)
        return self._named(text)

    def _named(self, text: str) -> Operand:
        """``name + constant``, or a component of a register."""
        if "\n" in text:
            raise Malformed(f"expected ',' or ';' after {shown(text)}")
        if _NAME.fullmatch(text):
            raise Malformed(f"{text} is not declared")
        m = _SUM.fullmatch(text)
        if m is not None and m.lastindex != 1 and isinstance(symbol := self[m[1]], Sym):
            return Sym(symbol.name, symbol.offset + self._offset(m))
        raise Malformed(f"expected an operand, found {shown(text)}")

    def _component(self, text: str, found: Operand, component: str) -> Operand:
        if isinstance(found, Vector):
            at = "xyzw".find(component.translate(_COLORS))
            if 0 <= at < len(found.items):
                return found.items[at]
        elif isinstance(found, Reg) and component in _SELECTORS:
            return Selected(found.name, component)
        raise Malformed(f"{text} is not declared")

    def _offset(self, m: re.Match[str]) -> int:
        if m[2] is None and m[3] is None:
            return 0
        value = constant(m[2] or m[3])
        if not isinstance(value, int):
            raise Malformed(f"expected an offset in bytes, found {shown(m[0])}")
        return value

    def _memory(self, inside: str) -> Operand:
        address, *rest = pieces(inside) or [""]
        if not (m := _SUM.fullmatch(address.rstrip())):
            raise Malformed(f"expected [address], found {shown('[' + inside + ']')}")
        base = self[m[1]]
        if not isinstance(base, Reg | Sym | Imm):
            raise Malformed(f"expected a register, a name or a number as address, found {shown(m[1])}")
        coords: list[Operand] = []
        for text in rest:
            operand = self[text]
            coords += operand.items if isinstance(operand, Vector) else (operand,)
        return Mem(base, self._offset(m), tuple(coords))

    def declare(self, name: str, operand: Operand | str) -> None:
        if name in self.names:
            raise Malformed(f"{name} is declared twice")
        self.names[name] = operand
        if self:
            self.clear()

    def label(self, name: str) -> tuple[str, int] | None:
        """The label that a name means here: the innermost one."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return None

    def table(self, name: str) -> str | None:
        """The unique name of a target table or prototype."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.tables:
                return scope.tables[name]
            scope = scope.parent
        return None
