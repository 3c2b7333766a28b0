"""The 18 products of the comparison with cuBLAS: candidates are proved, then timed, the fastest twice.

``prepare`` compiles what ``matmul.choose`` finds worth timing and proves every launch, IR and PTX, for its
sizes; it goes on where it stopped before, and ``complete`` goes on with the proofs on any machine. What is
not proved is not run. ``run_peers`` runs in a child.
"""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import statistics
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import Pool, TimeoutError
from pathlib import Path
from typing import Any

from benchmarks.hardware import matmul_prepared as prepared
from benchmarks.hardware.matmul_prepared import Item, Prepared
from benchmarks.hardware.matmul_timing import (
    DEVIATION,
    RELATIVE,
    Call,
    Row,
    alternated,
    broken,
    captured,
    errors,
    factors,
    failed,
    input_sets,
    poisoned,
    ready,
    tell,
)
from syncverify.codegen.cuda import emit
from syncverify.gate.matmul import CompiledMatmul
from syncverify.ir.text.printer import print_kernel
from syncverify.matmul import Schedule, product
from syncverify.matmul.choose import candidates
from syncverify.matmul.pipeline import build

Case = tuple[int, int, int, str]
SHAPES: tuple[Case, ...] = (
    (4096, 4096, 4096, "KK"), (8192, 8192, 8192, "KK"), (2048, 2048, 8192, "MN"), (16384, 16384, 1024, "MN"),
    (4096, 14336, 5120, "KK"), (4096, 5120, 14336, "KK"), (8192, 6144, 4096, "KK"), (8192, 28672, 4096, "KK"),
    (8192, 4096, 14336, "KK"), (4096, 8192, 28672, "KK"), (4096, 7168, 16384, "KK"),
    (4096, 24576, 1536, "KK"), (4096, 2112, 7168, "KK"), (128, 7168, 2048, "KK"), (64, 4096, 4096, "KK"),
    (3648, 480, 8632, "MN"), (4816, 5008, 5672, "MN"), (1176, 1840, 44280, "MN"),
)  # fmt: skip
#: Candidates of a shape; replays that choose among them, and replays of what was chosen.
COUNT, FEW, MANY = 14, 8, 24
#: Where proofs are short, twice as many candidates are tried.
SHORT = 300
SMS = prepared.SMS
#: Steps of a block whose proof takes about as long as the next candidate is worth waiting for.
PATIENCE = 1500
#: Seconds that an answer is waited for at once: clocks take no more than so many.
LONG = 1e6


# ---------------------------------------------------------------- preparing


def jobs(count: int = COUNT) -> list[tuple[float, Case, Schedule]]:
    """What is proved: the first candidates of all shapes first, long proofs later."""
    found: list[tuple[float, Case, Schedule]] = []
    for case in SHAPES:
        m, n, k, layout = case
        order = candidates(product(layout=layout), {"M": m, "N": n, "K": k}, SMS, 2 * count)
        for rank, s in enumerate(order):
            steps = _steps(case, s)
            if rank < count or steps < SHORT:
                found.append((rank * min(steps / SHORT, 1.0) + steps / PATIENCE, case, s))
    return sorted(found, key=lambda x: x[0])


def _steps(case: Case, schedule: Schedule) -> float:
    """Steps along K that the blocks of one system go through."""
    m, n, k, layout = case
    values = CompiledMatmul(product(layout=layout), schedule).launch_values({"M": m, "N": n, "K": k}, SMS)
    tiles = values.get("turns", values.get("share", 1))
    return float(tiles * values["steps"] * schedule.cluster)


def prepare(place: Path, workers: int = 1, seconds: float = math.inf, count: int = COUNT) -> None:
    """Writes ``p.pickle``: all kernels, compiled; then proves their launches."""
    place.mkdir(parents=True, exist_ok=True)
    there = place / "p.pickle"
    known = {x.facts["digest"]: x for x in prepared.load(place, "p")} if there.exists() else {}
    cases: dict[tuple[str, Schedule], list[tuple[float, Case]]] = {}
    for priority, case, s in jobs(count):
        cases.setdefault((case[3], s), []).append((priority, case))
    items = []
    for (layout, s), wanted in cases.items():
        kernel = build(product(layout=layout), s)
        digest = hashlib.sha256((print_kernel(kernel) + emit(kernel)).encode()).hexdigest()[:24]
        facts = {"digest": digest, "cases": wanted, "proved": []}
        if digest in known:
            items.append(replace(known[digest], name=s.title, facts=facts))
        else:
            items.append(prepared.item(s.title, product(layout=layout), s, kernel, **facts))
            print("  ", layout, s.title, flush=True)
    there.write_bytes(pickle.dumps(items))
    complete(place, workers, seconds)


