"""Strong loads and stores of shared memory whose values are used: which of them hand words from lane to lane.

Two strong accesses of one word are no data race, in whatever order (PTX ISA, memory consistency model). But
what such a load reads is determined only if something orders the two. Here is said which accesses that
matters for. A load whose value nobody uses, or that is polled until the value ends a loop, is left out. So is
the first guess of a loop that repeats a ``cas``.

Example: in ``s[t] = x; y = s[t ^ 1];`` with a volatile ``s`` each thread stores a word of its own. That is an
exchange: its result hangs on the order. In ``if (t == 0) flag = 1; y = flag;`` all look at one word.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from syncverify.frontends.ptx.analysis.handover.first_guesses import first_guesses
from syncverify.frontends.ptx.analysis.polls.shared_polls import shared_polls
from syncverify.frontends.ptx.analysis.registers.uniformity import LANES, THREADS
from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Instr
from syncverify.frontends.ptx.syntax.operands import results, sources
from syncverify.model.events import StrongWord

_STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "mmio"})


def strong_words(flow: Flow, placed: Callable[[int], int]) -> dict[int, StrongWord]:
    """By instruction, the strong loads and stores that may reach shared memory and whose values are used.

    ``placed``: the bits of a thread's number that the address of an access varies with.
    """
    found = [k for k, i in enumerate(flow.body) if i.op in ("ld", "st") and _is_strong(i)]
    if not found:
        return {}
    used = frozenset(chain.from_iterable(map(sources, flow.body)))
    polled = first_guesses(flow).union(shared_polls(flow))
    out = {}
    for k in found:
        i = flow.body[k]
        if k in polled or (i.op == "ld" and used.isdisjoint(results(i))):
            continue
        word = StrongWord.VOLATILE if "volatile" in i.mods else StrongWord(0)
        bits = placed(k)
        word |= StrongWord.OF_EACH_THREAD if bits & THREADS else StrongWord(0)
        word |= StrongWord.OF_EACH_LANE if bits & LANES else StrongWord(0)
        out[k] = word
    return out


def _is_strong(i: Instr) -> bool:
    elsewhere = any(m.split("::")[0] in ("global", "const", "param", "local") for m in i.mods)
    return not elsewhere and not _STRONG.isdisjoint(i.mods)


__all__ = ["strong_words"]
