"""Whether a region's kernel is faster than what Inductor makes of the same nodes: timed once, remembered.

A kernel also cuts its region off from its neighbours. What Inductor would have fused across the cut has to
go through memory, and this traffic counts against the kernel.
"""

from __future__ import annotations

import json
import logging
import statistics
import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import metadata
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from syncverify.base.cache_dir import Store, default_root, digest
from syncverify.torch.region import (
    Group,
    is_constant,
    is_item,
    is_view,
    outputs_of,
    size_of,
    source_of,
)
from syncverify.torch.report import Region

log = logging.getLogger("syncverify.torch")

#: Kernels that are faster than Inductor's code, all, or none.
FASTER, ALWAYS, NEVER = "faster", "always", "never"
CHOICES = (FASTER, ALWAYS, NEVER)
#: Calls before the first that is timed, and those of which the median counts.
_WARM, _TIMED = 3, 11
#: Bytes that are written between two calls, so that neither finds its data in a cache.
_FLUSHED = 1 << 29
#: Bytes that are copied to see how fast memory is.
_COPIED = 1 << 28


class SlowerError(Exception):
    """Inductor's code for a region is faster than its kernel."""


@dataclass(frozen=True)
class Times:
    """Microseconds of one call: the kernel, and Inductor's code."""

    kernel: float
    inductor: float


def check_faster(times: Times, cut: int, device: torch.device, region: Region) -> None:
    """Raises SlowerError where Inductor's code is faster; ``cut``: bytes, as in ``severed``."""
    traffic = cut / _bytes_per_us(device)
    found = (
        f"{times.kernel:.1f} us and {traffic:.1f} us of memory traffic at its borders, "
        f"{times.inductor:.1f} us of Inductor's code"
    )
    if times.kernel + traffic >= times.inductor:
        raise SlowerError(f"not faster: {found}")
    region.note(found)


# ---------------------------------------------------------------- what a cut costs


def severed(group: Group, others: Container[Node]) -> int:
    """Bytes that go through memory only because the region is a kernel of its own.

    A tensor that Inductor would make in the same loop is written and read for nothing; a result that it would
    read in the same loop is read once more. ``others``: nodes that will be in kernels of their own.
    """
    total = 0
    for leaf in group.leaves:
        source = source_of(leaf)
        if _fusible(source) and source not in group.nodes and source not in others:
            shared = any(u not in group.nodes and not is_view(u) for u in source.users)
            total += size_of(source) * (1 if shared else 2)
    for node in outputs_of(group):
        readers = [u for u in _readers([node]) if u not in group.nodes]
        joined = [_fusible(u) and u not in others for u in readers]
        total += size_of(node) * (2 if joined and all(joined) else 1 if any(joined) else 0)
    return total


def _readers(nodes: Iterable[Node]) -> Iterable[Node]:
    for node in nodes:
        for user in node.users:
            if is_view(user) or is_item(user):
                yield from _readers([user])
            else:
                yield user


#: Operators that end in a call of a library, or that Inductor does not fuse: their tensors are in memory.
_APART = (
    "mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward", "_scaled_mm", "_grouped_mm",
    "scatter", "index_put", "sort", "topk", "cumsum", "embedding_dense_backward", "copy_",
)  # fmt: skip


def _fusible(node: Node) -> bool:
    """Whether Inductor makes loops of a node, and so could fuse it with others."""
    if node.op != "call_function" or is_item(node) or is_constant(node) or is_view(node):
        return False
    target = node.target
    if not isinstance(target, OpOverload) or target.namespace not in ("aten", "prims"):
        return False
    name = target._schema.name.split("::")[1]
    return name not in _APART and "attention" not in name


# ---------------------------------------------------------------- time


