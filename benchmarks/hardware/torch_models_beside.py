"""First and second processes of whole models, some beside each other, on a Hopper GPU.

    python benchmarks/hardware/torch_models_beside.py --out DIR [--models bert,vit] [--layers 4] \
        [--seconds 350] [--again]

The processes are those of ``torch_whole_models.py``, in the default mode, and DIR/rows.jsonl is as there. Of
a model the first processes of Inductor and of this backend run beside each other, on as many cores each, and
are timed as well. Then, on two cores and beside the next model's, one compiles both with the caches that
these left, times them in alternation and compares with float64. ``--again``: last, second processes of one
arm each. Whatever is timed on the GPU holds one lock. What a compilation waited for it is in its seconds,
and is printed beside them.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1])]

from benchmarks.hardware import torch_whole_models as models  # noqa: E402

#: What names the lock and the cores of a process; cores that are left for what compiles both.
LOCK, CORES, LEFT = "GPU_LOCK", "PROCESS_CORES", 2
#: Seconds without which no other model, or second processes of one, are begun.
LEAST, LEAST_AGAIN = 40, 30


class Alone:
    """The GPU for one process at a time, among those that ask; ``waited``: seconds for others."""

    def __init__(self, file: Path) -> None:
        self._file, self._depth, self.waited = file.open("a"), 0, 0.0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self._depth += 1
        if self._depth == 1:
            began = time.perf_counter()
            fcntl.flock(self._file, fcntl.LOCK_EX)
            self.waited += time.perf_counter() - began
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def during(self, owner: Any, name: str) -> None:
        """Has a function of a module or a class hold the GPU."""
        plain: Callable[..., Any] = vars(owner)[name]

        def call(*args: Any, **settings: Any) -> Any:
            with self():
                return plain(*args, **settings)

        setattr(owner, name, call)


def child(file: Path) -> None:
    """One process of ``torch_whole_models.py``: nobody waits for the machine, but for the GPU."""
    alone = Alone(file)
    os.sched_setaffinity(0, map(int, os.environ[CORES].split(",")))
    collect, first = models.collect, models.compiled_first

    @contextmanager
    def at_once(out: Path, name: str) -> Iterator[None]:
        yield

    def collected() -> None:
        from torch._inductor.runtime import benchmarking

        from syncverify.torch import choice

        collect()
        alone.during(choice, "_medians")
        kinds = [x for x in vars(benchmarking).values() if isinstance(x, type)]
        for kind in dict.fromkeys(x for x in kinds if issubclass(x, benchmarking.Benchmarker)):
            for name in {"benchmark_gpu", "benchmark_gpu_with_cuda_graph"} & vars(kind).keys():
                alone.during(kind, name)

    def compiled_first(case: models.Case, arm: str, *args: Any) -> tuple[Any, dict[str, Any]]:
        before = alone.waited
        f, row = first(case, arm, *args)
        row["waited_s"] = alone.waited - before
        if case.device == "cuda" and sys.argv[1].endswith(models.ARMS):
            for what in ("step", "forward"):
                with alone():
                    row[f"{what}_ms"] = [models.timed(partial(getattr(case, what), f)) for _ in range(2)]
        return f, row

    models.machine, models.collect, models.compiled_first = at_once, collected, compiled_first  # type: ignore[assignment]
    alone.during(models, "measure")
    alone.during(models.Case, "reference")
    models.main()


class Processes:
    """What begins processes, each on cores of its own, and waits for them until time is over."""

    def __init__(self, o: argparse.Namespace) -> None:
        self.o = o
        self.until: float = time.monotonic() + o.seconds
        cores = sorted(os.sched_getaffinity(0))
        each = max(1, (len(cores) - LEFT) // 2)
        self.cores = [cores[:each], cores[each : 2 * each] or cores, cores[2 * each :] or cores]

    def left(self) -> float:
        return max(0.0, self.until - time.monotonic())

    def begin(self, name: str, place: int, *flags: str) -> subprocess.Popen[bytes]:
        lock = str(Path(self.o.out) / "gpu.lock")
        environment = {**os.environ, LOCK: lock, CORES: ",".join(map(str, self.cores[place]))}
        same = [f"--{k}={getattr(self.o, k)}" for k in ("out", "layers", "runner")]
        return subprocess.Popen([sys.executable, __file__, f"--child={name}", *same, *flags], env=environment)

    def end(self, *running: subprocess.Popen[bytes]) -> None:
        for process in running:
            try:
                process.wait(max(1.0, self.left()))
            except subprocess.TimeoutExpired:
                print("ended, as time was over:", process.args, flush=True)
                process.kill()
                process.wait()

    def pair(self, model: str, kind: str = "") -> None:
        """One process of each arm, beside each other."""
        arms = enumerate(models.ARMS)
        self.end(*[self.begin(f"{model}/default/{arm}{kind}", k) for k, arm in arms])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--models", default="bert,vit,llama,gemma2,qwen3,gpt2,block,t5")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--runner", default="gate")
    parser.add_argument("--seconds", type=float, default=350.0)
    parser.add_argument("--again", action="store_true", help="second processes of one arm each")
    o = parser.parse_args()
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        print("torch and transformers are not installed: nothing to measure")
        return
    Path(o.out).mkdir(parents=True, exist_ok=True)
    p, both, done = Processes(o), list[subprocess.Popen[bytes]](), list[str]()
    for model in o.models.split(","):
        if p.left() < LEAST:
            print("not begun:", model, flush=True)
            continue
        p.pair(model)
        p.end(*both)
        both, done = [p.begin(f"{model}/default/both", 2, "--exact")], [*done, model]
    p.end(*both)
    for model in done if o.again else ():
        if p.left() > LEAST_AGAIN:
            p.pair(model, "-again")


if __name__ == "__main__":
    if LOCK in os.environ:
        child(Path(os.environ[LOCK]))
    else:
        main()
