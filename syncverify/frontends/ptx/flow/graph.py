"""Graphs of basic blocks: what is reached, dominators, natural loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Block:
    """A stretch ``lo..hi`` of instructions that is entered at its start and left at its end."""

    lo: int
    hi: int
    succ: list[int] = field(default_factory=list)
    pred: list[int] = field(default_factory=list)


def reached(blocks: Sequence[Block]) -> set[int]:
    seen: set[int] = set()
    work = [0] if blocks else []
    while work:
        b = work.pop()
        if b in seen or b >= len(blocks):
            continue
        seen.add(b)
        work += blocks[b].succ
    return seen


def with_exits(pred: Sequence[list[int]], succ: Sequence[list[int]], end: int) -> list[list[int]]:
    """Reversed edges; what no path leads out of is tied to the end, so that all have a post-dominator."""
    out = [list(p) for p in pred]
    reach: set[int] = set()
    work = [end]
    while work:
        b = work.pop()
        if b not in reach:
            reach.add(b)
            work += out[b]
    for b in reversed(range(end)):
        if b not in reach:
            out[end].append(b)
            work = [b]
            while work:
                x = work.pop()
                if x not in reach:
                    reach.add(x)
                    work += out[x]
    return out


def dominators(root: int, succ: Sequence[list[int]], pred: Sequence[list[int]]) -> list[int]:
    """Immediate dominators (Cooper, Harvey, Kennedy); -1 for what the root does not reach."""
    order: list[int] = []
    seen = {root}
    stack: list[tuple[int, Iterator[int]]] = [(root, iter(succ[root]))]
    while stack:
        b, rest = stack[-1]
        for s in rest:
            if s not in seen:
                seen.add(s)
                stack.append((s, iter(succ[s])))
                break
        else:
            order.append(b)
            stack.pop()
    rank = {b: i for i, b in enumerate(order)}
    idom = [-1] * len(succ)
    idom[root] = root
    into: list[list[int]] = [[] for _ in succ]
    for a, out in enumerate(succ):
        for b in out:
            into[b].append(a)
    changed = True
    while changed:
        changed = False
        for b in reversed(order[:-1]):
            new = -1
            for p in into[b]:
                if idom[p] < 0:
                    continue
                new = p if new < 0 else meet(p, new, idom, rank)
            if new != idom[b]:
                idom[b] = new
                changed = True
    return idom


def meet(a: int, b: int, idom: Sequence[int], rank: dict[int, int]) -> int:
    while a != b:
        while rank[a] < rank[b]:
            a = idom[a]
        while rank[b] < rank[a]:
            b = idom[b]
    return a


def loops(blocks: Sequence[Block], idom: Sequence[int]) -> list[frozenset[int]]:
    """Natural loops, those of one head joined, without code that nothing reaches."""
    found: dict[int, frozenset[int]] = {}
    for head, body in jumps_back(blocks, idom):
        found[head] = found.get(head, frozenset()) | body
    return [*found.values()]


def jumps_back(blocks: Sequence[Block], idom: Sequence[int]) -> list[tuple[int, frozenset[int]]]:
    """The head and the natural loop of each jump back."""
    alive = reached(blocks)
    found: list[tuple[int, frozenset[int]]] = []
    for b, block in enumerate(blocks):
        for head in block.succ:
            if head >= len(blocks) or not above(head, b, idom):
                continue
            body = {head}
            work = [b]
            while work:
                x = work.pop()
                if x not in body and x in alive:
                    body.add(x)
                    work += blocks[x].pred
            found.append((head, frozenset(body)))
    return found


def above(a: int, b: int, idom: Sequence[int]) -> bool:
    while b != a and b >= 0 and idom[b] != b:
        b = idom[b]
    return a == b
