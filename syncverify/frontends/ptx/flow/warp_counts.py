"""Counts that one lane adds for a group of lanes, as counts that each lane adds (warp aggregation).

``cuda::pipeline`` counts its threads so. The lanes that execute it form a group, the first of them adds how
many they are:

    activemask.b32 %m;  match.any.sync.b64 %g, %address, %m;
    brev.b32 %r, %g;  bfind.shiftamt.u32 %first, %r;  mov.u32 %lane, %laneid;
    setp.ne.s32 %p, %lane, %first;  @%p bra OUT;
    popc.b32 %c, %g;  neg.s32 %n, %c;  atom.add.acquire.cta.u32 %old, [%address], %n;
    setp.ne.s32 %q, %old, %c;  @%q bra OUT;  mbarrier.inval [...];  OUT:

Which lanes execute ``activemask`` together is not specified. So each lane may be a group of its own, and the
sum is the same whatever the groups are. ``%m`` and ``%g`` become the lane's own bit.

**Counting down.** Who finds its own count left is the last. Where it only invalidates barriers, and no thread
uses one after its count, that step is left out: it comes after all use, for each count releases and acquires.
It does so if nobody counts below zero. Such a count becomes ``atom.dec`` of all ones, of which an agent asks
that the counter holds enough. Relied on beside: lanes of a group did before the count what comes before it,
which ``match`` does not promise (``counts_down`` finds the places for the report).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Function, Imm, Instr, Mem, Operand, Reg, Special, Sym
from syncverify.frontends.ptx.syntax.operands import results, sources

_ALL_ONES = 0xFFFFFFFF
_MOVES = frozenset({"mov", "cvt", "cvta", "add", "sub"})
_PURE = _MOVES | frozenset({"popc", "neg", "setp", "shl", "bra", "brev", "bfind"})


def counts_down(i: Instr) -> bool:
    """Whether an instruction takes one of a count that must not fall below zero."""
    return i.op == "atom" and "dec" in i.mods and i.operands[-1:] == (Imm(_ALL_ONES),)


def counted_by_lane(function: Function) -> Function:
    """The function with counts of groups as counts of lanes; instructions keep their numbers."""
    if not any(i.op == "activemask" for i in function.body):
        return function
    groups = _Groups(function)
    found = [g for k in range(len(function.body)) if (g := groups.at(k)) is not None]
    changed = {k: i for g in found for k, i in groups.rewritten(g).items()}
    body = tuple(changed.get(k, i) for k, i in enumerate(function.body))
    return replace(function, body=body) if changed else function


@dataclass(frozen=True, slots=True)
class _Group:
    """The instructions of one count. ``last``: the comparison that finds the last one, if there is one."""

    mask: int
    match: int
    atomic: int
    last: int | None


class _Groups:
    def __init__(self, function: Function) -> None:
        self.body = function.body
        self.flow = Flow(function)
        self.writes: dict[str, list[int]] = {}
        self.uses: dict[str, list[int]] = {}
        for k, i in enumerate(self.body):
            for name in results(i):
                self.writes.setdefault(name, []).append(k)
            for name in sources(i):
                self.uses.setdefault(name, []).append(k)

    def at(self, k: int) -> _Group | None:
        """The count whose mask instruction ``k`` makes."""
        mask = self._only(k, "activemask")
        match = self._one(self.uses.get(mask, ())) if mask else None
        group = self._only(match, "match") if match is not None else None
        if match is None or not group or "any" not in self.body[match].mods:
            return None
        if self.body[match].operands[2] != Reg(mask) or not self._alike(self.body[match].operands[1]):
            return None
        leads, size = self._leads(group), self._size(group)
        inside = self._behind(leads) if leads is not None and size else None
        if inside is None or not size:
            return None
        return self._count(k, match, size, inside)

    def _count(self, mask: int, match: int, size: str, inside: frozenset[int]) -> _Group | None:
        """The count in the blocks that the first lanes execute, if they do nothing else there."""
        found = [k for k in self._instructions(inside) if self.body[k].op in ("atom", "red")]
        if len(found) != 1:
            return None
        k = found[0]
        amounts = {size} | self._negated(size)
        i = self.body[k]
        amount = i.operands[-1]
        if "add" not in i.mods or i.mods[-1] not in ("u32", "s32") or i.guard is not None:
            return None
        if not isinstance(amount, Reg) or amount.name not in amounts or not self._alike(_address(i)):
            return None
        used = [u for name in results(i) for u in self.uses.get(name, ())]
        if not used:
            return _Group(mask, match, k, None) if self._quiet(inside, {k}) else None
        last, rest = self._last(used, size), self._behind(used[0])
        if last is None or rest is None or amount.name == size or not self._ordered(k):
            return None
        if not rest <= inside or not self._quiet(inside - rest, {k}) or not self._only_invalidates(rest):
            return None
        return _Group(mask, match, k, last) if self._nothing_follows(inside) else None

    def rewritten(self, g: _Group) -> dict[int, Instr]:
        """The instructions of a count by each lane."""
        own = Special("%lanemask_eq")
        made = {
            k: replace(self.body[k], op="mov", mods=("b32",), operands=(self.body[k].operands[0], own))
            for k in (g.mask, g.match)
        }
        if g.last is not None:
            last, atomic = self.body[g.last], self.body[g.atomic]
            made[g.last] = replace(last, operands=(last.operands[0], Imm(0), Imm(1)))
            mods = tuple("dec" if m == "add" else "u32" if m == "s32" else m for m in atomic.mods)
            made[g.atomic] = replace(atomic, mods=mods, operands=(*atomic.operands[:-1], Imm(_ALL_ONES)))
        return made

    # ------------------------------------------------------------ registers

    def _only(self, k: int, op: str) -> str:
        """The register that an instruction of this kind alone writes; empty if it is none."""
        i = self.body[k]
        into = i.operands[0] if i.op == op and i.guard is None else None
        return into.name if isinstance(into, Reg) and self.writes.get(into.name) == [k] else ""

    def _one(self, found: Iterable[int]) -> int | None:
        some = list(found)
        return some[0] if len(some) == 1 else None

    def _alike(self, op: Operand) -> bool:
        """Whether an operand is the same in all lanes: made of numbers, names and parameters."""
        if isinstance(op, Imm | Sym):
            return True
        if isinstance(op, Mem):
            return not op.coords and self._alike(op.base)
        if not isinstance(op, Reg):
            return False
        k = self._one(self.writes.get(op.name, ()))
        if k is None or self.body[k].guard is not None:
            return False
        i = self.body[k]
        if i.op == "ld":
            return "param" in i.mods
        return i.op in _MOVES and all(map(self._alike, i.operands[1:]))

    def _leads(self, group: str) -> int | None:
        """The comparison that holds for, or against, the first lane of a group."""
        for k in self.uses[group]:
            reverse = self._only(k, "brev")
            at = self._one(self.uses.get(reverse, ())) if reverse else None
            first = self._only(at, "bfind") if at is not None and "shiftamt" in self.body[at].mods else ""
            test = self._one(self.uses.get(first, ())) if first else None
            if test is not None and self._compares(test, first) and self._is_lane(test, first):
                return test
        return None

    def _is_lane(self, test: int, first: str) -> bool:
        others = [op for op in self.body[test].operands[1:] if op != Reg(first)]
        if others == [Special("%laneid")]:
            return True
        if len(others) != 1 or not isinstance(others[0], Reg):
            return False
        k = self._one(self.writes.get(others[0].name, ()))
        return k is not None and self.body[k].op == "mov" and self.body[k].operands[1] == Special("%laneid")

    def _compares(self, k: int, name: str) -> bool:
        """Whether an instruction asks whether a register is, or is not, equal to something."""
        i = self.body[k]
        equal = i.mods[:1] in (("eq",), ("ne",)) and len(i.mods) == 2
        return bool(self._only(k, "setp")) and equal and Reg(name) in i.operands[1:]

    def _size(self, group: str) -> str:
        """The register with the number of lanes of a group; empty if something else is asked of it."""
        found = ""
        for k in self.uses[group]:
            size = self._only(k, "popc")
            if size and not found:
                found = size
            elif not self._only(k, "brev"):
                return ""
        return found

    def _negated(self, size: str) -> set[str]:
        return {name for k in self.uses.get(size, ()) if (name := self._only(k, "neg"))}

    def _last(self, used: list[int], size: str) -> int | None:
        """The comparison of what was left with the group's own count."""
        k = self._one(used)
        return k if k is not None and self._compares(k, size) else None

    # ------------------------------------------------------------ control

    def _instructions(self, blocks: Iterable[int]) -> list[int]:
        return [k for n in sorted(blocks) for k in range(self.flow.blocks[n].lo, self.flow.blocks[n].hi)]

    def _behind(self, test: int) -> frozenset[int] | None:
        """The blocks that lanes of one answer alone execute, which leave no register behind."""
        (name,) = results(self.body[test])
        k = self._one(self.uses.get(name, ()))
        if k is None or self.body[k].op != "bra" or self.flow.block_of[k] not in self.flow.reached:
            return None
        branch = self.flow.block_of[k]
        inside = frozenset(self.flow.between(branch))
        entered = {p for n in inside for p in self.flow.blocks[n].pred} & self.flow.reached
        made = {name for j in self._instructions(inside) for name in results(self.body[j])}
        kept = all(self.flow.block_of[u] in inside for name in made for u in self.uses.get(name, ()))
        join = self.flow.join(branch)
        both = join in self.flow.blocks[branch].succ
        leads = self._holds_inside(test, k, join)
        return inside if kept and both and leads and entered <= inside | {branch} and inside else None

    def _holds_inside(self, test: int, k: int, join: int) -> bool:
        """Whether those with equal values execute the blocks between a branch and its join."""
        block = self.flow.blocks[self.flow.block_of[k]]
        falls = block.hi < len(self.body) and self.flow.block_of[block.hi]
        taken_inside = falls == join
        if taken_inside and len(set(block.succ)) != 2:
            return False
        return (self.body[test].mods[0] == "eq") == (taken_inside != self.body[k].negated)

    def _quiet(self, blocks: frozenset[int], counts: set[int]) -> bool:
        return all(
            k in counts or self._plain(k) or _orders_memory(self.body[k]) for k in self._instructions(blocks)
        )

    def _plain(self, k: int) -> bool:
        i = self.body[k]
        return i.op in _PURE and (i.guard is None or i.op == "bra")

    def _only_invalidates(self, blocks: frozenset[int]) -> bool:
        return all(self._plain(k) or self.body[k].mods[:1] == ("inval",) for k in self._instructions(blocks))

    def _ordered(self, k: int) -> bool:
        """Whether a count releases and acquires."""
        i = self.body[k]
        if "acq_rel" in i.mods:
            return True
        block = self.flow.blocks[self.flow.block_of[k]]
        before = [self.body[j] for j in range(block.lo, k)]
        fenced = next((_orders_memory(j) for j in reversed(before) if j.op not in _PURE), False)
        return "acquire" in i.mods and fenced

    def _nothing_follows(self, inside: frozenset[int]) -> bool:
        """Whether no thread uses a barrier object once it has counted."""
        work, seen = list(inside), set(inside)
        while work:
            for s in self.flow.blocks[work.pop()].succ:
                if s < self.flow.end and s not in seen:
                    seen.add(s)
                    work.append(s)
        behind = self._instructions(seen - inside)
        entered_again = any(s in inside for n in seen - inside for s in self.flow.blocks[n].succ)
        return not entered_again and not any(_uses_barriers(self.body[k]) for k in behind)


def _address(i: Instr) -> Operand:
    return next(op for op in i.operands if isinstance(op, Mem))


def _orders_memory(i: Instr) -> bool:
    """Whether an instruction is a fence that releases and acquires."""
    return i.guard is None and (
        (i.op == "fence" and i.mods[:1] in (("sc",), ("acq_rel",)) and "proxy" not in i.mods)
        or (i.op == "membar" and "proxy" not in i.mods)
    )


def _uses_barriers(i: Instr) -> bool:
    """Whether an instruction may use, set up or invalidate a barrier object, now or later."""
    copies = i.op in ("st", "red") and i.mods[:1] in (("async",), ("bulk",))
    return copies or i.op in ("mbarrier", "cp", "call", "brx", "tcgen05", "clusterlaunchcontrol")


__all__ = ["counted_by_lane", "counts_down"]