def measured(
    name: str, op: OpOverload, nodes: GraphModule, arguments: Sequence[Node], device: torch.device
) -> Times:
    """Times an operator beside Inductor's code for its nodes, and remembers what it found."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    with unset_fake_temporarily(), torch.no_grad(), torch._C._DisablePythonDispatcher():
        given = [_example(a.meta["val"]) for a in arguments]
        ours = _median(lambda: op(*given), device)
        theirs = _median(_compiled(nodes, given), device)
    times = Times(ours, theirs)
    _store().write(_file(name, device), json.dumps(asdict(times)).encode())
    return times


def _example(x: Any) -> Any:
    """An argument of the same shape and strides; indices are 0."""
    from torch._dynamo.testing import rand_strided

    if not isinstance(x, torch.Tensor):
        return _number(x)
    size, stride = [_number(n) for n in x.shape], [_number(n) for n in x.stride()]
    if x.dtype.is_floating_point:
        return rand_strided(size, stride, x.dtype, x.device)
    return torch.empty_strided(size, stride, dtype=x.dtype, device=x.device).zero_()


def _number(x: Any) -> int:
    """An extent; of a symbol, that of the call that is compiled for."""
    node = getattr(x, "node", None)
    return int(x) if node is None else int(node.hint)


def _compiled(nodes: GraphModule, given: Sequence[Any]) -> Callable[[], Any]:
    """What Inductor makes of the nodes alone, for these arguments."""
    from torch._guards import TracingContext, tracing
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    from syncverify.torch.losses import PLAIN

    parts = make_fx(nodes, decomposition_table={**select_decomp_table(), **PLAIN})
    mode = FakeTensorMode()
    fakes = [mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in given]
    with tracing(TracingContext(mode)):
        with mode:
            graph = parts(*fakes)
        run: Any = compile_fx_inner(graph, fakes, cudagraphs=False)
    return lambda: run(list(given))


def _median(run: Callable[[], Any], device: torch.device) -> float:
    """Microseconds of a call, with nothing of it in caches."""
    for _ in range(_WARM):
        run()
    if device.type != "cuda":
        found = []
        for _ in range(_TIMED):
            began = time.perf_counter()
            run()
            found.append((time.perf_counter() - began) * 1e6)
        return statistics.median(found)
    with torch.cuda.device(device):
        flushed = torch.empty(_FLUSHED, dtype=torch.int8, device=device)
        pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(_TIMED)]
        for begin, end in pairs:
            flushed.zero_()  # takes longer than the host needs for the call
            begin.record()
            run()
            end.record()
        torch.cuda.synchronize(device)
    return statistics.median(begin.elapsed_time(end) for begin, end in pairs) * 1e3


@lru_cache(maxsize=16)
def _bytes_per_us(device: torch.device) -> float:
    """How much memory a copy reads and writes in a microsecond."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    count = _COPIED if device.type == "cuda" else _COPIED >> 4
    with unset_fake_temporarily(), torch.no_grad(), torch._C._DisablePythonDispatcher():
        x, y = (torch.zeros(count, dtype=torch.int8, device=device) for _ in range(2))
        microseconds = _median(lambda: y.copy_(x), device)
    return 2 * count / microseconds


# ---------------------------------------------------------------- memory


def _store() -> Store:
    return Store(default_root() / "torch-choices")


def _file(name: str, device: torch.device) -> str:
    """A name for an operator's times on one card, with these versions."""
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return digest(f"{name} {card} {torch.__version__} {_version()}") + ".json"


@lru_cache(maxsize=1)
def _version() -> str:
    try:
        return metadata.version("syncverify")
    except metadata.PackageNotFoundError:
        return "source"


def remembered(name: str, device: torch.device) -> Times | None:
    """What was found for an operator on such a card, or None."""
    data = _store().read(_file(name, device))
    if data is None:
        return None
    try:
        found = json.loads(data)
        return Times(float(found["kernel"]), float(found["inductor"]))
    except (ValueError, KeyError, TypeError):
        return None


__all__ = [
    "ALWAYS", "CHOICES", "FASTER", "NEVER", "SlowerError", "Times", "check_faster", "measured", "remembered",
    "severed",
]  # fmt: skip
