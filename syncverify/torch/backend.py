"""The backend of torch.compile: Inductor, with proved kernels in the place of groups of nodes."""

from __future__ import annotations

import contextlib
import copy
import heapq
import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from syncverify.base.source import InputError
from syncverify.gate.proof_time import PROOF_SECONDS
from syncverify.gate.proof_time import checked as checked_seconds
from syncverify.torch import operators, table
from syncverify.torch.call import Fused, prepare, shapes_of
from syncverify.torch.choice import (
    ALWAYS,
    CHOICES,
    FASTER,
    NEVER,
    SlowerError,
    Times,
    check_faster,
    inductor_times,
    severed,
    with_kernel,
)
from syncverify.torch.dims import UnfitError
from syncverify.torch.losses import PLAIN, recomputed
from syncverify.torch.partition import Found, partition
from syncverify.torch.region import is_constant, is_view, value_of
from syncverify.torch.report import GraphReport, Region, Report
from syncverify.torch.runners import (
    GateRunner,
    ProvingRunner,
    ReferenceRunner,
    RefusedError,
    Runner,
    SimulatorRunner,
)

log = logging.getLogger("syncverify.torch")

_RUNNERS: dict[str, Callable[..., Runner]] = {
    "gate": GateRunner, "prove": ProvingRunner, "reference": ReferenceRunner, "simulator": SimulatorRunner,
}  # fmt: skip


@dataclass
class Backend:
    """A backend for ``torch.compile(f, backend=...)``.

    ``runner`` makes the kernels. ``least`` is the number of operations from which on a group becomes one.
    ``use``: kernels that are faster than Inductor's code, always, or never. ``inductor``: settings of
    Inductor. ``report`` grows with every graph that is compiled.
    """

    runner: Runner
    least: int = 2
    use: str = ALWAYS
    inductor: Mapping[str, Any] = field(default_factory=dict)
    report: Report = field(default_factory=Report)

    def __call__(self, module: GraphModule, inputs: Sequence[Any]) -> Any:
        from torch._functorch import config
        from torch._inductor.compile_fx import compile_fx

        if isinstance(self.runner, ProvingRunner):
            return self._prove(module, inputs)
        # that cache keeps graphs by what they compute, and knows of no backend
        with config.patch(enable_autograd_cache=False), recomputed():
            return compile_fx(
                module, list(inputs), inner_compile=self._compile, decompositions=table.decompositions(),
                config_patches=dict(self.inductor) or None,
            )  # fmt: skip

    def _prove(self, module: GraphModule, inputs: Sequence[Any]) -> Any:
        """Graphs of fake tensors, of which nothing is compiled but kernels: no GPU is needed."""
        from functorch.compile import make_boxed_func
        from torch._dynamo.backends.common import aot_autograd
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        def compiled(graph: GraphModule, given: Sequence[Any]) -> Any:
            lowered, report = lower(graph, self.runner, self.least)
            self.report.graphs.append(report)
            return make_boxed_func(lowered.forward)

        with recomputed():
            make = aot_autograd(
                fw_compiler=compiled, bw_compiler=compiled, decompositions=table.decompositions(),
                partition_fn=min_cut_rematerialization_partition, keep_inference_input_mutations=True,
            )  # fmt: skip
            return make(module, inputs)

    def _compile(self, module: GraphModule, inputs: Sequence[Any], **settings: Any) -> Any:
        """One graph, as Inductor's own compiler of it: forward, backward, or both."""
        from torch._inductor.compile_fx import compile_fx_inner

        settings.pop("get_decomp_fn", None)  # ours made this graph; what comes is Inductor's alone
        if self.use != NEVER:
            _as_compiled(module, inputs)
            module, report = lower(module, self.runner, self.least, self.use)
            self.report.graphs.append(report)
            log.info("%s", report)
        else:
            expand(module.graph)
            module.recompile()
        return compile_fx_inner(module, inputs, **settings)


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


def lower(
    module: GraphModule, runner: Runner, least: int = 2, use: str = ALWAYS
) -> tuple[GraphModule, GraphReport]:
    """The graph with kernels in the place of groups of nodes, and what became of every node."""
    from torch._functorch.compile_utils import fx_graph_cse

    report = GraphReport()
    module = copy.copy(module)
    module.graph = fx_graph_cse(module.graph)
    found = partition(module.graph, least)
    candidates = [_candidate(module, one, runner) for one in found.found]
    taken = {n for c in candidates for n in c.found.group.nodes}
    likely = [c for c in candidates if _tried(report, taken, c, lambda c: _promising(c, runner, use, taken))]
    _prove_ahead(likely, runner)
    moved: dict[Node, Node] = {}
    for candidate in likely:
        op = _tried(report, taken, candidate, lambda c: _chosen(c, runner, use, taken))
        if op is not None:
            _replace(module.graph, candidate, op, moved)
            report.regions.append(candidate.region)
    report.left = [(n.name, _operation(n), reason) for n, reason in found.left.items() if _counts(n)]
    _sort(module.graph)
    module.graph.eliminate_dead_code()
    expand(module.graph)
    module.graph.lint()
    module.recompile()
    return module, report


