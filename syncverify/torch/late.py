"""Kernels whose proofs came too late for their graph: a later process tries them.

A compilation waits for proofs only so long, and caches keep what it made without the late ones. So these are
written down by graph. The next process finds no program in caches once all of them have an answer, one of
them a proof: it compiles the graph again, once, and tries them. Until then processes prove what is left,
beside their work. Example: a loss takes 12 s to prove, trials end after 2 s. The second process proves it
while it runs, and the third one uses it.
"""

from __future__ import annotations

import atexit
import logging
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


@dataclass(frozen=True)
class Late:
    """``generation``: how often a graph was compiled again; ``kernels``: those that were late since."""

    generation: int = 0
    kernels: tuple[Ahead, ...] = ()


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


def add(graph: str, kernels: Iterable[Ahead]) -> None:
    """Writes down that proofs of these kernels were late."""
    known = read(graph)
    late = {one.key: one for one in (*known.kernels, *kernels)}
    if len(late) > len(known.kernels):
        store().write(_file(graph), pickle.dumps(replace(known, kernels=tuple(late.values()))))


def generation(graph: str) -> int:
    """The number that caches know a graph's programs by: a new one where late proofs have come since.

    What has no answer yet is proved later in this process, if that still runs then.
    """
    known = read(graph)
    if not known.kernels:
        return known.generation
    answers = {one.key: answered(one) for one in known.kernels}
    if None in answers.values():
        _begin_later([one for one in known.kernels if answers[one.key] is None])
        return known.generation
    proved = any(answers.values())
    if proved:
        log.info("late proofs are there: the graph is compiled again")
    found = Late(known.generation + proved)
    store().write(_file(graph), pickle.dumps(found))
    return found.generation


def _begin_later(kernels: list[Ahead]) -> None:
    """Begins to prove kernels after a pause; a process that ends before proves none."""
    later = threading.Timer(_PAUSE, provers().start, [kernels])
    later.daemon = True
    later.start()
    atexit.register(later.cancel)


__all__ = ["Late", "add", "generation", "read"]
