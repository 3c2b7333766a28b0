"""Who runs what was found: proved kernels on a GPU, the same on the simulator, or NumPy.

A runner turns a fusion into a ``Kernel``, which writes its results into tensors that the caller made.
"""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch

from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError
from syncverify.codegen import driver
from syncverify.codegen.workspaces import workspaces
from syncverify.fusion import Fusion, RowSchedule, Schedule
from syncverify.fusion.functions import numpy_dtype
from syncverify.fusion.row_strides import extents
from syncverify.gate import fusions, matmul
from syncverify.gate.ahead import (
    Ahead,
    compile_fusion,
    kernel_signature,
    provers,
    signature,
    with_few_proofs,
)
from syncverify.gate.padded import padded_sizes, refuse
from syncverify.ir.expr import evaluate
from syncverify.matmul import split
from syncverify.matmul.problem import BATCH, DIMS, GROUP_ROWS, PRODUCT, SECOND, Problem
from syncverify.torch.table import DTYPES, INDEX_DTYPES

Sizes = Mapping[str, int]
#: Processor time of each proof: a compilation waits for it, and Inductor compiles what is not proved.
PROOF_SECONDS = 15.0


class RefusedError(Exception):
    """No kernel for these sizes: not proved, or outside of what schedules can do."""


