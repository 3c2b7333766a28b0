"""Random small event lists: protocols that are right, with up to two edits that may make them wrong."""

from __future__ import annotations

import random
from collections.abc import Callable

#: The operations of each agent of a program under construction.
Agents = list[list[str]]


def _ring(rng: random.Random) -> tuple[dict[str, int], Agents]:
    """A producer copies into one stage, consumers read it and hand it back."""
    laps, consumers = rng.choice([1, 2, 2]), rng.choice([1, 1, 2])
    producer: list[str] = []
    for i in range(laps):
        producer += [f"w(e,{(i + 1) % 2})"] if i else []
        producer += rng.choice(
            [["ax(f,8)", "c(f,8)"], ["e(f,8)", "a(f)", "c(f,8)"], ["e(f,8)", "c(f,8)", "a(f)"]]
        )
    readers = [[op for i in range(laps) for op in (f"w(f,{i % 2})", "ld", "a(e)")] for _ in range(consumers)]
    return {"f": 1, "e": consumers}, [producer, *readers]


def _pingpong(rng: random.Random) -> tuple[dict[str, int], Agents]:
    """Two agents write the same bytes in turns."""
    laps = rng.choice([1, 2])
    left = [op for i in range(laps) for op in ([f"w(q,{(i + 1) % 2})"] if i else []) + ["st", "a(p)"]]
    right = [op for i in range(laps) for op in (f"w(p,{i % 2})", rng.choice(["ld", "st"]), "a(q)")]
    return {"p": 1, "q": 1}, [left, right]


def _handover(rng: random.Random) -> tuple[dict[str, int], Agents]:
    """Writers, then one agent that reads or stores what they wrote."""
    writers = rng.choice([1, 2])
    fence = ["pf"]
    last = rng.choice([["ld"], ["s(x)", "sc", "sw.read(0)"], ["s(x)", "sc", "sw(0)", "st"]])
    if rng.random() < 0.5:
        lists = [[f"st(x[{16 * k}:{16 * k + 16}])", *fence, "a(b)"] for k in range(writers)]
        return {"b": writers}, [*lists, ["w(b,0)", *last]]
    n = 32 * (writers + 1)
    lists = [[f"st(x[{16 * k}:{16 * k + 16}])", *fence, f"bar(1,{n})"] for k in range(writers)]
    return {}, [*lists, [f"bar(1,{n})", *last]]


def _groups(rng: random.Random) -> tuple[dict[str, int], Agents]:
    """cp.async into shared memory, handed over by a group or by its own arrival."""
    way = rng.randrange(3)
    if way == 0:
        return {"b": 1}, [["g(x)", "gc", "gw(0)", "a(b)"], ["w(b,0)", "ld"]]
    if way == 1:
        return {"b": 1}, [["g(x)", "ga.noinc(b)"], ["w(b,0)", "ld"]]
    return {"b": 1}, [["g(x)", "ga(b)", "a(b)"], ["w(b,0)", "ld"]]


def _lifetime(rng: random.Random) -> tuple[dict[str, int], Agents]:
    """A barrier that lives between two meetings."""
    first = ["init(b,1)", "bar(1,64)", "w(b,0)", *rng.choice([["inval(b)"], ["ld", "inval(b)"], []])]
    return {}, [first, ["bar(1,64)", *rng.choice([["st"], []]), "a(b)"]]


def _symmetric(rng: random.Random) -> tuple[dict[str, int], Agents]:
    """Agents that arrive twice, kept apart by a meeting."""
    agents = rng.choice([2, 2, 3])
    lists = [["a(b)", f"bar(1,{32 * agents})", "a(b)"] for _ in range(agents)]
    return {"b": agents}, lists


def _lanes(rng: random.Random) -> tuple[dict[str, int], Agents]:
    """Lanes that share a class, meet, and hand bytes on."""
    n = rng.choice([2, 2, 3])
    sync = rng.choice(["ws", "ws", ""])
    part = rng.choice(["st(x/)", "st(x/)", "ld", "at"])
    give = [f"[{n}]", part, sync, rng.choice(["a(b)", "a(b)", "ld"]), "a(b)"]
    take = rng.choice([["w(b,0)", "ld"], ["w(b,0)", "st"], ["w(b,0)", "pf", "s(x)", "sc", "sw.read(0)"]])
    return {"b": rng.choice([n, 2 * n, 1])}, [[op for op in give if op], take]


