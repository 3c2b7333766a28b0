"""Row fusions with and without the fence between reads and refill (K1): wrong words and time on a GPU.

    python benchmarks/hardware/reads_before_refill.py --out DIR [--seconds 60] [--launches 40]
    python benchmarks/hardware/reads_before_refill.py --verdicts          # what the checker says; no GPU

Each kernel is built twice, once without the pass that places the fence, and runs in a child process that
is killed when it stalls. A launch is wrong if a word differs from the first result of the fenced kernel.
Times are those of 20 launches in a row, median of 15 rounds. DIR/reads_before_refill.json is written again
after every kernel.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.compiler.fusion_cases import fusion_of  # noqa: E402
from syncverify import gate  # noqa: E402
from syncverify.base.diagnostics import Policy  # noqa: E402
from syncverify.driver.ir import check_kernel  # noqa: E402
from syncverify.fusion import Fusion, RowSchedule  # noqa: E402
from syncverify.fusion.functions import numpy_dtype  # noqa: E402
from syncverify.fusion.pipeline import build_rows  # noqa: E402
from syncverify.fusion.row_schedule import fitted  # noqa: E402
from syncverify.ir.nodes import Kernel  # noqa: E402

#: Fusion, type of the elements, width, settings.
CASES = (
    ("add+rmsnorm", "bf16", 32768, "source=bulk"),
    ("add+rmsnorm", "f32", 16384, "source=bulk"),
    ("rmsnorm", "bf16", 4096, "source=bulk"),
    ("softmax", "bf16", 8192, "source=bulk"),
    ("layernorm", "f32", 8192, "source=bulk"),
    ("row_sum", "bf16", 32768, "source=bulk"),
)
#: More than the L2 cache holds, with the results.
ELEMENTS, ROUNDS, IN_A_ROW = 1 << 25, 15, 20


def built(case: str, dtype: str, width: int, settings: str, fenced: bool) -> tuple[Fusion, Kernel]:
    fusion = fusion_of(case, dtype)
    schedule = fitted(fusion, RowSchedule(width=width).with_settings(settings.split()), width)
    without = frozenset() if fenced else frozenset({"proxy-fences"})
    return fusion, build_rows(fusion, schedule, width, Policy.PRACTICAL, without=without)


class OnDevice:
    """A kernel with its inputs and results in the GPU's memory."""

    def __init__(
        self, kernel: Kernel, fusion: Fusion, inputs: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> None:
        from syncverify.codegen import driver
        from syncverify.fusion.plan import launch_values

        self.driver, self.outputs = driver, fusion.outputs
        self.program = gate.Program(kernel, Policy.PRACTICAL)
        driver.use_device(0)
        self.values = launch_values(fusion, kernel, sizes, driver.multiprocessors(0))
        self.results = {
            o.name: np.zeros([sizes[d] for d in o.dims], numpy_dtype(o.dtype)) for o in fusion.outputs
        }
        self.places = {}
        for name, a in {**inputs, **self.results}.items():
            self.places[name] = driver.allocate(a.nbytes)
            driver.copy_in(self.places[name], a)

    def words(self) -> list[Any]:
        """Clears the results, launches, and brings them back."""
        for name, r in self.results.items():
            self.driver.clear(self.places[name], r.nbytes, 0)
        self.launch(1)
        for name, r in self.results.items():
            self.driver.copy_out(r, self.places[name])
        return [r.view(f"u{r.itemsize}") for r in self.results.values()]

    def launch(self, times: int) -> float:
        start = time.perf_counter()
        for _ in range(times):
            gate.launch(self.program, self.places, self.values, 0, 0)
        self.driver.synchronize(0)
        return (time.perf_counter() - start) / times * 1e6


def child(number: int, launches: int) -> None:
    """One case: prints its result as JSON."""
    case, dtype, width, settings = CASES[number]
    sizes = {"R": ELEMENTS // width, "C": width}
    kinds, inputs = {}, fusion_of(case, dtype).random_inputs(sizes)
    for fenced in (True, False):
        fusion, kernel = built(case, dtype, width, settings, fenced)
        kinds[fenced] = OnDevice(kernel, fusion, inputs, sizes)
    right = [r.copy() for r in kinds[True].words()]
    row: dict[str, Any] = {"case": f"{case} {dtype} {width} {settings}", "launches": launches}
    for fenced, name in ((False, "unfenced"), (True, "fenced")):
        results = (zip(kinds[fenced].words(), right, strict=True) for _ in range(launches))
        wrong = [sum(0 if (a == b).all() else int((a != b).sum()) for a, b in pairs) for pairs in results]
        row[name] = {"wrong launches": sum(w > 0 for w in wrong), "wrong words": sum(wrong)}
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for fenced in (False, True):
            times[fenced].append(kinds[fenced].launch(IN_A_ROW))
    for fenced, name in ((False, "unfenced"), (True, "fenced")):
        row[name]["us"] = round(statistics.median(times[fenced]), 2)
    row["cost of the fence"] = round(row["fenced"]["us"] / row["unfenced"]["us"], 4)
    print(json.dumps(row))


def verdicts() -> None:
    for case in CASES:
        for fenced in (False, True):
            _, kernel = built(*case, fenced)
            report = check_kernel(kernel)
            rules = sorted({d.rule for d in report.diagnostics if d.severity.value == "error"})
            print(" ".join(map(str, case)), "fenced" if fenced else "unfenced", report.verdict.value, *rules)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--launches", type=int, default=40)
    parser.add_argument("--verdicts", action="store_true")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.verdicts:
        return verdicts()
    if args.child is not None:
        return child(args.child, args.launches)
    from syncverify.gate.unsafe_run import watched

    args.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + args.seconds
    rows: list[dict[str, Any]] = []
    for number, case in enumerate(CASES):
        left = end - time.monotonic()
        if left <= 0:
            break
        command = [sys.executable, __file__, "--child", str(number), "--launches", str(args.launches)]
        seen = watched(command, b"", min(left, 40.0))
        done = seen.output.strip().splitlines()
        if seen.ending == "finished" and done:
            rows.append(json.loads(done[-1]))
        else:
            rows.append({"case": " ".join(map(str, case)), "failed": f"{seen.ending}: {seen.message}"})
        print(json.dumps(rows[-1]), flush=True)
        (args.out / "reads_before_refill.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
