"""What torch computes of the fusions of rows, and how functions are timed: used by rows_on_gpu.py.

A process of this module takes commands, one line of JSON each, and answers each with one line. ``compile``
makes torch.compile's functions for a point; ``time`` compares this project's kernels with float64, then times
all functions of the point in alternation.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import math
import os
import statistics
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

EPS = 1e-6
#: Largest error of any row, relative to the row.
LIMIT = {"bf16": 2e-2, "f16": 2.5e-3, "f32": 1e-4}
KINDS = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
#: Elements of a tensor of rows, where functions are timed.
ELEMENTS = 1 << 27
#: Numbers of rows whose results are compared: none fills its last wave of blocks.
RAGGED = (1, 131, 1237)
SEEDS = (0, 1, 2)
#: Seconds of one replay of a graph; replays that count, and those that do not.
REPLAY, REPLAYS, WARM = 0.004, 15, 3
#: What torch.compile makes: backend and mode. The last two are what a user of this backend gets.
OURS, TUNED = "syncverify", "max-autotune-no-cudagraphs"
COMPILED = {
    "compile": ("inductor", None), "max-autotune": ("inductor", TUNED), "backend": (OURS, None),
    "backend max-autotune": (OURS, TUNED),
}  # fmt: skip
#: Seconds for the backend's trials: with other points beside, compilers are slower than for a user.
TRIALS = 60.0
#: The copies and results of one point together are this many times the L2 cache, at least.
CACHES = 3

Function = Callable[..., Any]


def _add_rmsnorm(x: Any, r: Any, w: Any) -> Any:
    h = x + r
    return F.rms_norm(h, h.shape[-1:], w, EPS), h


def _add_layernorm(x: Any, r: Any, w: Any, b: Any) -> Any:
    h = x + r
    return F.layer_norm(h, h.shape[-1:], w, b, EPS), h


def _pointwise8(x: Any, r: Any) -> Any:
    return torch.tanh(x * 1.25 + r) * torch.sigmoid(r) * x + 0.5


#: Case: the function; its inputs (X rows, V a vector, T an index for each row); rows written.
CASES: dict[str, tuple[Function, str, int]] = {
    "rmsnorm": (lambda x, w: F.rms_norm(x, x.shape[-1:], w, EPS), "XV", 1),
    "layernorm": (lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, EPS), "XVV", 1),
    "softmax": (lambda x: F.softmax(x, dim=-1), "X", 1),
    "add+rmsnorm": (_add_rmsnorm, "XXV", 2),
    "add+layernorm": (_add_layernorm, "XXVV", 2),
    "log_softmax": (lambda x: F.log_softmax(x, dim=-1), "X", 1),
    "row_max": (lambda x: x.amax(dim=-1), "X", 0),
    "cross_entropy": (lambda x, t: F.cross_entropy(x, t, reduction="none"), "XT", 0),
    "row_sum": (lambda x: x.sum(dim=-1), "X", 0),
    "bias+gelu": (lambda x, b: F.gelu(x + b, approximate="tanh"), "XV", 1),
    "swiglu": (lambda g, u: F.silu(g) * u, "XX", 1),
    "pointwise8": (_pointwise8, "XX", 1),
}


def moved(case: str, dtype: str, rows: int, width: int) -> int:
    """Bytes that a call reads and writes, each once."""
    _, kinds, written = CASES[case]
    size = KINDS[dtype].itemsize
    total = (kinds.count("X") + written) * rows * width * size + kinds.count("V") * width * size
    return total + ("T" in kinds) * rows * 8 + (written == 0) * rows * size


# ---------------------------------------------------------------- the machine


class Machine:
    """A GPU, or a processor for a trial of the plumbing. ``lock``: a file; who holds it has the GPU alone."""

    def __init__(self, kind: str, lock: Path) -> None:
        self.kind = kind
        self.gpu = kind == "cuda"
        self.lock = lock
        self.held = False
        self.cache = 1 << 16
        if self.gpu:
            found = torch.cuda.get_device_properties(0)
            self.cache = int(getattr(found, "L2_cache_size", 0) or 60 << 20)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Nothing else uses the GPU meanwhile; who has it already keeps it."""
        if self.held:
            yield
            return
        with self.lock.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.held = True
            try:
                yield
            finally:
                self.held = False

    def sync(self) -> None:
        if self.gpu:
            torch.cuda.synchronize()

    def release(self) -> None:
        if self.gpu:
            torch.cuda.empty_cache()

    def inputs(self, case: str, dtype: str, rows: int, width: int, seed: int) -> list[Any]:
        torch.manual_seed(seed)
        made = {
            "X": lambda: torch.randn(rows, width, device=self.kind, dtype=KINDS[dtype]),
            "V": lambda: torch.randn(width, device=self.kind, dtype=KINDS[dtype]),
            "T": lambda: torch.randint(0, width, (rows,), device=self.kind),
        }
        return [made[k]() for k in CASES[case][1]]

    def seconds(self, run: Callable[[], Any]) -> float:
        """One run, by events or the clock."""
        if not self.gpu:
            start = time.perf_counter()
            run()
            return time.perf_counter() - start
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        run()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1e3

    def graph(self, calls: list[Callable[[], Any]]) -> tuple[Callable[[], Any], int]:
        """Calls that are replayed together, and how many they are."""
        for call in calls:
            call()
        self.sync()
        once = max(1e-6, min(self.seconds(calls[0]) for _ in range(3)))
        rounds = max(1, min(200, round(REPLAY / (once * len(calls)))))

        def run() -> None:
            for _ in range(rounds):
                for call in calls:
                    call()

        if not self.gpu:
            return run, rounds * len(calls)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            run()

        def replay(held: Any = calls) -> None:  # a graph does not keep what its calls read and write
            captured.replay()

        replay()
        self.sync()
        return replay, rounds * len(calls)

    def timed(self, graphs: dict[str, tuple[Callable[[], Any], int]]) -> dict[str, dict[str, float]]:
        """Microseconds of a call of each function: replays in alternation, forwards and backwards."""
        found: dict[str, list[float]] = {name: [] for name in graphs}
        for turn in range(WARM + REPLAYS):
            for name in list(graphs)[:: 1 if turn % 2 else -1]:
                replay, calls = graphs[name]
                seconds = self.seconds(replay)
                if turn >= WARM:
                    found[name].append(seconds * 1e6 / calls)
        return {name: _spread(times) for name, times in found.items()}


