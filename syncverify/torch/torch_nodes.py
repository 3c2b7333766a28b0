"""The nodes of a group as a function of torch, which is made when it is first called.

Few calls need it: where there is no kernel for the sizes at hand. A module of a graph takes milliseconds to
write, and as many to read back from disk, for each of some dozen operators of a model.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

import torch
from torch.fx import GraphModule, Node

from syncverify.torch.context import copied


@contextmanager
def without_autocast(given: Iterable[Any]) -> Iterator[None]:
    """Functions of such tensors compute in the types that they are given."""
    kinds = {x.device.type for x in given if isinstance(x, torch.Tensor)}
    with ExitStack() as left:
        for kind in filter(torch.amp.is_autocast_available, kinds):
            left.enter_context(torch.autocast(kind, enabled=False))
        yield


class TorchNodes:
    """Some nodes as a module. ``takes``: the number of its arguments."""

    def __init__(self, make: Callable[[], GraphModule], takes: int) -> None:
        self._make = make
        self.takes = takes

    @staticmethod
    def of(nodes: Iterable[Node], arguments: Sequence[Node], outputs: Sequence[Node]) -> TorchNodes:
        """A copy of nodes of a graph as they are now, which call functions only."""
        graph, _ = copied(nodes, arguments, outputs)
        return TorchNodes(lambda: GraphModule(torch.nn.Module(), graph), len(arguments))

    @staticmethod
    def read(data: bytes, takes: int) -> TorchNodes:
        """Of another process."""
        return TorchNodes(lambda: pickle.loads(data), takes)

    @cached_property
    def module(self) -> GraphModule:
        return self._make()

    def __call__(self, *given: Any) -> Any:
        with without_autocast(given):  # the nodes have every cast that there was
            return self.module(*given)

    def __reduce__(self) -> tuple[Any, ...]:
        return TorchNodes.read, (pickle.dumps(self.module), self.takes)


__all__ = ["TorchNodes", "without_autocast"]
