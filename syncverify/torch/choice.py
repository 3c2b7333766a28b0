"""Which regions become kernels: those with which their context is faster than as Inductor compiles it.

A context (``context.py``) is timed as a whole, in alternation: with Inductor's code for all of it, and with
kernels for some of its regions. What was found is remembered on disk by the context's nodes and arguments,
the card and the versions.
"""

from __future__ import annotations

import json
import logging
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch.fx import Graph, GraphModule

from syncverify.base.cache_dir import Store, default_root, digest
from syncverify.codegen.cache import tool_fingerprint
from syncverify.torch.deferred import deferred
from syncverify.torch.dims import UnfitError
from syncverify.torch.region import Group, factors, outputs_of, size_of, value_of

log = logging.getLogger("syncverify.torch")

#: Kernels that are faster than Inductor's code, all, or none.
FASTER, ALWAYS, NEVER = "faster", "always", "never"
CHOICES = (FASTER, ALWAYS, NEVER)
#: Calls before the first that is timed, and those of which the median counts.
_WARM, _TIMED = 3, 15
#: Bytes that are written between two calls, so that neither finds its data in a cache.
_FLUSHED = 1 << 28
#: Clock ticks for which the GPU waits before a call, so that the host has queued all of it: 0.5 ms.
_AHEAD = 1_000_000
#: The time of a product by that of torch's, at best.
_BEST_PRODUCT = 0.94
#: Microseconds that a kernel takes beside its traffic, at least.
_LAUNCH = 2.0
#: The part of the time of copied bytes that those save for which nothing is written.
_ONLY_READ = 0.08
#: What a kernel has to gain, as a part of its context's time: less is within the noise.
_GAIN = 0.01
#: What a kernel may lose beside a library's call: two rounds of one call differ by as much.
_AS_FAST = 0.005
#: Bytes that are copied to see how fast memory is.
_COPIED = 1 << 28

#: What failed, as far as the log has it.
_WARNED: set[str] = set()

Run = Callable[[Sequence[Any]], Any]


class SlowerError(Exception):
    """Inductor's code for a region is faster than its kernel, or cannot be timed."""


@dataclass(frozen=True)
class Times:
    """Microseconds of a context: as Inductor compiles it, and with kernels for some of its regions.

    ``others``: by the places of these regions among the context's, joined by commas. ``least``: what it is
    not below with any kernels. ``library``: Inductor calls a library for all of it. A kernel in the place of
    that call changes nothing around it, so that one is enough that is as fast. ``without``: by place, why a
    region has no kernel in any of the others.
    """

    inductor: float
    least: float = 0.0
    others: dict[str, float] = field(default_factory=dict)
    library: bool = False
    without: dict[int, str] = field(default_factory=dict)

    @property
    def _best(self) -> str:
        return min(self.others, key=self.others.__getitem__, default="")

    @property
    def taken(self) -> tuple[int, ...]:
        """The places of the regions that become kernels."""
        best, gain = self._best, -_AS_FAST if self.library else _GAIN
        if not best or self.others[best] > (1 - gain) * self.inductor:
            return ()
        return tuple(map(int, best.split(",")))

    @property
    def saved(self) -> float:
        """Microseconds that the context gains by the regions that become kernels."""
        return self.inductor - self.others[self._best] if self.taken else 0.0

    @property
    def hopeless(self) -> bool:
        return self.least > (1 - _GAIN) * self.inductor

    def summary(self, place: int) -> str:
        """What was found of a region."""
        code = f"{self.inductor:.1f} us of Inductor's code"
        mine = {k: us for k, us in self.others.items() if str(place) in k.split(",")}
        if not mine:
            return f"{self.least:.1f} us at least, {code}"
        where = " with other kernels" if "," in min(mine, key=mine.__getitem__) else ""
        return f"{min(mine.values()):.1f} us in its context{where}, {code}"


def arms(count: int) -> list[tuple[int, ...]]:
    """The sets of regions that are tried in a context of so many: all, and each alone."""
    every = tuple(range(count))
    return [every, *([(k,) for k in every] if count > 1 else [])]


def templates() -> bool:
    """Whether Inductor makes products itself: then products alone are tried, timed with what follows them."""
    from torch._inductor import config

    return bool(config.max_autotune or config.max_autotune_gemm)


