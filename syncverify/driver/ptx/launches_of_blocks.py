"""Launches of several blocks in which places of global memory are compared, of a launch that is open too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import chain, islice
from math import prod

from syncverify.base.source import InputError
from syncverify.frontends.ptx.compile.program import Program
from syncverify.frontends.ptx.launch.deciding_sizes import compared_blocks, deciding_sizes
from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.frontends.ptx.launch.meant_launches import (
    along_meant_axes,
    asked_launches,
    asks_places,
    with_others,
)
from syncverify.frontends.ptx.launch.small_sizes import few_sizes, some_sizes
from syncverify.frontends.ptx.syntax.nodes import Function
from syncverify.ir.expr import Expr, Var, names

#: Bytes of a parameter that may be a pointer.
_POINTER = 8
#: How many blocks more than a number that a text compares blocks with.
_MORE = (1, 2)
#: Of launches with small numbers: sizes that get one, launches, blocks.
_MOST_SIZES, _MOST_LAUNCHES, _MOST_BLOCKS = 3, 80, 40


def launches_of_blocks(facts: PtxFacts, program: Program) -> Iterator[PtxFacts]:
    """The launch; of an open one a few of several blocks. What nothing is said of has no number there, but
    for what decides and places nothing: that is small as well."""
    small = _small(facts, program)
    for n, one in enumerate(of_several_blocks(facts, program)):
        yield one
        for values in small if n == 0 else ():
            try:
                yield one.bind(values)
            except InputError:
                continue


def of_several_blocks(facts: PtxFacts, program: Program) -> Iterator[PtxFacts]:
    """The launch; of an open one a few of several blocks. What nothing is said of has no number there."""
    free = _free(facts)
    numbers = all(isinstance(n, int) for n in facts.grid)
    if numbers and facts.symbols().keys() == free:
        yield facts
        return
    meant = facts
    if not numbers and not asks_places(program.function):
        several = with_others(facts, program.function)
        if several is None:  # it may be meant for one block
            return
        meant = several
    for one in chain(
        asked_launches(meant, program.function, free), _of_numbers(meant, program.function, free)
    ):
        extents = [n for n in one.grid if isinstance(n, int)]
        if len(extents) == len(one.grid) and prod(extents) > 1 and one.symbols().keys() <= free:
            yield one


def _of_numbers(facts: PtxFacts, function: Function, free: Collection[str]) -> Iterator[PtxFacts]:
    """Launches of as many blocks as the text compares their numbers with, and a few more; and with sizes that
    the text compares. Other sizes are small."""
    facts = along_meant_axes(facts, function)
    sizes = [
        (e.name, number + more)
        for axis, numbers in compared_blocks(function).items()
        if isinstance(e := facts.grid["xyz".index(axis)], Var)
        for number in numbers
        for more in _MORE
    ]
    for (name, offset), numbers in deciding_sizes(function).items():
        index = [n for n, p in enumerate(function.params) if p.name == name]
        value = facts.leaf(index[0], offset, 4).value if index else None
        if isinstance(value, Var) and value.name not in free:
            sizes += [(value.name, number) for number in numbers]
    for size, number in dict.fromkeys(sizes):
        try:
            one = facts.bind({size: number})
        except InputError:  # the facts do not allow it
            continue
        yield from islice(some_sizes(one, free), 1)


def _small(facts: PtxFacts, program: Program) -> list[dict[str, int]]:
    """Numbers for free sizes that place nothing: of all together, and of each beside large ones."""
    free, sizes = _free(facts), dict[str, tuple[int, ...]]()
    for (name, offset), numbers in deciding_sizes(program.function).items():
        index = [n for n, p in enumerate(program.function.params) if p.name == name]
        value = facts.leaf(index[0], offset, 4).value if index else None
        if isinstance(value, Var) and value.name in free:
            sizes[value.name] = numbers
    together = [{name: x[min(n, len(x) - 1)] for name, x in sizes.items()} for n in range(_TOGETHER)]
    alone = [{name: n} for name, x in sizes.items() for n in x]
    found = [*(together if len(sizes) > 1 else ()), *alone]
    return found[:_MOST_SMALL]


#: Choices of small numbers: of all sizes together, and in all.
_TOGETHER, _MOST_SMALL = 2, 16


def small_launches(facts: PtxFacts, program: Program) -> Iterator[PtxFacts]:
    """Launches of a few blocks with small numbers for the sizes of which the facts say something: slices may
    meet in some of them alone."""
    free = _free(facts)
    meant = along_meant_axes(facts, program.function)
    named = sorted(meant.symbols().keys() - free)
    if not asks_places(program.function) or not 1 <= len(named) <= _MOST_SIZES:
        return
    for numbers in islice(few_sizes(meant, named), _MOST_LAUNCHES):
        try:
            one = meant.bind(numbers)
        except InputError:  # sizes that do not go together
            continue
        extents = [n for n in one.grid if isinstance(n, int)]
        if len(extents) == len(one.grid) and 1 < prod(extents) <= _MOST_BLOCKS:
            yield one


def _free(facts: PtxFacts) -> frozenset[str]:
    """The symbols that are one place of a parameter, and of which nothing else is said."""
    values = [leaf.value for leaves in facts.params for leaf in leaves]
    values += [facts.leaf(n, *load).value for n, loads in enumerate(facts.loads) for load in loads
               if not facts.leaf(n, *load).given]  # fmt: skip
    alone = Counter(e.name for e in values if isinstance(e, Var))
    made = [e for e in (*values, facts.dynamic_smem) if isinstance(e, Expr) and not isinstance(e, Var)]
    said = frozenset[str]().union(*map(names, made), *map(names, facts.assume))
    said |= frozenset[str]().union(*(names(e) for e in facts.grid if isinstance(e, Expr)))
    return frozenset(name for name, n in alone.items() if n == 1) - said


def in_words(facts: PtxFacts, launch: PtxFacts) -> str:
    """What a launch in which the two meet has beyond the facts: its grid and its sizes."""
    found = [f"grid = {list(launch.grid)}"] if launch.grid != facts.grid else []
    named = {(n, x.offset): x.value for n, leaves in enumerate(facts.params) for x in leaves}
    for n, leaves in enumerate(launch.params):
        for leaf in leaves:
            value = named.get((n, leaf.offset), Var(leaf.name))
            if isinstance(value, Var) and isinstance(leaf.value, int):
                found.append(f"{value.name} = {leaf.value}")
    opened = [launch.leaf(n, *load) for n, loads in enumerate(launch.loads) for load in loads]
    large = any(isinstance(x.value, Var) and x.size < _POINTER for x in opened)
    return ", ".join([*found, *(["all other sizes large"] if large else [])])


__all__ = ["in_words", "launches_of_blocks", "of_several_blocks", "small_launches"]
