"""What a launch file says of parameters and of the memory behind them, as loads bring it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from syncverify.base.reason import Cause, Reason
from syncverify.frontends.ptx.analysis.global_memory.copy_addresses import DEFAULT, copy_addresses
from syncverify.frontends.ptx.decode.effects import MapFacts
from syncverify.frontends.ptx.exec.tables import parameter_offsets
from syncverify.frontends.ptx.launch.facts import PtxFacts, text
from syncverify.frontends.ptx.launch.parameters import Leaf
from syncverify.frontends.ptx.syntax.nodes import Function
from syncverify.frontends.ptx.syntax.parameter_names import parameter_key, parameter_text
from syncverify.frontends.ptx.syntax.types import width
from syncverify.frontends.ptx.values.register_values import Unknown
from syncverify.ir.expr import Expr, Var

_POINTERS = 1 << 41  # where the memory behind pointer parameters is put, one after the other


class Parameters(dict[int, Any]):
    """What loads from parameters bring. As a mapping: ``offset << 8 | size`` in the parameter space.

    ``sizes_as_data``: sizes without a number are data, so that a thread may find another one at each load.
    """

    def __init__(self, facts: PtxFacts, f: Function, *, sizes_as_data: bool = False) -> None:
        super().__init__()
        self.sizes_as_data = sizes_as_data
        self.facts = facts
        self.function = f
        self.index = {p.name: i for i, p in enumerate(f.params)}
        self.offsets = parameter_offsets(f)
        self.pointers: dict[str, int] = {}
        self.names: dict[int, str] = {}  # of pointers, by their number
        self.images: dict[str, dict[int, int]] = {}
        self.unknown: dict[str, Unknown] = {}
        #: pointers without a name whose alignment copies ask for: they are numbers all the same
        self.judged = copy_addresses(f).pointers

    def get(self, key: int, default: Any = None) -> Any:
        place = self.place(key)
        return default if place is None else self.load(*place)

    def place(self, key: int) -> tuple[str, int, str] | None:
        """Parameter, offset and type of the bytes at a place of the parameter space."""
        offset, size = key >> 8, key & 0xFF
        for p in self.function.params:
            start = self.offsets[p.name]
            if start <= offset and offset + size <= start + p.size:
                return p.name, offset - start, f"b{8 * size}"
        return None

    def load(self, name: str, offset: int, type_: str) -> Any:
        bits = width(type_)
        index = self.index[name]
        leaf = self.facts.leaf(index, offset, bits // 8)
        value = leaf.value
        if isinstance(value, int):
            return value & (1 << bits) - 1
        if isinstance(value, bytes):
            return int.from_bytes(value, "little")
        if leaf.kind == "ptr" and leaf.given:
            return self._pointer(leaf)
        if (name, offset) in self.judged and bits == 64 and (not leaf.given or isinstance(value, Var)):
            declared = self.function.params[index]
            align = declared.align if declared.ptr is not None and declared.align > 1 else DEFAULT
            return self._pointer(
                replace(leaf, name=self.facts.called[index] + (f"[{offset}]" if offset else ""), align=align)
            )
        return self._open(index, offset, bits, type_, leaf)

    def base_of(self, address: int) -> int | None:
        """Where the memory begins that an address lies in, as far as it is behind some pointer."""
        name = self.names.get((address - _POINTERS) >> 41)
        return None if name is None else self.pointers[name]

    def map_place(self, address: int) -> str | None:
        """The parameter that points to a tensor map at an address, with how far behind it."""
        name = self.names.get((address - _POINTERS) >> 41)
        for i, leaves in enumerate(self.facts.params):
            for leaf in leaves:
                if name is not None and leaf.kind == "ptr" and leaf.name == name:
                    behind = address - self.pointers[name]
                    return (f"{behind} bytes behind " if behind else "") + self._place(i, leaf)
        return None

    def held(self, address: int, size: int) -> int | str | None:
        """What lies behind a pointer as the file says, or what to write there; None without a pointer."""
        name = self.names.get((address - _POINTERS) >> 41)
        if name is None:
            return None
        at = address - self.pointers[name]
        image = self.images.get(name)
        if image is None:
            image = self.images[name] = self._image(name)
        found = [image.get(at + n) for n in range(size)]
        if None not in found:
            return int.from_bytes(bytes(b for b in found if b is not None), "little")
        field = f"{{i{8 * size} = N" + (f", at = {at}}}" if at else "}")
        return f"give what {name} holds: holds = [{field}]"

    def _image(self, name: str) -> dict[int, int]:
        """The bytes that are known behind a pointer, by their offset."""
        out: dict[int, int] = {}
        work = [leaf for leaves in self.facts.params for leaf in leaves]
        while work:
            leaf = work.pop()
            work += leaf.holds
            for part in leaf.holds if leaf.name == name else ():
                value = self._pointer(part) if part.kind == "ptr" and part.value is None else part.value
                assert isinstance(value, int | bytes)
                data = value if isinstance(value, bytes) else (value & (1 << 8 * part.size) - 1).to_bytes(
                    part.size, "little"
                )  # fmt: skip
                out.update(enumerate(data, part.offset))
        return out

    def _pointer(self, leaf: Leaf) -> int:
        """Aligned as given and no more, so that nothing else is assumed."""
        found = self.pointers.get(leaf.name)
        if found is None:
            align = leaf.align or DEFAULT
            self.names[len(self.pointers)] = leaf.name
            found = self.pointers[leaf.name] = _POINTERS + (len(self.pointers) << 41) + align
        return found

    def _open(self, index: int, offset: int, bits: int, type_: str, leaf: Leaf) -> Unknown:
        sign = {"s": "i", "f": "f"}.get(type_[0], "u")
        params, value = self.function.params, leaf.value
        place = f"{parameter_text(params, index)}, {sign}{bits} at offset {offset}"
        if isinstance(value, Expr) and not (isinstance(value, Var) and not leaf.given):
            what = f"{place}: give a number for {text(value)}"
        else:
            whole = bits == 8 * params[index].size
            field = "N" if whole else f"[{{{sign}{bits} = N, at = {offset}}}]"
            what = f"{place}: write {parameter_key(params, index)} = {field} under params in a launch file"
        found = self.unknown.get(what)
        if found is None and self.sizes_as_data and isinstance(value, Expr):
            found = self.unknown[what] = Unknown(Reason(what, Cause.DATA), "data")
        if found is None:
            key = ("param", index, offset, bits)
            found = self.unknown[what] = Unknown(Reason(what, Cause.MISSING_FACT), "param", key)
        return found

    def maps(self) -> dict[str, MapFacts]:
        """The tensor maps that are given, by the name of their place."""
        out: dict[str, MapFacts] = {}
        for i, leaves in enumerate(self.facts.params):
            for leaf in leaves:
                if leaf.map is not None:
                    out[self._place(i, leaf)] = leaf.map
        return out

    def _place(self, index: int, leaf: Leaf) -> str:
        return parameter_text(self.function.params, index, leaf.offset)
