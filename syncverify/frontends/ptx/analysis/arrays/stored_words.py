"""Which stores may have written what a load reads, and what words are made of besides data.

Addresses are compared by the variables and pointer parameters that go into them: pointers that are loaded are
the caller's, who may let them lead elsewhere. In shared memory an address that no variable goes into may lead
anywhere.

Example: what ``ld.shared [A + 8]`` reads a ``st.shared [A]`` may have written, and ``st.shared [B]`` has not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.flow.use_def import behind
from syncverify.frontends.ptx.syntax.nodes import Imm, Instr, Mem, Operand, Reg, Special, Sym, Vector
from syncverify.frontends.ptx.syntax.operands import sources
from syncverify.frontends.ptx.syntax.types import width

#: What reads memory: what goes into the address does not go into the word.
LOADS = frozenset("ld ldu atom tex tld4 suld ldmatrix wmma".split())
#: Words that differ between threads, blocks or times, whoever calls the kernel.
_NOT_GIVEN = (
    *("%tid", "%laneid", "%warpid", "%lanemask", "%ctaid", "%cluster", "%ntid", "%nctaid", "%ncluster"),
    *("%clock", "%globaltimer", "%smid", "%nsmid", "%gridid", "%nwarpid", "%pm", "%is_explicit"),
)
#: Which lanes there are, and what they say: numbers of theirs.
_OF_LANES = frozenset("vote match elect activemask call".split())
#: More bits than any copy has.
_ANY_SIZE = 1 << 40
_FLOATS = frozenset({"f16", "bf16", "f16x2", "bf16x2", "f32", "f64", "f32x2"})


@dataclass(frozen=True, slots=True)
class Store:
    """Words that instruction ``k`` stores, of so many bits each.

    ``adds``: they are added to what is there, or change its bits. ``lost``: what is there afterwards is not
    followed.
    """

    k: int
    at: Mem
    words: tuple[Operand, ...]
    bits: int
    adds: bool = False
    lost: bool = False
    space: str = ""


def _but_addresses(i: Instr) -> Sequence[str]:
    """The registers that go into what an instruction makes; of a load its guard alone."""
    if i.op not in LOADS:
        return sources(i)
    return () if i.guard is None else (i.guard.name,)


@dataclass
class StoredWords:
    """Stores and loads of one function."""

    flow: Flow
    _made: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _of: dict[int, list[Store]] = field(default_factory=dict)

    @cached_property
    def stores(self) -> list[Store]:
        body, blocks = self.flow.body, self.flow.blocks
        reached = (k for b in sorted(self.flow.reached) for k in range(blocks[b].lo, blocks[b].hi))
        some = [*reached]
        found = [s for k in some if (s := _store(k, body[k])) is not None]
        copies = [k for k in some if _copies(body[k])]
        found += [z for k in copies if (z := _zeros(k, body[k])) is not None]
        grown = True
        while grown:  # a copy of what is stored stores it, too
            more = [k for k in copies if any(self._copied(k, s) for s in found)]
            copies = [k for k in copies if k not in more]
            found += [Store(k, _ends(body[k])[0], (Imm(0),), _ANY_SIZE, lost=True, space=_sides(body[k])[0])
                      for k in more]  # fmt: skip
            grown = bool(more)
        return found

    def of(self, k: int) -> list[Store]:
        """The stores that may have written what instruction ``k`` loads."""
        if k not in self._of:
            i = self.flow.body[k]
            at = i.operands[1] if len(i.operands) > 1 else None
            some = self.stores if isinstance(at, Mem) else []
            self._of[k] = [s for s in some if isinstance(at, Mem) and self._meet(k, at, _space(i), s)]
        return self._of[k]

    def passes_memory(self, v: int) -> bool:
        """Whether something that the function stores may go into a version."""
        body = self.flow.body
        return any(body[k].op in LOADS and (body[k].op != "ld" or self.of(k)) for k in self.makers(v))

    def is_given(self, v: int) -> bool:
        """Whether data goes into a version, and nothing that threads, blocks or lanes are numbered by."""
        made = [self.flow.body[k] for k in self.makers(v)]
        data = any(i.op in LOADS for i in made)
        return data and not any(i.op in _OF_LANES or any(map(_is_number, i.operands)) for i in made)

    def makers(self, v: int) -> tuple[int, ...]:
        """The instructions that a version is made by, back to loads."""
        if v not in self._made:
            self._made[v] = tuple(
                k for k in map(self.flow.versions.writer.__getitem__, self.behind(v)) if k >= 0
            )
        return self._made[v]

    def behind(self, v: int) -> Iterator[int]:
        """A version and what it is made of, each once; not what addresses of loads are made of."""
        return behind(self.flow, [v], _but_addresses)

    def _copied(self, k: int, s: Store) -> bool:
        """Whether a copy may read what a store has written."""
        i = self.flow.body[k]
        return self._meet(k, _ends(i)[1], _sides(i)[1], s)

    def _meet(self, k: int, at: Mem, space: str, s: Store) -> bool:
        """Whether an access and a store may be to the same bytes."""
        if space and s.space and space != s.space:
            return False
        one, two = self._bases(k, at), self._bases(s.k, s.at)
        if one and two:
            return not one.isdisjoint(two)
        return not (space == s.space == "global") or not (one or two)

    def _bases(self, k: int, at: Mem) -> frozenset[Hashable]:
        """The variables and pointer parameters that an address is made of."""
        if not isinstance(at.base, Reg):
            return frozenset({at.base.name}) if isinstance(at.base, Sym) else frozenset()
        found = set[Hashable]()
        for n in self.makers(self.flow.versions.read(at.base.name, k)):
            i = self.flow.body[n]
            m = i.operands[1] if len(i.operands) > 1 else None
            if i.op == "ld" and "param" in i.mods:
                if isinstance(m, Mem) and isinstance(m.base, Sym) and width(i.mods[-1]) == 64:
                    found.add((m.base.name, m.base.offset + m.offset))
            else:
                found |= {op.name for op in i.operands if isinstance(op, Sym)}
        return frozenset(found)


def _space(i: Instr) -> str:
    """The space that an access names; empty where it may be any."""
    named = {m.partition("::")[0] for m in i.mods} & {"global", "shared", "const", "local", "param"}
    return min(named, default="")


def _store(k: int, i: Instr) -> Store | None:
    space = _space(i)
    if space in ("local", "param") or i.op not in ("st", "stmatrix", "atom", "red"):
        return None
    at, *words = i.operands[1:] if i.op == "atom" else i.operands[:2]
    if i.op == "atom" and "L2::cache_hint" in i.mods:
        words.pop()
    if not isinstance(at, Mem):
        return None
    if "bulk" in i.mods:  # zeros
        return Store(k, at, (Imm(0),), 64, space=space)
    if i.op == "stmatrix":
        return Store(k, at, _each(words[-1:]), 16, space=space)
    counts = not {"inc", "dec"}.isdisjoint(i.mods) or not _FLOATS.isdisjoint(i.mods)
    adds = not {"add", "xor"}.isdisjoint(i.mods)
    return Store(k, at, _each(words[-1:]), width(i.mods[-1]), adds, counts and i.op != "st", space)


def _copies(i: Instr) -> bool:
    """Whether an instruction copies from an address to another one."""
    return i.op == "cp" and "tensor" not in i.mods and len(_ends(i)) > 1 and len(_sides(i)) > 1


def _ends(i: Instr) -> list[Mem]:
    """Where a copy writes, where it reads, and its barrier."""
    return [op for op in i.operands if isinstance(op, Mem)]


def _sides(i: Instr) -> list[str]:
    """The spaces that a copy writes and reads, in the order of its text."""
    named = (m.partition("::")[0] for m in i.mods if not m.startswith(("complete", "mbarrier")))
    return [m for m in named if m in ("global", "shared")]


def _zeros(k: int, i: Instr) -> Store | None:
    """What a copy with a size of its source, or without a source, fills up."""
    fills = "bulk" not in i.mods and len(i.operands) - any("cache_hint" in m for m in i.mods) > 3
    return Store(k, _ends(i)[0], (Imm(0),), 64, space=_sides(i)[0]) if fills else None


def _each(ops: Sequence[Operand]) -> tuple[Operand, ...]:
    return tuple(x for op in ops for x in (op.items if isinstance(op, Vector) else (op,)))


def _is_number(op: Operand) -> bool:
    return isinstance(op, Special) and op.name.startswith(_NOT_GIVEN)


__all__ = ["LOADS", "Store", "StoredWords"]