def _counts(node: Node) -> bool:
    return node.op == "call_function" and not is_view(node) and not is_constant(node)


def _operation(node: Node) -> str:
    return str(getattr(node.target, "__name__", node.target))


def _region(found: Found) -> Region:
    t = found.translation
    return Region(
        t.fusion.name, "fusion" if t.problem is None else "product",
        tuple(_operation(n) for n in found.group.operations), tuple(n.name for n in t.inputs),
        tuple(n.name for n in t.outputs), {d: str(s) for d, s in t.extents.items()},
    )  # fmt: skip


def _tried(
    report: GraphReport, taken: set[Node], candidate: Candidate, step: Callable[[Candidate], Any]
) -> Any:
    """What a step makes of a candidate; None where it says why there is no kernel, which is reported."""
    try:
        return step(candidate)
    except (RefusedError, UnfitError, SlowerError) as e:
        taken -= set(candidate.found.group.nodes)
        candidate.region.refused = str(e)
        report.refused.append(candidate.region)
        log.info("%s is left to Inductor: %s", candidate.region.name, e)
        return None


@dataclass(frozen=True)
class Candidate:
    """A group that may become an operator called ``name``; ``nodes`` are its nodes alone.

    ``key``: what has the same nodes and arguments has the same.
    """

    found: Found
    arguments: tuple[Node, ...]
    nodes: GraphModule
    key: str
    name: str
    region: Region
    device: torch.device


def _candidate(module: GraphModule, found: Found, runner: Runner) -> Candidate:
    t, group = found.translation, found.group
    needed = dict.fromkeys(a for n in group.nodes for a in n.all_input_nodes)
    arguments = tuple(a for a in needed if a not in group.nodes)
    nodes = _alone(module, found, arguments)
    key = operators.identity(nodes.graph, arguments, runner)
    name = operators.name_of(t.fusion.name, key, runner)
    device = value_of(t.outputs[0]).device
    return Candidate(found, arguments, nodes, key, name, _region(found), device)


def _prove_ahead(candidates: Sequence[Candidate], runner: Runner) -> None:
    """Proves the kernels of candidates side by side, where the runner can; one that fails says so later."""
    ahead = getattr(runner, "ahead", None)
    if ahead is None:
        return
    kernels: dict[str, Any] = {}
    for c in candidates:
        if operators.known(c.name, runner) is not None or runner.why_not(c.device):
            continue
        t = c.found.translation
        with contextlib.suppress(UnfitError):
            hint = shapes_of(t, c.arguments).hint
            if 0 not in hint.values():
                kernels[c.name] = c.device, (t.problem or t.fusion, hint)
    for device in {d for d, _ in kernels.values()}:
        ahead([k for d, k in kernels.values() if d == device], device)


def _promising(c: Candidate, runner: Runner, use: str, taken: set[Node]) -> bool:
    """True; RefusedError or UnfitError where no kernel can be, SlowerError where none can be faster."""
    operators.check_arguments(c.arguments)
    reason = runner.why_not(c.device)
    if reason:
        raise RefusedError(reason)
    if use == FASTER:
        check_faster(_times(c), severed(c.found.group, taken), c.device, c.region)
    return True


def _times(c: Candidate) -> Times:
    return inductor_times(c.key, c.nodes, c.found.group, c.arguments, c.device)


def _chosen(c: Candidate, runner: Runner, use: str, taken: set[Node]) -> Any:
    """The operator of a candidate.

    Raises RefusedError or UnfitError where there is none, SlowerError where Inductor's code is faster.
    ``taken``: nodes of all kernels.
    """
    op = operators.known(c.name, runner)
    if op is None:
        op = _made(c, runner)
    else:
        c.region.status = operators.fused_of(c.name).region.status
    if use == FASTER:
        times = with_kernel(c.key, _times(c), op, c.arguments, c.device)
        check_faster(times, severed(c.found.group, taken), c.device, c.region)
    return op


def _made(c: Candidate, runner: Runner) -> Any:
    """A new operator, whose kernel is compiled and proved; RefusedError or UnfitError."""
    t = c.found.translation
    shapes = shapes_of(t, c.arguments)
    try:
        kernel = runner.fusion(t.fusion) if t.problem is None else runner.product(t.problem)
    except InputError as e:
        raise RefusedError(e.message) from e
    prepare(kernel, shapes, c.device, c.region)
    inputs = [c.arguments.index(n) for n in t.inputs]
    fused = Fused(t, c.nodes, kernel, shapes, inputs, c.region)
    return operators.make(c.name, fused, c.arguments, runner)


