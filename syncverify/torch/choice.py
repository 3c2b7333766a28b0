"""Whether a region's kernel is faster than what Inductor makes of the same nodes: timed once, remembered.

A kernel also cuts its region off from its neighbours. What Inductor would have fused across the cut has to
go through memory, and this traffic counts against the kernel.
"""

from __future__ import annotations

import json
import logging
import statistics
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib import metadata
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from syncverify.base.cache_dir import Store, default_root, digest
from syncverify.torch.region import (
    Group,
    factors,
    is_constant,
    is_item,
    is_view,
    outputs_of,
    size_of,
    source_of,
    value_of,
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
#: The time of a product by that of torch's, at best.
_BEST_PRODUCT = 0.94
#: Bytes that are copied to see how fast memory is.
_COPIED = 1 << 28


class SlowerError(Exception):
    """Inductor's code for a region is faster than its kernel."""


@dataclass(frozen=True)
class Times:
    """Microseconds of a call: Inductor's code, what no kernel is below, and the kernel, once it is timed."""

    inductor: float
    least: float
    kernel: float | None = None


def check_faster(times: Times, cut: int, device: torch.device, region: Region) -> None:
    """Raises SlowerError where Inductor's code is faster; ``cut``: bytes, as in ``severed``."""
    traffic = cut / _bytes_per_us(device)
    kernel, bound = (times.least, " at least") if times.kernel is None else (times.kernel, "")
    found = (
        f"{kernel:.1f} us{bound} and {traffic:.1f} us of memory traffic at its borders, "
        f"{times.inductor:.1f} us of Inductor's code"
    )
    if kernel + traffic >= times.inductor:
        raise SlowerError(f"not faster: {found}")
    if times.kernel is not None:
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


def inductor_times(
    key: str, nodes: GraphModule, group: Group, arguments: Sequence[Node], device: torch.device
) -> Times:
    """Times Inductor's code for the nodes of the region ``key``; found once, and remembered."""
    found = _remembered(key, device)
    if found is None:
        with _real(device):
            given = [_example(a.meta["val"]) for a in arguments]
            inductor = _median(_compiled(nodes, given), device)
            found = Times(inductor, _least(group, device))
        _remember(key, device, found)
    return found


def with_kernel(
    key: str, times: Times, op: OpOverload, arguments: Sequence[Node], device: torch.device
) -> Times:
    """The same with the operator's own time."""
    found = _remembered(key, device) or times
    if found.kernel is None:
        with _real(device):
            given = [_example(a.meta["val"]) for a in arguments]
            found = replace(found, kernel=_median(lambda: op(*given), device))
        _remember(key, device, found)
    return found


@contextmanager
def _real(device: torch.device) -> Iterator[None]:
    """Tensors with elements, in the middle of a compilation; the caller's random numbers stay as they are.

    Raises SlowerError where something goes wrong, such as too little memory.
    """
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    devices = [device] if device.type == "cuda" else []
    try:
        with (
            unset_fake_temporarily(), torch.no_grad(), torch._C._DisablePythonDispatcher(),
            torch.random.fork_rng(devices),
        ):  # fmt: skip
            yield
    except RuntimeError as e:
        raise SlowerError(f"it could not be timed: {e}") from e


def _least(group: Group, device: torch.device) -> float:
    """What no kernel of a group is below: its tensors through memory once, and torch's products alone."""
    traffic = sum(map(size_of, (*group.leaves, *outputs_of(group)))) / _bytes_per_us(device)
    products = 0.0
    for product in group.products:
        a, b = (_example(value_of(f)) for f in factors(product))
        products += _median(lambda a=a, b=b: a @ b, device)  # type: ignore[misc]
    return max(traffic, _BEST_PRODUCT * products)


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
    return statistics.median(float(begin.elapsed_time(end)) for begin, end in pairs) * 1e3


@lru_cache(maxsize=16)
def _bytes_per_us(device: torch.device) -> float:
    """How much memory a copy reads and writes in a microsecond."""
    count = _COPIED if device.type == "cuda" else _COPIED >> 4
    with _real(device):
        x, y = (torch.zeros(count, dtype=torch.int8, device=device) for _ in range(2))
        microseconds: float = _median(lambda: y.copy_(x), device)
    return float(2 * count) / microseconds


# ---------------------------------------------------------------- memory


def _store() -> Store:
    return Store(default_root() / "torch-choices")


def _file(key: str, device: torch.device) -> str:
    """A name for an operator's times on one card, with these versions."""
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return digest(f"{key} {card} {torch.__version__} {_version()}") + ".json"


@lru_cache(maxsize=1)
def _version() -> str:
    try:
        return metadata.version("syncverify")
    except metadata.PackageNotFoundError:
        return "source"


#: What was found in this process, by the names of files.
_FOUND: dict[str, Times] = {}


def _remember(key: str, device: torch.device, times: Times) -> None:
    file = _file(key, device)
    _FOUND[file] = times
    _store().write(file, json.dumps(asdict(times)).encode())


def _remembered(key: str, device: torch.device) -> Times | None:
    """What was found for an operator on such a card, or None."""
    file = _file(key, device)
    if file in _FOUND:
        return _FOUND[file]
    data = _store().read(file)
    if data is None:
        return None
    try:
        found = json.loads(data)
        kernel = None if found["kernel"] is None else float(found["kernel"])
        return Times(float(found["inductor"]), float(found["least"]), kernel)
    except (ValueError, KeyError, TypeError):
        return None


__all__ = [
    "ALWAYS", "CHOICES", "FASTER", "NEVER", "SlowerError", "Times", "check_faster", "inductor_times",
    "severed", "with_kernel",
]  # fmt: skip
