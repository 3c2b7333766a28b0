"""What ``matmul_on_gpu.py`` runs, compiled and judged beforehand on a machine without a GPU."""

from __future__ import annotations

import pickle
import random
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from syncverify.base.diagnostics import Policy, ScopeKind  # noqa: E402
from syncverify.base.nvrtc import compile_kernel  # noqa: E402
from syncverify.base.source import InputError  # noqa: E402
from syncverify.fusion import Tensor, Value, gelu, relu, trace  # noqa: E402
from syncverify.gate import Program  # noqa: E402
from syncverify.gate.matmul import CompiledMatmul  # noqa: E402
from syncverify.ir import nodes as n  # noqa: E402
from syncverify.ir.expr import Binary, Expr, Int, Var  # noqa: E402
from syncverify.ir.text.printer import print_kernel  # noqa: E402
from syncverify.matmul import Problem, Schedule, product  # noqa: E402
from syncverify.matmul.lower import lower  # noqa: E402
from syncverify.matmul.pipeline import build, passes  # noqa: E402
from syncverify.passes.base import run  # noqa: E402
from syncverify.passes.rewrite import flat_map  # noqa: E402
from syncverify.passes.running import RunningRings  # noqa: E402

TWO = (40, 232)
FULL = ("M", "N")
Shape = tuple[int, int, int]
#: Multiprocessors that launches are judged for.
SMS = 132


@dataclass(frozen=True)
class Prepared(Program):
    """A kernel with its cubin: nothing has to be compiled where it runs.

    ``serial``: it starts behind the grid before it, also if it could set up sooner.
    """

    binary: bytes = field(default=b"", repr=False)
    packed: bytes = field(default=b"", repr=False)  # the PTX, compressed
    serial: bool = False

    @cached_property
    def code(self) -> tuple[str, bytes]:
        return zlib.decompress(self.packed).decode(), self.binary

    @cached_property
    def dependent(self) -> bool:
        return not self.serial and any(isinstance(s, n.GridDepWait) for s in self.kernel.body)


@dataclass(frozen=True)
class Item:
    """A product ready to run; ``facts``: what is known of it beforehand (verdicts, for one)."""

    name: str
    matmul: CompiledMatmul
    facts: dict[str, Any] = field(default_factory=dict)


def item(
    name: str, problem: Problem, schedule: Schedule, kernel: n.Kernel | None = None, **facts: Any
) -> Item:
    """Compiles ``kernel`` (or what the passes make of problem and schedule)."""
    kernel = kernel or build(problem, schedule)
    program = Program(kernel, Policy.PRACTICAL)
    ptx, cubin = compile_kernel(program.source, kernel.name)
    prepared = Prepared(kernel, Policy.PRACTICAL, binary=cubin, packed=zlib.compress(ptx.encode()))
    return Item(name, CompiledMatmul(problem, schedule, _programs={1: prepared, 2: prepared}), facts)


def verdict(kernel: n.Kernel, values: dict[str, int] | None = None) -> dict[str, Any]:
    """The checker's answer for given sizes (else the default ones): verdict, first error, warnings."""
    from syncverify.driver.ir import check_kernel

    parsed = _parsed(kernel)
    report = check_kernel(parsed, values or {}, Policy.PRACTICAL, scope=ScopeKind.EXACT)
    errors = [d for d in report.diagnostics if d.severity.value == "error"]
    strict = check_kernel(parsed, values or {}, Policy.STRICT, scope=ScopeKind.EXACT)
    return {
        "verdict": report.verdict.value,
        "rule": errors[0].rule if errors else (report.reason or ""),
        "message": errors[0].message if errors else "",
        "warnings": sorted({d.rule for d in report.diagnostics if d.severity.value != "error"}),
        "strict": strict.verdict.value,
    }


def judged(item: Item, case: Sequence[Any] | None) -> dict[str, Any]:
    """Verdict and CPU seconds of both stages for one launch: M, N, K and what else tells cases apart.

    Without a case for every launch; a verdict for one alone is then none.
    """
    sizes = None if case is None else dict(zip("MNK", case, strict=False))
    values = None if sizes is None else item.matmul.launch_values(sizes, SMS)
    row: dict[str, Any] = {"shape": case, "schedule": item.name, "scope": "exact" if values else "all"}
    for stage in ("ir", "ptx"):
        begun = time.process_time()
        try:
            report = item.matmul.program().check(stage, values)
            row[stage] = report.verdict.value
            if values is None and report.scope.kind is not ScopeKind.ALL:
                row[stage] = "unknown"
            row[f"{stage} warnings"] = sorted({d.rule for d in report.diagnostics})
            if row[stage] != "proved":
                row[f"{stage} reason"] = (report.reason or str([d.message for d in report.diagnostics]))[:200]
        except Exception as e:
            row[stage], row[f"{stage} reason"] = "error", f"{type(e).__name__}: {e}"[:200]
        row[f"{stage} seconds"] = round(time.process_time() - begun, 2)
        if row[stage] != "proved":
            break
    return row