def _replace(graph: Graph, candidate: Candidate, op: Any, moved: dict[Node, Node]) -> None:
    """Puts an operator into the graph. ``moved``: what stands for the results of earlier ones."""
    group, t = candidate.found.group, candidate.found.translation
    arguments = [moved.get(a, a) for a in candidate.arguments]
    with graph.inserting_before(next(iter(group.nodes))):
        call = graph.call_function(op, tuple(arguments))
    call.meta["eager_input_vals"] = (tuple(a.meta["val"] for a in arguments), {})
    single = len(t.outputs) == 1
    call.meta["val"] = value_of(t.outputs[0]) if single else tuple(map(value_of, t.outputs))
    for k, node in enumerate(t.outputs):
        item = call
        if not single:
            with graph.inserting_after(call):
                item = graph.call_function(operator.getitem, (call, k))
            item.meta["val"] = value_of(node)
        moved[node] = item
        for user in list(node.users):
            if user not in group.nodes or is_view(user):
                user.replace_input_with(node, item)


def expand(graph: Graph) -> None:
    """Takes apart the operators of losses that no kernel holds: Inductor compiles their parts."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch._guards import detect_fake_mode
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx

    for node in [n for n in graph.nodes if n.target in PLAIN]:
        tensors = [a for a in node.args if isinstance(a, Node)]
        places = {k: tensors.index(a) for k, a in enumerate(node.args) if isinstance(a, Node)}

        def function(*given: Any, node: Node = node, places: dict[int, int] = places) -> Any:
            args = [given[places[k]] if k in places else a for k, a in enumerate(node.args)]
            return PLAIN[node.target](*args)

        values = [a.meta["val"] for a in tensors]
        mode: Any = detect_fake_mode(values)
        with mode, enable_python_dispatcher():
            trace: Any = make_fx(function, decomposition_table=select_decomp_table())
            parts = trace(*values)
        copies = dict(zip((n for n in parts.graph.nodes if n.op == "placeholder"), tensors, strict=True))
        with graph.inserting_before(node):
            for part in parts.graph.nodes:
                if part.op == "call_function":
                    copies[part] = graph.node_copy(part, copies.__getitem__)
                elif part.op == "get_attr":
                    raise UnfitError("a loss with tensors of its own")
        (made,) = (n.args[0] for n in parts.graph.nodes if n.op == "output")
        if isinstance(made, Node):
            node.replace_all_uses_with(copies[made])
        else:
            for item in list(node.users):
                item.replace_all_uses_with(copies[made[item.args[1]]])
                graph.erase_node(item)
        graph.erase_node(node)


def _alone(module: GraphModule, found: Found, arguments: Sequence[Node]) -> GraphModule:
    """The nodes of a group as a module of their own."""
    graph, copies = Graph(), dict[Node, Node]()
    for node in arguments:
        copies[node] = graph.placeholder(node.name)
    for node in found.group.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[n] for n in found.translation.outputs))
    return GraphModule(module, graph)


def _sort(graph: Graph) -> None:
    """Puts every node behind its arguments, and changes the order no more than that.

    What writes to an argument stays behind all that came before it.
    """
    order = list(graph.nodes)
    place = {n: k for k, n in enumerate(order)}
    waits = {n: set(n.all_input_nodes) for n in order}
    for node in order:
        if node.op == "output" or _writes(node):
            waits[node] |= set(order[: place[node]])
    needed: dict[Node, list[Node]] = {n: [] for n in order}
    for node, others in waits.items():
        for other in others:
            needed[other].append(node)
    left = {n: len(others) for n, others in waits.items()}
    free = [place[n] for n in order if not left[n]]
    heapq.heapify(free)
    last: Node | None = None
    while free:
        node = order[heapq.heappop(free)]
        if last is not None:
            last.append(node)
        last = node
        for user in needed[node]:
            left[user] -= 1
            if not left[user]:
                heapq.heappush(free, place[user])
    if any(left.values()):
        raise RuntimeError("a cycle in a graph with kernels: please report it")


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return bool(node.op == "call_function" and schema is not None and schema.is_mutable)


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


#: One for the process and each number of seconds, so that functions share kernels.
_default: dict[float, Runner] = {}


def backend(
    module: GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None,
    mode: str | None = None, **_: Any,
) -> Any:  # fmt: skip
    """``torch.compile(f, backend="syncverify", mode="...", options={...})``."""
    given = dict(options or {})
    if "runner" not in given:
        seconds = checked_seconds(given.pop("proof_seconds", PROOF_SECONDS))
        given["runner"] = _default.setdefault(seconds, GateRunner(proof_seconds=seconds))
    return make_backend(given, mode)(module, inputs)


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
