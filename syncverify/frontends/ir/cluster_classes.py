"""Which clusters of a grid have to be run: one for each different control.

What a block's control sees of its place is gathered as *features*: expressions over the block's builtins
alone whose values decide everything that control, shared addresses, counts and parities depend on.
Clusters with equal features run alike, so one of them represents all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import TYPE_CHECKING, Any

from syncverify.frontends.ir.code import Control
from syncverify.ir.evaluate import ORDER, fold, mentions, terms, total
from syncverify.ir.expr import Binary, Call, Expr, Int, Unary, Var, children, names
from syncverify.ir.launch_grid import Grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[Any]

#: More different controls than this are not analysed one by one.
MAX_REPRESENTATIVES = 4096
_CHUNK = 1 << 18
_BLOCK = frozenset({"block", "block.x", "block.y", "block.z"})
_DEPTH = 64  # of substitutions of registers by their only definition

_ENUMERATED = 256  # values of a loop counter that are looked at one by one

Interval = tuple[int, int]
Terms = tuple[tuple[int, Expr], ...]


def representatives(control: Control, grid: Grid) -> list[int] | None:
    """One cluster for each control that differs; None if they are too many."""
    wanted = features(control, grid)
    if not wanted or grid.clusters == 1:
        return [0]
    import numpy as np

    from syncverify.ir.vectors import evaluate_all

    first: dict[bytes, int] = {}
    for start in range(0, grid.clusters, _CHUNK):
        clusters = np.arange(start, min(start + _CHUNK, grid.clusters), dtype=np.int64)
        columns = []
        for rank in range(grid.ctas):
            env = _block_builtins(grid, clusters, rank)
            for e in wanted:
                try:
                    with np.errstate(all="ignore"):
                        columns.append(np.broadcast_to(evaluate_all(e, env), clusters.shape))
                except ZeroDivisionError:
                    columns.append(clusters)  # what has no value tells nothing: all may differ
        for row, cluster in _unique_rows(columns, clusters):
            first.setdefault(row, cluster)
        if len(first) > MAX_REPRESENTATIVES:
            return None
    return sorted(first.values())


def features(control: Control, grid: Grid) -> list[Expr]:
    """Expressions of the block whose values decide its control; none if all blocks run alike."""
    return list(dict.fromkeys(_Features(control, grid).all()))


@dataclass(slots=True)
class _Features:
    """Collects features from what control depends on."""

    control: Control
    grid: Grid

    def all(self) -> Iterator[Expr]:
        sinks = list(self.control.sinks)
        known = self._definitions()
        for name in self._states(sinks, known):
            sinks += [e for e, _ in self.control.assigned[name]]
        sinks += [self._trips(bounds) for bounds in self.control.loops.values()]
        ranges = self._ranges(known)
        for e in sinks:
            resolved = _resolve(e, known)
            for fails in _divisors(resolved):
                yield from self._of(fails, ranges)
            yield from self._of(resolved, ranges)

    def _definitions(self) -> dict[str, Expr]:
        """What names represent: registers assigned once, registers that only count up or down from a start
        that is assigned once, and variables of loops that start at or step by something of the block."""
        known = {}
        for name, given in self.control.assigned.items():
            starts = [e for e, _ in given if name not in names(e)]
            steps = [_step(e, name) for e, _ in given if name in names(e)]
            if len(starts) == 1 and None not in steps:
                made = Binary("*", Int(_unit(steps)), Var(_turn(name)))
                known[name] = Binary("+", starts[0], made) if steps else starts[0]
        for var, (lo, _, step) in self.control.loops.items():
            if any(_depends(_resolve(e, known)) for e in (lo, step)):
                known[var] = Binary("+", lo, Binary("*", step, Var(_turn(var))))
        return known

    def _states(self, sinks: list[Expr], known: Mapping[str, Expr]) -> list[str]:
        """Registers with no such meaning that reach control."""
        several = self.control.assigned.keys() - known.keys()
        found: set[str] = set()
        work = [*sinks, *(e for bounds in self.control.loops.values() for e in bounds)]
        while work:
            for name in names(_resolve(work.pop(), known)) & several - found:
                found.add(name)
                work += [e for e, _ in self.control.assigned[name]]
        return sorted(found)

    def _trips(self, bounds: tuple[Expr, Expr, Expr]) -> Expr:
        lo, hi, step = bounds
        return Call("max", (Int(0), Call("cdiv", (Binary("-", hi, lo), step))))

    def _ranges(self, known: Mapping[str, Expr]) -> dict[str, Interval]:
        """Ranges of builtins and loop variables; what is missing is unbounded."""
        g = self.grid
        ranges = {"block": (0, prod(g.grid) - 1), "tid": (0, g.threads - 1), "lane": (0, 31)}
        ranges |= {"warp": (0, g.warps - 1), "wg": (0, (g.warps - 1) // 4), "rank": (0, g.ctas - 1)}
        ranges["grid"] = (prod(g.grid), prod(g.grid))
        for axis, blocks, threads in zip("xyz", g.grid, g.block, strict=True):
            ranges[f"block.{axis}"], ranges[f"tid.{axis}"] = (0, blocks - 1), (0, threads - 1)
            ranges[f"grid.{axis}"] = (blocks, blocks)
        for var, bounds in self.control.loops.items():
            lo, hi, _ = (_range(_resolve(e, known), ranges) for e in bounds)
            if lo is not None and hi is not None:
                ranges[var] = (lo[0], max(hi[1] - 1, lo[0]))
                trips = _range(_resolve(self._trips(bounds), known), ranges)
                ranges[_turn(var)] = (0, max(trips[1] - 1, 0)) if trips else (0, max(hi[1] - lo[0] - 1, 0))
        for name in known.keys() & self.control.assigned.keys():
            drift = self._drift(name, ranges)
            if drift is not None:
                ranges[_turn(name)] = drift
        return ranges

    def _drift(self, name: str, ranges: Mapping[str, Interval]) -> Interval | None:
        """How far a counting register gets from its start, in its unit: each step once per turn."""
        low = high = 0
        steps = [(_step(e, name) or 0, loops) for e, loops in self.control.assigned[name] if name in names(e)]
        for step, loops in steps:
            times = prod(ranges[_turn(v)][1] + 1 if _turn(v) in ranges else 0 for v in loops)
            if times == 0:
                return None
            low, high = low + min(step * times, 0), high + max(step * times, 0)
        unit = _unit(step for step, _ in steps)
        return low // unit, high // unit

    def _of(self, e: Expr, ranges: Mapping[str, Interval]) -> Iterator[Expr]:
        if isinstance(e, Binary) and e.op == "%" and isinstance(e.right, Int) and e.right.value > 0:
            m = e.right.value
            e = Binary("%", total((f % m, t) for f, t in terms(e.left, 1) if f % m), e.right)
        if not _depends(e):
            return
        if not _opaque(e):
            yield e
            return
        match e:
            case Binary(op, a, b) if op in ORDER and (split := _split(Binary("-", a, b))) is not None:
                yield from _thresholds(*split, ranges)
                return
            case Binary("%", a, Int(m)) if m and (split := _split(a)) is not None:
                yield Binary("%", split[0], Int(m))
                return
        for c in children(e):
            yield from self._of(c, ranges)


def _thresholds(
    here: Expr, rest: Iterable[tuple[int, Expr]], ranges: Mapping[str, Interval]
) -> Iterator[Expr]:
    """What decides ``here + rest`` compared with 0: where the rest has to be for either outcome."""
    found = sorted(rest, key=lambda t: -abs(t[0]))
    big, *small = found
    span = _range(big[1], ranges)
    if small and span is not None and span[1] - span[0] < _ENUMERATED:
        # the coarsest counter value by value, so that the finer ones bound what matters of the block
        for v in range(span[0], span[1] + 1):
            yield from _thresholds(fold(Binary("+", here, Int(big[0] * v)), {}), small, ranges)
        return
    unit = gcd(*(f for f, _ in found))
    bounds = _range(total((f // unit, t) for f, t in found), ranges)
    # with rest = unit * q: the quotient decides <, <=, >, >=; the remainder too decides == and !=
    exact = Binary("==", Binary("%", here, Int(unit)), Int(0))
    yield _clip(Binary("//", here, Int(unit)), bounds)
    yield Binary("and", exact, _inside(Binary("//", here, Int(unit)), bounds))


def _clip(e: Expr, bounds: Interval | None) -> Expr:
    """The value where it can meet the rest; beyond that it only decides one way."""
    if bounds is None:
        return e
    return Call("min", (Call("max", (e, Int(-bounds[1] - 2))), Int(-bounds[0] + 2)))


def _inside(e: Expr, bounds: Interval | None) -> Expr:
    if bounds is None:
        return Int(1)
    return Binary("and", Binary(">=", e, Int(-bounds[1] - 2)), Binary("<=", e, Int(-bounds[0] + 2)))


def _unit(steps: Iterable[int | None]) -> int:
    """What all steps are multiples of."""
    return gcd(*(s or 0 for s in steps)) or 1


def _step(e: Expr, name: str) -> int | None:
    """The constant c of ``name + c``."""
    offset = 0
    seen = False
    for factor, term in terms(e, 1):
        if term == Var(name) and factor == 1 and not seen:
            seen = True
        elif isinstance(term, Int):
            offset += factor * term.value
        else:
            return None
    return offset if seen else None


def _turn(var: str) -> str:
    """The number of the iteration, as a name."""
    return f"{var}#"


def _depends(e: Expr) -> bool:
    return mentions(e, _BLOCK)


def _opaque(e: Expr) -> bool:
    """Whether the value depends on more than the block."""
    return any(not (x in _BLOCK or x.startswith("grid")) for x in names(e))


def _resolve(e: Expr, known: Mapping[str, Expr]) -> Expr:
    for _ in range(_DEPTH):
        if not names(e) & known.keys():
            return e
        e = fold(e, known)
    return e


def _divisors(e: Expr) -> Iterator[Expr]:
    """Where divisors that depend on the block are zero: such a block stops, and represents no other."""
    for c in children(e):
        yield from _divisors(c)
    if isinstance(e, Binary) and e.op in ("//", "%") and _depends(e.right):
        yield Binary("==", e.right, Int(0))
    if isinstance(e, Call) and e.name == "cdiv" and _depends(e.args[1]):
        yield Binary("==", e.args[1], Int(0))


def _split(e: Expr) -> tuple[Expr, Terms] | None:
    """The expression as (part of the block alone) + (terms without the block), if it is such a sum."""
    here: list[tuple[int, Expr]] = []
    rest: list[tuple[int, Expr]] = []
    for factor, term in terms(e, 1):
        if _depends(term) and _opaque(term):
            return None
        (rest if _opaque(term) else here).append((factor, term))
    return total(here), tuple(rest)


def _range(e: Expr, ranges: Mapping[str, Interval]) -> Interval | None:
    """Bounds of the value, if every name has bounds."""
    match e:
        case Int(v):
            return v, v
        case Var(name):
            return ranges.get(name)
        case Binary(op, _, _) if op in ORDER or op in ("and", "or"):
            return 0, 1
    parts = [_range(c, ranges) for c in children(e)]
    if any(p is None for p in parts):
        return None
    return _bounds(e, [p for p in parts if p is not None])


def _bounds(e: Expr, known: Sequence[Interval]) -> Interval | None:
    """Bounds of an operation by those of its operands."""
    match e:
        case Unary("-", _):
            return -known[0][1], -known[0][0]
        case Unary("not", _):
            return 0, 1
        case Binary("+", _, _):
            return known[0][0] + known[1][0], known[0][1] + known[1][1]
        case Binary("-", _, _):
            return known[0][0] - known[1][1], known[0][1] - known[1][0]
        case Binary("*", _, _):
            corners = [a * b for a in known[0] for b in known[1]]
            return min(corners), max(corners)
        case Binary("%", _, Int(m)) if m > 0:
            return 0, m - 1
        case Binary("//", _, Int(m)) if m > 0:
            return known[0][0] // m, known[0][1] // m
        case Call("cdiv", (_, Int(m))) if m > 0:
            return -(-known[0][0] // m), -(-known[0][1] // m)
        case Call("min", _):
            return min(k[0] for k in known), min(k[1] for k in known)
        case Call("max", _):
            return max(k[0] for k in known), max(k[1] for k in known)
        case Call("select", _):
            return min(k[0] for k in known[1:]), max(k[1] for k in known[1:])
        case Call("abs", _):
            return 0, max(abs(known[0][0]), abs(known[0][1]))
    return None


def _block_builtins(grid: Grid, clusters: Numbers, rank: int) -> dict[str, Numbers | int]:
    """The builtins that features may name, for the CTA ``rank`` of many clusters."""
    across = [g // c for g, c in zip(grid.grid, grid.cluster, strict=True)]
    at = [clusters % across[0], clusters // across[0] % across[1], clusters // (across[0] * across[1])]
    inner = [rank % grid.cluster[0], rank // grid.cluster[0] % grid.cluster[1]]
    inner.append(rank // (grid.cluster[0] * grid.cluster[1]))
    x, y, z = (a * c + i for a, c, i in zip(at, grid.cluster, inner, strict=True))
    env: dict[str, Numbers | int] = {"block.x": x, "block.y": y, "block.z": z, "grid": prod(grid.grid)}
    env["block"] = x + grid.grid[0] * (y + grid.grid[1] * z)
    for axis, size in zip("xyz", grid.grid, strict=True):
        env[f"grid.{axis}"] = size
    return env


def _unique_rows(columns: list[Numbers], clusters: Numbers) -> Iterator[tuple[bytes, int]]:
    """Each different row of the columns, with the first cluster that has it."""
    import numpy as np

    code = np.zeros(clusters.shape, dtype=np.int64)
    for c in columns:
        if c[0] == c[-1] and (c == c[0]).all():
            continue
        _, part = np.unique(c, return_inverse=True)
        _, code = np.unique(code * (int(part.max()) + 1) + part, return_inverse=True)
    _, at = np.unique(code, return_index=True)
    for i in at:
        yield np.array([c[i] for c in columns], dtype=np.int64).tobytes(), int(clusters[i])