# ---------------------------------------------------------------- clusters

PERSISTENT = Schedule(128, 256, registers=TWO, persistent=True, store="tma")
CLUSTERS = {
    "128x256ptc": replace(PERSISTENT, cluster=2),
    "128x256tc": Schedule(128, 256, registers=TWO, store="tma", cluster=2),
    "128x128ptc": Schedule(128, 128, persistent=True, store="tma", cluster=2),
    "128x128c": Schedule(128, 128, cluster=2),
}
#: Two warpgroups that take tiles in turn, one group of products in flight.
IN_TURN = Schedule(128, 128, registers=TWO, persistent=True, store="tma", pingpong=True, pending=1)
PINGPONG = {
    "128x128pp": IN_TURN,
    "128x192pp": replace(IN_TURN, tile_n=192),
    "64x256pp": replace(IN_TURN, tile_m=64, tile_n=256),
    "128x128ppc": replace(IN_TURN, cluster=2),
    "64x256ppc": replace(IN_TURN, tile_m=64, tile_n=256, cluster=2),
}
#: Ragged and tiny products.
SHAPES: tuple[Shape, ...] = (
    (128, 128, 64), (8, 16, 24), (1, 8, 8), (129, 136, 72), (512, 512, 512), (1000, 1000, 1000),
    (333, 328, 2056), (256, 2112, 7168), (63, 4104, 200), (2048, 120, 8192), (4096, 2112, 1024),
    (3648, 480, 8632),
)  # fmt: skip


def clusters() -> Iterator[Item]:
    """The schedules that multicast or take turns, and a plain one beside them."""
    for layout in ("KK", "MN", "KN", "MK"):
        for name, schedule in {**CLUSTERS, **PINGPONG, "128x256pt": PERSISTENT}.items():
            if layout in ("KK", "MN") or name in ("128x256ptc", "128x128pp"):
                yield item(name, product(layout=layout), schedule)


# ---------------------------------------------------------------- mutants

#: Sizes with several turns and many steps for each of the mutants' schedules.
MUTANT_SIZES = {"M": 2048, "N": 2048, "K": 4096}


def sampled(count: int, seed: int = 1) -> list[tuple[str, int]]:
    """Mutants as (schedule, place in the list of its mutants): each kind of change, then at random.

    Those that are argued to be redundant are all in.
    """
    from benchmarks.checker.matmul_mutants import REDUNDANT, SCHEDULES, judge, mutants

    chosen: list[tuple[str, int]] = []
    kinds: dict[str, list[tuple[str, int]]] = {}
    for name, schedule in SCHEDULES.items():
        for k, m in enumerate(mutants(_parsed(build(product(), schedule)))):
            if (name, m.what) in REDUNDANT and judge(m.kernel)[0].value == "proved":
                chosen.append((name, k))
            kinds.setdefault(m.what, []).append((name, k))
    rng = random.Random(seed)
    for found in kinds.values():
        rng.shuffle(found)
    rounds = (
        found[k] for k in range(max(map(len, kinds.values()))) for found in kinds.values() if k < len(found)
    )
    for place in rounds:
        if len(chosen) < count and place not in chosen:
            chosen.append(place)
    return chosen[:count]


def _parsed(kernel: n.Kernel) -> n.Kernel:
    """From its own text, so that findings name lines."""
    from syncverify.ir.text.parser import parse

    (found,) = parse(print_kernel(kernel), f"{kernel.name}.syncir")
    return found


def mutant_items(count: int) -> Iterator[Item]:
    """The sample, each with the checker's verdict; and every schedule's kernel unchanged."""
    from benchmarks.checker.matmul_mutants import REDUNDANT, SCHEDULES, judge, mutants

    wanted = sampled(count)
    for name, schedule in SCHEDULES.items():
        whole = _parsed(build(product(), schedule))
        assert judge(whole)[0].value == "proved", name
        yield item(name, product(), schedule, whole, what="")
        for k, m in enumerate(mutants(whole)):
            if (name, k) not in wanted:
                continue
            found, rule = judge(m.kernel)
            facts = {"what": m.what, "line": m.line, "verdict": found.value, "rule": rule}
            facts["argument"] = REDUNDANT.get((name, m.what), "") if found.value == "proved" else ""
            try:
                yield item(name, product(), schedule, m.kernel, **facts)
            except InputError as e:
                print(f"  {name}, {m.what}, line {m.line}: does not compile: {str(e)[:200]}")


# ---------------------------------------------------------------- fused epilogues

