"""Whether the text of a kernel says that its blocks share global memory in block groups: see
docs/block_groups.md.

How many blocks a block group has, and which accesses to global memory matter. A wrong number proves nothing:
places that others might reach are found where they are reached (``block_groups.Places``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any

from syncverify.checker.prover.modular.group_positions import MOST
from syncverify.frontends.ptx.analysis.blocks.block_groups import BlockGroups
from syncverify.frontends.ptx.analysis.global_memory.global_uses import used_in_global
from syncverify.frontends.ptx.analysis.global_memory.pointer_provenance import ANYWHERE
from syncverify.frontends.ptx.analysis.handover.handover_detection import global_operand
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.decode.global_access import GlobalAccess, decode_global, space_of
from syncverify.frontends.ptx.decode.parts import spaces
from syncverify.frontends.ptx.isa.accesses import from_outside
from syncverify.frontends.ptx.launch.launch_constants import code
from syncverify.frontends.ptx.syntax.nodes import Instr, Mem, Operand, Special
from syncverify.frontends.ptx.syntax.operands import registers, results, sources
from syncverify.frontends.ptx.syntax.types import width
from syncverify.frontends.ptx.values.register_values import INTS, Unknown
from syncverify.symbolic.context import NotConcrete

#: Numbers of blocks that what the text makes of them is looked at for.
_EXAMINED_BLOCKS = 6 * MOST
_THROUGH = "blocks synchronize through global memory"
#: Writes of which none is looked at.
_PLAIN = frozenset({"writes", "copies to"})
#: What differs between the blocks of a row.
_OF_EACH = frozenset({"%ctaid.x", "%clusterid.x"})
_TOP = Unknown("a value that the block's number does not tell")


def detect_block_groups(
    program: Program, cluster: tuple[int, int, int], grid: tuple[Any, Any, Any]
) -> BlockGroups:
    """What the text says of the block groups of a kernel, and its grid.

    Raises NotConcrete where it is none of this kind.
    """
    handing = program.handing
    assert handing is not None
    if not program.apart:
        raise NotConcrete(f"{_THROUGH}, and pointers of different parameters may lead to the same memory")
    if handing.polls or handing.ordered:
        raise NotConcrete(f"{_THROUGH} by turns")
    row = in_rows(cluster, grid)
    size = row or group_size(program, prod(cluster))
    if not size:
        raise NotConcrete(f"{_THROUGH}, in no block groups of one size")
    uses = dict(_uses(program))
    memories = _groups(program, uses)
    kinds: dict[str, set[str]] = {}
    for k, use in uses.items():
        kinds.setdefault(memories[k], set()).add(use)
    shared = _shared_memories(program, uses, memories, kinds)
    tracked = frozenset(k for k in uses if memories[k] in shared)
    boxes = (k for k, i in enumerate(program.body) if i.op == "cp" and "tensor" in i.mods)
    maps = frozenset(k for k in boxes if "prefetch" not in program.body[k].mods)
    stored = {x for x, found in kinds.items() if x not in shared and found & _PLAIN}
    return BlockGroups(
        size,
        (frozenset(uses) - tracked) | maps,
        tracked,
        _followed(program, tracked - handing.accesses.keys() - handing.spins.keys()),
        tuple(sorted(stored | _maps_written(program, maps))),
        row > 0,
        frozenset(k for k in tracked if row and _of_each(program, k)),
    )


def _shared_memories(
    program: Program,
    uses: Mapping[int, str],
    memories: Mapping[int, str],
    kinds: Mapping[str, set[str]],
) -> set[str]:
    """Memory through which the blocks of a group exchange data: by its uses, or by where stores lie."""
    by: dict[str, list[int]] = {}
    for k in uses:
        by.setdefault(memories[k], []).append(k)
    shared = {x for x, found in kinds.items() if _exchanged(found)}
    shared |= {
        x
        for x, found in kinds.items()
        if found & _PLAIN and not found - _PLAIN and _from_block_number(program, by[x])
    }
    for x in shared:
        if {"combines", "reduces"} <= kinds[x]:
            raise NotConcrete("atomics and bulk reductions may meet in global memory")
    return shared


def _followed(program: Program, accesses: Iterable[int]) -> dict[int, GlobalAccess]:
    """Plain accesses that get events because they are tracked."""
    more: dict[int, GlobalAccess] = {}
    for k in accesses:
        i = program.body[k]
        found = decode_global(i, False) if space_of(i) == "global" else None
        if i.op != "cp" and found is None:
            raise NotConcrete(f"{_THROUGH}, by accesses that are not followed")
        more |= {} if found is None else {k: found}
    return more


def in_rows(cluster: tuple[int, int, int], grid: tuple[Any, Any, Any]) -> int:
    """How many blocks a row of the grid has, where its rows are block groups; else 0."""
    (x, y, z), (c, *others) = grid, cluster
    if x.__class__ is not int or y == 1 or z != 1 or any(size > 1 for size in others):
        return 0
    return x if 1 < x <= MOST and x % c == 0 and x > c else 0


def _of_each(program: Program, k: int) -> bool:
    """Whether the place of an access is determined by which block of its row a block is."""
    work, seen = list(registers(_address(program.body[k]))), set[str]()
    made: dict[str, list[Instr]] = {}
    for i in program.body:
        for name in results(i):
            made.setdefault(name, []).append(i)
    while work:
        name = work.pop()
        if name in seen:
            continue
        seen.add(name)
        for i in made.get(name, ()):
            if any(isinstance(o, Special) and o.name in _OF_EACH for o in i.operands):
                return True
            work += sources(i)
    return False


def _exchanged(uses: set[str]) -> bool:
    """Whether what some do to one memory may matter to others."""
    if "reduces" in uses or ("combines" in uses and len(uses) > 1):
        return True
    if uses >= _PLAIN:
        return True  # through both proxies
    return bool(uses & _PLAIN and uses & {"reads", "copies from"})


def _from_block_number(program: Program, accesses: Iterable[int]) -> bool:
    """Whether places are made of the block's number, its threads' and constants, from where memory starts."""
    made: dict[str, list[Instr]] = {}
    for i in program.body:
        for name in results(i):
            made.setdefault(name, []).append(i)
    known: dict[str, bool] = {}

    def is_known(name: str) -> bool:
        if name not in known:
            known[name] = True  # what is made of itself as well
            known[name] = all(map(plain, made.get(name, ())))
        return known[name]

    def plain(i: Instr) -> bool:
        if i.op in ("ld", "ldu"):
            return "param" in i.mods and i.mods[-1].endswith("64")
        return not from_outside(i) and all(map(is_known, sources(i)))

    return all(is_known(r) for k in accesses for r in registers(_address(program.body[k])))


def _uses(program: Program) -> Iterator[tuple[int, str]]:
    """The instructions that reach global memory by addresses, and what they do there."""
    for k, i in enumerate(program.body):
        if program.flow.block_of[k] not in program.flow.reached:
            continue
        if i.op in ("multimem", "tensormap"):
            raise NotConcrete(f"{_THROUGH}, with {i.op}")
        if space_of(i):
            use = {"ld": "reads", "ldu": "reads", "st": "writes"}.get(i.op, "combines")
            yield k, use
        elif i.op == "cp" and not {"tensor", "prefetch"} & set(i.mods) and len(i.operands) > 1:
            ways = spaces(i.mods)
            if i.mods[:1] == ("async",) and "bulk" not in i.mods:
                if sum(isinstance(o, Mem) for o in i.operands) > 1:
                    yield k, "reads"
            elif ways[:1] == ["global"]:
                yield k, "reduces" if i.mods[0] == "reduce" else "copies to"
            elif "global" in ways:
                yield k, "copies from"
        elif used_in_global(i) is not None:
            raise NotConcrete(f"{_THROUGH}, with {i.op}")


def _address(i: Instr) -> Operand:
    memory = [o for o in i.operands if isinstance(o, Mem)]
    if i.op != "cp":
        return memory[0]
    return global_operand(i) if "bulk" in i.mods else memory[1]


def _groups(program: Program, uses: Iterable[int]) -> dict[int, str]:
    """Which memory each instruction reaches, by one of the names that lead there."""
    names = {k: program.origins.of(_address(program.body[k])) for k in uses}
    if any(not x or ANYWHERE in x for x in names.values()):
        raise NotConcrete(f"{_THROUGH}, and where in it is not known")
    parent = {x: x for found in names.values() for x in found}

    def head(x: str) -> str:
        while parent[x] != x:
            x = parent[x]
        return x

    for found in names.values():
        first, *rest = sorted(found)
        for x in rest:
            parent[head(x)] = head(first)
    for x in parent:  # some field of a parameter, at a place that is not told
        whole = x.partition("+")[0]
        if whole in parent:
            parent[head(x)] = head(whole)
    return {k: head(min(found)) for k, found in names.items()}


def _maps_written(program: Program, maps: Iterable[int]) -> set[str]:
    """The tensor maps that are stored through. Raises NotConcrete where what is stored is looked at."""
    seen: dict[bool, set[str]] = {True: set(), False: set()}
    for k in maps:
        i: Instr = program.body[k]
        if program.flow.block_of[k] not in program.flow.reached:
            continue
        stores = spaces(i.mods)[:1] == ["global"]
        memory = [o for o in i.operands if isinstance(o, Mem)]
        found = program.origins.of(memory[0] if stores else memory[1])
        if not found or ANYWHERE in found or (stores and i.mods[0] == "reduce"):
            raise NotConcrete(f"{_THROUGH}, and through tensor maps")
        seen[stores] |= found
    if seen[True] & seen[False]:
        raise NotConcrete(f"{_THROUGH}, and through tensor maps")
    return seen[True]


def group_size(program: Program, ctas: int) -> int:
    """How many blocks a block group has, by what the text divides a block's number by; 0: it is not
    told.
    """
    units = set(_periods(program, ctas)) - {1}
    size = max(units, default=0)
    whole = 1 < size <= MOST and size % ctas == 0
    return size if whole and all(size % x == 0 for x in units) else 0


def _periods(program: Program, ctas: int) -> Iterator[int]:
    """Of each register that the block's number alone tells: after how many blocks it is the same again, but
    for what so many blocks add each time."""
    pure = code(program)
    times = Counter(name for i in program.body for name in results(i))
    r: list[Any] = [_TOP] * program.size
    series: dict[str, list[int]] = {}
    for c in range(_EXAMINED_BLOCKS):
        for name, number in (("%ctaid.x", c), ("%clusterid.x", c // ctas)):
            if name in program.slots:
                r[program.slots[name]] = number
        for k, run in pure.items():
            i = program.body[k]
            names = [n for n in results(i) if n in program.slots]
            if i.guard is not None or any(times[n] > 1 for n in names) or not names:
                continue
            if c and not any(n in series for n in names):
                continue  # it is determined by more than that
            run(r, 0)
            for n in names:
                value = r[program.slots[n]]
                if value.__class__ in INTS:
                    series.setdefault(n, []).append(int(value))
                else:
                    series.pop(n, None)
    for name, found in series.items():
        wrap = 1 << width(program.function.registers[name])
        if len(found) == _EXAMINED_BLOCKS and (unit := _period(found, wrap)):
            yield unit


def _period(found: list[int], wrap: int) -> int:
    for n in range(1, MOST + 1):
        if len({(b - a) % wrap for a, b in zip(found, found[n:], strict=False)}) == 1:
            return n
    return 0


__all__ = ["group_size", "detect_block_groups"]
