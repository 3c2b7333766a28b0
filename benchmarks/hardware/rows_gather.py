"""Many launches of fusions of rows of random widths on a Hopper GPU, for the model of their time: not proved.

    python benchmarks/hardware/rows_gather.py --seed N --out FILE [--arms 20] [--seconds 190]
        [--short | --aligned | --ragged | --wide | --between | --narrow | --clusters | --few | --twins]
        [--only "CASE DTYPE WIDTH; ..."]

The points of a seed (``rows_random.points``): the first 90, and of those behind them 50 of fewer than 1100
elements and 20 of more than 16384. Of a point's arms four in ten are what the model ranks first, three what
its formula alone ranks first, the others are drawn from the first 60. With ``--twins`` the arms are what the
model ranks first, each also with the other cache hint (``row_menu.twins``). With ``--short`` points have up
to 1176 elements, more than half of them norms. Beside three plain arms the others have rows abreast or
tiles of several rows, drawn from the better two thirds of each. With ``--aligned`` points have up to 1176
elements of 16 bits, rows are multiples of 16 bytes, and half of the arms are drawn from rows abreast, of
whole warps and of fewer lanes, from the better two thirds. With ``--ragged`` points have up to 1536
elements and no row is a multiple of 16 bytes; more than half of the arms store results through shared
memory. With ``--wide`` points have 16384 to 131072 elements; arms that keep pieces in shared memory are
among them all. With ``--between`` points have 256 to 65536 elements; half of the arms are drawn from rows
of 3, 5, 6, 7 or more warps, no power of two. With ``--narrow`` points are norms of 440 to 1100 elements;
beside what the model ranks first, arms are rows in fewer lanes, and blocks that take rows in turn and keep
operands in registers, drawn by lot. With ``--clusters`` points have 12288 to 131072 elements, and beside what
the model ranks first blocks of a cluster share a row. With ``--few`` one or two rows are under way on an SM:
rows that are written, of which 48 to 520 KB are read and written; arms are what the model ranks first, rows
in registers by other numbers of warps and blocks, and clusters, drawn by lot. ``--only`` names points, whose
arms are the whole menu, as many as asked.

Kernels are compiled, compared with eager torch and timed, in an experiment that asks for no proof: what a
call runs is proved at the call.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import multiprocessing
import os
import random
import sys
import time
from pathlib import Path
from typing import Any, Literal

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.compiler.fusion_cases import fusion_of  # noqa: E402
from benchmarks.hardware import rows_random  # noqa: E402
from syncverify.base.diagnostics import Policy  # noqa: E402
from syncverify.codegen.cache import Cache  # noqa: E402
from syncverify.fusion import RowSchedule, row_menu  # noqa: E402
from syncverify.fusion.kernel_cache import built  # noqa: E402
from syncverify.fusion.plan import plan_of  # noqa: E402
from syncverify.fusion.row_estimate import Estimate, formula  # noqa: E402
from syncverify.gate.fusions import CompiledKernel, Program  # noqa: E402

Point = dict[str, Any]
#: Points: plain ones, short rows, long rows; how many are drawn.
PLAIN, SHORT, LONG, DRAWN = 90, 50, 20, 1500
#: Elements of a tensor, the relative error from which on results are wrong, seconds that a point waits.
ELEMENTS, WRONG, PATIENCE = 1 << 27, 2e-2, 10.0
#: Shares of the arms by the model and by its formula; how far down the others are drawn from.
FIRST, PLAINLY, DEPTH = 0.4, 0.3, 60
#: What is kept of a schedule.
FIELDS = (
    "warps", "lanes", "rows", "blocks_per_sm", "reread", "peel", "dependent", "ahead", "operands", "cache",
    "source", "stages", "store", "unroll",
)  # fmt: skip


class Unproved(Program):
    """A kernel that runs without its proof."""

    def require_proof(self, values: Any) -> None:
        """Nothing is asked for."""


def points(seed: int) -> list[Point]:
    """Plain points, with short and long rows in between."""
    every = rows_random.points(seed, DRAWN)
    short = [p for p in every[PLAIN:] if p["width"] < 1100][:SHORT]
    long = [p for p in every[PLAIN:] if p["width"] > 16384][:LONG]
    found = [p for n in range(PLAIN) for p in (*every[n : n + 1], *short[n : n + 1], *long[n : n + 1])]
    return [p for p in found if p["width"] not in row_menu.MEASURED]


def arms(p: Point, count: int, g: random.Random) -> list[tuple[RowSchedule, dict[str, Any]]]:
    """Schedules of a point, each with what of it is kept when nothing is left open."""
    fusion = fusion_of(p["case"], p["dtype"])
    found = row_menu.launches(fusion, p["width"])
    model, launches = Estimate(fusion), [x for _, x in found]
    plain, whole = formula(model.coefficients, launches)[1], model.cycles(launches)
    by = sorted(range(len(found)), key=lambda i: whole[i])
    other = sorted(range(len(found)), key=lambda i: plain[i])
    some = list(dict.fromkeys(by[: int(count * FIRST)] + other[: int(count * PLAINLY)]))
    rest = [i for i in by[:DEPTH] if i not in some]
    some += g.sample(rest, min(len(rest), count - len(some)))
    return [(found[i][0], {f: getattr(launches[i].schedule, f) for f in FIELDS}) for i in some]


def twins(p: Point, count: int) -> list[tuple[RowSchedule, dict[str, Any]]]:
    """What the model ranks first of a point, each beside the same with another cache hint."""
    fusion, width = fusion_of(p["case"], p["dtype"]), p["width"]
    found: list[tuple[RowSchedule, dict[str, Any]]] = []
    for first in row_menu.ranked(fusion, width):
        for s in row_menu.twins(fusion, first):
            fitted = row_menu.done(fusion, s, width)
            if fitted is not None and all(s != x for x, _ in found):
                found.append((s, {f: getattr(fitted, f) for f in FIELDS}))
        if len(found) >= count:
            break
    return found


#: Powers of two of ragged widths, the share of arms whose results leave through shared memory, and of those
#: whose loads leave L2 last, where that can be.
RAGGED_POWERS, THROUGH, KEPT = (7, 10.58), 0.6, 0.4


def ragged_points(seed: int) -> list[Point]:
    """Points of rows that are no multiple of 16 bytes: 45% odd, the others even."""
    g, found = random.Random(seed), list[Point]()
    writing = [c for c in rows_random.CASES if "norm" in c or "softmax" in c]
    norms = [c for c in writing if c.endswith("norm")]
    while len(found) < SHORT_POINTS:
        width = int(2 ** g.uniform(*RAGGED_POWERS))
        case = g.choice(norms if g.random() < NORMS else writing)
        dtype = g.choice(("bf16", "f16", "f32"))
        width = width | 1 if g.random() < 0.45 else width // 2 * 2
        if width % (4 if dtype == "f32" else 8):
            found.append({"case": case, "dtype": dtype, "width": width})
    return found


def ragged_arms(p: Point, count: int, g: random.Random) -> list[tuple[RowSchedule, dict[str, Any]]]:
    """Some that store through shared memory, drawn by lot, and of the others what the model ranks first."""
    fusion = fusion_of(p["case"], p["dtype"])
    found = row_menu.launches(fusion, p["width"])
    cycles = Estimate(fusion).cycles([x for _, x in found])
    order = sorted(range(len(found)), key=lambda i: cycles[i])
    through = [i for i in order if found[i][0].store == "shared"]
    n = min(int(count * THROUGH), len(through))
    some = [i for i in order if found[i][0].store != "shared"][: count - n] + g.sample(through, n)
    schedules = [found[i][0] for i in some]
    schedules = [row_menu.twins(fusion, s)[-1] if g.random() < KEPT else s for s in schedules]
    fitted = [(s, row_menu.done(fusion, s, p["width"])) for s in schedules]
    return [(s, {f: getattr(x, f) for f in FIELDS}) for s, x in fitted if x is not None]


#: Of short points: their number, the share of norms, powers of two of widths, plain arms.
SHORT_POINTS, NORMS, POWERS, PLAIN_ARMS = 90, 0.55, (7, 10.2), 3


def short_points(seed: int) -> list[Point]:
    """Points of short rows: 45% odd, 35% even, the others multiples of 64."""
    g, found = random.Random(seed), list[Point]()
    norms = [c for c in rows_random.CASES if c.endswith("norm")]
    while len(found) < SHORT_POINTS:
        width = int(2 ** g.uniform(*POWERS))
        case = g.choice(norms if g.random() < NORMS else rows_random.CASES)
        dtype, kind = g.choice(("bf16", "f16", "f16", "bf16", "f32")), g.random()
        width = width | 1 if kind < 0.45 else width // 2 * 2 if kind < 0.8 else -(-width // 64) * 64
        if width not in row_menu.MEASURED:
            found.append({"case": case, "dtype": dtype, "width": width})
    return found


def forms(p: Point, count: int, g: random.Random) -> list[tuple[RowSchedule, dict[str, Any]]]:
    """Arms of short rows: plain ones, and of the other forms some that the model ranks before the last."""
    fusion = fusion_of(p["case"], p["dtype"])
    found = row_menu.launches(fusion, p["width"])
    cycles = Estimate(fusion).cycles([x for _, x in found])
    by: tuple[list[int], ...] = ([], [], [])
    for i in sorted(range(len(found)), key=lambda i: cycles[i]):
        s = found[i][0]
        by[2 if s.source == "bulk" else int(s.unroll > 1)].append(i)
    some = by[0][:PLAIN_ARMS]
    for kind, few in ((by[1], bool(by[2])), (by[2], False)):
        n = min((count - PLAIN_ARMS) // 2 if few else count - len(some), len(kind))
        some += g.sample(kind[: max(n, len(kind) * 2 // 3)], n)
    return [(found[i][0], {f: getattr(found[i][1].schedule, f) for f in FIELDS}) for i in some]


def aligned_points(seed: int) -> list[Point]:
    """Points of short rows of 16 bits that are multiples of 16 bytes; a third are multiples of 128 bytes."""
    g, found = random.Random(seed), list[Point]()
    writing = [c for c in rows_random.CASES if "norm" in c or "softmax" in c]
    norms = [c for c in writing if c.endswith("norm")]
    while len(found) < SHORT_POINTS:
        unit = 64 if g.random() < 1 / 3 else 8
        width = -(-int(2 ** g.uniform(*POWERS)) // unit) * unit
        case = g.choice(norms if g.random() < NORMS else writing)
        if width not in row_menu.MEASURED:
            found.append({"case": case, "dtype": g.choice(("bf16", "f16")), "width": width})
    return found


def aligned_arms(p: Point, count: int, g: random.Random) -> list[tuple[RowSchedule, dict[str, Any]]]:
    """What the model ranks first, and as many of its rows abreast, drawn by lot."""
    fusion = fusion_of(p["case"], p["dtype"])
    found = row_menu.launches(fusion, p["width"])
    cycles = Estimate(fusion).cycles([x for _, x in found])
    order = sorted(range(len(found)), key=lambda i: cycles[i])
    first = order[: count // 2]
    abreast = [i for i in order if found[i][0].unroll > 1 and i not in first]
    n = min(count - len(first), len(abreast))
    some = first + g.sample(abreast[: max(n, len(abreast) * 2 // 3)], n)
    return [(found[i][0], {f: getattr(found[i][1].schedule, f) for f in FIELDS}) for i in some]


#: Of wide points: their number, and powers of two of widths.
WIDE_POINTS, WIDE_POWERS = 60, (14, 17)


def wide_points(seed: int) -> list[Point]:
    """Points of long rows, half of them odd or even, the others multiples of 64."""
    g, found = random.Random(seed), list[Point]()
    while len(found) < WIDE_POINTS:
        width = int(2 ** g.uniform(*WIDE_POWERS))
        width = g.choice((width, width | 1, -(-width // 64) * 64, -(-width // 64) * 64))
        case, dtype = g.choice(rows_random.CASES), g.choice(("bf16", "f16", "f32"))
        if width not in row_menu.MEASURED:
            found.append({"case": case, "dtype": dtype, "width": width})
    return found


def wide_arms(p: Point, count: int, g: random.Random) -> list[tuple[RowSchedule, dict[str, Any]]]:
    """What the model ranks first, what keeps pieces in shared memory, and some that go through rows piece by
    piece, drawn by lot."""
    fusion, width = fusion_of(p["case"], p["dtype"]), p["width"]
    order = row_menu.ranked(fusion, width)
    some = list(dict.fromkeys((*order[: count // 3], *(s for s in order if s.reread == "shared"))))
    streams = [s for s in order if s.stream == "yes" and s not in some]
    some += g.sample(streams, max(0, min(len(streams), count - len(some))))
    fitted = [(s, row_menu.done(fusion, s, width)) for s in some]
    return [(s, {f: getattr(x, f) for f in (*FIELDS, "stream")}) for s, x in fitted if x is not None]


#: Of points between powers of two: their number, and powers of two of widths.
BETWEEN_POINTS, BETWEEN_POWERS = 110, (8, 16)


def between_points(seed: int) -> list[Point]:
    """Points of rows of any length, three in five multiples of 64, two in three of 16 bits."""
    g, found = random.Random(seed), list[Point]()
    while len(found) < BETWEEN_POINTS:
        width = int(2 ** g.uniform(*BETWEEN_POWERS))
        width = g.choice((width, width | 1, *(-(-width // 64) * 64,) * 3))
        case, dtype = g.choice(rows_random.CASES), g.choice(("bf16", "f16", "f32"))
        if width not in row_menu.MEASURED and row_menu.fitting(width, 4 if dtype == "f32" else 8):
            found.append({"case": case, "dtype": dtype, "width": width})
    return found


def between_arms(p: Point, count: int, g: random.Random) -> list[tuple[RowSchedule, dict[str, Any]]]:
    """What the model ranks first, and as many whose number of warps is no power of two, drawn by lot."""
    fusion, width = fusion_of(p["case"], p["dtype"]), p["width"]
    order = row_menu.ranked(fusion, width)
    first = order[: count // 2]
    odd = [s for s in order if s.warps & (s.warps - 1) and s not in first]
    some = first + g.sample(odd, min(count - len(first), len(odd)))
    some += [s for s in order if s not in some][: count - len(some)]
    fitted = [(s, row_menu.done(fusion, s, width)) for s in some]
    return [(s, {f: getattr(x, f) for f in (*FIELDS, "stream")}) for s, x in fitted if x is not None]


#: Of narrow norms: their number, and the least and most elements of a row.
NARROW_POINTS, NARROW_WIDTHS = 40, (440, 1100)


def narrow_points(seed: int) -> list[Point]:
    """Norms of narrow rows: of 16 bits multiples of 16 bytes, of 32 bits a half of any length."""
    g, found = random.Random(seed), list[Point]()
    norms = [c for c in rows_random.CASES if c.endswith("norm")]
    while len(found) < NARROW_POINTS:
        width, dtype = int(g.uniform(*NARROW_WIDTHS)), g.choice(("bf16", "f16", "f32"))
        width = g.choice((width, width // 4 * 4)) if dtype == "f32" else width // 8 * 8
        found.append({"case": g.choice(norms), "dtype": dtype, "width": width})
    return [p for p in found if p["width"] not in row_menu.MEASURED]


def narrow_arms(p: Point, count: int, g: random.Random) -> list[tuple[RowSchedule, dict[str, Any]]]:
    """What the model ranks first, then rows in fewer lanes, one after the other by blocks that stay."""
    plain = RowSchedule(stream="no", reread="no", source="direct", warps=1)
    forms = [
        dataclasses.replace(
            plain, lanes=lanes, rows=rows, blocks_per_sm=warps // rows, unroll=unroll,
            grid=grid, operands="registers" if grid == "persistent" else "auto",
        )
        for lanes in (8, 16, 32) if p["width"] <= lanes * row_menu.HELD
        for unroll in (1, 2) if p["width"] * unroll <= lanes * row_menu.HELD
        for rows in (4, 8)
        for warps in (16, 24, 32, 40, 48) if warps * LANES * p["width"] * unroll <= lanes * MOST_HELD
        for grid in GRIDS
    ]  # fmt: skip
    return beside_first(p, count, g, forms)


#: Elements that all threads of a multiprocessor hold, at most; lanes of a warp; how blocks take rows.
MOST_HELD, LANES = 49152, 32
GRIDS: tuple[Literal["tiles", "persistent"], ...] = ("tiles", "persistent")
#: Of rows that clusters share: points, powers of two, elements of a thread.
CLUSTER_POINTS, CLUSTER_POWERS, CLUSTER_HELD = 36, (13.58, 17), (8, 60)


def cluster_points(seed: int) -> list[Point]:
    """Long rows that are written, two in three of 16 bits."""
    g, found = random.Random(seed), list[Point]()
    writing = [c for c in rows_random.CASES if "norm" in c or "softmax" in c]
    while len(found) < CLUSTER_POINTS:
        width = int(2 ** g.uniform(*CLUSTER_POWERS))
        width = g.choice((width | 1, *(-(-width // 64) * 64,) * 3))
        found.append({"case": g.choice(writing), "dtype": g.choice(("bf16", "f16", "f32")), "width": width})
    return [p for p in found if p["width"] not in row_menu.MEASURED]


def cluster_arms(p: Point, count: int, g: random.Random) -> list[tuple[RowSchedule, dict[str, Any]]]:
    """What the model ranks first, then blocks of a cluster for each row, by clusters that stay or go."""
    plain = RowSchedule(stream="no", reread="no", source="direct")
    forms = [
        dataclasses.replace(
            plain, cluster=cluster, warps=warps, blocks_per_sm=blocks, grid=grid, operands=operands
        )
        for cluster in (2, 4, 8)
        for warps in (4, 8, 16, 32)
        if CLUSTER_HELD[0] <= p["width"] / (cluster * warps * LANES) <= CLUSTER_HELD[1]
        for blocks in (1, 2, 3, 4, 6)
        if 12 <= warps * blocks <= 48 and blocks * p["width"] <= cluster * MOST_HELD
        for grid, operands in CLUSTER_GRIDS
    ]  # fmt: skip
    return beside_first(p, count, g, forms)


#: How clusters take rows, and where what all rows share is kept.
CLUSTER_GRIDS: tuple[tuple[Literal["tiles", "persistent"], Literal["reload", "registers"]], ...] = (
    ("tiles", "reload"), ("persistent", "reload"), ("persistent", "registers"),
)  # fmt: skip


#: Of rows that are alone on an SM, or nearly: points, bytes of one that are moved, elements of a thread, the
#: share of lanes that have some, warps, and clusters with their warps and blocks.
FEW_POINTS, FEW_BYTES, FEW_HELD, FEW_FILLED, FEW_WARPS = 90, (48e3, 520e3), (8, 48), 0.8, (8, 32)
FEW_CLUSTERS = ((2, 8, 3), (2, 16, 1), (2, 16, 2), (2, 32, 1), (4, 8, 2), (4, 8, 3), (4, 16, 1), (4, 16, 2))


def few_points(seed: int) -> list[Point]:
    """Points by the logarithm of bytes that a row moves; four in five are multiples of 64, half have two
    inputs."""
    g, found = random.Random(seed), list[Point]()
    writing = [c for c in rows_random.CASES if "norm" in c or "softmax" in c]
    several = [c for c in writing if "+" in c]
    while len(found) < FEW_POINTS:
        case, dtype = g.choice(several if g.random() < 0.4 else writing), g.choice(("bf16", "f16", "f32"))
        size = math.exp(g.uniform(*map(math.log, FEW_BYTES)))
        width = int(size / (4 if "+" in case else 2) / (4 if dtype == "f32" else 2))
        width = g.choice((width | 1, *(-(-width // 64) * 64,) * 4))
        if width not in row_menu.MEASURED:
            found.append({"case": case, "dtype": dtype, "width": width})
    return found


def few_arms(p: Point, count: int, g: random.Random) -> list[tuple[RowSchedule, dict[str, Any]]]:
    """What the model ranks first, half of the arms; then rows in registers, and clusters, by lot."""
    width = p["width"]
    vector, plain = 4 if p["dtype"] == "f32" else 8, RowSchedule(stream="no", reread="no", source="direct")
    peel: Literal["yes", "no"] = "yes" if width % vector else "no"
    warps = {
        w
        for each in range(1, FEW_HELD[1] // vector + 1)
        if FEW_WARPS[0] <= (w := -(-width // (vector * 32 * each))) <= FEW_WARPS[1]
        if FEW_HELD[0] <= each * vector and width >= FEW_FILLED * w * 32 * each * vector
    }
    forms = [
        dataclasses.replace(plain, warps=w, blocks_per_sm=b, peel=peel)
        for w in sorted({*warps, 16, 32})
        for b in (1, 2, 3, 4)
        if b * w <= 48
    ]
    forms += [
        dataclasses.replace(plain, cluster=c, warps=w, blocks_per_sm=b)
        for c, w, b in FEW_CLUSTERS
        if FEW_HELD[0] <= width / (c * w * LANES) <= FEW_HELD[1]
    ]
    return beside_first(p, count, g, forms, count // 2)


def beside_first(
    p: Point, count: int, g: random.Random, forms: list[RowSchedule], first: int = 0
) -> list[tuple[RowSchedule, dict[str, Any]]]:
    """What the model ranks first, so many or a fifth of the arms; the others of these forms, drawn by lot."""
    fusion, width = fusion_of(p["case"], p["dtype"]), p["width"]
    some = row_menu.ranked(fusion, width)[: first or max(1, count // 5)]
    some += g.sample(forms, len(forms))
    some = [dataclasses.replace(s, cache="kept") if row_menu.leaves_last(fusion, s) else s for s in some]
    fitted = [(s, row_menu.done(fusion, s, width)) for s in some]
    fields = (*FIELDS, "stream", "grid", "cluster")
    found = [(s, {f: getattr(x, f) for f in fields}) for s, x in fitted if x is not None]
    return [x for n, x in enumerate(found) if all(x[1] != y[1] for y in found[:n])][:count]


def named(text: str) -> list[Point]:
    """Points as text: ``add+rmsnorm f32 11264; softmax bf16 900``."""
    each = [part.split() for part in text.split(";") if part.strip()]
    return [{"case": c, "dtype": d, "width": int(w)} for c, d, w in each]


def whole_menu(p: Point, count: int, g: random.Random) -> list[tuple[RowSchedule, dict[str, Any]]]:
    """What the model ranks first of the menu, as much as is asked."""
    return beside_first(p, count, g, [], count)


def made(p: Point, schedule: RowSchedule) -> CompiledKernel:
    """The kernel of a point, which asks for no proof."""
    plan, store, policy = (
        plan_of(fusion_of(p["case"], p["dtype"]), schedule),
        Cache.default(),
        Policy.PRACTICAL,
    )

    def one(variant: int) -> Program:
        blocks, hint = plan.resources(variant)
        return Unproved(built(plan, variant, policy, store), policy, blocks, hint, store)

    return CompiledKernel(plan, policy, {plan.main: one(plan.main)}, one)


def compile_one(job: tuple[Point, RowSchedule]) -> str:
    """In a process of the pool: puts the code into the cache; why there is none, or nothing."""
    p, schedule = job
    try:
        _ = made(p, schedule).program({"R": ELEMENTS // p["width"], "C": p["width"]}).code
        return ""
    except Exception as e:  # one kernel's trouble is no other's
        return repr(e)[:200]


def measured(machine: Any, p: Point, kernels: dict[str, CompiledKernel]) -> dict[str, Any]:
    """Microseconds of each kernel that is right, and of a copy of as many bytes."""
    from benchmarks.hardware import rows_torch

    case, dtype, width = p["case"], p["dtype"], p["width"]
    rows = ELEMENTS // width
    size = rows_torch.moved(case, dtype, rows, width)
    count = max(1, min(4, math.ceil(rows_torch.CACHES * machine.cache / size)))
    sets = [machine.inputs(case, dtype, rows, width, s) for s in range(count)]
    want = [w.float() for w in rows_torch._tuple(rows_torch.CASES[case][0](*sets[0]))]
    graphs, wrong = {"copy": machine.graph([rows_torch._copy(machine, size)])}, []
    for name, kernel in kernels.items():
        got = rows_torch._tuple(kernel(*sets[0]))
        off = max(float((a.float() - b).norm() / b.norm()) for a, b in zip(got, want, strict=True))
        if off < WRONG:
            graphs[f"ours {name}"] = machine.graph([lambda k=kernel, s=s: k(*s) for s in sets])
        else:
            wrong.append(name)
    times = machine.timed(graphs)
    return {"rows": rows, "arms": {n: {"us": x["us"]} for n, x in times.items()}, "wrong": wrong}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--arms", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=190.0)
    parser.add_argument("--twins", action="store_true")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--aligned", action="store_true")
    parser.add_argument("--ragged", action="store_true")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--between", action="store_true")
    parser.add_argument("--narrow", action="store_true")
    parser.add_argument("--clusters", action="store_true")
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, required=True)
    o = parser.parse_args()
    import torch  # type: ignore[import-not-found, unused-ignore]

    from benchmarks.hardware import rows_torch

    torch.set_grad_enabled(False)
    rows_torch.REPLAY, rows_torch.REPLAYS, rows_torch.WARM = 0.002, 5, 1
    begun, g = time.monotonic(), random.Random(o.seed + 1)
    pool = multiprocessing.get_context("spawn").Pool(max(1, len(os.sched_getaffinity(0)) - 1))
    jobs = []
    kinds = (
        (bool(o.only), lambda _: named(o.only), whole_menu),
        (o.few, few_points, few_arms),
        (o.narrow, narrow_points, narrow_arms),
        (o.clusters, cluster_points, cluster_arms),
        (o.between, between_points, between_arms),
        (o.wide, wide_points, wide_arms),
        (o.ragged, ragged_points, ragged_arms),
        (o.aligned, aligned_points, aligned_arms),
        (o.short, short_points, forms),
        (True, points, arms),
    )
    drawn, chosen = next((d, c) for asked, d, c in kinds if asked)
    for p in drawn(o.seed):
        each = twins(p, o.arms) if o.twins else chosen(p, o.arms, g)
        jobs.append((p, each, [pool.apply_async(compile_one, ((p, s),)) for s, _ in each]))
    machine, done = rows_torch.Machine("cuda", Path(os.devnull)), []
    for p, each, waiting in jobs:
        now = time.monotonic()
        if now - begun > o.seconds:
            break
        kernels, schedules = {}, {}
        for number, ((schedule, kept), found) in enumerate(zip(each, waiting, strict=True)):
            try:
                why = found.get(max(0.01, PATIENCE - (time.monotonic() - now)))
            except multiprocessing.TimeoutError:
                continue
            if not why:
                kernels[str(number)], schedules[str(number)] = made(p, schedule), kept
        row = measured(machine, p, kernels)
        where = {"seed": o.seed, **{k: p[k] for k in ("case", "dtype", "width")}}
        done.append({**where, **row, "schedules": schedules})
        o.out.write_text(json.dumps({"card": torch.cuda.get_device_name(0), "proved": False, "points": done}))
        machine.release()
    launches, wrong = sum(len(p["schedules"]) for p in done), sum(len(p["wrong"]) for p in done)
    print(f"{len(done)} of {len(jobs)} points, {launches} launches, {wrong} wrong")
    pool.terminate()


if __name__ == "__main__":
    main()
