"""The backend of torch.compile: Inductor, with proved kernels in the place of groups of nodes."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from syncverify.base.cache_dir import digest
from syncverify.base.source import InputError
from syncverify.gate.proof_time import checked as checked_seconds
from syncverify.torch import late, renewal, table, workers
from syncverify.torch.attention import mend
from syncverify.torch.candidate import (
    Candidate,
    asked,
    begin_proofs,
    candidate,
    fit,
    operation,
    operator_of,
    prove_ahead,
    proved_since,
)
from syncverify.torch.choice import ALWAYS, CHOICES, FASTER, NEVER, SlowerError, templates
from syncverify.torch.dims import UnfitError
from syncverify.torch.experts import of_experts
from syncverify.torch.graphs import expand, shared, sort
from syncverify.torch.kept import cache_identity, compiled_before, graph_key
from syncverify.torch.losses import recomputed
from syncverify.torch.padding import padded_once
from syncverify.torch.partition import Partition, partition
from syncverify.torch.products import halves, products_alone
from syncverify.torch.region import is_constant, is_view
from syncverify.torch.report import GraphReport, Report
from syncverify.torch.runners import (
    PROOF_SECONDS,
    GateRunner,
    ListingRunner,
    ProvingRunner,
    ReferenceRunner,
    RefusedError,
    Runner,
    SimulatorRunner,
    shared_runner,
)
from syncverify.torch.trials import (
    ALONE_SECONDS,
    SPENT,
    TUNED_PATIENCE,
    Limits,
    Patience,
    faster,
    forget_late,
    promising,
    whole_of,
)
from syncverify.torch.worth import AGAIN, LATE, LATER

log = logging.getLogger("syncverify.torch")

#: Seconds that a graph's compilation waits for proofs of much worth when Inductor's program is there.
_PATIENCE = 1.0

_RUNNERS: dict[str, Callable[..., Runner]] = {
    "gate": GateRunner, "prove": ProvingRunner, "reference": ReferenceRunner, "simulator": SimulatorRunner,
}  # fmt: skip


@dataclass
class Backend:
    """A backend for ``torch.compile(f, backend=...)``.

    ``runner`` makes the kernels. ``least`` is the number of operations from which on a group becomes one.
    ``use``: kernels that are faster than Inductor's code, always, or never. ``inductor``: settings of
    Inductor. ``report`` grows with every graph that is compiled. ``cached``: AOTAutograd may find
    all of it on disk, of another process; then nothing is compiled, and nothing reported.
    """

    runner: Runner
    least: int = 2
    use: str = ALWAYS
    inductor: Mapping[str, Any] = field(default_factory=dict)
    report: Report = field(default_factory=Report)
    cached: bool = False
    _graph: str = field(default="", repr=False)
    #: What passes of the graph took to compile of which nothing is written down yet.
    _seconds: float = field(default=0.0, repr=False)
    #: The groups of graphs whose proofs were begun before they are compiled, by what the graphs compute.
    _foreseen_groups: dict[str, Grouped] = field(default_factory=dict, repr=False)

    def __call__(self, module: GraphModule, inputs: Sequence[Any]) -> Any:
        from torch._functorch import config
        from torch._inductor.compile_fx import compile_fx

        if any(isinstance(x, torch.Tensor) and x.is_neg() for x in inputs):
            log.warning("a graph is run as it is: memory of an input holds its elements with other signs")
            return module.forward
        mend(module)
        if isinstance(self.runner, ProvingRunner):
            return self._prove(module, inputs)
        for device in _devices(inputs):
            workers.begin(device)
        # that cache keeps graphs by what they compute and by settings, of which a pass is one
        text = _text(module, inputs) if self.cached else ""
        patches, identity = dict(self.inductor), self._identity_for_caches(text, inputs)
        if identity is not None:
            patches["joint_custom_post_pass"] = identity
            self._warm(identity, text, inputs)
        kept = bool(config.enable_autograd_cache and identity is not None)
        with config.patch(enable_autograd_cache=kept), recomputed(), self._foreseen():
            program = compile_fx(
                module, list(inputs), inner_compile=self._compile, decompositions=table.decompositions(),
                config_patches=patches or None,
            )  # fmt: skip
        return renewal.counted(program, self._graph) if kept and self._graph else program

    def _warm(self, identity: Any, graph: str, inputs: Sequence[Any]) -> None:
        """Begins processes that prove, where there will be something to prove."""
        warm = getattr(self.runner, "warm", None)
        if warm is None or self.use == NEVER or all(map(self.runner.why_not, _devices(inputs))):
            return
        if not compiled_before(identity, graph):
            warm()

    def _identity_for_caches(self, graph: str, inputs: Sequence[Any]) -> Any:
        """A pass that does nothing, and tells caches which backend this is; None: they keep nothing of it.

        Where the graph is to be compiled again, with what was late, it is another one.

        Operators of sizes that are symbols cannot be made again by another process.
        """
        from torch._inductor import config

        sizes = [n for x in inputs for n in (x.shape if isinstance(x, torch.Tensor) else (x,))]
        if not self.cached or not all(isinstance(n, int) for n in sizes):
            return None
        if "joint_custom_post_pass" in self.inductor or config.joint_custom_post_pass is not None:
            return None
        settings = f"{self.runner} {self.least} {self.use}"
        plain = cache_identity(settings)
        if plain is None or self.use != FASTER:
            return plain
        self._graph = graph_key(plain, graph)
        again = late.generation(self._graph)
        return cache_identity(f"{settings} {again}") if again else plain

    def _prove(self, module: GraphModule, inputs: Sequence[Any]) -> Any:
        """Graphs of fake tensors, of which nothing is compiled but kernels: no GPU is needed."""
        from functorch.compile import make_boxed_func
        from torch._dynamo.backends.common import aot_autograd
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        def compiled(graph: GraphModule, given: Sequence[Any]) -> Any:
            if isinstance(self.runner, ListingRunner):
                products = products_alone(graph, set(), self.runner)
                groups = grouped(graph, self.runner, self.least, timed=False)[2]
                prove_ahead([*groups, *halves(groups, self.runner), *products], self.runner)
                return make_boxed_func(graph.forward)
            lowered, report = lower(graph, self.runner, self.least)
            self.report.graphs.append(report)
            return make_boxed_func(lowered.forward)

        with recomputed():
            make = aot_autograd(
                fw_compiler=compiled, bw_compiler=compiled, decompositions=table.decompositions(),
                partition_fn=min_cut_rematerialization_partition, keep_inference_input_mutations=True,
            )  # fmt: skip
            return make(module, inputs)

    @contextmanager
    def _foreseen(self) -> Iterator[None]:
        """Begins to prove the kernels of both passes as soon as the graph is divided."""
        from torch._inductor import compile_fx

        plain = getattr(compile_fx, "min_cut_rematerialization_partition", None)
        spare = getattr(self.runner, "spare", None)
        if plain is None or self.use == NEVER or spare is None or not spare():
            yield
            return

        def divided(*args: Any, **settings: Any) -> Any:
            parts = plain(*args, **settings)
            for part in parts:  # the forward pass is compiled first
                begin_proofs(self._wanted(part), self.runner)
            return parts

        compile_fx.min_cut_rematerialization_partition = divided
        try:
            yield
        finally:
            compile_fx.min_cut_rematerialization_partition = plain

    def _wanted(self, module: GraphModule) -> list[Candidate]:
        """The candidates whose proofs will be needed."""
        found = grouped(module, self.runner, self.least, self.use == FASTER)
        self._foreseen_groups[_computed(module)] = found
        module, _, candidates = found
        if self.use != FASTER:
            return candidates
        products = _alone(module, set(), self.runner)
        kinds = candidates, _halves(candidates, self.runner), products
        return [c for kind in kinds for c in promising(module, kind, self.runner)]

    def _groups(self, module: GraphModule) -> Grouped:
        """Those of a graph, which are known where their proofs were begun and nothing of it has changed."""
        known = self._foreseen_groups.pop(_computed(module), None) if self._foreseen_groups else None
        if known is None:
            return grouped(module, self.runner, self.least, self.use == FASTER)
        module = copy.copy(module)
        module.graph = known[0].graph
        return module, *known[1:]

    def _compile(self, module: GraphModule, inputs: Sequence[Any], **settings: Any) -> Any:
        """One graph, as Inductor's own compiler of it: forward, backward, or both."""
        from torch._inductor.compile_fx import compile_fx_inner

        settings.pop("get_decomp_fn", None)  # ours made this graph; what comes is Inductor's alone
        if self.use == NEVER or _not_ours(self.use):
            expand(module.graph)
            module.recompile()
            return compile_fx_inner(module, inputs, **settings)
        began = time.monotonic()
        _as_compiled(module, inputs)
        lowered, report = lower_groups(self._groups(module), self.runner, self.use)
        with SPENT.on("inductor"):
            found = compile_fx_inner(lowered, inputs, **settings)
        again = self._again(module, report)
        forget_late()
        if again is not None:
            log.info("proofs came while the graph was compiled: it is compiled again, with their kernels")
            lowered, report = again
            _forget_strides()
            found = compile_fx_inner(lowered, inputs, **settings)
        self.report.graphs.append(report)
        log.info("%s", report)
        self._write_down(module, report, time.monotonic() - began)
        return found

    def _write_down(self, module: GraphModule, report: GraphReport, seconds: float) -> None:
        """Keeps what a graph did not try for want of proofs or time, where caches keep the graph.

        Both passes of a graph are compiled again together, so their seconds count together.
        """
        self._seconds += seconds
        if not self._graph or not (report.late or late.read(self._graph).kernels):
            return
        whole = whole_of(module, report.missed[0].device) if report.late else 0.0
        late.add(self._graph, [(one, part * whole) for one, part in report.late], self._seconds)
        self._seconds = 0.0

    def _again(self, module: GraphModule, report: GraphReport) -> tuple[GraphModule, GraphReport] | None:
        """The graph with kernels whose proofs came while Inductor compiled it; None where they gain little.

        Else caches would keep a program without them, and a later process would compile it again. Not where
        the graph holds other graphs, which Inductor changes when it compiles.
        """
        if any(isinstance(inner, GraphModule) for inner in module.children()):
            return None
        waiting = [c for c in report.missed if c.region.late]
        large = [c for c in waiting if c.region.late >= LATE]
        with SPENT.on("trials"):
            prove_ahead(large, self.runner, _patience(module))
        since = proved_since(waiting, self.runner)
        if sum(c.region.late for c in since) < AGAIN:
            return None
        lowered, found = lower(module, self.runner, self.least, self.use, {c.name for c in since})
        left = [c for c in report.missed if c not in since]
        found.late, found.missed = found.late + _for_later(left, self.runner), [*found.missed, *left]
        report.late = found.late
        whole = whole_of(module, since[0].device)
        return (lowered, found) if found.saved - report.saved >= AGAIN * whole else None


