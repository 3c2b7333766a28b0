"""Fusions that take several kernels: each proved by itself, run one after the other on one stream.

What one kernel hands to the next lies in global memory; the end of a kernel orders it before the next one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind
from syncverify.base.source import InputError
from syncverify.codegen import driver
from syncverify.codegen.arrays import DeviceArray, current_stream, describe, empty_like
from syncverify.codegen.cache import Cache
from syncverify.fusion import row_strides
from syncverify.fusion.column_finish import STRIPS, finish
from syncverify.fusion.column_schedule import ColumnSchedule
from syncverify.fusion.columns import partial_tensor
from syncverify.fusion.graph import Fusion, Output
from syncverify.fusion.plan import ColumnPlan, Plan, RowPlan, plan_of
from syncverify.fusion.row_schedule import RowSchedule
from syncverify.fusion.schedule import Schedule
from syncverify.fusion.segments import Segment, cut
from syncverify.gate import arrays as gate_arrays
from syncverify.gate import fusions
from syncverify.ir.expr import evaluate
from syncverify.ir.nodes import Kernel

Arrays = Mapping[str, DeviceArray]
_COLUMNS = ColumnSchedule()


@dataclass(frozen=True)
class Stage:
    """One kernel: what it reads and writes, by name. ``sizes``: the extents of its dimensions."""

    kernel: fusions.CompiledKernel
    reads: tuple[str, ...]
    writes: tuple[Output, ...]
    sizes: Callable[[Mapping[str, int]], dict[str, int]]

    @property
    def added(self) -> tuple[str, ...]:
        """What the kernel adds to: zero before it runs."""
        return tuple(t.name for t in self.kernel.ir.tensors if t.mode == "inout")

    def shape(self, o: Output, sizes: Mapping[str, int], processors: int) -> tuple[int, ...]:
        """Of what the kernel hands on."""
        if o.name not in self.added:
            return tuple(sizes[d] for d in o.dims)
        kernel, values = self.kernel.program(sizes).kernel, self.kernel.launch_values(sizes, processors)
        (tensor,) = (t for t in kernel.tensors if t.name == o.name)
        return tuple(evaluate(e, values) for e in tensor.shape)

    @property
    def partial(self) -> bool:
        plan = self.kernel.plan
        return isinstance(plan, ColumnPlan) and plan.partial


@dataclass(frozen=True)
class CompiledSequence:
    """A fusion as several proved kernels: call it with arrays."""

    fusion: Fusion
    policy: Policy
    stages: tuple[Stage, ...]

    @property
    def kernels(self) -> tuple[fusions.CompiledKernel, ...]:
        return tuple(s.kernel for s in self.stages)

    @property
    def reports(self) -> tuple[KernelReport, ...]:
        """The proofs of all kernels, of the IR and of the PTX in turn (of the variants compiled first)."""
        return tuple(r for k in self.kernels for r in (k.report, k.ptx_report))

    @property
    def schedule(self) -> Schedule | RowSchedule | ColumnSchedule:
        """That of the first kernel."""
        return self.kernels[0].schedule

    @property
    def ir(self) -> Kernel:
        """The first kernel."""
        return self.kernels[0].ir

    @property
    def report(self) -> KernelReport:
        """The proof that covers least."""
        return _least([k.report for k in self.kernels])

    @property
    def ptx_report(self) -> KernelReport:
        return _least([k.ptx_report for k in self.kernels])

    @cached_property
    def source(self) -> str:
        return "\n".join(k.source for k in self.kernels)

    @cached_property
    def ptx(self) -> str:
        return "\n".join(k.ptx for k in self.kernels)

    def __call__(self, *arrays: Any, out: Any = None, stream: int | None = None, **named: Any) -> Any:
        """Runs the kernels on the caller's stream, as a fusion of one kernel would be called."""
        f = self.fusion
        given = f.bind(gate_arrays.named_arrays(f, arrays, named))
        inputs = {n: gate_arrays.input_array(f, n, a) for n, a in given.items()}
        sizes = f.sizes(inputs)
        results = gate_arrays.result_arrays(f, next(iter(inputs.values())), sizes, out)
        if out is not None:
            gate_arrays.refuse_shared(f.name, inputs, results)
        if all(math.prod(r.shape) == 0 for r in results.values()):
            return _owners(f, results)
        device = gate_arrays.device_of({**inputs, **results})
        processors = driver.multiprocessors(device or 0)
        self._check(sizes, processors)

        def run(
            stage: Stage, sizes: dict[str, int], read: Mapping[str, Any], made: Mapping[str, Any]
        ) -> None:
            stage.kernel.execute(read, made, sizes, stream)

        self._run_all(inputs, results, sizes, processors, run, stream)
        return _owners(f, results)

    def simulate(
        self, arrays: Mapping[str, Any], sizes: Mapping[str, int], processors: int = 2
    ) -> tuple[Any, ...]:
        """The results by the simulator, on NumPy arrays and for a machine with so many SMs."""
        f = self.fusion
        f.check_sizes(sizes)
        inputs = {n: describe(a) for n, a in f.bind(arrays).items()}
        results = gate_arrays.result_arrays(f, next(iter(inputs.values())), sizes, None)

        def run(
            stage: Stage, sizes: dict[str, int], read: Mapping[str, Any], made: Mapping[str, Any]
        ) -> None:
            values = stage.kernel.launch_values(sizes, processors)
            program = stage.kernel.program(sizes)
            program.require_proof(values)
            simulated(program.kernel, values, {n: a.owner for n, a in read.items()}, made)

        self._run_all(inputs, results, sizes, processors, run)
        return tuple(results[o.name].owner for o in f.outputs)

    def programs(
        self, sizes: Mapping[str, int], processors: int = fusions.H200_SMS
    ) -> tuple[fusions.Program, ...]:
        """The kernels for given sizes; variants other than the first are built when they are needed."""
        return tuple(stage.kernel.program(known) for stage, known in self._extents(sizes, processors))

    def launches(
        self, sizes: Mapping[str, int], processors: int = fusions.H200_SMS
    ) -> list[tuple[fusions.Program, dict[str, int]]]:
        """The kernels for given sizes, each with its parameters."""
        found = self._extents(sizes, processors)
        return [(s.kernel.program(known), s.kernel.launch_values(known, processors)) for s, known in found]

    def _extents(self, sizes: Mapping[str, int], processors: int) -> Iterator[tuple[Stage, dict[str, int]]]:
        """Every stage with the extents of all dimensions that it knows."""
        known = dict(sizes)
        for stage in self.stages:
            known |= stage.sizes(known)
            if stage.partial:
                known[STRIPS] = stage.kernel.launch_values(known, processors)["strips"]
            yield stage, dict(known)

    def _check(self, sizes: Mapping[str, int], processors: int) -> None:
        f = self.fusion
        if any(sizes[d] == 0 for d in f.along):
            raise InputError(f"{f.name}: a reduction along a dimension without elements", f.span)
        for stage, known in self._extents(sizes, processors):
            stage.kernel.plan.check_extent(known)

    def _run_all(
        self, inputs: Mapping[str, DeviceArray], results: Mapping[str, DeviceArray], sizes: Mapping[str, int],
        processors: int, run: Callable[[Stage, dict[str, int], Arrays, Arrays], None],
        stream: int | None = None,
    ) -> None:  # fmt: skip
        """All stages in order; what they hand on is made here, by the library of the caller's arrays."""
        known: dict[str, DeviceArray] = {**inputs, **results}
        model = next(iter(inputs.values()))
        for stage, extents in self._extents(sizes, processors):
            made: dict[str, DeviceArray] = {}
            for o in stage.writes:
                if o.name not in known:
                    shape = stage.shape(o, extents, processors)
                    known[o.name] = _scratch(model, shape, o.dtype, stream)
                made[o.name] = known[o.name]
                if o.name in stage.added:
                    _clear(known[o.name], stream)
            run(stage, extents, {n: known[n] for n in stage.reads}, made)