def modes() -> str:
    """The settings of Inductor that change its code's times."""
    from torch._inductor import config

    return f"{config.max_autotune} {config.max_autotune_gemm} {config.triton.cudagraphs}"


def name_of(arm: Sequence[int]) -> str:
    return ",".join(map(str, arm))


# ---------------------------------------------------------------- time


def compiled(nodes: GraphModule, arguments: Sequence[Any], device: torch.device) -> Run:
    """What Inductor makes of nodes alone, for arguments that look like these; SlowerError.

    Its kernels may still be compiled by other processes: the first call waits for them.
    """
    from torch._guards import TracingContext, tracing
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._subclasses.fake_tensor import FakeTensorMode

    with real(device):
        mode = FakeTensorMode()
        with mode:
            fakes = [_fake(x) for x in arguments]
        with tracing(TracingContext(mode)):
            with mode:
                graph = _copied(nodes) if _is_plain(nodes) else _traced(nodes, fakes)
            # what waits for its kernels is not whole yet, and goes into no cache
            with deferred() as pending, config.patch(fx_graph_cache=False):
                run: Any = compile_fx_inner(graph, fakes, cudagraphs=False)

    def call(given: Sequence[Any]) -> Any:
        pending()
        return run(list(given))

    return call


def _is_plain(nodes: GraphModule) -> bool:
    """Whether nodes are what Inductor compiles: sizes are numbers, no operator has to be taken apart."""
    from syncverify.torch.losses import PLAIN

    if any(n.target in PLAIN or n.op == "get_attr" for n in nodes.graph.nodes):
        return False
    return all(_has_numbers(n.meta.get("val")) for n in nodes.graph.nodes if n.op != "output")


def _has_numbers(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_has_numbers, value))
    return isinstance(value, torch.Tensor) and all(
        isinstance(n, int) for n in (*value.shape, *value.stride())
    )


def _copied(nodes: GraphModule) -> GraphModule:
    """The same nodes, which Inductor may change; it finds out again what they compute for its arguments."""
    graph = Graph()
    graph.output(graph.graph_copy(nodes.graph, {}))
    return GraphModule(nodes, graph)


def _traced(nodes: GraphModule, fakes: Sequence[Any]) -> Any:
    """The nodes for these arguments, with numbers for sizes, and losses as plain nodes."""
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx

    from syncverify.torch.losses import PLAIN

    return make_fx(nodes, decomposition_table={**select_decomp_table(), **PLAIN})(*fakes)


def timed(runs: Sequence[Run], arguments: Sequence[Any], device: torch.device) -> list[float]:
    """Microseconds of each, in alternation, for arguments that look like these; SlowerError.

    What the host needs for a call beyond the first one's counts, too, unless a CUDA graph saves it.
    """
    from torch._inductor import config

    with real(device):
        given = [_example(x) for x in arguments]
        found = _medians([lambda run=run: run(given) for run in runs], device)  # type: ignore[misc]
    if config.triton.cudagraphs:
        return [own for own, _ in found]
    return [own + max(0.0, host - found[0][1]) for own, host in found]


@contextmanager
def real(device: torch.device) -> Iterator[None]:
    """Tensors with elements, in the middle of a compilation; the caller's random numbers stay as they are.

    Raises SlowerError where something goes wrong, such as too little memory; the log says it once.
    """
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    devices = [device] if device.type == "cuda" else []
    try:
        with (
            unset_fake_temporarily(), torch.no_grad(), torch._C._DisablePythonDispatcher(),
            torch.random.fork_rng(devices),
        ):  # fmt: skip
            yield
    except (SlowerError, UnfitError):
        raise
    except Exception as e:  # of Inductor, its compilers and the GPU, whatever they raise
        warn(f"kernels cannot be timed beside Inductor's code: {type(e).__name__}: {e}")
        raise SlowerError(f"it could not be timed: {type(e).__name__}: {e}") from e


def warn(reason: str) -> None:
    """Says once what failed, so that Inductor's code stays; numbers alone make no other reason."""
    kind = re.sub(r"\d+", "N", reason.partition("\n")[0])
    if kind not in _WARNED:
        _WARNED.add(kind)
        log.warning("%s. Inductor's code stays (said once; the backend's report has each region)", reason)