def _patience(module: GraphModule) -> float:
    """Seconds to wait for late proofs of a compiled graph: at most what trials may still take."""
    if templates():
        return TUNED_PATIENCE
    return max(0.0, min(_PATIENCE, SPENT.left(len(module.graph.nodes))))


def _not_ours(use: str) -> bool:
    """Whether settings of Inductor ask for what kernels do not do.

    They round numbers between operators as eager torch does, make a row of a result the same whatever number
    of rows there is, or let no time of a kernel choose any code.
    """
    from torch._inductor import config

    by_time = use == FASTER and getattr(config, "deterministic", False)
    names = ("emulate_precision_casts", "batch_invariant")
    return bool(by_time or any(getattr(config, name, False) for name in names))


def _for_later(missed: Sequence[Candidate], runner: Runner) -> list[tuple[Any, float]]:
    """What a process that calls a graph often compiles it again for; none where all of it may gain little."""
    some = [c for c in missed if c.region.missed >= AGAIN]
    return asked(some, runner) if sum(c.region.missed for c in some) >= LATER else []


def _forget_strides() -> None:
    """Lets Inductor tell the strides of a graph's results once more, of another program for it."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    if context is not None and context.output_strides:
        context.output_strides.clear()


def _computed(module: GraphModule) -> str:
    """What a graph computes: its nodes, and the type, shape and strides of each result."""
    values = [_kinds(n.meta.get("val")) for n in module.graph.nodes]
    return digest(f"{[(n.name, n.op, str(n.target), n.args, n.kwargs) for n in module.graph.nodes]} {values}")


def _kinds(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return str([_kinds(x) for x in value])
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {value.device} {tuple(value.shape)} {value.stride()}"
    return str(value)


def _devices(inputs: Sequence[Any]) -> set[torch.device]:
    return {x.device for x in inputs if isinstance(x, torch.Tensor)}


def _text(module: GraphModule, inputs: Sequence[Any]) -> str:
    """What a graph computes, and of which arguments."""
    kinds = [(x.dtype, x.shape, x.stride()) if isinstance(x, torch.Tensor) else x for x in inputs]
    return f"{module.code} {kinds}"


def _as_compiled(module: GraphModule, inputs: Sequence[Any]) -> None:
    """Brings what is known of tensors to the inputs: the forward pass lays out what it saves as it likes."""
    from torch._inductor.compile_fx import fake_tensor_prop
    from torch._inductor.fx_passes.post_grad import view_to_reshape

    given = [n.meta.get("val") for n in module.graph.nodes if n.op == "placeholder"]
    pairs = [(x, y) for x, y in zip(given, inputs, strict=True) if isinstance(y, torch.Tensor)]
    if all(isinstance(x, torch.Tensor) and _strides(x) == _strides(y) for x, y in pairs):
        return
    view_to_reshape(module)
    with torch.no_grad():
        fake_tensor_prop(module, list(inputs))


def _strides(x: Any) -> list[str]:
    return [str(s) for s in x.stride()]


Grouped = tuple[GraphModule, Partition, list[Candidate]]


def grouped(module: GraphModule, runner: Runner, least: int, timed: bool = True) -> Grouped:
    """A copy of the graph, its groups, and these as candidates; products alone only where they are timed."""
    module = copy.copy(module)
    module.graph = shared(module.graph)
    padded_once(module.graph)
    found = partition(module.graph, least, products=timed and templates(), reductions=timed)
    return module, found, [candidate(one, runner) for one in found.found]


def lower(
    module: GraphModule, runner: Runner, least: int = 2, use: str = ALWAYS, only: Set[str] | None = None
) -> tuple[GraphModule, GraphReport]:
    """The graph with kernels in the place of groups of nodes, and what became of every node.

    ``only``: the names of what is tried a second time, as its proof has come since.
    """
    return lower_groups(grouped(module, runner, least, use == FASTER), runner, use, only)


def lower_groups(
    groups: Grouped, runner: Runner, use: str, only: Set[str] | None = None
) -> tuple[GraphModule, GraphReport]:
    """The same where the groups of a graph are known; their module is changed."""
    report = GraphReport()
    module, found, candidates = groups
    if use == ALWAYS:
        candidates = [*candidates, *of_experts(module, set(), runner)]
    ready = [c for c in candidates if _tried(report, c, lambda c: fit(c, runner))]
    chosen = ready
    if use == FASTER:
        ready, chosen = _faster(module, ready, runner, report, only)
    report.missed = [c for c in ready if c.region.missed]
    report.late = _for_later(report.missed, runner)
    prove_ahead(chosen, runner)
    ops = [(one, _tried(report, one, lambda c: _chosen(c, runner, chosen))) for one in ready]
    moved: dict[Node, Node] = {}
    for one, op in ops:
        if op is not None:
            one.put_into(module.graph, op, moved)
            report.regions.append(one.region)
    taken = _nodes(chosen)
    report.left = [
        (n.name, operation(n), why) for n, why in found.left.items() if _counts(n) and n not in taken
    ]
    sort(module.graph)
    module.graph.eliminate_dead_code()
    expand(module.graph)
    module.graph.lint()
    module.recompile()
    return module, report


def _faster(
    module: GraphModule,
    ready: Sequence[Candidate],
    runner: Runner,
    report: GraphReport,
    only: Set[str] | None = None,
) -> tuple[list[Candidate], list[Candidate]]:
    """What was tried, and what is taken: groups and products outside of them, then parts of the others."""

    def alone(taken: Set[Node]) -> list[Candidate]:
        return [c for c in _alone(module, taken, runner) if _tried(report, c, lambda c: fit(c, runner))]

    patience = Patience()
    tried = [*ready, *alone(_nodes(ready))]
    chosen = faster(module, tried, runner, Limits(None, only, patience), _halves(ready, runner))
    taken = _nodes(chosen)
    parts = _halves([c for c in ready if taken.isdisjoint(c.found.group.nodes)], runner)
    if parts:
        chosen += faster(module, parts, runner, Limits(ALONE_SECONDS, only, patience))
    products = alone(_nodes([*chosen, *tried[len(ready) :]]))
    if products:
        chosen += faster(module, products, runner, Limits(ALONE_SECONDS, only, patience))
    return [*tried, *parts, *products], chosen


def _halves(candidates: Sequence[Candidate], runner: Runner) -> list[Candidate]:
    """Groups of two products without the first, which the library or a kernel of its own computes."""
    return [] if templates() else halves(candidates, runner)


def _alone(module: GraphModule, taken: Set[Node], runner: Runner) -> list[Candidate]:
    """Products that are not among the taken nodes, where Inductor leaves them to a library."""
    return [] if templates() else products_alone(module, taken, runner)


def _nodes(candidates: Sequence[Candidate]) -> set[Node]:
    return {n for c in candidates for n in c.found.group.nodes}


def _counts(node: Node) -> bool:
    return node.op == "call_function" and not is_view(node) and not is_constant(node)


def _tried(report: GraphReport, candidate: Candidate, step: Callable[[Candidate], Any]) -> Any:
    """What a step makes of a candidate; None where it says why there is no kernel, which is reported."""
    try:
        return step(candidate)
    except (RefusedError, UnfitError, SlowerError) as e:
        candidate.region.refused = str(e)
        report.refused.append(candidate.region)
        log.info("%s is left to Inductor: %s", candidate.region.name, e)
        return None


def _chosen(c: Candidate, runner: Runner, chosen: Sequence[Candidate]) -> Any:
    """The operator of a candidate; RefusedError or UnfitError where there is none, SlowerError."""
    if not any(c is other for other in chosen):
        raise SlowerError(c.region.notes.pop() if c.region.notes else "not faster")
    return operator_of(c, runner)


def make_backend(options: Mapping[str, Any] | None = None, mode: str | None = None) -> Backend:
    """A backend with settings: ``runner`` (gate, reference, simulator, or one's own), ``least``, ``use``,
    ``proof_seconds`` for runners that prove, and Inductor's own. ``mode``: one of torch.compile's."""
    given = dict(options or {})
    inductor = {**_mode(mode), **{k: given.pop(k) for k in list(given) if _of_inductor(k)}}
    unknown = set(given) - {"runner", "least", "proof_seconds", "use"}
    if unknown:
        raise InputError(
            f"unknown options {', '.join(sorted(unknown))}: use runner, least, use, proof_seconds, or a "
            "setting of torch._inductor.config"
        )
    least = given.get("least", 2)
    if not isinstance(least, int) or least < 1:
        raise InputError(f"least is {least!r}: use a number of operations")
    runner = given.pop("runner", "gate")
    proving = {k: checked_seconds(given.pop(k)) for k in ("proof_seconds",) if k in given}
    if isinstance(runner, str):
        if runner not in _RUNNERS:
            raise InputError(f"unknown runner {runner!r}: use {', '.join(_RUNNERS)}, or an object")
        make = _RUNNERS[runner]
        if proving and make is ReferenceRunner:
            raise InputError("proof_seconds: the reference proves nothing")
        runner = make(**proving)
    elif proving:
        raise InputError("proof_seconds: give it to the runner")
    use = given.pop("use", FASTER if isinstance(runner, GateRunner) else ALWAYS)
    if use not in CHOICES:
        raise InputError(f"use is {use!r}: use {', '.join(CHOICES)}")
    return Backend(runner, use=use, inductor=inductor, **given)


def _mode(mode: str | None) -> dict[str, Any]:
    """Inductor's settings for a mode of torch.compile."""
    from torch._inductor import list_mode_options

    known = list_mode_options()
    if mode is None or mode == "default":
        return {}
    if mode not in known:
        raise InputError(f"unknown mode {mode!r}: use {', '.join(known)}")
    return dict(known[mode])


def _of_inductor(name: str) -> bool:
    from torch._inductor import config

    return name in config.get_config_copy()


def backend(
    module: GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None,
    mode: str | None = None, **_: Any,
) -> Any:  # fmt: skip
    """``torch.compile(f, backend="syncverify", mode="...", options={...})``."""
    given = dict(options or {})
    if "runner" not in given:
        seconds = checked_seconds(given.pop("proof_seconds", PROOF_SECONDS))
        given["runner"] = shared_runner(proof_seconds=seconds)
    found = make_backend(given, mode)
    found.cached = isinstance(found.runner, GateRunner)
    return found(module, inputs)


def explain(function: Callable[..., Any], *, runner: Runner | str = "gate", least: int = 2) -> Explained:
    """Compiles like the backend, and keeps the report: ``explain(f)(x, y)`` returns it after one call."""
    return Explained(function, make_backend({"runner": runner, "least": least}))


@dataclass
class Explained:
    """A function to be called once, for the report of how it was compiled; ``result`` is what it returned."""

    function: Callable[..., Any]
    backend: Backend
    result: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Report:
        import torch

        torch._dynamo.reset()
        self.result = torch.compile(self.function, backend=self.backend)(*args, **kwargs)
        return self.backend.report


def register() -> None:
    """Makes the name known to torch.compile."""
    from torch._dynamo.backends.registry import _BACKENDS, register_backend

    if "syncverify" not in _BACKENDS:
        register_backend(backend, name="syncverify")


__all__ = ["Backend", "Explained", "backend", "explain", "lower", "make_backend", "register"]
