"""Exact checks of many sizes of a kernel, to judge its verdict for every size; shares no code with that."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import product
from math import prod
from types import MappingProxyType

from syncverify.base.diagnostics import KernelReport, ScopeKind, Verdict
from syncverify.base.source import InputError, Span
from syncverify.driver.ir import check_kernel
from syncverify.ir import nodes as n
from syncverify.ir.expr import Binary, Call, Expr, Int, Var, evaluate, names, walk
from syncverify.ir.text.parser import parse

#: What only says where data lies in global memory: no size in it changes what is synchronized.
_DATA = (n.GlobalRegion,)


NOTHING: Mapping[str, int] = MappingProxyType({})

#: Up to here every size is tried.
DENSE = 64
#: Combinations of sizes that are looked at; the smallest of each, where there are more.
MOST_LAUNCHES = 50_000


def ring(slots: int) -> str:
    """Buffers of 64 floats and their barriers, for one producer and 32 lanes that consume; warp 1 sets up."""
    return f"""  shared tile : f32[{slots}, 64]
  mbarrier full[{slots}]
  mbarrier empty[{slots}]
  if warp == 1 {{
    elect p
    if p {{
      for s in 0..{slots} {{
        mbarrier.init full[s], 1
        mbarrier.init empty[s], 32
      }}
      fence.mbarrier_init
    }}
  }}
  bar.sync 0
"""


def _parts(node: object) -> Iterator[object]:
    if is_dataclass(node):
        for f in fields(node):
            if f.name != "coords" and not (f.name == "source" and isinstance(node, n.LoadIndex)):
                yield getattr(node, f.name)
    elif isinstance(node, tuple):
        yield from node


def _read(node: object, sets: dict[str, set[str]], uses: set[str]) -> None:
    """Collects the names that steer (``uses``) and those that integer registers are computed from."""
    match node:
        case n.Let(name, value) | n.Assign(name, value):
            sets.setdefault(name, set()).update(names(value))
        case n.Compute() | Span():
            pass
        case n.For(var, lo, hi, step, body, _):
            sets.setdefault(var, set()).update(names(lo) | names(hi) | names(step))
            uses |= names(lo) | names(hi) | names(step)
            _read(body, sets, uses)
        case Expr():
            uses |= names(node)
        case _ if isinstance(node, _DATA):
            pass
        case _:
            for part in _parts(node):
                _read(part, sets, uses)


def steering(kernel: n.Kernel) -> tuple[str, ...]:
    """Parameters that may steer: those that reach more than global addresses, tensor shapes and the grid."""
    sets: dict[str, set[str]] = {}
    uses: set[str] = set()
    _read(kernel.body, sets, uses)
    _read(kernel.shared, sets, uses)
    _read(kernel.barriers, sets, uses)
    while True:
        more = {x for name in uses for x in sets.get(name, ())} - uses
        if uses & {x for x in uses if x.split(".")[0] in ("grid", "block")}:
            more |= {x for g in kernel.launch.grid for x in names(g)} - uses
        if not more:
            break
        uses |= more
    return tuple(p.name for p in kernel.params if p.name in uses)


def bare(kernel: n.Kernel) -> n.Kernel:
    """The kernel without defaults of what steers: they would be a hint, in the bad ones that they refute."""
    some = steering(kernel)
    return replace(
        kernel, params=tuple(replace(p, default=None) if p.name in some else p for p in kernel.params)
    )


def stages(kernel: n.Kernel) -> int:
    """The largest number of barriers in an array."""
    values = {p.name: p.default or 1 for p in kernel.params}
    return max((evaluate(b.count, values) for b in kernel.barriers), default=1)


def _expressions(node: object) -> Iterator[Expr]:
    if isinstance(node, Expr):
        yield node
    else:
        for part in _parts(node):
            yield from _expressions(part)


def unit(kernel: n.Kernel, name: str) -> int:
    """How many elements of a length make one more of what is counted: ``C // 32`` gives 32."""
    found = 1
    for top in _expressions((kernel.body, kernel.launch.grid, tuple(kernel.assumes))):
        for e in walk(top):
            match e:
                case Binary("//" | "%", Var(x), Int(v)) | Call("cdiv", (Var(x), Int(v))) if x == name:
                    found = max(found, v)
    return found


def candidates(kernel: n.Kernel, name: str, laps: int = 4, least: int = -1) -> list[int]:
    """Values of one parameter up to ``laps`` times the stages, in units; long ranges beside multiples."""
    most = laps * stages(kernel)
    u = unit(kernel, name)
    param = next(p for p in kernel.params if p.name == name)
    low = 0 if param.dtype.startswith("u") else least
    if most * u <= DENSE:
        return list(range(low, most * u + 1))
    near = {k * u + d for k in range(most + 1) for d in (-1, 0, 1)}
    return sorted(x for x in near if x >= low)


def weight(sizes: Mapping[str, int]) -> int:
    """What ``smallest`` minimises."""
    return sum(map(abs, sizes.values()))


def possible(kernel: n.Kernel, values: Mapping[str, int]) -> bool:
    try:
        return all(evaluate(f, values) for f in kernel.assumes)
    except ZeroDivisionError:
        return False


