"""The gate: a fusion is compiled, proved twice, and only then allowed to run.

Two stages have to prove a kernel, for every launch that its ``assume`` facts admit: the check of its IR, and
the check of the PTX that its CUDA became. Both proofs are kept beside the cubin; a launch is only tested for
the facts. A stage that cannot decide for every launch is asked again for the values of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from syncverify.base.cache_dir import digest
from syncverify.base.diagnostics import KernelReport, Policy, Scope, ScopeKind, Severity, Verdict
from syncverify.base.gc_pause import seldom
from syncverify.base.nvrtc import compile_kernel
from syncverify.base.nvrtc import version as nvrtc_version
from syncverify.base.source import InputError
from syncverify.base.workers import apart, in_background
from syncverify.codegen import driver
from syncverify.codegen.accesses import Hint
from syncverify.codegen.arrays import DeviceArray, current_stream, describe, empty_like
from syncverify.codegen.cache import Cache, tool_fingerprint
from syncverify.codegen.cuda import emit
from syncverify.codegen.names import entry_name
from syncverify.codegen.shipped import shipped
from syncverify.fusion.column_schedule import ColumnSchedule
from syncverify.fusion.graph import Fusion
from syncverify.fusion.kernel_cache import built
from syncverify.fusion.lower import rests
from syncverify.fusion.plan import Plan, launch_values
from syncverify.fusion.row_schedule import RowSchedule
from syncverify.fusion.schedule import Schedule
from syncverify.gate.arrays import (
    array_pitches,
    device_of,
    input_array,
    named_arrays,
    refuse_shared,
    result_arrays,
    spread,
)
from syncverify.gate.prepared_launch import Enqueue, enqueue
from syncverify.gate.proof_time import PROOF_SECONDS as PROOF_SECONDS
from syncverify.gate.proof_time import bounded, checked, may_do_better, unknown
from syncverify.gate.reference_run import TOLERANCE as TOLERANCE
from syncverify.gate.reference_run import RunResult as RunResult
from syncverify.gate.reference_run import run as run
from syncverify.ir.expr import evaluate, names
from syncverify.ir.layout import layout
from syncverify.ir.nodes import GridDepWait, Kernel
from syncverify.ir.text.printed_expressions import print_expr
from syncverify.ir.text.printer import print_kernel

#: SMs of an H200, for checks on machines without a GPU.
H200_SMS = 132


#: What has to prove a kernel, and what the stage looks at.
STAGES = {"ir": "IR", "ptx": "PTX"}


class VerificationError(Exception):
    """A check did not prove the kernel; ``report`` says why, ``stage`` which."""

    def __init__(self, report: KernelReport, stage: str = "ir") -> None:
        errors = [d for d in report.diagnostics if d.severity is Severity.ERROR]
        why = f"{errors[0].rule} {errors[0].message}" if errors else (report.reason or "no reason given")
        what = "" if stage == "ir" else f" in the check of its {STAGES[stage]}"
        super().__init__(f"kernel {report.name} is {report.verdict.value}{what}, so it may not run: {why}")
        self.report = report
        self.stage = stage


@dataclass(frozen=True)
class Program:
    """One kernel of a fusion: its IR, CUDA source, PTX and cubin."""

    kernel: Kernel
    policy: Policy
    blocks_per_sm: int = 1
    hint: Hint = "normal"
    cache: Cache = field(default_factory=Cache.default)
    each_launch: bool = False  # a proof for every size would not end soon: launches are proved one by one
    proof_seconds: float = PROOF_SECONDS  # of processor time, for each proof
    _proved: set[tuple[tuple[str, int], ...]] = field(default_factory=set, repr=False)
    _loaded: dict[int, driver.Function] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        checked(self.proof_seconds)

    @cached_property
    def text(self) -> str:
        return print_kernel(self.kernel)

    @cached_property
    def source(self) -> str:
        return emit(self.kernel, self.blocks_per_sm, self.hint)

    @cached_property
    def key(self) -> str:
        """What verdicts and code depend on: the kernel, the policy, and all that turns it into code.

        The CUDA follows from the text, what is passed to ``emit``, and the tool's sources. Code that came
        with the package was compiled by the NVRTC of its own version.
        """
        given = (self.policy.value, str(self.blocks_per_sm), self.hint, self.text)
        own = shipped()
        if own is not None:
            key = digest("\0".join((tool_fingerprint(), own.compiler, *given)))
            if f"{key}.cubin" in own:
                return key
        return digest("\0".join((tool_fingerprint(), nvrtc_version(), *given)))

    @cached_property
    def code(self) -> tuple[str, bytes]:
        """PTX and cubin."""
        code = self.cache.code(self.key)
        if code is None:
            code = compile_kernel(self.source, self.kernel.name)
            self.cache.store_code(self.key, *code)
        return code

    @property
    def ptx(self) -> str:
        return self.code[0]

    @property
    def cubin(self) -> bytes:
        return self.code[1]

    def check(self, stage: str, values: Mapping[str, int] | None = None) -> KernelReport:
        """A stage's report for one launch's values, or for every launch that the kernel's facts admit,
        however long it takes."""
        from syncverify.checker.prover.budget import without_rotations

        with seldom():
            # states of what has no matrix products repeat soonest as they are, not round a ring of buffers
            if values is None and not self.kernel.fragments:
                with without_rotations():
                    report = self._check(stage, values)
                if report.verdict is not Verdict.UNKNOWN:
                    return report
            return self._check(stage, values)

    def _check(self, stage: str, values: Mapping[str, int] | None) -> KernelReport:
        if stage == "ptx":
            from syncverify.gate.ptx_check import check_ptx

            report = check_ptx(self.kernel, self.ptx, self.policy, values)
        else:
            from syncverify.driver.ir import check_kernel
            from syncverify.ir.text.parser import parse

            # from its text, so that findings name lines that the user can print
            (kernel,) = parse(self.text, f"{self.kernel.name}.syncir")
            scope = ScopeKind.ALL if values is None else ScopeKind.EXACT
            report = check_kernel(kernel, dict(values or {}), self.policy, scope=scope)
        if values is None:
            return report
        return replace(report, scope=Scope(ScopeKind.EXACT, dict(values), report.scope.assume))

    def timely(self, stage: str, values: Mapping[str, int] | None) -> KernelReport:
        """The same within ``proof_seconds``: ``unknown`` where that is too short."""
        return bounded(
            lambda asked: self.check(stage, asked), self.kernel, self.policy, values, self.proof_seconds
        )

    def stored(self, stage: str, values: Mapping[str, int] | None) -> KernelReport | None:
        """What is known of a stage already: its proof, or that there is none within ``proof_seconds``."""
        report = self.cache.proof(self.key, stage, values)
        if report is None and self.cache.tried(self.key, stage, values) >= self.proof_seconds:
            return unknown(self.kernel, self.policy, values, self.proof_seconds)
        return None if report is None or may_do_better(report, self.proof_seconds) else report

    def proof(
        self, stage: str, values: Mapping[str, int] | None = None,
        found: Callable[[], KernelReport | None] = lambda: None,
    ) -> KernelReport:  # fmt: skip
        """A stage's proof, stored, or found elsewhere, or made now; VerificationError if there is none."""
        report = self.stored(stage, values)
        if report is None:
            report = found() or self.timely(stage, values)
            self.cache.store_proof(self.key, stage, values, report)
        if report.verdict is not Verdict.PROVED:
            raise VerificationError(report, stage)
        return report

    def prove(
        self, values: Mapping[str, int] | None = None, stages: Sequence[str] = tuple(STAGES)
    ) -> dict[str, KernelReport]:
        """The proofs of stages, beside each other where a second core is free; VerificationError."""
        if len(stages) < 2 or any(self.stored(stage, values) for stage in stages):
            return {stage: self.proof(stage, values) for stage in stages}
        with apart(lambda: replace(self.timely("ir", values), proof=None)) as found:
            if found is None:
                with in_background(lambda: self.code):  # the CUDA compiler runs while the IR is proved
                    before = self.proof("ir", values)
                return {"ir": before, "ptx": self.proof("ptx", values)}
            try:
                after = self.proof("ptx", values)
            finally:  # what is wrong in the IR is said first
                before = self.proof("ir", values, found)
        return {"ir": before, "ptx": after}

    @cached_property
    def proofs(self) -> dict[str, KernelReport]:
        """The proofs of all stages, for every launch or as far as a stage got; VerificationError."""
        return self.prove()

    @cached_property
    def undecided(self) -> tuple[str, ...]:
        """The stages that have to be asked for each launch."""
        if self.each_launch:
            found = {stage: self.cache.proof(self.key, stage, None) for stage in STAGES}
        else:
            found = {**self.proofs}
        return tuple(s for s, r in found.items() if r is None or r.scope.kind is not ScopeKind.ALL)

    def require_proof(self, values: Mapping[str, int]) -> None:
        """Returns if the kernel is proved for these values; raises VerificationError otherwise."""
        for fact in self.kernel.assumes:
            if not evaluate(fact, values):
                shown = ", ".join(f"{n} = {values[n]}" for n in sorted(names(fact)))
                raise InputError(f"{self.kernel.name}: no launch with {shown}: {print_expr(fact)}")
        if self.undecided:
            point = tuple(sorted(values.items()))
            if point not in self._proved:
                self.prove(values, self.undecided)
                self._proved.add(point)

    @cached_property
    def dependent(self) -> bool:
        """Whether every thread waits for the grid before: only then is the launch a dependent one."""
        waits = any(isinstance(s, GridDepWait) for s in self.kernel.body)
        return self.kernel.launch.dependent and waits and "griddepcontrol.wait" in self.ptx

    @cached_property
    def _launches(self) -> dict[tuple[Any, ...], Enqueue]:
        """What was found of the launches so far."""
        return {}

    def enqueue(self, values: Mapping[str, int], device: int, names: tuple[str, ...] = ()) -> Enqueue:
        """What launches the kernel, once for all with these values. Only for callers that hold a proof."""
        key = (device, names, *values.items())
        found = self._launches.get(key)
        if found is None:
            function = self.function(device)
            found = enqueue(self.kernel, values, function, device, self.dependent, names)
            self._launches[key] = found
        return found

    def function(self, device: int) -> driver.Function:
        """The loaded kernel. Only for callers that hold a proof, or run on purpose without one."""
        if device not in self._loaded:
            size = layout(self.kernel, {}).size
            self._loaded[device] = driver.load(self.cubin, entry_name(self.kernel.name), size, device)
        return self._loaded[device]


