"""The gate of matrix products: compiled, proved twice like a fusion, and only then allowed to run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from syncverify.base.diagnostics import KernelReport, Policy, Verdict
from syncverify.base.source import InputError
from syncverify.codegen import driver
from syncverify.codegen.arrays import DeviceArray, current_stream, describe, empty_like, turned
from syncverify.codegen.cache import Cache, tool_fingerprint
from syncverify.codegen.workspaces import workspaces
from syncverify.gate import H200_SMS, PROOF_SECONDS, Program, VerificationError, launch, run_on_host
from syncverify.gate.arrays import extent, refuse_shared
from syncverify.gate.known_calls import ALIGN, KnownCall, Signature, signature
from syncverify.gate.padded import padded, padded_sizes, refuse, without_rest
from syncverify.gate.proof_time import policy_of
from syncverify.ir.nodes import DTYPE_BYTES, Kernel
from syncverify.matmul import split
from syncverify.matmul.cards import here
from syncverify.matmul.choices import file_name, remember, remembered
from syncverify.matmul.choose import among, choose, ranked
from syncverify.matmul.kernel_cache import built
from syncverify.matmul.lower import computed, launch_values, whole
from syncverify.matmul.problem import BATCH, DIMS, EXPERTS, GROUP_ROWS, LEFT_ROWS, STARTS, Problem
from syncverify.matmul.schedule import K_SPAN, Schedule

_INDEX_LIMIT = 2**31
#: Schedules that are tried in the place of one that no check decides.
MOST_OTHERS = 3
#: Names that factors have where they change places.
OTHER = {"a": "b", "b": "a"}
T = TypeVar("T")
#: Sizes and a number of multiprocessors.
Point = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class CompiledMatmul:
    """A matrix product: call it with arrays. Its kernels, one per access width, are proved at first use.

    ``each_launch``: where tiles are shared or taken in turn, a proof for every size is not tried, which takes
    a minute or more; the sizes of a launch take seconds. ``proof_seconds``: what each proof may take.
    """

    problem: Problem
    schedule: Schedule
    policy: Policy = Policy.PRACTICAL
    cache: Cache = field(default_factory=Cache.default)
    each_launch: bool = False
    proof_seconds: float = PROOF_SECONDS
    _programs: dict[int, Program] = field(default_factory=dict, repr=False)
    _known: dict[Signature, KnownCall] = field(default_factory=dict, repr=False)

    def program(self, vector: int = 2) -> Program:
        """The kernel whose epilogue accesses ``vector`` elements at once."""
        if vector not in self._programs:
            kernel = built(self._computed, self.schedule, self.policy, vector, self.cache)
            each = self.each_launch and self.schedule.proved_by_launch
            self._programs[vector] = Program(
                kernel,
                self.policy,
                self.schedule.resident,
                cache=self.cache,
                each_launch=each,
                proof_seconds=self.proof_seconds,
            )
        return self._programs[vector]

    @property
    def _computed(self) -> Problem:
        """The problem as the kernel has it: of tiles by columns, that of the transposes."""
        return self.problem.computed(self.schedule.by_columns)

    def named(self, given: Mapping[str, T]) -> dict[str, T]:
        """Arrays, or what represents them, by the names that the kernel has for them."""
        if not self.schedule.by_columns:
            return dict(given)
        return {OTHER.get(name, name): x for name, x in given.items()}

    @property
    def ir(self) -> Kernel:
        return self.program().kernel

    @property
    def proofs(self) -> dict[str, KernelReport]:
        """The proofs of both stages; VerificationError if one fails."""
        return self.program().proofs

    def launch_values(self, sizes: Mapping[str, int], multiprocessors: int = H200_SMS) -> dict[str, int]:
        """The kernel's parameters for given M, N, K on a machine with that many SMs."""
        steps = whole(self._computed, self.schedule)
        return launch_values(self.schedule, computed(self.schedule, sizes), multiprocessors, self._bk, steps)

    @property
    def _bk(self) -> int:
        return K_SPAN // DTYPE_BYTES[self.problem.dtype]

    def __call__(
        self,
        a: Any,
        b: Any,
        *,
        out: Any = None,
        stream: int | None = None,
        proved: bool = True,
        **others: Any,
    ) -> Any:
        """C = f(A B, ...) on the caller's stream; ``a`` is (M, K), ``b`` is (K, N), in the problem's layout;
        of batched problems ``a`` is (B, M, K) and ``b`` is (B, K, N), of grouped ones ``b`` is (E, K, N), and
        ``experts=`` has the number of one of these, i32, for each 128 rows. Where groups begin anywhere,
        ``starts=`` has the first row of ``a`` of each, and C has 128 rows for each.

        Problems of two products take ``b2=`` as well, a second ``b``.
        ``out``: one array, or a tuple of them, to write to. ``proved=False`` runs without a proof: for
        experiments in a process that may hang or crash. InputError for arrays that it cannot use.
        """
        given = {"a": a, "b": b, "out": out, **others}
        key = signature(given) if proved else None
        known = None if key is None else self._known.get(key)
        result = None if known is None else known(given, stream)
        if result is not None:
            return result
        arrays, sizes = self._inputs(a, b, others)
        results = self._outputs(arrays["a"], sizes, out)
        if out is not None and proved:
            refuse_shared(self.problem.name, arrays, results)
        if not math.prod(self._shape(sizes)):
            return self._owners(results)  # nothing to prove or to run
        program = self.program_of(sizes)
        device = _device({**arrays, **results})
        values = self.launch_values(sizes, driver.multiprocessors(device or 0))
        if proved:
            program.require_proof(values)
        if device is None:
            kept = {name: _zeros(size) for name, size in self._workspaces(values).items()}
            run_on_host(program, self.named({**arrays, **kept}), results, values)
            return self._owners(results)
        on = current_stream(arrays["a"]) if stream is None else stream
        places = self.named({n: x.address for n, x in {**arrays, **results}.items()})
        places |= workspaces(device, on, self.schedule.sums, self._workspaces(values))
        launch(program, places, values, device, on)
        if key is not None and len(results) == 1:
            extents = {n: extent(x) for n, x in {**arrays, **results}.items()}
            self._known[key] = self._known_call(program, values, device, sizes, extents)
        return self._owners(results)

    def known(self, key: Signature) -> KnownCall | None:
        """What enqueues calls of a signature that came before, each with its proof."""
        return self._known.get(key)

    def _known_call(
        self, program: Program, values: Mapping[str, int], device: int, sizes: Mapping[str, int],
        extents: Mapping[str, int],
    ) -> KnownCall:  # fmt: skip
        """What enqueues calls like one whose only result was enqueued; ``extents``: bytes of its arrays."""
        (result,) = self.problem.epilogue.outputs
        arguments = {kernel: name for name, kernel in self.problem.epilogue.called}
        tables = self.problem.tables
        tensors = ["a", *self.problem.rights, *dict(self.problem.others), *tables, result.name]
        places = self.named({n: arguments.get(n, n) for n in tensors} | {result.name: "out"})
        ready, kept = program.enqueue(values, device), self._workspaces(values)
        names = [places.get(n, n) for n in ready.names]
        made = self._shape(sizes), result.dtype
        others = {arguments.get(n, n): size for n, size in extents.items() if n != result.name}
        return KnownCall(ready, names, device, self.schedule.sums, kept, made, others, extents[result.name])

    def _owners(self, results: Mapping[str, DeviceArray]) -> Any:
        owners = tuple(results[o.name].owner for o in self.problem.epilogue.outputs)
        return owners[0] if len(owners) == 1 else owners

    def simulate(
        self, a: Any, b: Any, *, out: Any = None, multiprocessors: int = 2, **others: Any
    ) -> tuple[Any, ...]:
        """The results by the simulator for NumPy arrays, as on so many SMs; proved like any launch."""
        from syncverify.simulate import ir as simulate

        arrays, sizes = self._inputs(a, b, others)
        results = self._outputs(arrays["a"], sizes, out)
        if not math.prod(self._shape(sizes)):
            return tuple(results[o.name].owner for o in self.problem.epilogue.outputs)
        program = self.program_of(sizes)
        values = self.launch_values(sizes, multiprocessors)
        program.require_proof(values)
        given = self.named({name: x.owner for name, x in {**arrays, **results}.items()})
        found = simulate.run(program.kernel, values, given)
        shape = self._shape(sizes)
        return tuple(found[o.name].reshape(shape) for o in self.problem.epilogue.outputs)

    def _shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Of results as the caller has them."""
        return tuple(sizes[d] for d in ((BATCH, *DIMS) if self.problem.batched else DIMS))

    def require_proof(self, sizes: Mapping[str, int], multiprocessors: int = H200_SMS) -> None:
        """Returns if the kernel for given M, N, K is proved; raises VerificationError otherwise."""
        self.program_of(sizes).require_proof(self.launch_values(sizes, multiprocessors))

    def program_of(self, sizes: Mapping[str, int]) -> Program:
        """The kernel that computes given M, N, K."""
        return self.program(2 if sizes["N"] % 2 == 0 and not self.schedule.by_columns else 1)

    def _workspaces(self, values: Mapping[str, int]) -> dict[str, int]:
        """Bytes of what blocks pass partial sums through."""
        return split.workspaces(self.schedule, values["blocks"], len(self.problem.products))

    def _inputs(
        self, a: Any, b: Any, others: Mapping[str, Any]
    ) -> tuple[dict[str, DeviceArray], dict[str, int]]:
        p = self.problem
        called, wanted = dict(p.epilogue.called), dict(p.others)
        others = {called.get(n, n): x for n, x in others.items()}
        more = p.rights[1:]
        if set(others) != {*wanted, *more, *p.tables}:
            raise InputError(f"{p.name} takes {', '.join(['a', *p.rights, *wanted, *p.tables])}")
        rights = {"b": b, **{n: others[n] for n in more}}
        stored = {"a": turned(a) if p.a_t else a}
        stored |= {n: turned(x) if p.b_t else x for n, x in rights.items()}
        stored |= {n: others[n] for n in wanted}
        types = {**p.stored, **{n: t.dtype for n, t in wanted.items()}}
        arrays = {n: _checked(p, n, describe(x), types[n]) for n, x in stored.items()}
        sizes: dict[str, int] = {}
        for name, x in arrays.items():
            dims = p.shapes[name]
            if len(dims) != len(x.shape):
                raise InputError(f"{p.name}: {name} has shape {x.shape}, expected {', '.join(dims)}")
            for dim, size in zip(dims, x.shape, strict=True):
                if sizes.setdefault(dim, size) != size:
                    raise InputError(f"{p.name}: {dim} of {name} is {size}, elsewhere {sizes[dim]}")
        if p.anywhere:
            sizes["M"] = rows_of(others[STARTS])
        if math.prod(self._shape(sizes)) >= _INDEX_LIMIT:
            raise InputError(f"{p.name}: a result of 2^31 elements or more")
        tables = {n: _checked_table(p, n, describe(others[n]), sizes["M"]) for n in p.tables}
        return {**arrays, **tables}, sizes

    def _outputs(self, model: DeviceArray, sizes: Mapping[str, int], out: Any) -> dict[str, DeviceArray]:
        outputs, shape = self.problem.epilogue.outputs, self._shape(sizes)
        if out is None:
            return {o.name: describe(empty_like(model, shape, o.dtype)) for o in outputs}
        given = out if isinstance(out, (tuple, list)) else (out,)
        if len(given) != len(outputs):
            raise InputError(f"{self.problem.name} has {len(outputs)} outputs; out holds {len(given)}")
        found = {
            o.name: _checked(self.problem, o.name, describe(x), o.dtype)
            for o, x in zip(outputs, given, strict=True)
        }
        if any(x.shape != shape for x in found.values()):
            raise InputError(f"{self.problem.name}: an output has not the shape {shape}")
        return found


@dataclass(frozen=True)
class Matmul:
    """A matrix product whose schedule is chosen for the sizes of each call: what ``tune_matmul`` remembered
    for the ``device`` of that name, else what ``matmul.choose`` prefers.

    ``settled``: the schedules that were chosen for other sizes, where few proofs count more than what the
    model is off by. Where one of them is alike to what is preferred, it is taken.
    """

    problem: Problem
    policy: Policy = Policy.PRACTICAL
    cache: Cache = field(default_factory=Cache.default)
    device: str = ""
    proof_seconds: float = PROOF_SECONDS
    settled: list[Schedule] | None = field(default=None, repr=False)
    _compiled: dict[Schedule, CompiledMatmul] = field(default_factory=dict, repr=False)
    _chosen: dict[Point, Schedule] = field(default_factory=dict, repr=False)
    _decided: set[Point] = field(default_factory=set, repr=False)
    _known: dict[Signature, KnownCall] = field(default_factory=dict, repr=False)

    def schedule(self, sizes: Mapping[str, int], multiprocessors: int = H200_SMS) -> Schedule:
        """The schedule for given M, N, K: the first to be tried, or the one that was proved."""
        point = _point(sizes, multiprocessors)
        if point not in self._chosen:
            name = file_name(self.problem, sizes, self.device, self.policy, tool_fingerprint())
            known = remembered(self.cache, name)
            self._chosen[point] = known or self._preferred(sizes, multiprocessors)
        return self._chosen[point]

    def _preferred(self, sizes: Mapping[str, int], multiprocessors: int) -> Schedule:
        """What is preferred, which takes milliseconds, kept for other processes."""
        fours = "" if here().fours is None else f" and {here().fours} clusters of four"
        few = "" if self.settled is None else ", few proofs"
        card = f"{here().name} of {multiprocessors} multiprocessors{fours}{few}"
        name = file_name(self.problem, sizes, card, self.policy, tool_fingerprint())
        known = remembered(self.cache, name)
        if known is None:
            asked = self.problem, sizes, multiprocessors
            known = choose(*asked) if self.settled is None else among(self.settled, *asked)
            remember(self.cache, name, known, 0.0)
        if self.settled is not None and known not in self.settled:
            self.settled.append(known)
        return known

    def compiled(self, sizes: Mapping[str, int], multiprocessors: int = H200_SMS) -> CompiledMatmul:
        """The product as it is computed for given M, N, K."""
        return self._by(self.schedule(sizes, multiprocessors))

    def proved(self, sizes: Mapping[str, int], multiprocessors: int = H200_SMS) -> CompiledMatmul:
        """The same with a proof for these sizes. Where no check decides the first schedule in time, others
        are tried; VerificationError for one that is refuted, or if none is proved."""
        point = _point(sizes, multiprocessors)
        if point in self._decided:
            return self.compiled(sizes, multiprocessors)
        first: VerificationError | None = None
        for schedule in self._tries(sizes, multiprocessors):
            compiled = self._by(schedule)
            try:
                compiled.require_proof(sizes, multiprocessors)
            except VerificationError as e:
                if e.report.verdict is Verdict.REFUTED:
                    raise
                first = first or e
                continue
            self._chosen[point] = schedule
            self._decided.add(point)
            return compiled
        assert first is not None
        raise first

    def _tries(self, sizes: Mapping[str, int], multiprocessors: int) -> Iterator[Schedule]:
        """The schedule, and some in its place: the next ones that are proved once for every size."""
        first = self.schedule(sizes, multiprocessors)
        yield first
        others = [s for s in ranked(self.problem, sizes, multiprocessors) if not s.proved_by_launch]
        yield from [s for s in others if s != first][:MOST_OTHERS]

    def _by(self, schedule: Schedule) -> CompiledMatmul:
        if schedule not in self._compiled:
            self._compiled[schedule] = CompiledMatmul(
                self.problem, schedule, self.policy, self.cache, True, self.proof_seconds
            )
        return self._compiled[schedule]

    def __call__(self, a: Any, b: Any, **options: Any) -> Any:
        """Like ``CompiledMatmul``; InputError for factors that are no matrices. Factors whose rows are no
        multiple of 16 bytes are copied first (``gate.padded``)."""
        arguments = {"a": a, "b": b, "out": None, **options}
        stream = arguments.pop("stream", None)
        key = signature(arguments) if arguments.pop("proved", True) else None
        known = None if key is None else self._known.get(key)
        result = None if known is None else known(arguments, stream)
        return self._called(a, b, options, key) if result is None else result

    def _called(self, a: Any, b: Any, options: Mapping[str, Any], key: Signature | None) -> Any:
        """A call that looks at everything."""
        sizes, device = call_sizes(self.problem, a, b, options.get(STARTS))
        if not sizes["M"] * sizes["N"] * sizes.get(BATCH, 1):
            return self._by(Schedule(64, 64, consumers=1))(a, b, **options)
        wanted = padded_sizes(self.problem, sizes)
        if wanted != sizes:
            return self._of_copies(a, b, sizes, wanted, options)
        made = self.proved if options.get("proved", True) else self.compiled
        compiled = made(sizes, driver.multiprocessors(device))
        result = compiled(a, b, **options)
        known = None if key is None else compiled.known(key)
        if key is not None and known is not None:
            self._known[key] = known
        return result

    def _of_copies(
        self, a: Any, b: Any, sizes: Mapping[str, int], wanted: Mapping[str, int], options: Mapping[str, Any]
    ) -> Any:
        """The product of copies whose rows are multiples of 16 bytes."""
        p, given = self.problem, dict(options)
        refuse(p, sizes, wanted, given.get("stream"))
        m, n, k = (wanted[d] for d in ("M", "N", "K"))
        factors = {name: given[name] for name in p.rights[1:] if name in given}
        given |= {name: padded(x, (k, n), turned=p.b_t) for name, x in factors.items()}
        plain = (m, n) == (sizes["M"], sizes["N"])
        out = None if plain else given.pop("out", None)
        result = self(padded(a, (m, k), turned=p.a_t), padded(b, (k, n), turned=p.b_t), **given)
        return result if plain else without_rest(result, sizes["M"], sizes["N"], out)


def compile(
    problem: Problem,
    schedule: Schedule | None = None,
    policy: Policy = Policy.PRACTICAL,
    *,
    cache: Cache | None = None,
    proof_seconds: float = PROOF_SECONDS,
) -> CompiledMatmul:
    """Compiles and proves a matrix product; VerificationError (with the report) if it is not proved."""
    if not isinstance(problem, Problem):
        raise InputError(f"{problem!r} is no problem: use product(), or Problem")
    policy = policy_of(policy)
    compiled = CompiledMatmul(
        problem, schedule or Schedule(), policy, cache or Cache.default(), proof_seconds=proof_seconds
    )
    _ = compiled.proofs
    return compiled


def rows_of(starts: Any) -> int:
    """Rows of a result whose groups begin anywhere."""
    return GROUP_ROWS * math.prod(describe(starts).shape)


def call_sizes(problem: Problem, a: Any, b: Any, starts: Any = None) -> tuple[dict[str, int], int]:
    """The sizes of a call, and its device, 0 for host memory; InputError for factors that are no matrices."""
    if problem.anywhere and starts is None:
        raise InputError(f"{problem.name} takes {', '.join(['a', *problem.rights, *problem.tables])}")
    ranks = (3 if problem.batched else 2, 3 if problem.batched or problem.grouped else 2)
    if tuple(len(getattr(x, "shape", ())) for x in (a, b)) != ranks:
        many = ", each an array of many" if problem.batched else ", the right one of many" * problem.grouped
        raise InputError(f"{problem.name} multiplies two matrices{many}")
    sizes = {LEFT_ROWS if starts is not None else "M": int(a.shape[-2])}
    sizes |= {} if starts is None else {"M": rows_of(starts)}
    sizes |= {"K": int(a.shape[-1]), "N": int(b.shape[-1])}
    sizes |= {BATCH: int(a.shape[0])} if problem.batched else {}
    sizes |= {EXPERTS: int(b.shape[0])} if problem.grouped else {}
    return sizes, describe(turned(a) if problem.a_t else a).device or 0


def _point(sizes: Mapping[str, int], multiprocessors: int) -> Point:
    return (*sorted(sizes.items()), ("multiprocessors", multiprocessors))


def _checked(p: Problem, name: str, array: DeviceArray, dtype: str) -> DeviceArray:
    if array.dtype != dtype:
        raise InputError(f"{p.name}: {name} has elements of type {array.dtype}, expected {dtype}")
    if not array.contiguous:
        raise InputError(f"{p.name}: {name} is not contiguous in the layout {p.layout}")
    if array.device is not None and array.address % ALIGN:
        raise InputError(f"{p.name}: {name} does not start at a multiple of {ALIGN} bytes")
    return array


def _checked_table(p: Problem, name: str, array: DeviceArray, rows: int) -> DeviceArray:
    """One number for each group of rows: of a right factor, or where a group begins."""
    groups = -(-rows // GROUP_ROWS)
    if array.shape != (groups,):
        raise InputError(f"{p.name}: {name} has shape {array.shape}; {rows} rows are {groups} groups")
    return _checked(p, name, array, "i32")


def _zeros(size: int) -> DeviceArray:
    return describe(np.zeros(size // 4, np.int32))


def _device(arrays: Mapping[str, DeviceArray]) -> int | None:
    devices = {a.device for a in arrays.values()}
    if len(devices) != 1:
        raise InputError("arrays are on different devices")
    (device,) = devices
    if device is None and any(a.library != "numpy" for a in arrays.values()):
        raise InputError("arrays are in host memory: move them to the GPU, or pass NumPy arrays")
    return device


__all__ = ["CompiledMatmul", "Matmul", "call_sizes", "compile", "rows_of"]
