"""Pure instructions, loads and stores as Python text."""

from __future__ import annotations

from collections.abc import Iterator

from syncverify.frontends.ptx.compile.code_text import Text
from syncverify.frontends.ptx.compile.operands import NotPlain
from syncverify.frontends.ptx.compile.runtime import (
    load,
    read_alike,
    read_global,
    read_held,
    read_variable,
    read_word,
    store,
    taken,
)
from syncverify.frontends.ptx.compile.state import CONTEXT, SPACES, TAKE
from syncverify.frontends.ptx.decode.map_addresses import MapAddress, located, moved, somewhere
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem, Operand, Reg, Sym, Vector
from syncverify.frontends.ptx.syntax.operands import CARRY, registers, results, sources
from syncverify.frontends.ptx.syntax.types import width


class Values(Text):
    """Writes what instructions make of registers and of memory whose contents are kept."""

    def _pure(self, k: int) -> None:
        i = self.body[k]
        if k in self.p.spin_predicates:
            name, value = self.p.spin_predicates[k]
            self._text(f"r[{self.p.slot(name)}] = {value}")
            return
        if k in self.p.takes:
            self._take(k, i)
            return
        given = list(self._assignments(k, i))
        written = [name for name, _ in given]
        # what all results are made of is read before any is written
        apart = len(given) > 1 and not set(written[:-1]).isdisjoint(sources(i))
        late: list[tuple[int, str]] = []
        for name, text in given:
            slot = self.p.slot(name)
            if name.startswith("%") and name in ("%total", "%test", "%shfl", "%match"):
                self._text(f"r[{slot}] = {text}")
            elif name != CARRY and name not in self.wanted:
                continue
            else:
                to = f"w{len(late)}" if apart else f"r[{slot}]"
                self._assign(i, to, f"r[{slot}]", text)
                late.append((slot, to))
        for slot, to in late if apart else ():
            self._text(f"r[{slot}] = {to}")

    def _assign(self, i: Instr, to: str, held: str, text: str) -> None:
        """One result where the instruction's guard holds, else what was ``held``."""
        if i.guard is None:
            self._text(f"{to} = {text}")
            return
        g = f"r[{self.p.slot(i.guard.name)}]"
        new, old = (held, text) if i.negated else (text, held)
        self._text(f"v = {g}")
        self._text(f"{to} = (({new}) if v else ({old})) if v.__class__ in I else select(v, {new}, {old})")

    def _take(self, k: int, i: Instr) -> None:
        """An atomic that hands out the next number of a counter."""
        self.space["T"] = taken
        guard = "1" if i.guard is None else f"r[{self.p.slot(i.guard.name)}]" + (" ^ 1" if i.negated else "")
        count = self.p.slot(f"{TAKE}{self.p.counter[k]}")
        address, step = self._operand(i.operands[1]), self._operand(i.operands[2])
        last = step if "inc" in i.mods else "-1"
        one = "1" if "inc" in i.mods else step
        for name in results(i):
            d = f"r[{self.p.slot(name)}]"
            self._text(f"{d} = T(r, {count}, {address}, {one}, {last}, {guard}, {d}, {self._unknown(k)})")

    def _assignments(self, k: int, i: Instr) -> Iterator[tuple[str, str]]:
        alike = [(name, x) for name in results(i) if (x := self._common(k, name)) is not None]
        if alike:
            yield from alike
            return
        if i.op in ("ld", "ldu"):
            yield from self._load(k, i)
            return
        if i.op == "st" and i.mods[0] == "bulk":
            pass  # it leaves nothing that steers: its event forgets what was there
        elif i.op == "st":
            self._store(k, i)
            return
        if i.op == "isspacep":
            answer = self.p.space_answer(k)
            yield from (
                (name, self._unknown(k) if answer is None else str(int(answer))) for name in results(i)
            )
            return
        if i.op == "call" or k in self.p.behind_data:
            for name in results(i):
                yield name, self._unknown(k)
            return
        try:
            moving = self._moving(i)
            yield from self.expr.lines(i) if moving is None else moving
        except NotPlain:
            for name in results(i):
                yield name, self._unknown(k)

    def _load(self, k: int, i: Instr) -> Iterator[tuple[str, str]]:
        m = i.operands[1]
        assert isinstance(m, Mem)
        space = next((x.split("::")[0] for x in i.mods if x.split("::")[0] in SPACES), "generic")
        dest = i.operands[0].items if isinstance(i.operands[0], Vector) else (i.operands[0],)
        type_ = i.mods[-1]
        size = width(type_) // 8
        for n, d in enumerate(dest):
            if not isinstance(d, Reg):
                continue
            offset = m.offset + n * size
            base = self.parameters.get(m.base.name) if isinstance(m.base, Reg) else m.base
            if space == "param" and isinstance(base, Sym):
                offset += base.offset
                known = any(q.name == base.name for q in self.p.function.params) and self.p.function.entry
                name = f"param {base.name}+{offset}:{type_}"
                found = f"r[{self.p.constant_slot(name) if known else self.p.slot(name)}]"
                yield d.name, self.expr.extended(d.name, type_, found)
            elif k in self.p.variables:
                self.space["V"] = read_variable
                address = f"{self.expr.text(m.base)} + {offset}"
                found = f"V(r, {address}, {size}, {self._unknown(k)})"
                if k in self.p.words:
                    self.space["R"] = read_word
                    found = f"R(r, {address}, {size}, {type_[0] != 'u'}, {found})"
                yield d.name, self.expr.extended(d.name, type_, found)
            elif space == "global" and not isinstance(m.base, Sym):
                yield d.name, self.expr.extended(d.name, type_, self._global_word(k, m, n * size, type_))
            else:
                address = self.expr.text(m.base)
                found = f"L(r, {space!r}, {address} + {offset}, {size}, {self._unknown(k)})"
                yield d.name, self.expr.extended(d.name, type_, found)
        self.space["L"] = load

    def _global_word(self, k: int, m: Mem, more: int, type_: str) -> str:
        """The word that a load from global memory brings from ``more`` bytes behind its place."""
        found, size, offset = self._unknown(k), width(type_) // 8, m.offset + more
        if all(r in self.wanted for r in registers(m)):
            self.space["G"] = read_global if self.p.reads_only else read_held
            address = f"{self.expr.text(m.base)}" + (f" + {offset}" if offset else "")
            found = f"G(r, {address}, {size}, {found})"
            if k in self.p.words:
                self.space["R"] = read_word
                found = f"R(r, {address}, {size}, {type_[0] != 'u'}, {found})"
        if k in self.p.words:
            self.space["alike"] = read_alike
            found = f"alike(r, {k}, {size}, {type_[0] + str(more)!r}, {found})"
        return found

    def _store(self, k: int, i: Instr) -> None:
        m = i.operands[0]
        assert isinstance(m, Mem)
        space = next((x.split("::")[0] for x in i.mods if x.split("::")[0] in SPACES), "generic")
        values = i.operands[1].items if isinstance(i.operands[1], Vector) else (i.operands[1],)
        type_ = i.mods[-1]
        size = width(type_) // 8
        data = self.p.stores_data and k in self.p.slice.aside
        self.space["S"] = store
        guard = "1" if i.guard is None else f"r[{self.p.slot(i.guard.name)}]" + (" ^ 1" if i.negated else "")
        for n, v in enumerate(values):
            offset = m.offset + n * size
            if data:
                text = self._unknown(k)
            else:
                text = self._located(v) if size == 8 and self._follows(v) else self.expr.narrowed(v, 8 * size)
            if space == "param" and isinstance(m.base, Sym):
                name = f"param {m.base.name}+{offset + m.base.offset}:{type_}"
                self._text(f"r[{self.p.slot(name)}] = {text}")
            else:
                address = self.expr.text(m.base)
                self._text(f"S(r, {space!r}, {address} + {offset}, {size}, {text}, {guard})")

    def _follows(self, op: Operand) -> bool:
        """Whether a register's value takes the address of a tensor map along."""
        return isinstance(op, Reg) and op.name in self.p.map_addresses.followed

    def _located(self, op: Operand, offset: int = 0) -> str:
        """An operand's value, as an address where the text says its sum."""
        text = self.expr.text(op)
        text = f"({text} + {offset})" if offset else text
        found = self.p.map_addresses.sum(op.name, self.p.at) if isinstance(op, Reg) else None
        if found is None:
            return text
        self.space["located"] = located
        terms = self._constant(found[0])
        return f"located({text}, {terms}, {found[1] + offset}, r[{CONTEXT}])"

    def _moving(self, i: Instr) -> list[tuple[str, str]] | None:
        """The text of an instruction on addresses of tensor maps whose sum the text does not say."""
        d = i.operands[0] if i.operands else None
        if not self._follows(d) if d is not None else True:
            return None
        assert isinstance(d, Reg)
        if i.op not in ("mov", "add", "sub", "selp", "cvta"):
            return None
        parts = [self._located(op) if isinstance(op, Reg) else None for op in i.operands[1:]]
        if i.op == "mov" and parts[0] is not None:
            return [(d.name, parts[0])]
        ((name, text),) = self.expr.lines(i)
        if i.op == "selp" and parts[0] is not None and parts[1] is not None:
            p = self.expr.text(i.operands[3])
            return [(name, f"select({p}, {parts[0]}, {parts[1]})")]
        if i.op in ("add", "sub") and "cc" not in i.mods and i.mods[-1].endswith("64"):
            self.space["moved"] = moved
            a, b = (
                x if x is not None else self.expr.text(op)
                for x, op in zip(parts, i.operands[1:], strict=True)
            )
            return [(name, f"moved({text}, {a}, {b}, {1 if i.op == 'add' else -1})")]
        return None

    def _map_address(self, op: MapAddress) -> str:
        """The address of a tensor map: a number, a size, or a sum that is followed."""
        base = self.expr.text(op.base)
        if not isinstance(op.base, Reg):
            return f"{base} + {op.offset}" if op.offset else base
        if self.p.map_addresses.sum(op.base.name, self.p.at) is not None:
            return self._located(op.base, op.offset)
        self.space["moved"], self.space["somewhere"] = moved, somewhere
        line = self.body[self.p.at].line
        return f"somewhere(moved({base} + {op.offset}, {base}, {op.offset}, 1), {line})"

    def _operand(self, op: Operand) -> str:
        if isinstance(op, MapAddress):
            return self._map_address(op)
        if isinstance(op, Mem):
            base = self.expr.text(op.base)
            return f"{base} + {op.offset}" if op.offset else base
        return self.expr.text(op)
