"""Kernels that a graph's compilation did not try, as their proofs or the time for trials came too late.

Caches keep the program without them, and each later process gets it, at no cost. So these kernels are written
down by graph, with what they may save in each call at best, and what the graph's compilation took. A process
that has called the graph so often that they would have saved that much compiles it once more, at a later call
(``renewal.py``): from then on caches have the program with them. A process that ends before has lost nothing.
Example: a loss may save 0.3 ms of a forward pass that takes 11 s to compile. Its proof takes 12 s, trials end
after 2 s. The process that calls it for the 37,000th time compiles it again.

Until then processes prove what is left, beside their work.
"""

from __future__ import annotations

import atexit
import logging
import math
import pickle
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace

from syncverify.codegen.cache import tool_fingerprint
from syncverify.gate.ahead import Ahead, answered, provers
from syncverify.torch.kept import store

log = logging.getLogger("syncverify.torch")

#: Seconds after which late proofs begin in a process that found its graph in caches.
_PAUSE = 30.0
#: An answer that is still to come is asked for after so many times the calls.
_LONGER = 2.0


@dataclass(frozen=True)
class Late:
    """``generation``: how often a graph was compiled again; ``kernels``: those that were late since, and the
    microseconds that each may save in a call; ``seconds``: what its compilation took."""

    generation: int = 0
    kernels: tuple[tuple[Ahead, float], ...] = ()
    seconds: float = 0.0


def _file(graph: str) -> str:
    return f"{graph}-{tool_fingerprint()[:16]}.late"


def read(graph: str) -> Late:
    """What is known of a graph by its key (``kept.graph_key``)."""
    data = store().read(_file(graph))
    try:
        found = Late() if data is None else pickle.loads(data)
    except Exception as e:  # whatever a damaged file makes of itself
        log.warning("what is written down of late proofs cannot be read, and is written again: %r", e)
        return Late()
    return found if isinstance(found, Late) else Late()


def add(graph: str, kernels: Iterable[tuple[Ahead, float]], seconds: float) -> None:
    """Writes down that these kernels were late in one pass of a graph, which took so long to compile."""
    known = read(graph)
    late = {one.key: (one, saved) for one, saved in (*known.kernels, *kernels)}
    found = replace(known, kernels=tuple(late.values()), seconds=known.seconds + seconds)
    store().write(_file(graph), pickle.dumps(found))


def generation(graph: str) -> int:
    """The number that caches know a graph's programs by: a new one since it is compiled again.

    What has no answer yet is proved later in this process, if that still runs then.
    """
    known = read(graph)
    if left := [one for one, _ in known.kernels if answered(one) is None]:
        _begin_later(left)
    return known.generation


def calls_left(graph: str, calls: int) -> float:
    """After how many calls more it is worth to compile a graph again, which was called so often: 0 for now.

    Infinite where there is nothing to try. While proofs are still to come, it is asked for again later.
    """
    known = read(graph)
    proofs = [(answered(one), saved) for one, saved in known.kernels]
    possible = sum(saved for proved, saved in proofs if proved is not False)
    if not possible:
        return math.inf
    needed = known.seconds * 1e6 / possible
    if any(proved is None for proved, _ in proofs):
        needed = max(needed, _LONGER * calls)
    return max(0.0, math.ceil(needed) - calls)


def renew(graph: str) -> None:
    """Has the next compilation of a graph find nothing in caches, and try what was late."""
    log.info("kernels that were late are proved, and a graph is called often: it is compiled again")
    store().write(_file(graph), pickle.dumps(Late(read(graph).generation + 1)))


def _begin_later(kernels: list[Ahead]) -> None:
    """Begins to prove kernels after a pause; a process that ends before proves none."""
    later = threading.Timer(_PAUSE, provers().start, [kernels])
    later.daemon = True
    later.start()
    atexit.register(later.cancel)


__all__ = ["Late", "add", "calls_left", "generation", "read", "renew"]