def _tokens(rng: random.Random) -> tuple[dict[str, int], Agents]:
    """Waits by token, counted arrivals, drops and arrivals that must not complete."""
    first = rng.choice([["a.t(b)", "wt(b)", "ld"], ["a.nc(b)", "a(b)", "w(b,0)"], ["a(b,2)", "w(b,0)", "ld"]])
    second = rng.choice(
        [["st", "a(b)"], ["st", "a.drop(b)"], ["a(b)", "w(b,0)", "st"], ["st", "a.t(b)", "wt(b)"]]
    )
    return {"b": rng.choice([2, 2, 3])}, [first, second]


def _free(rng: random.Random) -> tuple[dict[str, int], Agents]:
    """Anything at all, on two barriers and one location."""
    ops = ["a(b)", "a(g)", "w(b,0)", "w(b,1)", "w(g,0)", "ld", "st", "e(b,2)", "c(b,2)", "ax(b,2)", "ct(b,2)"]
    ops += [
        "pf",
        "st(x[0:32])",
        "ld(x[16:48])",
        "a(b,2)",
        "c(b,4,x[0:16])",
        "s(x)",
        "sc",
        "sw.read(0)",
        "fence",
    ]
    lists = [[rng.choice(ops) for _ in range(rng.randint(1, 4))] for _ in range(rng.choice([2, 3]))]
    return {"b": rng.choice([1, 1, 2]), "g": 1}, lists


FAMILIES: tuple[Callable[[random.Random], tuple[dict[str, int], Agents]], ...] = (
    _ring, _pingpong, _handover, _groups, _lifetime, _symmetric, _lanes, _tokens, _free,
)  # fmt: skip


def _edit(rng: random.Random, counts: dict[str, int], agents: Agents) -> None:
    """One small change in place."""
    ops = rng.choice([a for a in agents if a])
    first = int(ops[0].startswith("["))  # how many lanes stays as it is
    if len(ops) == first:
        return
    at = rng.randrange(first, len(ops))
    way = rng.randrange(9)
    op = ops[at]
    if way == 0:
        del ops[at]
    elif way == 1:
        ops.insert(at, op)
    elif way == 2 and at + 1 < len(ops):
        ops[at], ops[at + 1] = ops[at + 1], ops[at]
    elif way == 3 and op.startswith("w("):
        ops[at] = op[:-2] + str(1 - int(op[-2])) + ")"
    elif way == 4 and op.startswith(("a(", "w(")):
        ops[at] = op[0] + ".r" + op[1:]
    elif way == 5 and counts:
        name = rng.choice(sorted(counts))
        counts[name] = max(1, counts[name] + rng.choice([-1, 1]))
    elif way == 6 and op.startswith(("ax(", "e(", "c(")):
        ops[at] = op.replace("8", rng.choice(["4", "16"]))
    elif way == 8:
        ops.insert(at, "fence")
    elif way == 7 and op == "pf":
        ops[at] = rng.choice(["pf.g", "pf.all", "fence"])


def random_program(seed: int) -> str:
    """A program in the notation of ``tests.fixtures.events``, the same for the same seed."""
    rng = random.Random(seed)
    counts, agents = rng.choice(FAMILIES)(rng)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        _edit(rng, counts, agents)
    for ops in agents:  # an edit may have taken the arrive away that a wait's token comes from
        kept = next((i for i, op in enumerate(ops) if ".t(" in op), len(ops))
        ops[:kept] = [op for op in ops[:kept] if not op.startswith("wt")]
    joins = ["|"] * len(agents)
    if all("bar(" not in op for a in agents for op in a) and rng.random() < 0.2:
        joins[-1] = "&"  # the last two are lanes of one warp
    body = ""
    for i, ops in enumerate(agents):
        body += (f" {joins[i]} " if i else "") + " ".join(ops)
    head = " ".join(f"{b}={n}" for b, n in counts.items())
    return f"{head} :: {body}" if head else body
