"""The tuner of matrix products: times the schedules that are proved for given sizes, remembers the fastest.

``gate_matmul.Matmul`` takes what is remembered. Timing is the caller's, as in ``tune``.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.codegen import driver
from syncverify.codegen.arrays import turned
from syncverify.codegen.cache import Cache, tool_fingerprint
from syncverify.gate import H200_SMS, VerificationError
from syncverify.gate.matmul import CompiledMatmul, Matmul, call_sizes
from syncverify.matmul import Problem, Schedule
from syncverify.matmul.choices import file_name, remember, remembered
from syncverify.matmul.choose import candidates
from syncverify.matmul.problem import BATCH, CHOICE, DIMS, EXPERTS, GROUP_ROWS, STARTS

#: Seconds that one call of a proved product takes at given sizes.
Timer = Callable[[CompiledMatmul, Mapping[str, int]], float]
#: Seconds that calls in a graph fill, which is replayed to time them.
GRAPH_SECONDS = 2e-3


@dataclass(frozen=True, slots=True)
class MatmulTrial:
    """One schedule: the seconds of a call, or why it was not timed."""

    schedule: Schedule
    seconds: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TunedMatmul:
    """The fastest schedule for some sizes, and all that was tried: nothing, if it was remembered."""

    schedule: Schedule
    trials: tuple[MatmulTrial, ...]


def tune(
    problem: Problem,
    sizes: Mapping[str, int],
    timer: Timer,
    *,
    device: str = "",
    multiprocessors: int = H200_SMS,
    schedules: Sequence[Schedule] = (),
    policy: Policy = Policy.PRACTICAL,
    cache: Cache | None = None,
) -> TunedMatmul:
    """The fastest schedule that is proved for these sizes, remembered for this ``device`` by its name.

    ``schedules``: what is tried instead of the model's candidates. Only launches that both checks proved are
    timed. Raises InputError if there is none.
    """
    store = cache or Cache.default()
    name = file_name(problem, sizes, device, policy, tool_fingerprint())
    known = remembered(store, name)
    if known is not None:
        return TunedMatmul(known, ())
    tried = schedules or candidates(problem, sizes, multiprocessors)
    trials = tuple(_trial(problem, sizes, timer, s, multiprocessors, policy, store) for s in tried)
    timed = {t.schedule: t.seconds for t in trials if t.seconds is not None}
    if not timed:
        raise InputError(f"{problem.name}: no schedule could be proved: {trials[0].reason}")
    best = min(timed, key=lambda s: timed[s])
    remember(store, name, best, timed[best])
    return TunedMatmul(best, trials)


def _trial(
    problem: Problem,
    sizes: Mapping[str, int],
    timer: Timer,
    schedule: Schedule,
    multiprocessors: int,
    policy: Policy,
    cache: Cache,
) -> MatmulTrial:
    try:
        compiled = CompiledMatmul(problem, schedule, policy, cache, each_launch=True)
        program = compiled.program(2 if sizes["N"] % 2 == 0 else 1)
        program.require_proof(compiled.launch_values(sizes, multiprocessors))
    except (InputError, VerificationError) as e:
        return MatmulTrial(schedule, None, str(e))
    return MatmulTrial(schedule, timer(compiled, sizes))


def on_gpu(repeats: int = 20) -> Timer:
    """A timer of calls on the GPU with random factors; needs torch. The median of ``repeats`` calls."""

    def timer(compiled: CompiledMatmul, sizes: Mapping[str, int]) -> float:
        import torch  # type: ignore[import-not-found, unused-ignore]

        if not driver.available():
            raise InputError("tuning needs a GPU")
        kinds = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
        kinds |= {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
        problem = compiled.problem
        types = {**problem.stored, **{n: t.dtype for n, t in problem.epilogue.inputs}}
        inputs: dict[str, Any] = {
            name: torch.randn([sizes[d] for d in dims], device="cuda").to(kinds[types[name]])
            for name, dims in problem.shapes.items()
            if name in types
        }
        if problem.grouped:  # every factor for as many groups, which lie one behind the other
            groups = -(-sizes["M"] // GROUP_ROWS)
            number = torch.arange(groups, dtype=torch.int32, device="cuda")
            tables = {CHOICE: number * sizes[EXPERTS] // groups, STARTS: number * GROUP_ROWS}
            inputs |= {name: tables[name] for name in problem.tables}
        a, b = inputs.pop("a"), inputs.pop("b")
        a, b = turned(a) if problem.a_t else a, turned(b) if problem.b_t else b
        shape = [sizes[d] for d in (BATCH, *DIMS) if d in sizes]
        out = tuple(torch.empty(shape, device="cuda", dtype=kinds[o.dtype]) for o in problem.epilogue.outputs)

        def call() -> None:
            compiled(a, b, out=out, **inputs)

        def seconds(run: Callable[[], None]) -> float:
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run()
            end.record()
            end.synchronize()
            return float(start.elapsed_time(end)) / 1e3

        call()  # loads the kernel
        # short kernels are repeated in a graph: the time between launches of single ones is the host's
        count = max(1, min(200, int(GRAPH_SECONDS / max(min(seconds(call) for _ in range(3)), 1e-6))))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                call()
        graph.replay()
        return statistics.median(seconds(graph.replay) for _ in range(repeats)) / count

    return timer


@dataclass(frozen=True)
class AtFirstUse:
    """A product that is tuned where it is first called with some M, N and K, and remembered on disk.

    Such a call takes as long as it takes to prove and to time the candidates: seconds. Sizes have to be known
    before a CUDA graph is captured, where nothing can be timed.
    """

    problem: Problem
    timer: Timer = field(default_factory=on_gpu)
    device: str = ""
    policy: Policy = Policy.PRACTICAL
    cache: Cache = field(default_factory=Cache.default)
    schedules: Sequence[Schedule] = ()
    _found: dict[tuple[tuple[str, int], ...], Matmul] = field(default_factory=dict, repr=False)

    def tuned(self, sizes: Mapping[str, int], multiprocessors: int = H200_SMS) -> Matmul:
        """The product with what is fastest for these sizes, timed now or known from before."""
        point = (*sorted(sizes.items()), ("multiprocessors", multiprocessors))
        if point not in self._found:
            tune(
                self.problem, sizes, self.timer, device=self.device, multiprocessors=multiprocessors,
                schedules=self.schedules, policy=self.policy, cache=self.cache,
            )  # fmt: skip
            self._found[point] = Matmul(self.problem, self.policy, self.cache, self.device)
        return self._found[point]

    def __call__(self, a: Any, b: Any, **options: Any) -> Any:
        """Like ``Matmul``."""
        sizes, device = call_sizes(self.problem, a, b, options.get(STARTS))
        return self.tuned(sizes, driver.multiprocessors(device))(a, b, **options)


__all__ = ["AtFirstUse", "MatmulTrial", "Timer", "TunedMatmul", "on_gpu", "tune"]
