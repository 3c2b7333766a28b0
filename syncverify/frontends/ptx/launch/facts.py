"""The launch facts of a PTX kernel: sizes of the launch, and what its parameters hold.

A launch file's table says what the PTX text leaves to the host (docs/cli.md); whatever it leaves out is a
symbol: ``rows`` for a whole parameter of that name, ``param2`` for one without a name, ``args[8]`` for what
lies at byte 8 of one, ``grid.x``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from math import prod
from typing import Any

from syncverify.base.kernel_names import base_name
from syncverify.base.source import UNKNOWN_SPAN, Span
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.isa.targets import shared_bytes
from syncverify.frontends.ptx.launch.parameters import INTEGERS, Fail, Leaf, expression, leaves
from syncverify.frontends.ptx.launch.usual_blocks import reads_rows
from syncverify.frontends.ptx.syntax.nodes import Function, Mem, Module, Sym, Variable, Vector
from syncverify.frontends.ptx.syntax.parameter_names import parameter_key, parameter_name, unnumbered
from syncverify.ir.consistency import Fact, demand, equals, within
from syncverify.ir.expr import Binary, Expr, Int, Var, evaluate, names, substitute

Size = int | Expr
Grid = tuple[Size, Size, Size]
#: Bytes of shared memory that a block can have.
MOST_SHARED = 227 * 1024
#: Threads of a warp: a block of no more has one row.
_WARP = 32
_GRID = ((1, 2**31 - 1), (1, 65535), (1, 65535))
#: What values of variables, instead of parameters, are named by.
VARIABLE = "variables."
_ANY = (-(2**63), 2**64 - 1)


@dataclass(frozen=True, slots=True)
class PtxFacts:
    """What is known of a launch of one kernel.

    ``grid``: CTAs, as numbers or expressions. ``block``, ``cluster``: None where neither the file nor the
    kernel says (no cluster directive: usually [1, 1, 1], but the host may ask for another). ``dynamic_smem``
    in bytes, ``registers`` per thread at entry: None if not given. ``params``: what is given, by index.
    """

    kernel: str
    grid: tuple[Size, Size, Size]
    block: tuple[int, int, int] | None
    cluster: tuple[int, int, int] | None
    dynamic_smem: Size | None
    registers: int | None
    assume: tuple[Expr, ...]
    variables: tuple[Variable, ...]
    params: tuple[tuple[Leaf, ...], ...]
    loads: tuple[tuple[tuple[int, int], ...], ...] = ()  # per parameter (offset, size), none overlapping
    file: str = ""
    #: what is given of variables in constant and global memory: by their names in the text, by byte offset
    images: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    bounded: bool = False  # the block is what .maxntid allows at most: nothing says its size
    threads: int | None = None  # as many .maxntid allows at most in a block whose shape nothing gives
    dependent: bool = False  # launched while the grid before may still run
    called: tuple[str, ...] = ()  # the symbol of each parameter that is left open
    chosen: bool = False  # numbers of sizes are a search's: that a host launches the kernel with them is open
    _cache: dict[tuple[int, int, int], Leaf] = field(default_factory=dict, compare=False, repr=False)

    def leaf(self, index: int, offset: int, size: int) -> Leaf:
        """What a load of ``size`` bytes at ``offset`` of a parameter gives: a leaf at that place."""
        key = index, offset, size
        found = self._cache.get(key)
        if found is None:
            found = self._cache[key] = self._find(index, offset, size)
        return found

    def _find(self, index: int, offset: int, size: int) -> Leaf:
        end = offset + size
        known = [p for p in self.params[index] if p.offset < end and p.end > offset]
        if len(known) == 1 and (known[0].offset, known[0].size) == (offset, size):
            return known[0]
        parts = [_cut(p, offset, end) for p in known]
        if None in parts:
            return self._open(index, offset, size)
        at = offset
        for start, stop in [*((p.offset, p.end) for p in known), (end, end)]:
            if start > at:
                if not known and (whole := self._enclosing(index, offset, end)) is not None:
                    return whole
                parts += self._gap(index, at, start)
            at = max(at, stop)
        if len(parts) == 1 and (only := parts[0]) is not None and not only.given:
            return only
        return _joined([p for p in parts if p is not None], offset, size)

    def _enclosing(self, index: int, offset: int, end: int) -> Leaf | None:
        """The part of a larger open leaf."""
        for start, size in self.loads[index]:
            if start <= offset and end <= start + size and size != end - offset:
                return _cut(self._open(index, start, size), offset, end)
        return None

    def _gap(self, index: int, start: int, end: int) -> list[Leaf | None]:
        """Open leaves for the bytes from start to end."""
        inside = [(o, s) for o, s in self.loads[index] if start <= o and o + s <= end]
        if sum(s for _, s in inside) != end - start:
            inside = [(start, end - start)]
        return [self._open(index, o, s) for o, s in inside]

    def _open(self, index: int, offset: int, size: int) -> Leaf:
        param = self.variables[index]
        name, kind = self.called[index], "open"
        if (offset, size) == (0, param.size):
            if param.ptr is not None and size == 8:
                return Leaf(0, size, "ptr", name=name, align=max(param.align, 1), given=False)
            if param.type in ("f16", "bf16", "f32", "f64"):
                return Leaf(0, size, param.type, name=name, given=False)
            if param.type[0] == "s" or (param.signed and param.type[0] == "u"):
                kind = f"i{param.type[1:]}"
            elif param.type[0] == "u":
                kind = f"u{param.type[1:]}"
        elif (offset, size) in self.loads[index]:
            name += f"[{offset}]"
        else:
            name += f"[{offset}:{offset + size}]"
        return Leaf(offset, size, kind, Var(name), name, given=False)

    def symbols(self) -> Mapping[str, tuple[int, int]]:
        """Every size without a number, given by name or left open, and the range of its type."""
        out: dict[str, tuple[int, int]] = {}
        for e, low, high, _ in self._ranged():
            if isinstance(e, Var):
                old = out.get(e.name, _ANY)
                out[e.name] = max(old[0], low), min(old[1], high)
            for name in names(e):
                out.setdefault(name, _ANY)
        for e in self.assume:
            for name in names(e):
                out.setdefault(name, _ANY)
        return out

    def left_open(self) -> frozenset[str]:
        """The symbols of what the facts leave out of the parameters."""
        leaves = (self.leaf(i, *load) for i, loads in enumerate(self.loads) for load in loads)
        return frozenset(leaf.name for leaf in leaves if not leaf.given)

    def constraints(self) -> tuple[Expr, ...]:
        """What holds of the symbols: the ranges of their types, whole clusters in the grid, ``assume``."""
        out = [Binary("and", e >= Int(low), e <= Int(high)) for e, low, high, _ in self._ranged()]
        for extent, size in zip(self.grid, self.cluster or (), strict=False):
            if isinstance(extent, Expr) and size > 1:
                out.append(Binary("==", extent % size, Int(0)))
        return (*out, *self.assume)

    def stated(self, places: Mapping[str, Span]) -> tuple[Fact, ...]:
        """``constraints`` in the words of the launch file. ``places``: of the conditions of ``assume``."""
        out = [
            within(e, low, high, f"{low} <= {text(e)} <= {high} ({what})")
            for e, low, high, what in self._ranged()
        ]
        for extent, size in zip(self.grid, self.cluster or (), strict=False):
            if isinstance(extent, Expr) and size > 1:
                whole = extent % size
                out.append(Fact(Binary("==", whole, Int(0)), f"{text(whole)} == 0 (whole clusters)"))
        out += [Fact(a, f"assume {t}", places.get(t, UNKNOWN_SPAN)) for a in self.assume for t in [text(a)]]
        return tuple(out)

    def _ranged(self) -> Iterable[tuple[Expr, int, int, str]]:
        """Expressions, the ranges of their types, and what has that type."""
        for axis, extent, (low, high) in zip("xyz", self.grid, _GRID, strict=True):
            if isinstance(extent, Expr):
                yield extent, low, high, f"grid.{axis}"
        if isinstance(self.dynamic_smem, Expr):
            yield self.dynamic_smem, 0, MOST_SHARED, "dynamic_smem"
        for index, given in enumerate(self.params):
            opened = (self.leaf(index, *load) for load in self.loads[index])
            for leaf in [*given, *(o for o in opened if not o.given)]:
                if isinstance(leaf.value, Expr):
                    low, high = (
                        INTEGERS[leaf.kind][1] if leaf.kind in INTEGERS else (0, (1 << 8 * leaf.size) - 1)
                    )
                    what = f"parameter {parameter_key(self.variables, index)}, {leaf.kind}"
                    yield leaf.value, low, high, what

    def spelled(self, values: Mapping[str, int]) -> dict[str, int]:
        """The values, with the names of parameters for their numbers (``param2``)."""
        return {unnumbered(name, self.called): value for name, value in values.items()}

    def bind(self, values: Mapping[str, int]) -> PtxFacts:
        """The launch with numbers for some symbols; InputError for other names, and where a range or an
        assumption is broken."""
        own, known = LaunchFacts(file=self.file), self.symbols()
        values = self.spelled(values)
        held = {name: value for name, value in values.items() if name.startswith(VARIABLE)}
        values = {name: value for name, value in values.items() if name not in held}
        for name in values:
            if name not in known:
                close = get_close_matches(name, known, 1)
                hint = (
                    f"did you mean {close[0]!r}?"
                    if close
                    else f"open: {', '.join(sorted(known)) or 'nothing'}"
                )
                own.fail(f"kernel {self.kernel} has no open size {name!r}: {hint}")
        put = {name: Int(value) for name, value in values.items()}
        for constraint in self.constraints():
            if _number(substitute(constraint, put), own.fail) == 0:
                given = ", ".join(f"{n} = {values[n]}" for n in sorted(names(constraint) & values.keys()))
                own.fail(f"kernel {self.kernel}: {given} breaks {text(constraint)}")

        def size(value: Size) -> Size:
            return value if isinstance(value, int) else _number(substitute(value, put), own.fail)

        def leaf(one: Leaf) -> Leaf:
            return replace(one, value=size(one.value)) if isinstance(one.value, Expr) else one

        params = []
        for index, given_leaves in enumerate(self.params):
            opened = (self.leaf(index, *load) for load in self.loads[index])
            bound = [replace(leaf(o), given=True) for o in opened if not o.given and o.name in values]
            params.append(tuple(sorted([*map(leaf, given_leaves), *bound], key=lambda x: x.offset)))
        x, y, z = self.grid
        return replace(
            self,
            grid=(size(x), size(y), size(z)),
            dynamic_smem=None if self.dynamic_smem is None else size(self.dynamic_smem),
            assume=tuple(a for a in (size(a) for a in self.assume) if isinstance(a, Expr)),
            params=tuple(params),
            images={**self.images, **{name.removeprefix(VARIABLE): _word(v) for name, v in held.items()}},
            _cache={},
        )


def _word(value: int) -> dict[int, int]:
    """The bytes of a number from the start of a variable on."""
    return dict(enumerate((value & (1 << 64) - 1).to_bytes(8, "little")))


def _number(e: Expr, fail: Fail) -> Size:
    """The value of an expression without names; else the expression."""
    if names(e):
        return e
    try:
        return evaluate(e, {})
    except ZeroDivisionError:
        fail(f"division by zero in {text(e)}")


def text(e: Expr) -> str:
    """An expression as a launch file would say it."""
    from syncverify.ir.text.printed_expressions import print_expr

    return print_expr(e)


def _cut(leaf: Leaf, start: int, end: int) -> Leaf | None:
    """The part of a leaf between two offsets of its parameter; None where it is no number."""
    low, high = max(start, leaf.offset), min(end, leaf.end)
    shift, size = 8 * (low - leaf.offset), high - low
    mask = (1 << 8 * size) - 1
    value = leaf.value
    if isinstance(value, bytes):
        value = int.from_bytes(value, "little")
    kind = f"u{8 * size}"
    if isinstance(value, int):
        return Leaf(low, size, kind, value >> shift & mask)
    if value is None or leaf.kind in ("ptr", "tensormap"):
        return None
    if size == leaf.size and leaf.kind[0] != "i":
        return replace(leaf, kind=kind)
    shifted = Binary("//", value, Int(1 << shift)) if shift else value
    return Leaf(low, size, kind, shifted % (mask + 1))


def _joined(parts: list[Leaf], offset: int, size: int) -> Leaf:
    """One leaf of the numbers in its parts."""
    number, rest = 0, []
    for part in parts:
        scale = 1 << 8 * (part.offset - offset)
        if isinstance(part.value, int):
            number += part.value * scale
        elif isinstance(part.value, Expr):
            rest.append(part.value * scale if scale > 1 else part.value)
    total: Size = number
    for e in rest:
        total = e if isinstance(total, int) and total == 0 else e + total
    return Leaf(offset, size, f"u{8 * size}", total)


def ptx_facts(facts: LaunchFacts, function: Function, module: Module | None = None) -> PtxFacts:
    """The facts that a launch file and an entry's directives give; InputError where they are wrong.

    ``module``: whose variables the file may give, and whose architecture says how much shared memory.
    """
    table = facts.table(base_name(function.name), function.name)
    fail = facts.fail
    block = _block(facts, table, function)
    cluster = _cluster(facts, table, function)
    grid = _grid(table, cluster, function.name, fail)
    given = _parameters(table.get("params", {}), function, fail)
    called = _called(function, given)
    numbered = {f"param{i}": Var(name) for i, name in enumerate(called) if not given[i]}
    x, y, z = (e if isinstance(e, int) else substitute(e, numbered) for e in grid)
    smem = expression(table["dynamic_smem"], "dynamic_smem", fail) if "dynamic_smem" in table else None
    smem = smem if smem is None or isinstance(smem, int) else substitute(smem, numbered)
    most_shared = MOST_SHARED if module is None else shared_bytes(module.target)
    fixed = sum(v.size for v in function.variables if v.space == "shared" and not v.extern)
    if isinstance(smem, int) and not 0 <= smem <= most_shared - fixed:
        and_fixed = f", beside {fixed} bytes of shared variables" if fixed else ""
        fail(f"dynamic_smem: {smem} is not from 0 to {most_shared - fixed}{and_fixed}")
    found = PtxFacts(
        kernel=function.name,
        grid=(x, y, z),
        block=block,
        cluster=cluster,
        dynamic_smem=smem,
        registers=_registers(facts, table, function),
        assume=tuple(substitute(e, numbered) for e in _assumptions(table.get("assume", []), fail)),
        variables=function.params,
        params=given,
        loads=_loads(function),
        file=facts.file,
        bounded="block" not in table and _directive(function, "reqntid") is None and block is not None,
        threads=_threads(function) if block is None else None,
        images={} if module is None else _images(table.get("variables", {}), function, module, fail),
        dependent=facts.flag("dependent", table.get("dependent", False)),
        called=called,
    )
    _known_names(found, fail)
    return found


def demand_launch(
    facts: LaunchFacts, function: Function, known: PtxFacts, values: Mapping[str, int]
) -> tuple[str, ...]:
    """What has to be assumed for some launch to meet the facts, with ``values`` for some sizes.

    Raises NoLaunchError, with the lines of the launch file, where they contradict each other.
    """
    own = (base_name(function.name), function.name)
    given = facts.table(*own).get("assume", [])
    places = {text(e): facts.line_of(s, *own) for s in given for e in [expression(s, "assume", facts.fail)]
              if isinstance(e, Expr)}  # fmt: skip
    stated = [*known.stated(places), *equals(dict(values), "given for this check")]
    return demand(stated, function.name, Span(facts.file))


def _known_names(found: PtxFacts, fail: Fail) -> None:
    """An assumption on a name that stands nowhere else is a slip."""
    known = replace(found, assume=(), _cache={}).symbols()
    for e in found.assume:
        for name in sorted(names(e) - known.keys()):
            close = get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known)) or 'none'}"
            fail(f"assume: no size of kernel {found.kernel} is called {name!r}: {hint}")


def _grid(
    table: Mapping[str, Any], cluster: tuple[int, int, int] | None, kernel: str, fail: Fail
) -> tuple[Size, Size, Size]:
    if "grid" not in table:
        return Var("grid.x"), Var("grid.y"), Var("grid.z")
    given = table["grid"] if isinstance(table["grid"], list) else [table["grid"]]
    if not 1 <= len(given) <= 3:
        fail("grid: give one to three sizes")
    x, y, z = (expression(v, "grid", fail) for v in [*given, 1, 1][:3])
    for extent, (low, high), size in zip((x, y, z), _GRID, cluster or (1, 1, 1), strict=True):
        if isinstance(extent, int) and not low <= extent <= high:
            fail(f"grid: {extent} is not from {low} to {high}")
        if isinstance(extent, int) and extent % size:
            fail(f"grid: {extent} of kernel {kernel} is no multiple of its cluster's {size}")
    return x, y, z


def _block(facts: LaunchFacts, table: Mapping[str, Any], function: Function) -> tuple[int, int, int] | None:
    given = facts.dims("block", table["block"]) if "block" in table else None
    exact, most = _directive(function, "reqntid"), _directive(function, "maxntid")
    block = given or exact or (None if _threads(function) else most)
    if block is None:
        return None
    if given and exact and given != exact:
        facts.fail(f"block = {list(given)}, but kernel {function.name} has .reqntid {_dims(exact)}")
    if most and prod(block) > prod(most):
        facts.fail(f"block = {list(block)}, but kernel {function.name} has .maxntid {_dims(most)}")
    if prod(block) > 1024 or block[2] > 64:
        facts.fail(
            f"block = {list(block)} of kernel {function.name}: a block has at most 1024 threads, 64 in z"
        )
    return block


def _threads(function: Function) -> int | None:
    """As many threads as a block may have of which the text gives the number alone, though it reads rows."""
    most = _directive(function, "maxntid")
    if most is None or prod(most[1:]) > 1 or not _WARP < most[0] <= 1024 or not reads_rows(function):
        return None
    return most[0]


def _cluster(facts: LaunchFacts, table: Mapping[str, Any], function: Function) -> tuple[int, int, int] | None:
    given = facts.dims("cluster", table["cluster"]) if "cluster" in table else None
    exact = _directive(function, "reqnctapercluster")
    cluster = given or exact
    if cluster is None:
        return None
    if given and exact and given != exact:
        facts.fail(
            f"cluster = {list(given)}, but kernel {function.name} has .reqnctapercluster {_dims(exact)}"
        )
    most = (function.directives.get("maxclusterrank") or (16,))[0]
    if prod(cluster) > most:
        facts.fail(
            f"cluster = {list(cluster)} of kernel {function.name}: a cluster has at most {most} blocks"
        )
    return cluster


def _registers(facts: LaunchFacts, table: Mapping[str, Any], function: Function) -> int | None:
    if "registers" not in table:
        return None
    count = facts.positive("registers", table["registers"])
    most = (function.directives.get("maxnreg") or (255,))[0]
    if count > most:
        facts.fail(f"registers: {count}, but kernel {function.name} has at most {most}")
    return count


def _directive(function: Function, name: str) -> tuple[int, int, int] | None:
    values = function.directives.get(name)
    if not values or 0 in values:
        return None
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def _dims(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))


def _assumptions(given: Any, fail: Fail) -> tuple[Expr, ...]:
    if not isinstance(given, list):
        fail('assume: give a list of conditions such as ["C % 128 == 0"]')
    out = []
    for i, condition in enumerate(given):
        e = expression(condition, f"assume[{i}]", fail)
        if isinstance(e, Expr):
            out.append(e)
        elif not e:
            fail(f"assume[{i}]: {condition!r} does not hold")
    return tuple(out)


def _parameters(given: Mapping[str, Any], function: Function, fail: Fail) -> tuple[tuple[Leaf, ...], ...]:
    named = {parameter_name(function.params, i): i for i in range(len(function.params))}
    index = named | {p.name: i for i, p in enumerate(function.params)}
    out: list[tuple[Leaf, ...]] = [() for _ in function.params]
    seen: dict[int, str] = {}
    for key, spec in given.items():
        at = int(key) if key.isdecimal() else index.get(key, -1)
        if not 0 <= at < len(out):
            known = f" ({', '.join(filter(None, named))})" if any(named) else ""
            fail(f"params.{key}: kernel {function.name} has parameters 0 to {len(out) - 1}{known}" if out else
                 f"params.{key}: kernel {function.name} has no parameters")  # fmt: skip
        if at in seen:
            fail(f"params.{key}: parameter {at} of kernel {function.name} is given twice")
        seen[at] = key
        out[at] = leaves(spec, function.params[at], f"params.{key}", fail)
    return tuple(out)


def _called(function: Function, given: tuple[tuple[Leaf, ...], ...]) -> tuple[str, ...]:
    """The symbols of open parameters: their names, but for one that the facts give to something else."""
    taken: set[str] = set()
    work = [leaf for leaves_ in given for leaf in leaves_]
    while work:
        leaf = work.pop()
        work += leaf.holds
        taken |= {leaf.name} | (set(names(leaf.value)) if isinstance(leaf.value, Expr) else set())
    found = (parameter_name(function.params, i) for i in range(len(function.params)))
    return tuple(name if name and name not in taken else f"param{i}" for i, name in enumerate(found))


def _images(
    given: Mapping[str, Any], function: Function, module: Module, fail: Fail
) -> dict[str, dict[int, int]]:
    """What is given of variables that the host sets, as bytes."""
    known = [v for v in (*module.variables, *function.variables) if v.space in ("const", "global")]
    out: dict[str, dict[int, int]] = {}
    for name, spec in given.items():
        found = [v for v in known if name in (v.name, base_name(v.name))]
        if not found:
            names = ", ".join(sorted(base_name(v.name) for v in known)) or "none"
            fail(f"variables.{name}: kernel {function.name} has no such variable: known: {names}")
        for v in found:
            image = out.setdefault(v.name, {})
            for leaf in leaves(spec, v, f"variables.{name}", fail):
                value = leaf.value
                if isinstance(value, int):
                    value = (value & (1 << 8 * leaf.size) - 1).to_bytes(leaf.size, "little")
                if not isinstance(value, bytes):
                    fail(f"variables.{name}: give a number for the {leaf.kind} at byte {leaf.offset}")
                image.update(enumerate(value, leaf.offset))
    return out


def _loads(function: Function) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Where each parameter is loaded from, by the text of the function; of overlapping loads the larger."""
    index = {p.name: i for i, p in enumerate(function.params)}
    wanted: list[set[tuple[int, int]]] = [set() for _ in function.params]
    for instr in function.body:
        if instr.op != "ld" or "param" not in instr.mods[:2] or len(instr.operands) < 2:
            continue
        to, address = instr.operands[:2]
        if (
            not isinstance(address, Mem)
            or not isinstance(address.base, Sym)
            or address.base.name not in index
        ):
            continue
        at, width = index[address.base.name], _width(instr.mods[-1])
        start = address.offset + address.base.offset
        for n in range(len(to.items) if isinstance(to, Vector) else 1):
            if start + (n + 1) * width <= function.params[at].size:
                wanted[at].add((start + n * width, width))
    return tuple(_apart(w) for w in wanted)


def _width(kind: str) -> int:
    digits = kind.lstrip("bfusx")
    return int(digits) // 8 if digits.isdecimal() else 1


def _apart(wanted: set[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    kept: list[tuple[int, int]] = []
    for offset, size in sorted(wanted, key=lambda x: (-x[1], x[0])):
        if all(offset + size <= o or o + s <= offset for o, s in kept):
            kept.append((offset, size))
    return tuple(sorted(kept))
