"""Kernels of one block whose loops with barriers turn as sizes say, and that exchange words of shared and of
global memory: where two threads meet, between the same two barriers, at given sizes.

Statements, and their execution thread by thread, are those of ``test_places_between_barriers.py``. That
judges what is claimed of places; here the verdict of the whole check is judged, with open sizes. A kernel is
``wrong`` where, at some sizes that are not below 0, threads come to other barriers than others do, or two of
them access one word of shared memory between the same barriers, one by a store. A load and a store that meet
in a word of global memory have a line in the report. Two stores that do are left out here, and judged by
``test_stores_judged.py``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations, product

from tests.frontends.ptx.analysis.barriers import test_places_between_barriers as places
from tests.frontends.ptx.analysis.barriers.test_places_between_barriers import Statement, Term

SIZES = (0, 1, 2, 3, 5, 8, 9, 17)
FACTS = {"kernel": {"k": {"grid": [1, 1, 1], "block": [places.THREADS, 1, 1], "dynamic_smem": 65536}}}


def _place(draw: random.Random, turn: str | None) -> Term:
    """A place: near the thread's own, in its row, or of the turn."""
    own: list[Term] = ["t", "t", ("+", "t", 1), ("-", 7, "t"), ("^", "t", 1), ("&", "t", 3), ("*", "t", 2)]
    own += [("+", ("*", "t", 2), 1), ("+", "t", 8), ("+", "t", "r"), ("+", ("*", "t", "r"), 0), 0]
    if turn is not None:
        own += [("+", "t", ("*", 8, ("&", turn, 1))), ("+", ("*", "t", 2), ("&", turn, 1)), turn]
        own += [("+", ("^", "t", 1), ("*", 8, ("&", turn, 1))), ("+", "t", ("*", 8, turn))]
        own += [("+", ("^", "t", 1), ("*", 8, turn)), ("+", ("*", "t", "n"), turn)]
    return draw.choice(own)


def _body(draw: random.Random, turn: str | None, depth: int) -> list[Statement]:
    found: list[Statement] = []
    for _ in range(draw.randint(2, 4)):
        how = draw.random()
        if how < 0.22 and depth:
            inner = _body(draw, "ij"[depth - 1], depth - 1)
            bound = draw.choice(["n", "n", "r", ("+", "n", 1), 3])
            found.append(
                ("for", "ij"[depth - 1], draw.choice([0, 0, 1]), bound, draw.choice([1, 1, 2]), inner)
            )
        elif how < 0.27 and depth:
            asked = draw.choice([("gt", "n", 2), ("lt", "r", "n"), ("eq", "r", 0), ("lt", "t", 6)])
            found.append(("when", asked, _body(draw, turn, depth - 1)))
        elif how < 0.55:
            found.append(("bar",))
        else:
            guards = [None, None, None, None, ("eq", "t", 0), ("lt", "t", "r"), ("gt", "n", 1)]
            op = draw.choice(["st", "ld", "st.global", "ld.global"])
            found.append((op, _place(draw, turn), draw.choice(guards)))
    return found


def drawn(seed: int) -> list[Statement]:
    draw = random.Random(seed)
    bars: list[Statement] = [("bar",)]
    found = _body(draw, None, 2)
    while not any(s[0] == "for" for s in found):
        found.append(("for", "j", 0, "n", 1, _body(draw, "j", 1) + bars * (draw.random() < 0.6)))
    return found


def text(statements: Sequence[Statement]) -> str:
    return places.written(statements, reaches_global=True)


def judged(statements: Sequence[Statement]) -> tuple[str, set[tuple[int, int]]]:
    """``wrong`` by shared memory or barriers, else ``right``; and the lines of a store and a load by which
    threads meet in a word of global memory."""
    codes, lines = list(places._codes(statements)), _lines(statements)
    pairs = set[tuple[int, int]]()
    for n, r in product(SIZES, SIZES):
        threads = [places._Thread(t, n, r) for t in range(places.THREADS)]
        try:
            for thread in threads:
                thread.run(statements, 0)
        except places._StoppedError:
            continue
        if any(thread.met != threads[0].met for thread in threads):
            return "wrong", set()
        at: dict[tuple[int, str, int], set[tuple[int, int]]] = {}
        for thread in threads:
            for interval, site, place in thread.found:
                space = codes[site].partition(".")[2]
                at.setdefault((interval, space, place), set()).add((thread.names["t"], site))
        for (_, space, _), here in at.items():
            for (t, a), (u, b) in combinations(sorted(here), 2):
                if t == u or "st" not in (codes[a][:2], codes[b][:2]):
                    continue
                if space == "":
                    return "wrong", set()
                if codes[a] != codes[b]:
                    first, second = sorted((a, b), key=lambda x: codes[x][:2] != "st")
                    pairs.add((lines[first], lines[second]))
    return "right", pairs


def _lines(statements: Sequence[Statement]) -> list[int]:
    """The line of each access."""
    found = []
    for number, line in enumerate(text(statements).splitlines(), 1):
        found += [number] * line.startswith(("st.", "ld.shared", "ld.global"))
    return found


def unsaid(pairs: set[tuple[int, int]], assumptions: Sequence[str]) -> bool:
    """Whether threads exchange words of global memory, and no assumption says that none does. It names the
    first store and the first load of a parameter."""
    return bool(pairs) and not any("no other thread reads" in a for a in assumptions)