def least_of(group: Group, device: torch.device) -> float:
    """What no kernel of a group is below: its tensors through memory once, and torch's products alone."""
    read, written = (sum(map(size_of, some)) for some in (group.leaves, outputs_of(group)))
    moved = read + written - _ONLY_READ * max(0, read - written)
    products, traffic = 0.0, moved / bytes_per_us(device)
    with real(device):
        for product in group.products:
            a, b = (_example(value_of(f)) for f in factors(product))
            products += _medians([lambda a=a, b=b: a @ b], device)[0][0]  # type: ignore[misc]
    return max(traffic + _LAUNCH, _BEST_PRODUCT * products)


def _fake(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return _number(x)
    size, stride = [_number(n) for n in x.shape], [_number(n) for n in x.stride()]
    return torch.empty_strided(size, stride, dtype=x.dtype, device=x.device)


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


def _medians(runs: Sequence[Callable[[], Any]], device: torch.device) -> list[tuple[float, float]]:
    """Microseconds of calls, with nothing of them in caches, and those that the host needs for them."""
    for run in runs:
        for _ in range(_WARM):
            run()
    if device.type != "cuda":
        return [(statistics.median(_seconds(run) * 1e6 for _ in range(_TIMED)), 0.0) for run in runs]
    with torch.cuda.device(device):
        flushed = torch.empty(_FLUSHED, dtype=torch.int8, device=device)
        events = [[[_event() for _ in range(2)] for _ in range(_TIMED)] for _ in runs]
        hosts: list[list[float]] = [[] for _ in runs]
        for k in range(_TIMED):
            for run, own, host in zip(runs, events, hosts, strict=True):
                flushed.zero_()
                torch.cuda._sleep(_AHEAD)
                begin, end = own[k]
                begin.record()
                host.append(_seconds(run) * 1e6)
                end.record()
        torch.cuda.synchronize(device)
    taken = [statistics.median(float(b.elapsed_time(e)) * 1e3 for b, e in own) for own in events]
    return list(zip(taken, map(statistics.median, hosts), strict=True))


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)


def _seconds(run: Callable[[], Any]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


@lru_cache(maxsize=16)
def bytes_per_us(device: torch.device) -> float:
    """How much memory a copy reads and writes in a microsecond."""
    count = _COPIED if device.type == "cuda" else _COPIED >> 4
    with real(device):
        x, y = (torch.zeros(count, dtype=torch.int8, device=device) for _ in range(2))
        ((microseconds, _),) = _medians([lambda: y.copy_(x)], device)
    return float(2 * count) / microseconds


# ---------------------------------------------------------------- memory


def _store() -> Store:
    return Store(default_root() / "torch-choices")


def _file(key: str, device: torch.device) -> str:
    """A name for a context's times on one card, with these versions."""
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return digest(f"{key} {card} {modes()} {torch.__version__} {tool_fingerprint()}") + ".json"


#: What was found in this process, by the names of files.
_FOUND: dict[str, Times] = {}


def remember(key: str, device: torch.device, times: Times, *, on_disk: bool = True) -> None:
    """Keeps what was found for a context, in this process and for others."""
    file = _file(key, device)
    _FOUND[file] = times
    if on_disk:
        _store().write(file, json.dumps(asdict(times)).encode())


def remembered(key: str, device: torch.device) -> Times | None:
    """What was found for a context on such a card, or None."""
    file = _file(key, device)
    if file in _FOUND:
        return _FOUND[file]
    data = _store().read(file)
    if data is None:
        return None
    try:
        found = json.loads(data)
        others = {str(k): float(us) for k, us in found["others"].items()}
        library = bool(found["library"])
        times = Times(float(found["inductor"]), float(found["least"]), others, library)
        _ = times.taken
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        warn(f"times of a context cannot be read from {file}, and are taken again: {e!r}")
        return None
    _FOUND[file] = times
    return times


__all__ = [
    "ALWAYS", "CHOICES", "FASTER", "NEVER", "Run", "SlowerError", "Times", "arms", "bytes_per_us", "compiled",
    "least_of", "modes", "name_of", "remember", "remembered", "templates", "timed", "warn",
]  # fmt: skip
