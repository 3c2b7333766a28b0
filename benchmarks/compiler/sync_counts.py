"""Synchronizing statements of compiled fusions: as the passes leave them, minimized, by nvFuser's rules.

    python benchmarks/compiler/sync_counts.py [--seconds 600] [--out FILE]      # prints the tables of
        docs/minimize.md
    python benchmarks/compiler/sync_counts.py --compiled [--out FILE]   # every kernel of the cases of
        fusion_more.py
    python benchmarks/compiler/sync_counts.py --products [--out FILE]   # the products of matmul_mutants.py

nvFuser's number is what its lowering would have put into a kernel of the same shape, by the rules that
``nvfuser_rules`` states; no nvFuser is run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.checker import matmul_mutants  # noqa: E402
from benchmarks.compiler import fusion_more_cases, reduction_cases  # noqa: E402
from syncverify import matmul  # noqa: E402
from syncverify.base.diagnostics import Policy, ScopeKind  # noqa: E402
from syncverify.examples import attention, losses, norms  # noqa: E402
from syncverify.examples import fusions as examples  # noqa: E402
from syncverify.fusion import RowSchedule, Schedule, Tensor, trace  # noqa: E402
from syncverify.fusion.column_schedule import ColumnSchedule  # noqa: E402
from syncverify.fusion.graph import Fusion  # noqa: E402
from syncverify.fusion.library import cross_entropy, layer_norm, log_softmax, rms_norm, softmax  # noqa: E402
from syncverify.fusion.plan import plan_of  # noqa: E402
from syncverify.fusion.segments import cut, whole  # noqa: E402
from syncverify.gate.sequence import planned  # noqa: E402
from syncverify.ir import nodes as n  # noqa: E402
from syncverify.ir.nodes import Kernel  # noqa: E402
from syncverify.ir.text.printer import print_kernel, print_stmt  # noqa: E402
from syncverify.minimize import minimize  # noqa: E402
from syncverify.minimize.candidates import synchronizing  # noqa: E402
from syncverify.passes.rewrite import walk  # noqa: E402

ELEMENTWISE = ("mul", "scale_add", "gate_pair", "bias_gelu", "normalize")
SETTINGS = (
    "", "store=tma", "store=role", "mode=pipelined", "mode=pipelined store=tma", "async_warps=2"
)  # fmt: skip
WIDTHS = (1024, 8192)


def rows() -> dict[str, Fusion]:
    """Fusions that reduce along rows."""
    x, w = Tensor("bf16", ("R", "C")), Tensor("bf16", ("C",))
    return {
        "rms_norm": trace(lambda x, w: rms_norm(x, w), {"x": x, "w": w}),
        "layer_norm": trace(lambda x, w, b: layer_norm(x, w, b), {"x": x, "w": w, "b": w}),
        "softmax": trace(lambda x: softmax(x), {"x": x}),
        "log_softmax": trace(lambda x: log_softmax(x), {"x": x}),
        "cross_entropy": trace(lambda x, t: cross_entropy(x, t), {"x": x, "t": Tensor("i32", ("R",))}),
        "row_sum": trace(lambda x: x.sum(), {"x": x}),
    }


def nvfuser_rules(kernel: Kernel) -> int:
    """Statements that nvFuser's lowering would insert for the same loads, stores and reductions.

    Warp-specialized: init of full and empty barriers and a block sync; for each load arriveExpectTX; a wait
    on either side, the compute warps' arrival and the prefill; inval of both arrays. Pipelined: init, block
    sync, arriveExpectTX in prologue and loop for each load, one wait, one block sync for WAR, inval. Bulk
    stores: for each a fence.proxy.async in the loop; a block sync before them, one for WAR behind, commit and
    wait_group. Exchange among warps (blockReduce): block syncs before the partial values are read and after.
    """
    loop = [s for s in walk(kernel.body) if isinstance(s, n.BulkLoad | n.TmaLoad)]
    loads = len({s.dst.buffer for s in loop})
    stores = sum(isinstance(s, n.BulkStore | n.TmaStore) for s in walk(kernel.body))
    specialized = any(isinstance(s, n.Role) and s.name == "compute" for s in walk(kernel.body))
    total = 0
    if loads:
        total += 2 + 1 + loads + 2 + 2 + 2 if specialized else 1 + 1 + 2 * loads + 1 + 1 + 1
    if stores:
        total += stores + 1 + 1 + 2
    copied = {s.dst.buffer for s in loop} | {
        s.src.buffer for s in walk(kernel.body) if isinstance(s, n.BulkStore | n.TmaStore)
    }
    partial = {
        s.dst.buffer for s in walk(kernel.body) if isinstance(s, n.StShared) and s.dst.buffer not in copied
    }
    return total + 2 * len(partial)


def cases() -> Iterator[tuple[str, Callable[[], Kernel]]]:
    for name in ELEMENTWISE:
        for setting in SETTINGS:
            schedule = Schedule(tile=1024, compute_warps=4, stages=3).with_settings(setting.split())
            plan = plan_of(getattr(examples, name), schedule)
            yield f"{name} {setting}".strip(), lambda p=plan: p.build(p.main, Policy.PRACTICAL)  # type: ignore[misc]
    for name, fusion in rows().items():
        for width in WIDTHS:
            plan = plan_of(fusion, RowSchedule(source="bulk"))
            yield f"{name} C={width}", lambda p=plan, w=width: p.build(w, Policy.PRACTICAL)  # type: ignore[misc]


def more() -> Iterator[tuple[str, Callable[[], Kernel]]]:
    """Every kernel of the other examples: casts, dropout, rotations, transposes, long rows, columns, ..."""
    modules = (examples, attention, norms, losses)
    fusions = {f.name: f for m in modules for f in vars(m).values() if isinstance(f, Fusion)}
    fusions |= {name.replace(" ", "_"): c.fusion for name, c in reduction_cases.CASES.items()}
    for name, fusion in fusions.items():
        if name in ELEMENTWISE:
            continue
        long = "long" in name
        plans = [plan_of(fusion, RowSchedule(stream="yes") if long else None)] if whole(fusion) else [
            plan for segment in cut(fusion) for plan, _ in planned(segment)
        ]  # fmt: skip
        for k, plan in enumerate(plans):
            label = name if len(plans) == 1 else f"{name}, {k + 1} of {len(plans)}"
            yield label, lambda p=plan: p.build(p.main, Policy.PRACTICAL)  # type: ignore[misc]


def compiled() -> Iterator[tuple[str, Callable[[], Kernel]]]:
    """Every kernel that the cases of fusion_more.py compile for their sizes, each text once."""
    seen: set[str] = set()
    for name, case in fusion_more_cases.CASES.items():
        fusion = case.make()
        if case.schedule is not None and isinstance(case.schedule, ColumnSchedule):
            plans = [plan for s in cut(fusion) for plan, _ in planned(s, case.schedule)]
        elif whole(fusion):
            plans = [plan_of(fusion, case.schedule)]
        else:
            plans = [plan for segment in cut(fusion) for plan, _ in planned(segment)]
        for k, plan in enumerate(plans):
            known = [s for s in (*case.ragged, *case.timed) if set(plan.fusion.dims) <= s.keys()]
            for variant in sorted({plan.main, *(plan.variant(s) for s in known)}):
                kernel = plan.build(variant, Policy.PRACTICAL)
                text = print_kernel(kernel)
                if text not in seen:
                    seen.add(text)
                    yield f"{name}, {k + 1}, variant {variant}", lambda x=kernel: x  # type: ignore[misc]


def products() -> Iterator[tuple[str, Callable[[], Kernel]]]:
    plain = {name: (matmul.product(), s) for name, s in matmul_mutants.SCHEDULES.items()}
    for name, (problem, schedule) in {**plain, **matmul_mutants.OTHERS}.items():
        yield name, lambda p=problem, s=schedule: matmul_mutants.build(p, s)  # type: ignore[misc]


def counted(name: str, kernel: Kernel, scope: ScopeKind) -> dict[str, Any]:
    start = time.perf_counter()
    m = minimize(kernel, policy=Policy.PRACTICAL, scope=scope)
    return {
        "fusion": name,
        "verdict": str(m.report.verdict),
        "inserted": len(synchronizing(kernel.body)),
        "needed": m.needed,
        "removable": sum(len(r.stmts) for r in m.removed),
        "gone": [print_stmt(x) for r in m.removed for x in r.stmts],
        "kept": [str(k.reason) for k in m.kept],
        "nvfuser": nvfuser_rules(kernel),
        "seconds": round(time.perf_counter() - start, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--out")
    parser.add_argument("--only-more", action="store_true", help="without the first table's kernels")
    parser.add_argument("--compiled", action="store_true", help="the kernels of fusion_more.py's cases")
    parser.add_argument("--products", action="store_true", help="the products of matmul_mutants.py")
    parser.add_argument("--all-sizes", action="store_true", help="minimize for every size, not for defaults")
    given = parser.parse_args()
    scope = ScopeKind.ALL if given.all_sizes else ScopeKind.EXACT
    start = time.monotonic()
    found: list[dict[str, Any]] = []
    print("| fusion | inserted | needed | can go | kept | by nvFuser's rules |\n|---|---|---|---|---|---|")
    if given.compiled or given.products:
        chosen = (*(compiled() if given.compiled else ()), *(products() if given.products else ()))
    else:
        chosen = (*(() if given.only_more else cases()), *more())
    for name, make in chosen:
        if time.monotonic() - start > given.seconds:
            break
        try:
            found.append(counted(name, make(), scope))
        except Exception as e:
            found.append({"fusion": name, "failed": f"{type(e).__name__}: {e}"})
            print(f"| {name} | failed: {type(e).__name__}: {e} |")
            continue
        r = found[-1]
        kept = ", ".join(r["kept"]) or "0"
        shown = (r["fusion"], r["inserted"], r["needed"], r["removable"], kept, r["nvfuser"])
        print("| " + " | ".join(str(x) for x in shown) + " |", flush=True)
    if given.out:
        Path(given.out).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