def compile_sequence(
    fusion: Fusion,
    policy: Policy = Policy.PRACTICAL,
    *,
    schedule: ColumnSchedule = _COLUMNS,
    cache: Cache | None = None,
    observe: Callable[[str, Kernel], None] | None = None,
    proof_seconds: float = fusions.PROOF_SECONDS,
) -> CompiledSequence:
    """Compiles and proves all kernels of a fusion; raises VerificationError if one is not proved."""
    row_strides.refuse(fusion, "fusions of several kernels do not do")
    stages: list[Stage] = []
    for segment in cut(fusion):
        stages += _stages(segment, policy, schedule, cache, observe, proof_seconds)
    return CompiledSequence(fusion, policy, tuple(stages))


def _stages(
    segment: Segment, policy: Policy, schedule: ColumnSchedule, cache: Cache | None,
    observe: Callable[[str, Kernel], None] | None, proof_seconds: float,
) -> list[Stage]:  # fmt: skip
    def stage(plan: Plan, writes: tuple[Output, ...]) -> Stage:
        kernel = fusions.compiled(plan, policy, cache=cache, observe=observe, proof_seconds=proof_seconds)
        return Stage(kernel, tuple(n for n, _ in plan.fusion.inputs), writes, segment.merged.sizes)

    return [stage(plan, writes) for plan, writes in planned(segment, schedule)]


