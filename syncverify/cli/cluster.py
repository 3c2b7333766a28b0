"""Work over the workers of a Dask cluster: the same results in the same order as on one machine.

Texts travel with the work, so workers need no files but those of CUDA sources. Dask begins the work of a
worker that died on another one; what has cost several workers their lives counts as lost. Only so much work
is handed out ahead of the result that is due next, which bounds the memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from syncverify import __version__
from syncverify.base.source import InputError
from syncverify.base.workers import one_of_many

Item = TypeVar("Item")
Result = TypeVar("Result")
#: Items handed out ahead of the next result: for each thread of the cluster, and besides.
AHEAD_OF_EACH, AHEAD = 4, 16
#: Seconds to find the scheduler, and its first worker.
SECONDS = 30.0


def over_cluster(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    address: str,
    lost: Callable[[Item, int | None], Result],
) -> Iterator[Result]:
    """The result for each item, in the items' order, from the cluster of the scheduler at ``address``.

    ``lost`` makes the result for an item that no worker survived. Raises InputError where there is no such
    scheduler, no worker, or a worker with another version.
    """
    distributed = _distributed()
    try:
        client = distributed.Client(address, timeout=SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as e:
        raise InputError(f"--dask {address}: no scheduler answers there: {e}") from None
    waiting: deque[Any] = deque()
    try:
        ahead = AHEAD_OF_EACH * _threads(client, address) + AHEAD
        rest = iter(items)
        for item in items:
            while len(waiting) < ahead and (further := next(rest, None)) is not None:
                waiting.append(client.submit(_served, work, further, pure=False))
            future = waiting.popleft()
            try:
                version, result = future.result()
            except distributed.KilledWorker:
                yield lost(item, None)
                continue
            if version != __version__:
                have = f"a worker has syncverify {version}, here is {__version__}"
                raise InputError(f"--dask {address}: {have}")
            yield result
    finally:
        client.cancel(list(waiting))
        client.close()


def _threads(client: Any, address: str) -> int:
    """How many threads work, once there is a worker at all."""
    try:
        client.wait_for_workers(1, timeout=SECONDS)
    except TimeoutError:
        raise InputError(f"--dask {address}: the scheduler has no worker") from None
    return sum(client.nthreads().values())


def _served(work: Callable[[Item], Result], item: Item) -> tuple[str, Result]:
    """One item's work in a worker, with the version that did it."""
    one_of_many()
    return __version__, work(item)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as e:
        raise InputError(f"{e.name or e} is missing: pip install '.[dask]' brings it") from None
    return distributed