@dataclass(frozen=True)
class CompiledKernel:
    """A proved fusion: call it with arrays."""

    plan: Plan
    policy: Policy
    programs: dict[int, Program] = field(repr=False)
    build: Callable[[int], Program] = field(repr=False)

    @property
    def fusion(self) -> Fusion:
        return self.plan.fusion

    @property
    def schedule(self) -> Schedule | RowSchedule | ColumnSchedule:
        return self.plan.schedule

    @property
    def _main(self) -> Program:
        return self.programs[self.plan.main]

    @property
    def ir(self) -> Kernel:
        """The synchronized kernel (the variant that is compiled first)."""
        return self._main.kernel

    @property
    def source(self) -> str:
        return self._main.source

    @property
    def cubin(self) -> bytes:
        return self._main.cubin

    @property
    def ptx(self) -> str:
        return self._main.ptx

    @property
    def report(self) -> KernelReport:
        """The proof of the kernel (the variant that is compiled first)."""
        return self._main.proofs["ir"]

    @property
    def ptx_report(self) -> KernelReport:
        """The proof of what its CUDA became."""
        return self._main.proofs["ptx"]

    def program(self, sizes: Mapping[str, int]) -> Program:
        """The kernel for given sizes; other variants than the first are built when they are needed."""
        variant = self.plan.variant(sizes)
        if variant not in self.programs:
            self.programs[variant] = self.build(variant)
        return self.programs[variant]

    def launch_values(self, sizes: Mapping[str, int], multiprocessors: int = H200_SMS) -> dict[str, int]:
        """The kernel's parameters for given sizes on a machine with that many SMs."""
        program = self.program(sizes)
        resident = multiprocessors * program.blocks_per_sm
        most = self.plan.most_blocks(self.plan.variant(sizes), resident)
        return launch_values(self.fusion, program.kernel, sizes, most)

    def __call__(self, *arrays: Any, out: Any = None, stream: int | None = None, **named: Any) -> Any:
        """Runs the kernel on the caller's stream; inputs in order or by name.

        ``out``: one array, or a tuple of them, to write to; otherwise new arrays of the inputs' library.
        Raises InputError for arrays or sizes it cannot use, VerificationError for sizes it cannot prove.
        """
        given = self.fusion.bind(named_arrays(self.fusion, arrays, named))
        inputs = {n: input_array(self.fusion, n, a) for n, a in given.items()}
        sizes = self.fusion.sizes(inputs) | array_pitches(self.fusion, inputs)
        self.plan.check_extent(sizes)
        first = next(iter(inputs.values()))
        results = result_arrays(self.fusion, first, sizes, out)
        if out is not None:
            refuse_shared(self.fusion.name, inputs, results)
        if math.prod(sizes[d] for d in self.fusion.dims):
            # a kernel of no elements has nothing to prove or to run
            self.execute(inputs, results, sizes, stream)
        owners = tuple(results[o.name].owner for o in self.fusion.outputs)
        return owners[0] if len(owners) == 1 else owners

    def execute(
        self, inputs: Mapping[str, DeviceArray], results: Mapping[str, DeviceArray], sizes: Mapping[str, int],
        stream: int | None,
    ) -> None:  # fmt: skip
        """Runs the kernel for given sizes on arrays by name, which the caller has checked."""
        arrays = {**inputs, **results}
        device = device_of(arrays)
        ready = self._ready.get((device, *sizes.items()))
        if ready is None:
            values = self.launch_values(sizes, driver.multiprocessors(device or 0))
            program = self.program(sizes)
            program.require_proof(values)
            if device is None:
                run_on_host(program, inputs, results, values)
                return
            ready = self._ready[device, *sizes.items()] = program.enqueue(values, device)
        model = next(iter(arrays.values()))
        addresses = {n: a.address for n, a in arrays.items()}
        ready(addresses, current_stream(model) if stream is None else stream)

    @cached_property
    def _ready(self) -> dict[tuple[Any, ...], Enqueue]:
        """What launches for sizes that came before, by device: each is proved."""
        return {}

    def simulate(self, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[Any, ...]:
        """The results by the simulator, for NumPy arrays and a machine of two SMs."""
        from syncverify.simulate import ir as simulate

        f = self.fusion
        f.check_sizes(sizes)
        program, inputs = self.program(sizes), f.bind(inputs)
        values = self.launch_values(sizes, 2)
        program.require_proof(values)
        model = describe(next(iter(inputs.values())))
        outputs = {
            o.name: empty_like(model, tuple(sizes[d] for d in o.dims), o.dtype) for o in f.outputs
        }  # fmt: skip
        given = {n: spread(f, n, a) for n, a in inputs.items()}
        results = simulate.run(program.kernel, values, {**given, **outputs})
        for name, rest in rests(program.kernel).items():
            if values["rest"]:
                results[name].reshape(-1)[-results[rest].size :] = results[rest]
        return tuple(results[o.name].reshape([sizes[d] for d in o.dims]) for o in f.outputs)


def compiled(
    plan: Plan,
    policy: Policy = Policy.PRACTICAL,
    *,
    cache: Cache | None = None,
    observe: Callable[[str, Kernel], None] | None = None,
    proof_seconds: float = PROOF_SECONDS,
) -> CompiledKernel:
    """The kernel of one plan, compiled and proved."""
    store = cache or Cache.default()

    def make(variant: int) -> Program:
        blocks, hint = plan.resources(variant)
        kernel = (
            built(plan, variant, policy, store) if observe is None else plan.build(variant, policy, observe)
        )
        return Program(kernel, policy, blocks, hint, store, proof_seconds=proof_seconds)

    program = make(plan.main)
    _ = program.proofs
    return CompiledKernel(plan, policy, {plan.main: program}, make)


# ---------------------------------------------------------------- arrays and launches


def launch(
    program: Program, addresses: Mapping[str, int], values: Mapping[str, int], device: int, stream: int
) -> None:
    """Enqueues the kernel; the caller holds a proof for ``values``."""
    program.enqueue(values, device)(addresses, stream)


def launcher(
    program: Program, values: Mapping[str, int], device: int, names: Sequence[str]
) -> Callable[[Sequence[int], int], None]:
    """What enqueues the kernel, given these tensors' addresses; the caller holds a proof for ``values``."""
    return program.enqueue(values, device, tuple(names)).launcher


def run_on_host(
    program: Program,
    inputs: Mapping[str, DeviceArray],
    results: Mapping[str, DeviceArray],
    values: Mapping[str, int],
) -> None:
    """NumPy arrays: to the device, through the kernel, and back."""
    driver.use_device(0)
    addresses: dict[str, int] = {}
    try:
        for name, a in {**inputs, **results}.items():
            addresses[name] = driver.allocate(a.owner.nbytes)
            # outputs too: what the kernel fails to write keeps the caller's content
            driver.copy_in(addresses[name], a.owner)
        launch(program, addresses, values, 0, 0)
        driver.synchronize(0)
        for name, a in results.items():
            driver.copy_out(a.owner, addresses[name])
    finally:
        driver.free_all(addresses.values())