def planned(segment: Segment, schedule: ColumnSchedule = _COLUMNS) -> list[tuple[Plan, tuple[Output, ...]]]:
    """The kernels of a segment, each with what it writes."""
    f = segment.fusion
    if segment.kind != "columns":
        return [(plan_of(f), f.outputs)]
    plan = ColumnPlan(f, schedule, partial=True)
    lowered = plan.kernel(plan.main)
    strips = (*lowered.batch, *(() if lowered.adding else (STRIPS,)), lowered.inner)
    partial = tuple(Output(partial_tensor(r), -1, "f32", strips) for r, _ in lowered.kept)
    second = finish(lowered)
    first = (plan, (*lowered.stored, *partial))
    if second is None:
        return [first]
    rest = RowPlan(second, RowSchedule(stream="yes")) if lowered.adding else ColumnPlan(second, schedule)
    return [first, (rest, second.outputs)]


def _scratch(model: DeviceArray, shape: tuple[int, ...], dtype: str, stream: int | None) -> DeviceArray:
    """Memory between two kernels; its library must keep it until ``stream`` is done with it."""
    made = empty_like(model, shape, dtype)
    if model.library == "torch" and stream is not None and made.is_cuda:
        import torch  # type: ignore[import-not-found, unused-ignore]

        made.record_stream(torch.cuda.ExternalStream(stream, device=made.device))
    return describe(made)


def _clear(array: DeviceArray, stream: int | None) -> None:
    """Zeros in an array of f32, in the order of the stream."""
    if array.device is None:
        array.owner[...] = 0
        return
    driver.use_device(array.device)
    on = current_stream(array) if stream is None else stream
    driver.clear(array.address, math.prod(array.shape) * 4, on)


def _least(reports: list[KernelReport]) -> KernelReport:
    return next((r for r in reports if r.scope.kind is not ScopeKind.ALL), reports[0])


def simulated(
    kernel: Kernel, values: Mapping[str, int], read: Mapping[str, Any], made: Mapping[str, DeviceArray]
) -> None:
    """Runs a kernel on NumPy arrays by the simulator, into those that it makes."""
    from syncverify.simulate import ir as simulate

    shapes = {t.name: tuple(evaluate(e, values) for e in t.shape) for t in kernel.tensors}
    arrays = {**read, **{n: a.owner for n, a in made.items()}}
    # sums may be padded, and then a part of them is read
    flat = {n: np.asarray(arrays[n]).reshape(-1)[: math.prod(shapes[n])] for n in shapes if n in arrays}
    given = {n: x.reshape(shapes[n]) for n, x in flat.items()}
    found = simulate.run(kernel, values, given)
    for name, a in made.items():
        a.owner[...] = np.asarray(found[name]).reshape(a.shape)


def _owners(fusion: Fusion, results: Mapping[str, DeviceArray]) -> Any:
    owners = tuple(results[o.name].owner for o in fusion.outputs)
    return owners[0] if len(owners) == 1 else owners


__all__ = ["CompiledSequence", "Stage", "compile_sequence", "planned", "simulated"]