def launches(kernel: n.Kernel, laps: int = 4) -> list[dict[str, int]]:
    """Sizes to check, the smallest first; where nothing depends on a size, its default."""
    fixed = {p.name: p.default if p.default is not None else 1 for p in kernel.params}
    some = steering(kernel)
    rest = [x for x in fixed if x not in some]
    least = -4 if len(some) == 1 else -1
    values = [candidates(kernel, x, laps, least) for x in some]
    while prod(map(len, values)) > MOST_LAUNCHES:
        most = max(map(len, values))
        values = [v[: most - most // 4] for v in values]
    choices = product(*values)
    found = [fixed | dict(zip(some, c, strict=True)) for c in choices]
    found += [fixed | {x: v} for x in rest for v in candidates(kernel, x, 1)]
    return sorted((v for v in found if possible(kernel, v)), key=lambda v: weight({x: v[x] for x in some}))


def exact(kernel: n.Kernel, values: Mapping[str, int]) -> Verdict | None:
    """The exact check; None where there is no such launch."""
    try:
        return check_kernel(kernel, values).verdict
    except InputError:
        return None


@dataclass
class Brute:
    """Exact verdicts: how many sizes, those refuted, those undecided, and whether time ran out."""

    checked: int = 0
    refuted: list[dict[str, int]] = field(default_factory=list)
    unknown: list[dict[str, int]] = field(default_factory=list)
    largest: int = 0
    complete: bool = True
    seconds: float = 0.0


def brute(
    kernel: n.Kernel, laps: int = 4, budget: float = 60.0, refutations: int = 4, most: int = 100_000
) -> Brute:
    """Exact checks in the order of sizes, until some are refuted, ``budget`` seconds or ``most`` checks."""
    found = Brute()
    start = time.perf_counter()
    for values in launches(kernel, laps):
        found.seconds = time.perf_counter() - start
        if found.seconds > budget or found.checked == most:
            found.complete = False
            break
        verdict = exact(kernel, values)
        if verdict is None:
            continue
        found.checked += 1
        found.largest = weight({x: values[x] for x in steering(kernel)})
        if verdict is Verdict.UNKNOWN:
            found.unknown.append(values)
        elif verdict is Verdict.REFUTED:
            found.refuted.append(values)
            if len(found.refuted) == refutations:
                break
    return found


def checked(text: str, name: str) -> KernelReport:
    """What is said of a kernel for every size."""
    (kernel,) = parse(text, name)
    return check_kernel(kernel, scope=ScopeKind.ALL)


def assert_exact_alone(report: KernelReport, sizes: dict[str, int] | None) -> None:
    """There is no proof for every size: it is refuted at these sizes, or without them merely not proved."""
    assert report.scope.kind is ScopeKind.EXACT
    if sizes:
        assert (report.verdict, dict(report.scope.values)) == (Verdict.REFUTED, sizes)
    else:
        assert report.verdict is not Verdict.PROVED


def fallback(report: KernelReport) -> str | None:
    """Why a report is no verdict for every size; None if it is one."""
    for d in report.diagnostics:
        if d.rule == "SV902" and "not shown for every size" in d.message:
            return d.message
    if report.verdict is Verdict.UNKNOWN:
        return report.reason or "unknown"
    if report.verdict is Verdict.PROVED and report.scope.kind is ScopeKind.EXACT:
        return "the scope is exact"
    return None


def smaller(kernel: n.Kernel, at: Mapping[str, int], most: int = 48) -> dict[str, int] | None:
    """Sizes below ``at``, one parameter changed, that the exact check refutes as well."""
    for x in steering(kernel):
        here = abs(at[x])
        near = range(max(0, here - most // 2), here)
        far = range(0, near.start, max(1, near.start // (most // 2)))
        for v in (*near, *far):
            less = {**at, x: v}
            if possible(kernel, less) and exact(kernel, less) is Verdict.REFUTED:
                return less
    return None


def disagreement(
    kernel: n.Kernel, report: KernelReport, found: Brute, stated: Mapping[str, int] = NOTHING
) -> str | None:
    """What is wrong about a verdict for every size; None where exact checks bear it out.

    ``stated``: sizes that are known to be the smallest that the exact check refutes.
    """
    some = steering(kernel)
    if fallback(report) is not None:
        return None
    first = found.refuted[0] if found.refuted else dict(stated) or None
    if report.verdict is Verdict.PROVED:
        if found.unknown:
            return f"proved for every size, but {found.unknown[0]} is unknown to the exact check"
        return None if first is None else f"proved for every size, but {first} is refuted"
    at = dict(report.scope.values)
    if exact(kernel, at) is not Verdict.REFUTED:
        return f"refuted at {at}, which the exact check does not refute"
    if first is not None:
        here, least = weight({x: at[x] for x in some}), weight({x: first[x] for x in some})
        return f"refuted at {at}, but {first} is smaller" if least < here else None
    less = smaller(kernel, at)
    return None if less is None else f"refuted at {at}, but {less} is smaller"