def complete(place: Path, workers: int, seconds: float) -> None:
    """Proves launches that are not proved yet, as far as time goes; ``p.json`` keeps all answers."""
    end = time.monotonic() + seconds
    record = place / "p.json"
    rows: list[Row] = json.loads(record.read_text()) if record.exists() else []
    items = prepared.load(place, "p")
    known = {(*r["shape"], r["digest"]) for r in rows}
    todo = sorted(
        ((priority, k, case) for k, x in enumerate(items) for priority, case in x.facts["cases"]),
        key=lambda x: x[0],
    )
    cases: dict[int, list[Case]] = {}
    for _, k, case in todo:
        if (*case, items[k].facts["digest"]) not in known:
            cases.setdefault(k, []).append(case)
    left = [(items[k], part) for k, some in cases.items() for part in _together(items[k], some)]
    with Pool(workers) as pool:
        answers = pool.imap_unordered(_proved, left)
        for _ in left:
            try:
                rows += answers.next(timeout=min(max(end - time.monotonic(), 0.01), LONG))
            except TimeoutError:
                break
            record.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
            print("  ", *(f"{k} {v}" for k, v in rows[-1].items()), flush=True)
        pool.terminate()
    good = {(*r["shape"], r["digest"]) for r in rows if r["ir"] == r.get("ptx") == "proved"}
    for x in items:
        x.facts["proved"] = [case for _, case in x.facts["cases"] if (*case, x.facts["digest"]) in good]
    (place / "p.pickle").write_bytes(pickle.dumps(items))
    shapes = {case for x in items for case in x.facts["proved"]}
    count = sum(len(x.facts["proved"]) for x in items)
    print(f"p: {count} of {len(todo)} launches proved, {len(shapes)} of {len(SHAPES)} shapes", flush=True)


def _together(item: Item, cases: list[Case]) -> list[list[Case]]:
    """The launches that one process proves: all at once, where a proof for every size does not take long."""
    return [[case] for case in cases] if item.matmul.schedule.proved_by_launch else [cases]


def _proved(job: tuple[Item, list[Case]]) -> list[Row]:
    """Verdicts of launches: those of every size, or else each by itself."""
    item, cases = job
    digest = {"digest": item.facts["digest"]}
    if not item.matmul.schedule.proved_by_launch:
        every = prepared.judged(item, None)
        if every["ir"] == every.get("ptx") == "proved":
            return [{**digest, **every, "shape": case} for case in cases]
    return [{**digest, **prepared.judged(item, case)} for case in cases]


# ---------------------------------------------------------------- running (in a child)


def tasks(items: Sequence[Item]) -> list[Row]:
    return [
        {"do": "peer", "shape": case, "items": [k for k, x in enumerate(items) if case in x.facts["proved"]]}
        for case in SHAPES
    ]


def serial(item: Item) -> Item:
    """The same kernel behind the whole grid before it."""
    program = item.matmul.program()
    assert isinstance(program, Prepared)
    later = replace(program, serial=True, _loaded=program._loaded)
    return replace(item, matmul=replace(item.matmul, _programs={1: later, 2: later}))


def run_peers(items: Sequence[Item], todo: Sequence[Row]) -> None:
    import torch

    from syncverify.codegen import driver

    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    if driver.multiprocessors(0) != SMS:
        sys.exit(f"the launches are proved for {SMS} SMs, not for {driver.multiprocessors(0)}")
    items = usable(torch, items)
    ready(torch)
    for task in todo:
        try:
            found = peer(torch, [items[k] for k in task["items"]], tuple(task["shape"]))
        except Exception as e:
            found = failed(e)
        tell({"task": task, **found})
        torch.cuda.empty_cache()
        if "error" in found and broken(RuntimeError(found["error"])):
            sys.exit(found["error"])


def usable(torch: Any, items: Sequence[Item]) -> Sequence[Item]:
    """The items, launched one behind the other where the driver takes no dependent launches in graphs."""
    first = next((x for x in items if x.matmul.schedule.dependent), None)
    if first is None:
        return items
    case = first.facts["proved"][0]
    a, b = factors(torch, case[:3], case[3])
    try:
        captured(torch, [partial(first.matmul, a, b, out=poisoned(torch, case[:3]), proved=False)])
    except Exception as e:
        tell({"dependent launches": f"{type(e).__name__}: {e}"[:300]})
        return [serial(x) for x in items]
    return items


