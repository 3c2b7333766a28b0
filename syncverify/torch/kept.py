"""Operators on disk, so that a program of another process finds them without a graph.

AOTAutograd and Inductor keep what they compiled. In another process neither has a graph to compile then, and
nothing of this package sees the graph. The program asks for its operators by name, and they are made again
from here. Their kernels go through the gate as always, which finds its proofs on disk.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import threading
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx import Graph

from syncverify.base.cache_dir import Store, default_root, digest
from syncverify.base.diagnostics import Policy
from syncverify.codegen.cache import tool_fingerprint
from syncverify.torch import operators
from syncverify.torch.call import Called, Computed, Fused, fixed, prepare
from syncverify.torch.dims import UnfitError
from syncverify.torch.report import Region
from syncverify.torch.runners import GateRunner, RefusedError, shared_runner
from syncverify.torch.torch_nodes import TorchNodes

log = logging.getLogger("syncverify.torch")

#: The file whose content changes when the directory is made again: caches of others forget what was in it.
_AGE = "age"


@dataclass(frozen=True)
class Kept:
    """All that makes an operator again, whose sizes are numbers; ``kinds``: of its arguments."""

    called: Called
    nodes: TorchNodes
    dims: tuple[str, ...]
    computed: Computed
    hint: dict[str, int]
    strided: tuple[bool, ...]
    inputs: tuple[int, ...]
    region: Region
    kinds: tuple[str, ...]
    device: torch.device
    policy: Policy
    proof_seconds: float

    @staticmethod
    def of(fused: Fused, kinds: Sequence[str], device: torch.device, runner: GateRunner) -> Kept:
        """Of an operator of this process."""
        shapes = fused.shapes
        return Kept(
            fused.called, fused.nodes, shapes.dims, shapes.compute(()), shapes.hint, shapes.strided,
            fused.inputs, fused.region, tuple(kinds), device, runner.policy, runner.proof_seconds,
        )  # fmt: skip

    def make(self, name: str) -> None:
        """Registers the operator in this process."""
        runner = shared_runner(self.policy, self.proof_seconds)
        shapes = fixed(self.dims, self.computed, self.hint, self.strided)
        problem = self.called.problem
        kernel = runner.fusion(self.called.fusion) if problem is None else runner.product(problem)
        with contextlib.suppress(RefusedError):  # each call says so, and runs the nodes
            prepare(kernel, shapes, self.device, self.region)
        fused = Fused(self.called, self.nodes, kernel, shapes, self.inputs, self.region)
        operators.make(name, fused, self.kinds, runner)


def store() -> Store:
    """Where operators are kept."""
    return Store(default_root() / "torch-operators")


def _file(name: str) -> str:
    return f"{name}-{tool_fingerprint()[:16]}.operator"


def keep(name: str, kept: Kept) -> None:
    """Writes an operator down; UnfitError where another process could not read it."""
    try:
        data = pickle.dumps(kept)
    except Exception as e:  # of a class that says by many kinds of errors that it is not written
        raise UnfitError(f"an operator that cannot be kept: {e}") from e
    store().write(_file(name), data)


#: One thread at a time makes operators again.
_LOCK = threading.RLock()


def make_again(name: str) -> None:
    """Makes an operator that is on disk, and that this process has not made."""
    if operators.begun(name):  # who makes it asks for it, and waits for no other thread
        return
    with _LOCK:
        if operators.begun(name):
            return
        data = store().read(_file(name))
        if data is not None:
            log.info("%s is made again", name)
            pickle.loads(data).make(name)


operators.makers.append(make_again)


class _CacheIdentity(CustomGraphPass):  # type: ignore[misc]
    """A pass that leaves a graph as it is; caches know it by an identity."""

    def __init__(self, identity: str) -> None:
        self._identity = identity

    def __call__(self, graph: Graph) -> None:
        """Nothing is changed."""

    def uuid(self) -> Any:
        return self._identity


def cache_identity(settings: str) -> CustomGraphPass | None:
    """A pass that tells caches of a backend's settings, and of the age of operators on disk.

    None where no operator can be kept.
    """
    kept = store()
    if kept.read(_AGE) is None:
        kept.write(_AGE, uuid.uuid4().hex.encode())
    age = kept.read(_AGE)
    return None if age is None else _CacheIdentity(digest(f"{settings} {age.decode()} {tool_fingerprint()}"))


def graph_key(identity: CustomGraphPass, graph: str) -> str:
    """What tells a graph, compiled with some settings, from others."""
    return digest(f"{identity.uuid()} {graph}")


def compiled_before(identity: CustomGraphPass, graph: str) -> bool:
    """Whether a process has compiled this graph, so that caches probably have it; from now on one has."""
    name = graph_key(identity, graph) + ".graph"
    found = store().read(name) is not None
    if not found:
        store().write(name, b"")
    return found


__all__ = ["Kept", "cache_identity", "compiled_before", "graph_key", "keep", "make_again", "store"]