def _spread(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    last = len(ordered) - 1
    return {
        "us": round(statistics.median(ordered), 3),
        "p10": round(ordered[int(0.1 * last)], 3),
        "p90": round(ordered[math.ceil(0.9 * last)], 3),
    }


# ---------------------------------------------------------------- errors


def exact(case: str, inputs: list[Any], first: int, last: int) -> tuple[Any, ...]:
    """The results of some rows in float64."""
    function, kinds, _ = CASES[case]
    part = [x if k == "V" else x[first:last] for k, x in zip(kinds, inputs, strict=True)]
    return _tuple(function(*(x.double() if x.is_floating_point() else x for x in part)))


def worst_row(case: str, got: Any, inputs: list[Any], pieces: int = 16) -> float:
    """The largest error of any row, relative to the row; of numbers, relative to all of them."""
    rows = int(inputs[0].shape[0])
    step = max(1, -(-rows // pieces))
    worst = 0.0
    for first in range(0, rows, step):
        want = exact(case, inputs, first, first + step)
        for g, w in zip(_tuple(got), want, strict=True):
            g = g[first : first + step].double()
            if g.shape != w.shape:
                return math.inf
            if w.dim() == 2:
                error = ((g - w).norm(dim=1) / w.norm(dim=1).clamp_min(1e-30)).max()
            else:
                error = (g - w).abs().max() / w.square().mean().sqrt().clamp_min(1e-30)
            worst = max(worst, float(error)) if torch.isfinite(error) else math.inf
    return worst


def _tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


# ---------------------------------------------------------------- this project's kernels


def kernels(case: str, dtype: str, width: int, settings: list[str]) -> dict[str, Any]:
    """The proved kernels of a point by the name of their schedule, or why there is none."""
    from benchmarks.compiler.fusion_cases import fusion_of
    from benchmarks.hardware.rows_on_gpu import arms
    from syncverify import gate
    from syncverify.base.source import InputError

    found: dict[str, Any] = {}
    for name, schedule in arms(case, width, settings).items():
        try:
            found[name] = gate.compile(fusion_of(case, dtype), schedule)
        except (InputError, gate.VerificationError) as e:
            found[name] = e
    return found


def outputs(machine: Machine, fusion: Any, rows: int, width: int) -> tuple[Any, ...]:
    """Arrays full of NaN."""
    sizes = {"R": rows, "C": width}
    return tuple(
        torch.full([sizes[d] for d in o.dims], math.nan, device=machine.kind, dtype=KINDS[o.dtype])
        for o in fusion.outputs
    )


def correct(machine: Machine, kernel: Any, point: dict[str, Any]) -> dict[str, Any]:
    """Every result of ragged numbers of rows, for each seed, written over NaN."""
    case, dtype, width = point["case"], point["dtype"], point["width"]
    worst, launches = 0.0, 0
    for seed in SEEDS:
        for rows in RAGGED if machine.gpu else RAGGED[:1]:
            given = machine.inputs(case, dtype, rows, width, seed)
            out = outputs(machine, kernel.fusion, rows, width)
            call(machine, kernel, given, out)
            machine.sync()
            launches += 1
            worst = max(worst, worst_row(case, out, given, 1))
    return {"error": worst, "limit": LIMIT[dtype], "launches": launches, "ok": worst < LIMIT[dtype]}


def call(machine: Machine, kernel: Any, given: list[Any], out: tuple[Any, ...]) -> None:
    if machine.gpu:
        kernel(*given, out=out)
        return
    fusion = kernel.fusion
    names = [n for n, _ in fusion.inputs]
    arrays = {n: on_host(x) for n, x in zip(names, given, strict=True)}
    sizes = {"R": len(given[0]), "C": given[0].shape[-1]}
    for to, result in zip(out, kernel.simulate(arrays, sizes), strict=True):
        to.copy_(torch.as_tensor(result.astype("float32")))


def on_host(x: Any) -> Any:
    """A tensor as the simulator takes it."""
    if x.dtype is torch.bfloat16:
        import ml_dtypes

        return x.float().numpy().astype(ml_dtypes.bfloat16)
    return x.numpy()


# ---------------------------------------------------------------- commands


class Worker:
    """One process: the functions that it has compiled, by point."""

    def __init__(self, machine: Machine, elements: int) -> None:
        self.machine = machine
        self.elements = elements
        self.made: dict[str, dict[str, Function]] = {}
        if machine.gpu:
            _measure_alone(machine)
            _import_early()
            _choose_alone(machine)

    def compile(self, point: dict[str, Any]) -> dict[str, Any]:
        """torch.compile's functions (``functions`` of the point, or all), called once: so they are tuned."""
        case, dtype, width = point["case"], point["dtype"], point["width"]
        with self.machine.alone():
            given = self.machine.inputs(case, dtype, self.elements // width, width, 0)
            self.machine.sync()
        made = self.made.setdefault(_key(point), {})
        seconds, failed, chosen = {}, {}, {}
        for name, (backend, mode) in COMPILED.items():
            if name not in point.get("functions", COMPILED):
                continue
            start, known = time.time(), _times()
            try:
                function = torch.compile(
                    _copied(CASES[case][0]), dynamic=False, fullgraph=True, mode=mode, backend=backend
                )
                function(*given)
                self.machine.sync()
                made[name] = function
            except Exception as e:  # one function's trouble is no other's
                failed[name] = f"{type(e).__name__}: {e}"[:300]
            seconds[name] = round(time.time() - start, 2)
            if backend == OURS:
                chosen[name] = [x for key, x in _times().items() if key not in known]
        del given
        self.machine.release()
        return {"seconds": seconds, "failed": failed, "chosen": chosen}

    def time(self, point: dict[str, Any]) -> dict[str, Any]:
        """Correctness of the project's kernels, then the time of every function that is right."""
        case, dtype, width = point["case"], point["dtype"], point["width"]
        machine, rows = self.machine, self.elements // width
        start = time.time()
        functions: dict[str, Function] = self.made.get(_key(point), {}).copy()
        if point.get("eager", True):
            functions = {"eager": CASES[case][0], **functions}
        result: dict[str, Any] = {"correct": {}, "arms": {}, "failed": {}, "schedules": {}}
        for name, kernel in kernels(case, dtype, width, point["settings"]).items():
            if isinstance(kernel, Exception):
                result["failed"][f"ours {name}"] = f"{type(kernel).__name__}: {kernel}"[:300]
                continue
            variant = kernel.plan.variant({"R": rows, "C": width})
            result["schedules"][name] = {**asdict(kernel.plan.fitted(variant)), "variant": variant}
            result["correct"][name] = correct(machine, kernel, point)
            if machine.gpu and result["correct"][name]["ok"]:
                functions[f"ours {name}"] = kernel
        size = moved(case, dtype, rows, width)
        count = max(1, min(4, math.ceil(CACHES * machine.cache / size)))
        sets = [machine.inputs(case, dtype, rows, width, seed) for seed in range(count)]
        graphs = {"copy": machine.graph([_copy(machine, size)])}
        errors = {"copy": 0.0}
        for name, function in functions.items():
            try:
                errors[name] = worst_row(case, function(*sets[0]), sets[0])
                if not errors[name] < LIMIT[dtype]:
                    result["failed"][name] = f"wrong: relative error {errors[name]:.3g}"
                    continue
                graphs[name] = machine.graph([lambda f=function, s=s: f(*s) for s in sets])  # type: ignore[misc]
            except Exception as e:
                result["failed"][name] = f"{type(e).__name__}: {e}"[:300]
        times = machine.timed(graphs)
        for name, spread in times.items():
            share = {"fraction": round(times["copy"]["us"] / spread["us"], 4)}
            share["GBps"] = round(size / spread["us"] / 1e3)
            result["arms"][name] = {**spread, **share, "error": errors[name], "calls": graphs[name][1]}
        del graphs, sets
        machine.release()
        result |= {"rows": rows, "bytes": size, "sets": count}
        return {**result, "seconds": round(time.time() - start, 2)}


def _key(point: dict[str, Any]) -> str:
    return f"{point['case']} {point['dtype']} {point['width']}"


def _copy(machine: Machine, size: int) -> Callable[[], Any]:
    """A kernel that reads and writes so many bytes."""
    a, b = torch.randn(size // 8, device=machine.kind), torch.empty(size // 8, device=machine.kind)
    return lambda: torch.mul(a, 1.0, out=b)


_copies = 0


def _copied(function: Function) -> Function:
    """The function as code of its own, so that no compiled one displaces another."""
    global _copies
    _copies += 1
    code = function.__code__
    own = code.replace(co_firstlineno=code.co_firstlineno + 1000 * _copies)
    return types.FunctionType(own, function.__globals__, f"{function.__name__}_{_copies}")


def _import_early() -> None:
    """What the first point would import, so that its time is like the others'."""
    for name in ("benchmarks.compiler.fusion_cases", "benchmarks.hardware.rows_on_gpu", "syncverify.gate"):
        importlib.import_module(name)


def _measure_alone(machine: Machine) -> None:
    """Has inductor try its configurations while no other process uses the GPU."""
    try:
        from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    except ImportError:
        return
    plain = getattr(CachingAutotuner, "bench", None)
    if plain is None:
        return

    def bench(self: Any, *args: Any, **named: Any) -> Any:
        with machine.alone():
            return plain(self, *args, **named)

    CachingAutotuner.bench = bench  # type: ignore[method-assign, unused-ignore]


def _choose_alone(machine: Machine) -> None:
    """Has the backend time its trials while no other process uses the GPU, and prove kernels in this one: a
    choice is then as in a process that finds the proofs of an earlier one."""
    from syncverify.gate.ahead import provers
    from syncverify.torch import choice, trials

    provers().jobs = 1
    trials._LEAST_SECONDS = TRIALS
    plain = choice._medians

    def medians(*args: Any) -> Any:
        with machine.alone():
            return plain(*args)

    choice._medians = medians  # type: ignore[assignment, unused-ignore]


def _times() -> dict[str, dict[str, Any]]:
    """What the backend has found of contexts in this process: microseconds, and which regions it took."""
    choice = sys.modules.get("syncverify.torch.choice")
    found = {} if choice is None else choice._FOUND
    return {key: {**asdict(x), "taken": x.taken} for key, x in found.items()}


def main() -> None:
    kind, elements, lock = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    torch.set_grad_enabled(False)
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 4096
    worker = Worker(Machine(kind, lock), elements)
    print(json.dumps({"ready": torch.__version__}), file=answers, flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(worker, command["do"])(command["point"])
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"[:400]}
        print(json.dumps(answer), file=answers, flush=True)
        if "CUDA" in answer.get("error", ""):
            return  # the context is lost


if __name__ == "__main__":
    main()