#: Schedules that are tried for an epilogue.
EPILOGUE_SCHEDULES = {
    "128x256pt": PERSISTENT,
    "128x192pt": Schedule(128, 192, registers=TWO, persistent=True, store="tma"),
    "128x128pp": IN_TURN,
    "128x128ppd": replace(IN_TURN, store="direct"),
}
#: The same for two products.
PAIR_SCHEDULES = {
    "128x128pt": Schedule(128, 128, registers=TWO, persistent=True, store="tma"),
    "256x64pt": Schedule(256, 64, registers=TWO, persistent=True, store="tma"),
    "128x64pp": replace(IN_TURN, tile_n=64),
}
FUSED_SIZES: tuple[Shape, ...] = ((4096, 4096, 4096), (8192, 8192, 4096))


def _bias_gelu(acc: Value, bias: Value) -> Value:
    return gelu(acc + bias).cast("bf16")


def _bias_gelu_tanh(acc: Value, bias: Value) -> Value:
    return gelu(acc + bias, "tanh").cast("bf16")


def _bias_relu(acc: Value, bias: Value) -> Value:
    return relu(acc + bias).cast("bf16")


def _residual(acc: Value, residual: Value) -> Value:
    return (acc + residual).cast("bf16")


def _bias_gelu_residual(acc: Value, bias: Value, residual: Value) -> Value:
    return (gelu(acc + bias) + residual).cast("bf16")


def _row_scale(acc: Value, scale: Value) -> Value:
    return (acc * scale).cast("bf16")


def _keep_both(acc: Value, bias: Value) -> dict[str, Value]:
    h = acc + bias
    return {"before": h.cast("bf16"), "after": gelu(h).cast("bf16")}


def _gated(acc: Value, gate: Value) -> Value:
    return (gate * (1.0 / (1.0 + _exp(-gate))) * acc).cast("bf16")


def _exp(x: Value) -> Value:
    from syncverify.fusion import exp

    return exp(x)


def _swiglu(acc: Value, acc2: Value) -> Value:
    """Of two products: what a gated layer computes."""
    return (acc * (1.0 / (1.0 + _exp(-acc))) * acc2).cast("bf16")


def _wide(acc: Value) -> Value:
    return acc.cast("f32")


BIAS, RESIDUAL = Tensor("bf16", ("N",)), Tensor("bf16", FULL)
EPILOGUES: dict[str, tuple[Callable[..., Any], dict[str, Tensor]]] = {
    "bias_gelu": (_bias_gelu, {"bias": BIAS}),
    "bias_relu": (_bias_relu, {"bias": BIAS}),
    "residual": (_residual, {"residual": RESIDUAL}),
    "gated": (_gated, {"gate": RESIDUAL}),
    "row_scale": (_row_scale, {"scale": Tensor("f32", ("M",))}),
    "f32_result": (_wide, {}),
    "bias_gelu_tanh": (_bias_gelu_tanh, {"bias": BIAS}),
    "bias_gelu_residual": (_bias_gelu_residual, {"bias": BIAS, "residual": RESIDUAL}),
    "two_results": (_keep_both, {"bias": BIAS}),
    "swiglu": (_swiglu, {"acc2": Tensor("f32", FULL)}),
}


def epilogue(name: str) -> Problem:
    function, others = EPILOGUES[name]
    return Problem(name, "bf16", "KK", trace(function, {"acc": Tensor("f32", FULL), **others}))


def fused(names: Sequence[str] = ()) -> Iterator[Item]:
    for name in names or EPILOGUES:
        problem = epilogue(name)
        schedules = EPILOGUE_SCHEDULES if len(problem.rights) == 1 else PAIR_SCHEDULES
        for title, schedule in schedules.items():
            try:
                yield item(title, problem, schedule, case=name)
            except InputError as e:
                print(f"  {name} {title}: {e}")


# ---------------------------------------------------------------- the store fence

LEADING: Expr = (Var("warp") % 4).eq(0)
ELECTED: Expr = Binary("and", LEADING, Var("elected"))
#: Who executes the proxy fence, and whether before the barrier that the storing thread waits at.
FENCES: dict[str, tuple[Expr | None, bool]] = {
    "all threads, before the barrier": (None, True),
    "first warp, before the barrier": (LEADING, True),
    "first warp, behind the barrier": (LEADING, False),
    "elected thread, before the barrier": (ELECTED, True),
    "elected thread, behind the barrier": (ELECTED, False),
    "nobody": (Int(0), True),
}
#: Kernels whose fence is moved, and the sizes that they run with: many turns with few steps, so that the
#: epilogues come close together, and a product where a fence in another place has cost time elsewhere.
FENCE_CASES: dict[str, tuple[Problem, Schedule, Shape]] = {
    "128x128pt": (
        product(),
        Schedule(128, 128, persistent=True, store="tma", registers=TWO),
        (4096, 4096, 256),
    ),
    "128x256pt": (product(), PERSISTENT, (4096, 4096, 256)),
    "128x128t": (product(layout="MN"), Schedule(128, 128, store="tma"), (3648, 480, 8632)),
    "128x128pp": (product(), IN_TURN, (4096, 4096, 256)),
}