def peer(torch: Any, items: Sequence[Item], case: Case) -> Row:
    """All candidates through the gate and timed in turn; the fastest once more beside cuBLAS."""
    shape, layout = case[:3], case[3]
    sets = [(*factors(torch, shape, layout), poisoned(torch, shape)) for _ in range(input_sets(shape))]
    wants = [a @ b for a, b, _ in sets]
    arms: dict[str, tuple[Call, int]] = {}
    fails: dict[str, str] = {}
    for name, reduced in (("cublas", False), ("cublas_reduced", True)):
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = reduced
        arms[name] = captured(torch, [lambda s=s: torch.mm(s[0], s[1], out=s[2]) for s in sets])  # type: ignore[misc]
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    forms = {x.name: x for x in items}
    for name, item in forms.items():
        try:
            arms[name] = captured(torch, _calls(item, sets))
            fails |= _wrong(torch, name, arms[name][0], sets, wants)
        except Exception as e:
            if broken(e):
                raise
            fails[name] = f"{type(e).__name__}: {e}"[:300]
        tell({"arm": name})
        if name in fails:
            arms.pop(name, None)
    first = alternated(torch, arms, FEW, warm=0.1)
    tell({"timed": len(first)})
    order = sorted((x for x in first if x in forms), key=lambda x: first[x]["us"])
    final = {x: arms[x] for x in ("cublas", "cublas_reduced", *order[:2])}
    for name in order[:1]:
        if forms[name].matmul.schedule.dependent:
            final[f"{name} serial"] = captured(torch, _calls(serial(forms[name]), sets))
    times = alternated(torch, final, MANY, warm=0.2)
    for name in order[:2]:  # under replays that overlap
        fails |= _wrong(torch, name, arms[name][0], sets, wants)
    return _summary(case, forms, first, times, fails)


def _calls(item: Item, sets: Sequence[Any]) -> list[Call]:
    return [partial(item.matmul, a, b, out=c, proved=False) for a, b, c in sets]


def _wrong(torch: Any, name: str, replay: Call, sets: Sequence[Any], wants: Sequence[Any]) -> dict[str, str]:
    """One replay into poisoned results, all of them compared."""
    for _, _, c in sets:
        c.fill_(math.nan)
    replay()
    torch.cuda.synchronize()
    found = [errors(c, want) for (_, _, c), want in zip(sets, wants, strict=True)]
    worst = (max(r for r, _ in found), max(d for _, d in found))
    return {name: f"wrong: {worst}"} if worst[0] >= RELATIVE or worst[1] >= DEVIATION else {}


def _summary(
    case: Case,
    forms: Mapping[str, Item],
    first: Mapping[str, Mapping[str, float]],
    times: Mapping[str, Mapping[str, float]],
    fails: Mapping[str, str],
) -> Row:
    flops = 2.0 * math.prod(case[:3])
    mine = {x: t["us"] for x, t in times.items() if not x.startswith("cublas") and not x.endswith(" serial")}
    mine = {x: us for x, us in mine.items() if x not in fails}
    row: Row = {"ok": not fails and bool(mine), "failed": dict(fails), "times": times, "candidates": first}
    if mine:
        best = min(mine, key=lambda x: mine[x])
        peers = min(times[x]["us"] for x in ("cublas", "cublas_reduced"))
        row |= {
            "best": best, "us": mine[best], "cublas us": peers, "ratio": round(peers / mine[best], 4),
            "tflops": round(flops / mine[best] / 1e6, 1), "cublas tflops": round(flops / peers / 1e6, 1),
            "schedule": asdict(forms[best].matmul.schedule),
        }  # fmt: skip
        alone = {x for x, item in forms.items() if not item.matmul.schedule.dependent and x not in fails}
        row |= one_behind_the_other(first, times, alone)
    return row


def one_behind_the_other(
    first: Mapping[str, Mapping[str, float]], times: Mapping[str, Mapping[str, float]], alone: Collection[str]
) -> Row:
    """The best ratio of what starts behind the grid before it, each beside cuBLAS of the same replays."""
    found: dict[str, float] = {}
    for timed in (first, times):
        peers = min(t["us"] for x, t in timed.items() if x.startswith("cublas"))
        for x, t in timed.items():
            if x in alone or x.endswith(" serial"):
                found[x] = round(peers / t["us"], 4)
    best = max(found, key=lambda x: found[x], default="")
    return {"serial": best, "serial ratio": found[best]} if best else {}


def conclusion(rows: Sequence[Row]) -> str:
    """Over all shapes: the geometric mean of cuBLAS's time by ours, the worst, how many are ahead."""
    ratios = [r["ratio"] for r in rows if "ratio" in r]
    if not ratios:
        return "nothing was timed"
    mean = statistics.geometric_mean(ratios)
    ahead = sum(r >= 1 for r in ratios)
    behind = [r["serial ratio"] for r in rows if "serial ratio" in r]
    serially = f", {statistics.geometric_mean(behind):.4f} without dependent launches" if behind else ""
    return (
        f"{len(ratios)} of {len(SHAPES)} shapes, cuBLAS / ours: geometric mean {mean:.4f}{serially}, "
        f"worst {min(ratios):.4f}, {ahead} at 1 or more"
    )


__all__ = ["SHAPES", "conclusion", "prepare", "run_peers", "tasks"]
