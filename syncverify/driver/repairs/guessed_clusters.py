"""Edits of a CUDA text that concern the blocks of a cluster: ranks, masks, scopes, and where blocks meet.

Each edit is tried; it counts if the kernel is proved with it. Worked example. Each block reads what the other
wrote to its own shared memory, behind ``__syncthreads();``: that holds the threads of one block together, and
``cluster.sync();`` in its place those of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from syncverify.base.diagnostics import Mistake, Repair, TextEdit
from syncverify.base.source import Span
from syncverify.driver.repairs.author_functions import barrier_calls
from syncverify.driver.repairs.author_statements import (
    Lines,
    cluster_barriers,
    indent_of,
    is_one_statement,
    last_operand,
    unguarded,
)
from syncverify.driver.repairs.guessed_lines import guess, nearest

_ARRIVAL = re.compile(
    r"(?P<object>[\w.]+(?:\[[^][]*\])?)\.\w*arrive\w*\(\s*\);$"
    r"|\b\w*arrive\w*\(\s*&?(?P<pointer>[\w.\[\]%+ ]+)\);$"
)
#: Operations without a scope, and with that of the cluster.
_CLUSTER_SCOPES = (
    (re.compile(r"((?:try|test)_wait\.parity)\.(?=shared)"), r"\g<1>.acquire.cluster."),
    (re.compile(r"(mbarrier\.arrive)\.(?=shared::cluster)"), r"\g<1>.release.cluster."),
    (re.compile(r"((?:acquire|release))\.cta\b"), r"\g<1>.cluster"),
)
#: Arrivals, and copies for several blocks: their masks.
_REMOTE = re.compile(
    r"(?:arrive|release|map_shared_rank|mapa)\w*\s*\([^()]*,|\.\w*(?:arrive|release)\w*\(\s*\w", re.I
)
_CALLED = re.compile(r"\b(\w+)\s*\(")
#: A variable that chooses one of several barriers: it may choose the block, too.
_INDEX = re.compile(r"\[\s*([A-Za-z_]\w*)\s*\]")
_MULTICAST = re.compile(r"cast\w*\s*\(", re.I)
_MASKS = ("0x3", "0xf")
_RANKS = ("threadIdx.x % 32", "0", "1")
#: Guesses at ranks and masks.
MOST_RANKS = 5
#: Barriers of a block that are tried as barriers of the cluster.
_MOST_MEETINGS = 2
_OF_BLOCK = re.compile(r"__syncthreads\(\);|(?:\w+\.|\w+::)?(?:block|cta)\w*\.sync\(\);")


def of_clusters(text: Lines) -> bool:
    """Whether a text, or its headers, says anything of clusters."""
    return any("cluster" in line for line in (*text.lines, *text.headers))


def scopes(file: str, text: Lines) -> Iterator[Repair]:
    """Operations on mbarriers whose assembly does not say that they are for the whole cluster."""
    for n in range(1, len(text.lines) + 1):
        line = text.lines[n - 1]
        for bare, whole in _CLUSTER_SCOPES:
            if bare.search(line):
                said = "at cluster scope, as the other end"
                yield guess(Mistake.SCOPE, Span(file, n), said, text, bare.sub(whole, line))


def ranks(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Operations on another block of a cluster: other ranks as their last operand."""
    if not of_clusters(text):
        return
    remote = {f.name for f in text.functions() if "mapa" in f.body}
    for n in nearest(text, places):
        code = text.code(n)
        spot = last_operand(code, text.kind)
        if spot is None or not is_one_statement(code) or '"' in code or "expect" in code:
            continue
        start, end = spot
        own = code[start:end]
        if _MULTICAST.search(code):
            mistake, what, others = Mistake.BYTES, "mask", list(_MASKS)
        elif _REMOTE.search(code) or remote & {*_CALLED.findall(code)}:
            mistake, what = Mistake.OTHER_BARRIER, "rank"
            others = [*_INDEX.findall(code), *(["0"] if "== 0" in code else []), *_RANKS, f"({own}) ^ 1"]
        else:
            continue
        for other in dict.fromkeys(others):
            if other != own:
                new = code[:start] + other + code[end:]
                yield guess(mistake, Span(file, n), f"{what} {other} is meant here", text, new)


def arrivals_elsewhere(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Arrivals of a block on its own mbarrier: on that of each block instead."""
    for n in dict.fromkeys(places):
        code = text.code(n)
        here = _ARRIVAL.search(code)
        if here is None or not is_one_statement(code):
            continue
        at = here["object"] or here["pointer"]
        for rank in ("threadIdx.x % 32", "0"):
            for call in barrier_calls(text.functions(), "mbarrier.arrive", at, rank, remote=True):
                new = code[: here.start()] + call
                yield guess(Mistake.OTHER_BARRIER, Span(file, n), "arrive in other blocks, too", text, new)


def meetings(file: str, text: Lines, places: list[int]) -> Iterator[Repair]:
    """Barriers of the cluster: in the place of one of the block, or before the statement of a place."""
    met = next(cluster_barriers(text), "") if of_clusters(text) else ""
    if not met:
        return
    blocks = (n for n in nearest(text, places) if _OF_BLOCK.fullmatch(unguarded(text.code(n))))
    for n in islice(blocks, _MOST_MEETINGS):
        said = "a barrier of the whole cluster is meant: the blocks read what others write"
        yield guess(Mistake.MISSING_BARRIER, Span(file, n), said, text, indent_of(text.lines[n - 1]) + met)
    for n in places[:1]:
        outermost = [(n, n), *text.blocks(n)][-1][0]
        edit = TextEdit(file, outermost, (), (indent_of(text.lines[outermost - 1]) + met,))
        said = "a barrier of the cluster before this: the blocks read what others write"
        yield Repair(Mistake.MISSING_BARRIER, Span(file, outermost), said, edit=edit)


__all__ = ["MOST_RANKS", "arrivals_elsewhere", "meetings", "of_clusters", "ranks", "scopes"]