def fenced(kernel: n.Kernel, who: Expr | None, before: bool) -> n.Kernel:
    """The kernel with its store fences executed by ``who`` only, before or behind the barrier after them."""
    moved = False

    def around(s: n.Stmt) -> Iterable[n.Stmt]:
        nonlocal moved
        if not (isinstance(s, n.For) and any(isinstance(x, n.FenceProxyAsync) for x in s.body)):
            return (s,)
        at = next(k for k, x in enumerate(s.body) if isinstance(x, n.FenceProxyAsync))
        fence, meeting = s.body[at], s.body[at + 1]
        assert isinstance(meeting, n.BarrierSync)
        mine = () if who == Int(0) else (fence if who is None else n.If(who, (fence,)),)
        moved = True
        both = (*mine, meeting) if before else (meeting, *mine)
        return (replace(s, body=(*s.body[:at], *both, *s.body[at + 2 :])),)

    body = flat_map(kernel.body, around)
    assert moved, f"{kernel.name} has no store fence"
    return replace(kernel, body=body)


def fences() -> Iterator[Item]:
    """Every form of the fence, with the verdict for the sizes that run."""
    for name, (problem, schedule, shape) in FENCE_CASES.items():
        whole = build(problem, schedule)
        sizes = dict(zip("MNK", shape, strict=True))
        values = CompiledMatmul(problem, schedule).launch_values(sizes, SMS)
        for form, (who, before) in FENCES.items():
            kernel = fenced(whole, who, before)
            yield item(name, problem, schedule, kernel, form=form, sizes=shape, **verdict(kernel, values))


# ---------------------------------------------------------------- the ladder

LADDER_SIZE = 8192
ROW = Schedule(128, 128, consumers=1, group=1)
WIDE = Schedule(128, 256, group=1)
TURNS = replace(WIDE, registers=TWO, persistent=True)
LADDER: dict[str, Schedule] = {
    "128x128, one warpgroup, one slot": replace(ROW, stages=2),
    "a ring of slots": ROW,
    "two warpgroups": replace(ROW, consumers=2),
    "128x256": WIDE,
    "registers moved (setmaxnreg)": replace(WIDE, registers=TWO),
    "persistent": TURNS,
    "rows of tiles in groups of 8": replace(TURNS, group=8),
    "stores by tensor copies": replace(TURNS, group=8, store="tma"),
    "clusters of two": replace(TURNS, group=8, store="tma", cluster=2),
    "one group in flight": replace(TURNS, group=8, store="tma", pending=1),
    "rows of tiles in groups of 16": replace(TURNS, group=16, store="tma"),
    "ping-pong, 128x128": IN_TURN,
    "ping-pong, 128x192": PINGPONG["128x192pp"],
    "ping-pong, 128x128, clusters of two": PINGPONG["128x128ppc"],
}
ONE_SLOT = "128x128, one warpgroup, one slot"


def one_slot(problem: Problem, schedule: Schedule) -> n.Kernel:
    """The kernel whose ring has a single slot: nothing is loaded while something is multiplied."""
    steps = [
        RunningRings(1) if isinstance(p, RunningRings) else p
        for p in passes(problem, schedule, Policy.PRACTICAL)
    ]
    return run(lower(problem, schedule), steps)


def ladder() -> Iterator[Item]:
    for name, schedule in LADDER.items():
        kernel = one_slot(product(), schedule) if name == ONE_SLOT else build(product(), schedule)
        yield item(name, product(), schedule, kernel)


# ---------------------------------------------------------------- all of it

PARTS: dict[str, Callable[[int], Iterator[Item]]] = {
    "a": lambda _: clusters(),
    "b": mutant_items,
    "c": lambda _: fused(),
    "d": lambda _: fences(),
    "e": lambda _: ladder(),
}


def prepare(place: Path, parts: Iterable[str], mutants: int, cases: Sequence[str] = ()) -> None:
    """Writes ``PART.pickle`` for each part; ``cases``: the only epilogues."""
    place.mkdir(parents=True, exist_ok=True)
    for part in parts:
        begun = time.monotonic()
        items = list(fused(cases) if part == "c" else PARTS[part](mutants))
        (place / f"{part}.pickle").write_bytes(pickle.dumps(items))
        size = (place / f"{part}.pickle").stat().st_size
        print(f"{part}: {len(items)} kernels, {size >> 10} KiB, {time.monotonic() - begun:.0f} s", flush=True)


def load(place: Path, part: str) -> list[Item]:
    found: list[Item] = pickle.loads((place / f"{part}.pickle").read_bytes())
    return found
