"""The first few sizes that launch facts allow: where a kernel is wrong, it mostly is wrong for small ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from functools import lru_cache, partial, reduce
from itertools import islice, product
from math import prod

from syncverify.frontends.ptx.launch.facts import PtxFacts
from syncverify.ir.expr import Binary, Call, Expr, Int, Var, evaluate, names

#: Sizes that are taken together at most, their values each, and combinations in all.
MOST_SIZES, MOST_VALUES, MOST = 3, 6, 12
#: A size's first value is looked for up to here.
FURTHEST = 1 << 13
#: What a size that nothing bounds is tried with, where it places accesses: steps of up to a warp.
POWERS = (1, 2, 4, 8, 16, 32)
#: Bytes of a parameter that may be a pointer, if nothing is said of it.
_POINTER = 8
#: Clusters of a grid whose blocks may read what others write, and how large sizes are there at most.
SEVERAL, BOUNDS = (2, 16), (16, 256, 1 << 14)


def small_sizes(facts: PtxFacts) -> Iterator[dict[str, int]]:
    """Numbers for the sizes that the facts name, in the order of their sum; none if there are too many.

    Parameters that the facts leave out have no name there, and stay open.
    """
    sizes = sorted(facts.symbols().keys() - facts.left_open())
    if not 1 <= len(sizes) <= MOST_SIZES:
        return
    constraints = facts.constraints()
    values = [_values(name, [c for c in constraints if names(c) == {name}]) for name in sizes]
    together = [c for c in constraints if len(names(c)) > 1 and names(c) <= set(sizes)]
    choices = sorted(product(*map(enumerate, values)), key=lambda c: (sum(i for i, _ in c), c))
    found = 0
    for choice in choices:
        bound = {name: value for name, (_, value) in zip(sizes, choice, strict=True)}
        if all(_holds(c, bound) for c in together):
            yield bound
            found += 1
            if found == MOST:
                return


def few_sizes(facts: PtxFacts, wanted: Iterable[str]) -> Iterator[dict[str, int]]:
    """The first numbers for some sizes, small powers of two, and the last one of each, in the order of their
    sum; for axes of the grid those from 2 on. Constraints on several of them are not asked."""
    known = facts.constraints()

    def of(name: str) -> list[int]:
        allowed = _values(name, [c for c in known if names(c) == {name}], FURTHEST + 1)
        allowed = [v for v in allowed if v > 1 or not name.startswith("grid.")]
        return sorted({*allowed[:MOST_VALUES], *allowed[-1:], *{*POWERS}.intersection(allowed)})

    values = {name: of(name) for name in wanted}
    for choice in sorted(product(*values.values()), key=lambda c: (sum(c), c)):
        yield dict(zip(values, choice, strict=True))


def edge_sizes(facts: PtxFacts) -> Iterator[dict[str, int]]:
    """The smallest and the largest numbers of the sizes that the bytes of dynamic shared memory are made of,
    with the smallest of all others; none where the bytes are a number."""
    sizes = sorted(facts.symbols().keys() - facts.left_open())
    expression = facts.dynamic_smem
    wanted = names(expression) if isinstance(expression, Expr) else frozenset()
    if not wanted or len(wanted) > MOST_SIZES or not wanted <= set(sizes):
        return
    constraints = facts.constraints()
    values: list[list[int]] = []
    for name in sizes:
        allowed = _values(name, [c for c in constraints if names(c) == {name}], FURTHEST + 1)
        edges = sorted({*allowed[:2], *allowed[-2:]})
        values.append(edges if name in wanted else allowed[:1])
    together = [c for c in constraints if len(names(c)) > 1 and names(c) <= set(sizes)]
    for choice in product(*values):
        bound = dict(zip(sizes, choice, strict=True))
        if all(_holds(c, bound) for c in together):
            yield bound


def largest_sizes(facts: PtxFacts, wanted: Set[str]) -> Iterator[dict[str, int]]:
    """The largest numbers that the facts allow of some sizes, with the second smallest of all others, and of
    those that nothing bounds, for 0 may let nothing happen; none where nothing bounds any."""
    sizes = sorted(facts.symbols().keys() - facts.left_open())
    bound: dict[str, int] = {}
    free = set[str]()
    for name in sizes:
        own = [c for c in facts.constraints() if names(c) == {name}]
        allowed = _values(name, own, FURTHEST + 1 if name in wanted else 2)
        if not allowed:
            return
        if allowed[-1] == FURTHEST:
            free.add(name)
        bound[name] = allowed[1] if name in wanted & free else allowed[-1]
    known = [c for c in facts.constraints() if names(c) <= bound.keys()]
    if not (wanted - free).isdisjoint(sizes) and all(_holds(c, bound) for c in known):
        yield bound


def powers_of_two(facts: PtxFacts, wanted: Set[str]) -> Iterator[dict[str, int]]:
    """Small powers of two for each of some sizes that nothing bounds, with the second smallest of all others,
    but for what may be a pointer."""
    leaves = (facts.leaf(n, *load) for n, loads in enumerate(facts.loads) for load in loads)
    pointers = {leaf.name for leaf in leaves if not leaf.given and leaf.size == _POINTER}
    sizes = sorted(n for n in facts.symbols() if not n.startswith("grid.") and n not in pointers)
    known = facts.constraints()
    own = {name: [c for c in known if names(c) == {name}] for name in sizes}
    allowed = {name: _values(name, own[name], 2) for name in sizes}
    if not all(allowed.values()):
        return
    for name in sizes:
        free = name in wanted and all(_holds(c, {name: FURTHEST}) for c in own[name])
        for value in POWERS if free else ():
            bound = {other: found[-1] for other, found in allowed.items()} | {name: value}
            if all(_holds(c, bound) for c in known if names(c) <= bound.keys()):
                yield bound


def _values(name: str, constraints: Iterable[Expr], most: int = MOST_VALUES) -> list[int]:
    """The first numbers from 0 up that the constraints on one size allow."""
    return list(_allowed(name, tuple(constraints), most))


@lru_cache(256)  # a search asks for them again
def _allowed(name: str, constraints: tuple[Expr, ...], most: int) -> tuple[int, ...]:
    found: list[int] = []
    for value in range(FURTHEST + 1):
        if all(_holds(c, {name: value}) for c in constraints):
            found.append(value)
            if len(found) == most:
                break
    return tuple(found)


def _holds(constraint: Expr, values: dict[str, int]) -> bool:
    try:
        return bool(evaluate(constraint, values))
    except ZeroDivisionError:
        return False


def some_sizes(facts: PtxFacts, pointers: Collection[str] = ()) -> Iterator[PtxFacts]:
    """Launches of a few clusters with small numbers for all sizes, as far as some are found; ``pointers``:
    open parameters that get none."""
    from syncverify.ir.solver import model

    names_ = sorted(facts.symbols().keys() - set(pointers))
    if not names_:
        yield facts
        return
    known, least = list(facts.constraints()), 0
    if not all(isinstance(e, int) for e in facts.grid):
        low, high = (n * prod(facts.cluster or (1, 1, 1)) for n in SEVERAL)
        x, y, z = (Int(e) if isinstance(e, int) else e for e in facts.grid)
        known += [x * y * z >= Int(low), x * y * z <= Int(high)]
    for most in BOUNDS:
        sizes = [Call("abs", (Var(name),)) for name in names_]
        larger = reduce(partial(Binary, "or"), [Binary(">", e, Int(least)) for e in sizes])
        found = model([*known, larger, *(Binary("<=", e, Int(most)) for e in sizes)])
        if found is not None:
            least = most
            yield facts.bind({name: found.get(name, 0) for name in names_})


def sizes_around(
    facts: PtxFacts,
    wanted: Set[str],
    threads: int,
    fits: Callable[[Mapping[str, int]], bool],
    tight: Callable[[str, int], Set[int]],
) -> Iterator[dict[str, int]]:
    """Numbers for all sizes but the grid's and what may be a pointer. The wanted ones are small, odd, around
    the threads of a block, and as large as ``fits`` allows; first together, then each beside small others.
    ``tight``: numbers of a size, beside such others, that are tried as well where they fit."""
    leaves = (facts.leaf(n, *load) for n, loads in enumerate(facts.loads) for load in loads)
    pointers = {leaf.name for leaf in leaves if not leaf.given and leaf.size == _POINTER}
    sizes = sorted(n for n in facts.symbols() if not n.startswith("grid.") and n not in pointers)
    constraints = facts.constraints()
    allowed = {
        name: _values(name, [c for c in constraints if names(c) == {name}], FURTHEST) for name in sizes
    }
    if any(not found for found in allowed.values()):
        return

    def at(values: Mapping[str, int], other: int) -> dict[str, int]:
        aims = {name: values.get(name, other) for name in sizes}
        return {name: _nearest(allowed[name], aim) for name, aim in aims.items()}

    few, many = 3, threads + 1
    together = [(2, few), (3, many), (33, few), (many, few), (2 * threads + 1, few)]
    found = [at(dict.fromkeys(wanted, value), other) for value, other in together]
    found += [at({name: many}, few) for name in sorted(wanted) if len(wanted) > 1]
    larger = (at(dict.fromkeys(wanted, FURTHEST >> n), few) for n in range(FURTHEST.bit_length()))
    found += islice(filter(fits, larger), 1)
    some = (at({name: value}, few) for name in sorted(wanted) for value in sorted(tight(name, few)))
    found += filter(fits, some)
    yield from (values for n, values in enumerate(found) if values not in found[:n])


def _nearest(allowed: list[int], aim: int) -> int:
    """The first that is not less, or the last."""
    return next((value for value in allowed if value >= aim), allowed[-1])
