"""Groups that may become operators: what each computes, and its kernel, compiled and proved."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node

from syncverify.base.source import InputError
from syncverify.torch import kept, operators
from syncverify.torch.call import Fused, called_of, prepare, shapes_of
from syncverify.torch.dims import UnfitError
from syncverify.torch.graphs import replace
from syncverify.torch.partition import Found
from syncverify.torch.region import value_of
from syncverify.torch.report import Region
from syncverify.torch.runners import GateRunner, RefusedError, Runner
from syncverify.torch.torch_nodes import TorchNodes


@dataclass(frozen=True, eq=False)
class Candidate:
    """A group that may become an operator called ``name``.

    ``key``: what has the same nodes and arguments has the same.
    """

    found: Found
    arguments: tuple[Node, ...]
    key: str
    name: str
    region: Region
    device: torch.device

    def torch_nodes(self) -> TorchNodes:
        """What its operator runs where there is no kernel."""
        return TorchNodes.of(self.found.group.nodes, self.arguments, self.found.translation.outputs)

    def put_into(
        self, graph: Graph, op: Any, moved: dict[Node, Node], copies: Mapping[Node, Node] | None = None
    ) -> None:
        """Puts its operator into the graph; see ``graphs.replace``."""
        t = self.found.translation
        replace(graph, list(self.found.group.nodes), self.arguments, t.outputs, op, moved, copies)


def candidate(found: Found, runner: Runner) -> Candidate:
    t, group = found.translation, found.group
    needed = dict.fromkeys(a for n in group.nodes for a in n.all_input_nodes)
    arguments = tuple(a for a in needed if a not in group.nodes)
    key = operators.identity(group.nodes, arguments, t.outputs, runner)
    name = operators.name_of(t.fusion.name, key, runner)
    device = value_of(t.outputs[0]).device
    return Candidate(found, arguments, key, name, region_of(found), device)


def region_of(found: Found) -> Region:
    """What a report says of a group."""
    t = found.translation
    return Region(
        t.fusion.name, "fusion" if t.problem is None else "product",
        tuple(operation(n) for n in found.group.operations), tuple(n.name for n in t.inputs),
        tuple(n.name for n in t.outputs), {d: str(s) for d, s in t.extents.items()},
    )  # fmt: skip


def operation(node: Node) -> str:
    return str(getattr(node.target, "__name__", node.target))


def _kernels(candidates: Sequence[Candidate], runner: Runner) -> dict[torch.device, dict[str, Any]]:
    """What has to be proved for candidates, by device and name: each kernel with the sizes at hand, once."""
    kernels: dict[torch.device, dict[str, Any]] = {}
    for c in candidates:
        own = kernels.setdefault(c.device, {})
        if c.name not in own and operators.known(c.name, runner) is None and not runner.why_not(c.device):
            t = c.found.translation
            with contextlib.suppress(UnfitError):
                hint = shapes_of(t, c.arguments).hint
                if 0 not in hint.values():
                    own[c.name] = t.problem or t.fusion, hint
    return kernels


def begin_proofs(candidates: Sequence[Candidate], runner: Runner) -> None:
    """Begins to prove the kernels of candidates side by side, where the runner can; see ``Provers.start``."""
    ahead = getattr(runner, "ahead", None)
    if ahead is None:
        return
    worth: dict[str, float] = {}
    for c in candidates:
        worth[c.name] = worth.get(c.name, 0.0) + c.region.worth
    for device, kernels in _kernels(candidates, runner).items():
        ahead(list(kernels.values()), device, [worth[name] for name in kernels])


def asked(candidates: Sequence[Candidate], runner: Runner) -> list[tuple[Any, float]]:
    """What workers are asked to prove for candidates that were missed, where the runner has workers, and what
    each of these kernels may gain."""
    found = getattr(runner, "asked", None)
    if found is None:
        return []
    gains: dict[str, float] = {}
    for c in candidates:
        gains[c.name] = gains.get(c.name, 0.0) + c.region.missed
    kernels = _kernels(candidates, runner).items()
    return [
        (one, gains[name])
        for device, own in kernels
        for name, one in zip(own, found(list(own.values()), device), strict=True)
    ]


def prove_ahead(candidates: Sequence[Candidate], runner: Runner, seconds: float = math.inf) -> set[str]:
    """Proves the kernels of candidates side by side, where the runner can; one that fails says so later.

    The names of those that are not proved, or given up, after some seconds.
    """
    begin_proofs(candidates, runner)
    settled = getattr(runner, "settled", None)
    late: set[str] = set()
    if settled is not None:
        until = time.monotonic() + seconds
        for device, kernels in _kernels(candidates, runner).items():
            left = max(0.0, until - time.monotonic())
            found = settled(list(kernels.values()), device, left)
            late |= {name for name, done in zip(kernels, found, strict=True) if not done}
    return late


def proved_since(candidates: Sequence[Candidate], runner: Runner) -> list[Candidate]:
    """Of candidates whose proofs were not there in time, those that are proved by now."""
    left = prove_ahead(candidates, runner, 0.0) if candidates else set()
    return [c for c in candidates if c.name not in left]


def fit(c: Candidate, runner: Runner) -> bool:
    """True; RefusedError or UnfitError where no kernel can be."""
    operators.kinds_of(c.arguments)
    reason = runner.why_not(c.device)
    if reason:
        raise RefusedError(reason)
    return True


def operator_of(c: Candidate, runner: Runner) -> Any:
    """The operator of a candidate; RefusedError or UnfitError where there is none."""
    op = operators.known(c.name, runner)
    if op is None:
        return _made(c, runner)
    c.region.status = operators.fused_of(c.name).region.status
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
    called, kinds = called_of(t), operators.kinds_of(c.arguments)
    fused = Fused(called, c.torch_nodes(), kernel, shapes, inputs, c.region)
    if shapes.static and isinstance(runner, GateRunner):
        kept.keep(c.name, kept.Kept.of(fused, kinds, c.device, runner))
    return operators.make(c.name, fused, kinds, runner)


__all__ = [
    "Candidate",
    "asked",
    "begin_proofs",
    "candidate",
    "fit",
    "operation",
    "operator_of",
    "prove_ahead",
    "proved_since",
    "region_of",
]
