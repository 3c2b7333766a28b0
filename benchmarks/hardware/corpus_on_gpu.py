"""The corpus on a GPU: what proved and refuted kernels do there.

``prepare FILE`` (no GPU needed) compiles every corpus kernel that the code generator supports and packs it
with random inputs and the result that the mended kernel computes in the simulator. ``run FILE`` launches
each one in a child process of its own, which is killed at the deadline, and prints how it ended: ``right``,
``wrong`` (some launch differs from the reference), ``hang`` (killed) or ``stopped`` (the hardware reported
an error). ``run`` needs cuda.bindings and NumPy only.
"""

from __future__ import annotations

import ctypes
import json
import pickle
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

LAUNCHES = 200
DEADLINE = 12.0
CHILDREN = 8

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Job:
    """One kernel, ready to launch, with what it should compute."""

    name: str
    verdict: str
    claim: str
    entry: str
    cubin: bytes
    shared_bytes: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arrays: tuple[tuple[str, Array], ...]
    outputs: tuple[str, ...]
    numbers: tuple[int, ...]
    reference: dict[str, Array]


# ---------------------------------------------------------------- prepare


def jobs() -> Iterator[Job]:
    """Every corpus kernel that can be compiled and whose result is known."""
    from syncverify.base.nvrtc import compile_source
    from syncverify.base.source import InputError
    from syncverify.codegen.cuda import emit
    from syncverify.driver.ir import check_kernel
    from syncverify.ir.expr import evaluate
    from syncverify.ir.layout import layout
    from syncverify.ir.text.parser import parse_file
    from syncverify.simulate import ir
    from tests.corpus.arrays import arrays, defaults
    from tests.corpus.entries import Entry, entries

    files = {e.name: e for e in entries()}

    def model(e: Entry) -> Entry | None:
        """The kernel whose result is right."""
        if e.family == "two_async_warps":
            return files["two_async_warps/v6_mended.syncir"]
        if e.kind == "bad":
            return files[e.name.replace(".bad.", ".good.")]
        return e if e.family == "idioms" or e.kind == "good" else None

    for e in files.values():
        (kernel,), right = parse_file(e.path), model(e)
        if right is None or {t.dtype for t in kernel.tensors} != {"f32"}:
            continue
        try:
            cubin = compile_source(emit(kernel), kernel.name).code
        except InputError:
            continue
        (wanted,) = parse_file(right.path)
        values, given = defaults(kernel), arrays(kernel, defaults(kernel))
        reference = ir.run(wanted, {p.name: values[p.name] for p in wanted.params}, given)
        report = check_kernel(kernel, file=e.name)
        grid = kernel.launch.grid
        yield Job(
            e.name, str(report.verdict), str(report.witness.claim) if report.witness else "",
            kernel.name, cubin, layout(kernel, values).size,
            (evaluate(grid[0], values), evaluate(grid[1], values), evaluate(grid[2], values)),
            kernel.launch.block, tuple(given.items()),
            tuple(t.name for t in kernel.tensors if t.mode != "in"),
            tuple(values[p.name] for p in kernel.params), reference,
        )  # fmt: skip


# ---------------------------------------------------------------- run


def launch(job: Job) -> dict[str, int]:
    """In the child: all launches of one kernel; the number of elements that differ from the reference."""
    from syncverify.codegen import driver

    function = driver.load(job.cubin, job.entry, job.shared_bytes, 0)
    arrays = {n: np.ascontiguousarray(a) for n, a in job.arrays}
    places = {n: driver.allocate(a.nbytes) for n, a in arrays.items()}
    arguments = [(places[n], ctypes.c_void_p) for n in arrays] + [(v, ctypes.c_int) for v in job.numbers]
    wrong = elements = 0
    for _ in range(LAUNCHES):
        for name, array in arrays.items():
            driver.copy_in(places[name], array)
        driver.launch(function, job.grid, job.block, arguments, 0)
        driver.synchronize(0)
        for name in job.outputs:
            got = np.empty_like(arrays[name])
            driver.copy_out(got, places[name])
            close = np.isclose(got, job.reference[name].reshape(got.shape), 1e-5, 1e-6, equal_nan=True)
            wrong += int(close.size - np.count_nonzero(close))
            elements += close.size
    return {"wrong": wrong, "elements": elements}


def ending(job: Job) -> dict[str, Any]:
    """Runs one job in a child process; kills it at the deadline."""
    command = [sys.executable, __file__, "child"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    row: dict[str, Any] = {"name": job.name, "verdict": job.verdict, "claim": job.claim}
    try:
        out, err = child.communicate(pickle.dumps(job), DEADLINE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return {**row, "ending": "hang"}
    if child.returncode != 0:
        lines = err.decode(errors="replace").strip().splitlines()
        return {**row, "ending": "stopped", "message": lines[-1] if lines else ""}
    answer = json.loads(out)
    return {**row, "ending": "wrong" if answer["wrong"] else "right", **answer}


def run(packed: Path, report: Path | None) -> None:
    work: list[Job] = pickle.loads(packed.read_bytes())
    start = time.perf_counter()
    with ThreadPoolExecutor(CHILDREN) as pool:
        rows = list(pool.map(ending, work))
    for r in rows:
        extra = f"{r['wrong']} of {r['elements']}" if r["ending"] == "wrong" else r.get("message", "")
        print(f"{r['name']:64} {r['verdict']:8} {r['claim']:16} {r['ending']:8} {extra}")
    counts = Counter((r["verdict"], r["claim"], r["ending"]) for r in rows)
    for (verdict, claim, end), count in sorted(counts.items()):
        print(f"{verdict:8} {claim:16} {end:8} {count:4}")
    print(f"{len(rows)} kernels, {LAUNCHES} launches each, {time.perf_counter() - start:.0f} s")
    if report is not None:
        report.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def main() -> None:
    match sys.argv[1:]:
        case ["prepare", file]:
            found = list(jobs())
            Path(file).write_bytes(pickle.dumps(found))
            print(f"{len(found)} kernels")
        case ["run", file, *rest]:
            run(Path(file), Path(rest[0]) if rest else None)
        case ["child"]:
            print(json.dumps(launch(pickle.load(sys.stdin.buffer))))
        case _:
            sys.exit(f"usage: {sys.argv[0]} prepare FILE | run FILE [REPORT.json]")


if __name__ == "__main__":
    main()