class Kernel(Protocol):
    """One fusion or product, for all sizes that its runner can do."""

    def prepare(self, sizes: Sizes, device: torch.device) -> str:
        """Compiles and proves what these sizes need and says what was proved; raises RefusedError."""

    def prepared(self, sizes: Sizes, device: torch.device) -> bool:
        """Whether a call with these sizes has nothing left to compile, prove or load."""

    def __call__(self, sizes: Sizes, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Writes the results; tensors are contiguous, or their pitches are among the sizes. RefusedError."""


class Runner(Protocol):
    """Makes kernels for tensors of some devices."""

    name: str

    def why_not(self, device: torch.device) -> str:
        """Why tensors of this device are left to torch, or an empty string."""

    def fusion(self, fusion: Fusion) -> Kernel: ...

    def product(self, problem: Problem) -> Kernel: ...


# ---------------------------------------------------------------- a GPU


@dataclass
class GateRunner:
    """Kernels that the gate let through, on the caller's current stream; each proof within some seconds."""

    policy: Policy = Policy.PRACTICAL
    proof_seconds: float = PROOF_SECONDS
    name: str = "gate"
    _kernels: dict[str, Kernel] = field(default_factory=dict, repr=False)

    def why_not(self, device: torch.device) -> str:
        if device.type != "cuda":
            return f"tensors on {device.type}: kernels run on Hopper GPUs"
        try:
            driver.multiprocessors(device.index or 0)
        except InputError as e:
            return e.message
        return ""

    def fusion(self, fusion: Fusion) -> Kernel:
        key = signature(fusion)
        if key not in self._kernels:
            self._kernels[key] = FusionOnGpu(fusion, self.policy, proof_seconds=self.proof_seconds)
        return self._kernels[key]

    def product(self, problem: Problem) -> Kernel:
        key = kernel_signature(problem)
        if key not in self._kernels:
            self._kernels[key] = ProductOnGpu(problem, self.policy, self.proof_seconds)
        return self._kernels[key]

    def ahead(
        self, kernels: Sequence[tuple[Fusion | Problem, Sizes]], device: torch.device,
        worth: Iterable[float] = (),
    ) -> None:  # fmt: skip
        """Begins to prove what will be needed, in processes side by side; what is worth most comes first."""
        provers().start(self.asked(kernels, device), worth)

    def spare(self) -> bool:
        """Whether there is a core for processes that prove."""
        return provers().jobs > 0

    def warm(self) -> None:
        """Begins processes that prove, which take a while to be there."""
        provers().warm(2 * provers().jobs)

    def settled(
        self, kernels: Sequence[tuple[Fusion | Problem, Sizes]], device: torch.device, seconds: float
    ) -> list[bool]:
        """Whether each that was begun is proved, or given up: waits for it, for some seconds in all."""
        return provers().wait(self.asked(kernels, device), seconds)

    def asked(self, kernels: Sequence[tuple[Fusion | Problem, Sizes]], device: torch.device) -> list[Ahead]:
        """What workers are asked to prove."""
        count = driver.multiprocessors(device.index or 0)
        return [Ahead(k, dict(sizes), self.policy, count, self.proof_seconds) for k, sizes in kernels]


#: By policy and seconds.
_SHARED: dict[tuple[Policy, float], GateRunner] = {}


def shared_runner(policy: Policy = Policy.PRACTICAL, proof_seconds: float = PROOF_SECONDS) -> GateRunner:
    """One for the process, so that functions share kernels, and operators of other processes are known."""
    return _SHARED.setdefault((policy, proof_seconds), GateRunner(policy, proof_seconds))


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel and its parameters. ``shared``: bytes of what blocks pass partial sums through, by name.

    ``kind``: kernels that leave those as they need them share them. ``renamed``: the kernel's names of
    tensors, where they differ from the problem's.
    """

    program: fusions.Program
    values: dict[str, int]
    shared: Mapping[str, int] = field(default_factory=dict)
    kind: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)

    def names(self, tensors: Iterable[str]) -> tuple[str, ...]:
        """The kernel's names of these."""
        return tuple(self.renamed.get(name, name) for name in tensors)


@dataclass(frozen=True, slots=True)
class Bound:
    """A launch whose tensors' addresses are all that is left to fill in."""

    launch: Launch
    enqueue: Callable[[Sequence[int], int], None]
    device: int

    def __call__(self, addresses: Sequence[int]) -> None:
        """On the current stream of the device, which is the current one."""
        # the number alone: an object for the stream takes microseconds
        stream: int = torch._C._cuda_getCurrentRawStream(self.device)
        shared = self.launch.shared
        if shared:
            own = workspaces(self.device, stream, self.launch.kind, shared)
            addresses = [*addresses, *(own[name] for name in shared)]
        self.enqueue(addresses, stream)


#: Does nothing.
_SAME: contextlib.AbstractContextManager[None] = contextlib.nullcontext()


class _OnGpu(ABC):
    """What a launch needs, found once for every size and device; all later calls only fill in addresses."""

    def __init__(self) -> None:
        self._launches: dict[tuple[Any, ...], Bound] = {}
        self._lock = threading.Lock()

    @abstractmethod
    def launch(self, sizes: Sizes, device: int) -> Launch:
        """The kernel and its parameters; raises InputError or VerificationError."""

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The tensors of a launch: inputs, then outputs."""

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return self.names()

    def prepared(self, sizes: Sizes, device: torch.device) -> bool:
        return (device.index, *sizes.values()) in self._launches

    def prepare(self, sizes: Sizes, device: torch.device) -> str:
        with self._lock:
            program = self._launch(sizes, device).launch.program
        where = ", ".join(
            f"{name} for {'this launch' if stage in program.undecided else 'every launch'}"
            for stage, name in fusions.STAGES.items()
        )
        return f"proved: {where}"

    def _launch(self, sizes: Sizes, device: torch.device) -> Bound:
        key = (device.index, *sizes.values())
        found = self._launches.get(key)
        if found is None:
            index = device.index or 0
            try:
                launch = self.launch(sizes, index)
                launch.program.require_proof(launch.values)
                names = (*launch.names(self._names), *launch.shared)
                found = Bound(launch, fusions.launcher(launch.program, launch.values, index, names), index)
            except (InputError, fusions.VerificationError) as e:
                raise RefusedError(str(e)) from e
            self._launches[key] = found
        return found

    def bound(self, sizes: Sizes, device: torch.device) -> Bound | None:
        """What launches for these sizes, given the addresses of inputs and outputs; raises RefusedError."""
        return self._bound(sizes, device)

    def _bound(self, sizes: Sizes, device: torch.device) -> Bound:
        found = self._launches.get((device.index, *sizes.values()))
        if found is None:
            with self._lock:
                found = self._launch(sizes, device)
        return found

    def __call__(self, sizes: Sizes, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self._run(sizes, inputs, outputs)

    def _run(self, sizes: Sizes, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        device = outputs[0].device
        found = self._bound(sizes, device)
        addresses = [t.data_ptr() for t in (*inputs, *outputs)]
        # the launch makes the device's context current; a call leaves the caller's as it was
        with _SAME if torch.cuda.current_device() == found.device else torch.cuda.device(device):
            found(addresses)


class FusionOnGpu(_OnGpu):
    """A fusion behind the gate; each row length or access width is a kernel of its own."""

    def __init__(
        self, fusion: Fusion, policy: Policy, schedule: Schedule | RowSchedule | None = None,
        proof_seconds: float = fusions.PROOF_SECONDS,
    ) -> None:  # fmt: skip
        super().__init__()
        self._fusion = fusion
        self._policy = policy
        self._seconds = proof_seconds
        self._schedule = schedule
        self._compiled: fusions.CompiledKernel | None = None

    def names(self) -> tuple[str, ...]:
        return (*(n for n, _ in self._fusion.inputs), *(o.name for o in self._fusion.outputs))

    def launch(self, sizes: Sizes, device: int) -> Launch:
        compiled = self._compiled
        if compiled is None:
            compiled = self._compiled = compile_fusion(
                self._fusion, dict(sizes), self._policy, self._schedule, self._seconds
            )
        compiled.plan.check_extent(sizes)
        values = compiled.launch_values(sizes, driver.multiprocessors(device))
        return Launch(compiled.program(sizes), dict(values))


class ProductOnGpu(_OnGpu):
    """A matrix product behind the gate; the schedule follows from the sizes."""

    def __init__(
        self, problem: Problem, policy: Policy, proof_seconds: float = fusions.PROOF_SECONDS
    ) -> None:
        super().__init__()
        self._problem = problem
        self._product = with_few_proofs(problem, policy, proof_seconds)

    def names(self) -> tuple[str, ...]:
        return product_names(self._problem)

    def launch(self, sizes: Sizes, device: int) -> Launch:
        wanted = padded_sizes(self._problem, sizes)
        refuse(self._problem, sizes, wanted)
        check_product(self._problem, wanted)
        return product_launch(self._product, wanted, driver.multiprocessors(device))

    def bound(self, sizes: Sizes, device: torch.device) -> Bound | None:
        """None where factors have to be copied first: then addresses are not all that a call takes."""
        found = self._bound(sizes, device)
        return found if padded_sizes(self._problem, sizes) == sizes else None

    def __call__(self, sizes: Sizes, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        wanted = padded_sizes(self._problem, sizes)
        if wanted == sizes:
            super().__call__(sizes, inputs, outputs)
            return
        count = 1 + len(self._problem.rights)
        dims = [self._problem.shapes[name] for name in self.names()[:count]]
        factors = [
            longer(x, [wanted[d] for d in shape]) for x, shape in zip(inputs[:count], dims, strict=True)
        ]
        m, n = sizes["M"], sizes["N"]
        given = [*factors, *inputs[count:]]
        if (wanted["M"], wanted["N"]) == (m, n):
            self._run(sizes, given, outputs)
            return
        (out,) = outputs
        many = [sizes[BATCH]] if self._problem.batched else []
        whole = torch.empty([*many, wanted["M"], wanted["N"]], dtype=out.dtype, device=out.device)
        self._run(sizes, given, [whole])
        out.view(*many, m, n).copy_(whole[..., :m, :n])


def product_names(problem: Problem) -> tuple[str, ...]:
    others = tuple(n for n, _ in problem.others)
    return ("a", *problem.rights, *others, *problem.tables, *(o.name for o in problem.epilogue.outputs))


def product_launch(product: matmul.Matmul, sizes: Sizes, multiprocessors: int) -> Launch:
    compiled = product.proved(sizes, multiprocessors)
    schedule, values = compiled.schedule, compiled.launch_values(sizes, multiprocessors)
    shared = split.workspaces(schedule, values["blocks"], len(product.problem.products))
    # of tiles by columns, the kernel multiplies the transposes: each factor has the other's name there
    renamed = {ours: kernel for kernel, ours in compiled.named({n: n for n in matmul.OTHER}).items()}
    found = Launch(compiled.program_of(sizes), values, shared, schedule.sums, renamed)
    check_shapes(product.problem, found, sizes)
    return found


def check_shapes(problem: Problem, launch: Launch, sizes: Sizes) -> None:
    """Raises InputError where a kernel declares other tensors than it gets: it would read other memory."""
    declared = {t.name: t.shape for t in launch.program.kernel.tensors}
    for name, called in zip(problem.shapes, launch.names(problem.shapes), strict=True):
        own = [evaluate(e, launch.values) for e in declared[called]]
        given = [sizes[d] for d in problem.shapes[name]] or [1]
        if own != given:
            raise InputError(
                f"{problem.name}: the kernel's {called} is {own}, and {name} of the call is {given}"
            )


def longer(x: Any, shape: Sequence[int]) -> Any:
    """A matrix, or each of many, in a larger one, with zeros behind it; itself where it is as large."""
    if tuple(x.shape) == tuple(shape):
        return x
    rows, columns = x.shape[-2:]
    found = torch.empty(list(shape), dtype=x.dtype, device=x.device)
    found[..., :rows, :columns] = x
    found[..., rows:, :].zero_()
    found[..., :rows, columns:].zero_()
    return found


def check_product(problem: Problem, sizes: Sizes) -> None:
    """Raises InputError for factors whose rows no tensor copy can address."""
    rows = {"A": sizes["M" if problem.a_t else "K"], "B": sizes["K" if problem.b_t else "N"]}
    for factor, length in rows.items():
        if length % 8:
            raise InputError(
                f"{problem.name}: rows of {factor} of {length} elements are no multiple of 16 bytes"
            )
    if sizes["M"] * sizes["N"] * sizes.get(BATCH, 1) >= 2**31:
        raise InputError(f"{problem.name}: a result of 2^31 elements or more")


# ---------------------------------------------------------------- no tensors


@dataclass
class ProvingRunner:
    """Compiles and proves what a GPU will need, and runs nothing: for fake tensors, without a GPU."""

    policy: Policy = Policy.PRACTICAL
    multiprocessors: int = fusions.H200_SMS
    proof_seconds: float = fusions.PROOF_SECONDS
    name: str = "prove"

    def why_not(self, device: torch.device) -> str:
        return ""

    def fusion(self, fusion: Fusion) -> Kernel:
        return _Proving(_FusionSimulated(fusion, self))

    def product(self, problem: Problem) -> Kernel:
        return _Proving(_ProductSimulated(problem, self))


@dataclass
class ListingRunner(ProvingRunner):
    """Lists the kernels that models may need, groups and products alone, and makes none."""

    found: dict[str, tuple[Fusion | Problem, dict[str, int]]] = field(default_factory=dict)

    def ahead(
        self, kernels: Sequence[tuple[Fusion | Problem, Sizes]], device: torch.device,
        worth: Iterable[float] = (),
    ) -> None:  # fmt: skip
        for kernel, sizes in kernels:
            one = Ahead(kernel, dict(sizes), self.policy, self.multiprocessors, self.proof_seconds)
            self.found[one.key] = kernel, dict(sizes)


class _Proving:
    def __init__(self, kernel: _Simulated) -> None:
        self._kernel = kernel

    def prepare(self, sizes: Sizes, device: torch.device) -> str:
        self._kernel.prepare(sizes, device)
        return "proved, not run"

    def prepared(self, sizes: Sizes, device: torch.device) -> bool:
        return True

    def __call__(self, sizes: Sizes, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        raise RefusedError("kernels are proved here, not run")


# ---------------------------------------------------------------- a CPU


class ReferenceRunner:
    """NumPy instead of kernels: the same fusions, nothing proved. For tests of what was found."""

    name = "reference"

    def why_not(self, device: torch.device) -> str:
        return "" if device.type == "cpu" else f"tensors on {device.type}"

    def fusion(self, fusion: Fusion) -> Kernel:
        return _ByNumpy(fusion)

    def product(self, problem: Problem) -> Kernel:
        return _ByNumpy(problem.epilogue, problem)


class _ByNumpy:
    def __init__(self, fusion: Fusion, problem: Problem | None = None) -> None:
        self._fusion = fusion
        self._problem = problem

    def prepare(self, sizes: Sizes, device: torch.device) -> str:
        return "not proved: computed by NumPy"

    def prepared(self, sizes: Sizes, device: torch.device) -> bool:
        return True

    def __call__(self, sizes: Sizes, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        arrays = [to_numpy(x) for x in inputs]
        if self._problem is not None:
            count = 1 + len(self._problem.rights)
            a, *rights = (x.astype(np.float32) for x in arrays[:count])
            left = _matrix(a, self._problem.a_t)
            if self._problem.anywhere:
                self._each_group(sizes, left, _matrix(rights[0], self._problem.b_t), arrays[count:], outputs)
                return
            arrays = [*(left @ _matrix(b, self._problem.b_t) for b in rights), *arrays[count:]]
            if self._problem.batched:
                self._each_matrix(sizes, arrays, outputs)
                return
        self._evaluated(sizes, arrays, outputs)

    def _each_matrix(self, sizes: Sizes, arrays: Sequence[Any], outputs: Sequence[Any]) -> None:
        """An epilogue of many products, one after the other."""
        assert self._problem is not None
        count, many = len(self._problem.products), sizes[BATCH]
        rows, columns = (sizes[d] for d in DIMS)
        made = [out.view(many, rows, columns) for out in outputs]
        for k in range(many):
            given = [*(x[k] for x in arrays[:count]), *arrays[count:]]
            self._evaluated(sizes, given, [out[k] for out in made])

    def _each_group(
        self, sizes: Sizes, a: Any, b: Any, tables: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        """The groups of rows of a product, each of which begins somewhere in A."""
        acc = np.zeros((sizes["M"], sizes["N"]), np.float32)
        for k, (expert, start) in enumerate(zip(*tables, strict=True)):
            rows = a[max(start, 0) : max(start, 0) + GROUP_ROWS] if 0 <= expert < len(b) else a[:0]
            acc[k * GROUP_ROWS : k * GROUP_ROWS + len(rows)] = rows @ b[min(expert, len(b) - 1)]
        self._evaluated(sizes, [acc], outputs)

    def _evaluated(self, sizes: Sizes, arrays: Sequence[Any], outputs: Sequence[Any]) -> None:
        named = {
            n: x.reshape([sizes[d] for d in t.dims])
            for (n, t), x in zip(_product_first(self._fusion), arrays, strict=True)
        }
        for result, out in zip(self._fusion.reference(named), outputs, strict=True):
            store(out, result)


def _product_first(fusion: Fusion) -> list[tuple[str, Any]]:
    return sorted(fusion.inputs, key=lambda i: i[0] not in (PRODUCT, SECOND))


def _matrix(stored: Any, transposed: bool) -> Any:
    return stored.swapaxes(-1, -2) if transposed else stored


@dataclass
class SimulatorRunner:
    """The kernels that the gate proved, run by the numeric simulator: slow, on CPU tensors."""

    policy: Policy = Policy.PRACTICAL
    multiprocessors: int = 2
    proof_seconds: float = fusions.PROOF_SECONDS
    name: str = "simulator"
    _kernels: dict[str, Kernel] = field(default_factory=dict, repr=False)

    def why_not(self, device: torch.device) -> str:
        return "" if device.type == "cpu" else f"tensors on {device.type}"

    def fusion(self, fusion: Fusion) -> Kernel:
        return self._kernels.setdefault(signature(fusion), _FusionSimulated(fusion, self))

    def product(self, problem: Problem) -> Kernel:
        return _ProductSimulated(problem, self)


class _Simulated(ABC):
    """Proved, like on a GPU, but never sent to one."""

    def __init__(self, runner: SimulatorRunner | ProvingRunner) -> None:
        self.runner = runner

    @abstractmethod
    def launch(self, sizes: Sizes) -> Launch:
        """The kernel and its parameters; raises InputError or VerificationError."""

    @abstractmethod
    def arrays(self, sizes: Sizes, inputs: Sequence[Any], outputs: Sequence[Any]) -> dict[str, Any]:
        """The tensors by name, in the shapes of the kernel."""

    def prepared(self, sizes: Sizes, device: torch.device) -> bool:
        return True

    def prepare(self, sizes: Sizes, device: torch.device) -> str:
        try:
            found = self.launch(sizes)
            found.program.require_proof(found.values)
        except (InputError, fusions.VerificationError) as e:
            raise RefusedError(str(e)) from e
        return "proved, and simulated"

    def __call__(self, sizes: Sizes, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        from syncverify.fusion.lower import rests
        from syncverify.simulate import ir

        self.prepare(sizes, outputs[0].device)
        found = self.launch(sizes)
        given = self.arrays(sizes, inputs, outputs)
        arrays = dict(zip(found.names(given), given.values(), strict=True))
        shared = {n: np.zeros(size // 4, np.int32) for n, size in found.shared.items()}
        results = ir.run(found.program.kernel, found.values, {**arrays, **shared})
        for name, rest in rests(found.program.kernel).items():
            if found.values["rest"]:
                results[name].reshape(-1)[-results[rest].size :] = results[rest]
        for name, out in zip(list(arrays)[len(inputs) :], outputs, strict=True):
            apart = results[name].size == out.numel() and not out.is_contiguous()
            store(out.as_strided((out.numel(),), (1,)) if apart else out, results[name])


class _FusionSimulated(_Simulated):
    def __init__(self, fusion: Fusion, runner: SimulatorRunner | ProvingRunner) -> None:
        super().__init__(runner)
        self._fusion = fusion
        self._compiled: fusions.CompiledKernel | None = None

    def launch(self, sizes: Sizes) -> Launch:
        if self._compiled is None:
            runner = self.runner
            self._compiled = compile_fusion(
                self._fusion, dict(sizes), runner.policy, proof_seconds=runner.proof_seconds
            )
        values = self._compiled.launch_values(sizes, self.runner.multiprocessors)
        return Launch(self._compiled.program(sizes), dict(values))

    def arrays(self, sizes: Sizes, inputs: Sequence[Any], outputs: Sequence[Any]) -> dict[str, Any]:
        shapes = {n: t.dims for n, t in self._fusion.inputs} | {o.name: o.dims for o in self._fusion.outputs}
        given = zip(shapes.items(), (*inputs, *outputs), strict=True)
        spans = extents(self._fusion, sizes)
        return {
            n: to_numpy(x.as_strided(spans[n][:1], (1,)) if n in spans else x).reshape(
                spans[n][:1] if n in spans else [sizes[d] for d in dims]
            )
            for (n, dims), x in given
        }


class _ProductSimulated(_Simulated):
    def __init__(self, problem: Problem, runner: SimulatorRunner | ProvingRunner) -> None:
        super().__init__(runner)
        self._problem = problem
        self._product = with_few_proofs(problem, runner.policy, runner.proof_seconds)

    def launch(self, sizes: Sizes) -> Launch:
        check_product(self._problem, sizes)
        return product_launch(self._product, sizes, self.runner.multiprocessors)

    def arrays(self, sizes: Sizes, inputs: Sequence[Any], outputs: Sequence[Any]) -> dict[str, Any]:
        tables = set(self._problem.tables)
        given = zip(product_names(self._problem), (*inputs, *outputs), strict=True)
        return {
            n: to_numpy(x)
            if n in tables
            else to_numpy(x).reshape([sizes[d] for d in self._problem.shapes[n]])
            for n, x in given
        }


def to_numpy(x: Any) -> Any:
    """A contiguous CPU tensor's elements."""
    x = x.detach()
    if x.dtype is torch.bfloat16:
        return x.view(torch.int16).numpy().view(numpy_dtype("bf16"))
    return x.numpy()


def store(out: Any, result: Any) -> None:
    """Writes an array of the tensor's own type into it."""
    dtype = numpy_dtype({**DTYPES, **INDEX_DTYPES}[out.dtype])
    to_numpy(out)[...] = np.asarray(result).astype(dtype, copy=False).reshape(out.shape)


__all__ = [
    "GateRunner", "Kernel", "ListingRunner", "ProvingRunner", "ReferenceRunner", "RefusedError", "Runner",
    "SimulatorRunner", "Sizes", "shared_runner",
]  # fmt: skip
