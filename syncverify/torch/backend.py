"""The backend of torch.compile: kernels for what fusions can hold, torch's own functions for the rest."""

from __future__ import annotations

import copy
import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.fx._lazy_graph_module import _LazyGraphModule

from syncverify.base.source import InputError
from syncverify.gate.proof_time import PROOF_SECONDS
from syncverify.gate.proof_time import checked as checked_seconds
from syncverify.torch import table
from syncverify.torch.call import Fused, View, prepare, shapes_of
from syncverify.torch.dims import UnfitError
from syncverify.torch.partition import Found, partition
from syncverify.torch.region import is_constant, is_item, is_view, value_of
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
    ``report`` grows with every graph that is compiled.
    """

    runner: Runner
    least: int = 2
    report: Report = field(default_factory=Report)

    def __call__(self, module: GraphModule, inputs: Sequence[Any]) -> Any:
        from torch._dynamo.backends.common import aot_autograd
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        compiled = aot_autograd(
            fw_compiler=self._compile, bw_compiler=self._compile, decompositions=table.decompositions(),
            partition_fn=min_cut_rematerialization_partition, keep_inference_input_mutations=True,
        )  # fmt: skip
        return compiled(module, inputs)

    def _compile(self, module: GraphModule, inputs: Sequence[Any]) -> Any:
        from functorch.compile import make_boxed_func

        lowered, report = lower(module, self.runner, self.least)
        self.report.graphs.append(report)
        log.info("%s", report)
        return make_boxed_func(lowered.forward)


def lower(module: GraphModule, runner: Runner, least: int = 2) -> tuple[GraphModule, GraphReport]:
    """The graph with kernels in the place of groups of nodes, and what became of every node."""
    from torch._functorch.compile_utils import fx_graph_cse

    report = GraphReport()
    module = copy.copy(module)
    module.graph = fx_graph_cse(module.graph)
    found = partition(module.graph, least)
    moved: dict[Node, Node] = {}
    for k, one in enumerate(found.found):
        region = _region(one)
        try:
            _replace(module, one, runner, region, f"kernel{k}", moved)
        except (RefusedError, UnfitError) as e:
            region.refused = str(e)
            report.refused.append(region)
            log.info("%s is left to torch: %s", region.name, e)
        else:
            report.regions.append(region)
    report.left = [(n.name, _operation(n), reason) for n, reason in found.left.items() if _counts(n)]
    _sort(module.graph)
    module.graph.eliminate_dead_code()
    module.graph.lint()
    module.recompile()
    if isinstance(module, _LazyGraphModule):
        module.real_recompile()  # else every call asks for it
    for name, child in module.named_children():
        if isinstance(child, Fused):
            # found before the submodule: a call of that takes microseconds
            module.__dict__[name] = child.forward
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


def _replace(
    module: GraphModule, found: Found, runner: Runner, region: Region, name: str, moved: dict[Node, Node]
) -> None:
    """Puts one kernel into the graph; raises RefusedError or UnfitError, and has then changed nothing.

    ``moved``: what stands for the results of earlier ones.
    """
    t, graph = found.translation, module.graph
    arguments = list(dict.fromkeys(a for n in found.group.nodes for a in n.all_input_nodes))
    arguments = [a for a in arguments if a not in found.group.nodes]
    device = value_of(t.outputs[0]).device
    reason = runner.why_not(device)
    if reason:
        raise RefusedError(reason)
    shapes = shapes_of(t, arguments)
    try:
        kernel = runner.fusion(t.fusion) if t.problem is None else runner.product(t.problem)
    except InputError as e:
        raise RefusedError(e.message) from e
    prepare(kernel, shapes, device, region)
    inputs = [arguments.index(moved.get(n, n)) for n in t.inputs]
    nodes = _alone(module, found, arguments, name)
    views = {k: v for k, a in enumerate(arguments) if shapes.static and (v := _view(a)) is not None}
    module.add_submodule(
        name, Fused(t, nodes, kernel, shapes, inputs, region, {k: make for k, (_, make) in views.items()})
    )
    with graph.inserting_before(next(iter(found.group.nodes))):
        bases = tuple(views[k][0] if k in views else a for k, a in enumerate(arguments))
        call = graph.call_module(name, bases)
    for k, node in enumerate(t.outputs):
        with graph.inserting_after(call):
            item = graph.call_function(operator.getitem, (call, k))
            item.meta = dict(node.meta)
        moved[node] = item
        for user in list(node.users):
            if user not in found.group.nodes or is_view(user):
                user.replace_input_with(node, item)


def _view(node: Node) -> tuple[Node, View] | None:
    """The argument of the graph that a node is a view of, and what makes it: the kernel does so itself."""
    made, item = (node.args[0], node.args[1]) if is_item(node) else (node, None)
    if not isinstance(made, Node) or not isinstance(made.target, OpOverload) or made.kwargs:
        return None
    base, *rest = made.args
    aliases = [r.alias_info for r in made.target._schema.returns]
    if any(a is None or a.is_write for a in aliases) or made.all_input_nodes != [base]:
        return None
    if not isinstance(base, Node) or base.op != "placeholder":
        return None

    def make(x: Any, target: Any = made.target) -> Any:
        found = target(x, *rest)
        return found if item is None else found[item]

    return base, make


def _alone(module: GraphModule, found: Found, arguments: Sequence[Node], name: str) -> GraphModule:
    """The nodes of a group as a module of their own."""
    graph, copies = Graph(), dict[Node, Node]()
    for node in arguments:
        copies[node] = graph.placeholder(node.name)
    for node in found.group.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[n] for n in found.translation.outputs))
    return GraphModule(module, graph, name)


def _sort(graph: Graph) -> None:
    """Puts every node behind its arguments, and changes the order no more than that."""
    waiting = list(graph.nodes)
    placed: set[Node] = set()
    last: Node | None = None
    while waiting:
        later = []
        for node in waiting:
            if all(a in placed for a in node.all_input_nodes) and node.op != "output":
                if last is not None:
                    last.append(node)
                placed.add(node)
                last = node
            else:
                later.append(node)
        if len(later) == len(waiting):
            break
        waiting = later
    assert last is not None and [n.op for n in waiting] == ["output"], "a cycle"
    last.append(waiting[0])


def make_backend(options: Mapping[str, Any] | None = None) -> Backend:
    """A backend with settings: ``runner`` (gate, reference, simulator, or one's own), ``least``, and
    ``proof_seconds`` for runners that prove."""
    given = dict(options or {})
    unknown = set(given) - {"runner", "least", "proof_seconds"}
    if unknown:
        raise InputError(f"unknown options {', '.join(sorted(unknown))}: use runner, least or proof_seconds")
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
    return Backend(runner, **given)


#: One for the process and each number of seconds, so that functions share kernels.
_default: dict[float, Runner] = {}


def backend(
    module: GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **_: Any
) -> Any:
    """``torch.compile(f, backend="syncverify", options={...})``."""
    given = dict(options or {})
    if "runner" not in given:
        seconds = checked_seconds(given.pop("proof_seconds", PROOF_SECONDS))
        given["runner"] = _default.setdefault(seconds, GateRunner(proof_seconds=seconds))
    return make_backend(given)(module, inputs)


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
