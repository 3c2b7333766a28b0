"""What an author has to do about a finding, in a sentence: by the class of its mistake, else by its rule.

Advice is for findings without a repair that was checked. It says one thing, in the terms of the PTX ISA.
"""

from __future__ import annotations

from syncverify.base.diagnostics import Mistake

_BY_RULE = {
    "SV101": "fence.proxy.async.shared_cta by every writer, after its last write and before the hand-over",
    "SV102": "move the proxy fence behind the last write and before the hand-over",
    "SV103": "name shared memory in the fence: fence.proxy.async.shared_cta",
    "SV105": "put fence.proxy.async.shared_cta between, or store what is computed before the hand-over",
    "SV104": "wait for the copy's reads (bulk.wait.read) and let a barrier follow before the write",
    "SV403": "let the thread that issued the operations wait, then hand over through a barrier",
    "SV115": "use cluster scope at both ends",
    "SV110": "order them: wait for the barrier that tells of the first",
    "SV111": "order them: release the buffer only after the reads are done",
    "SV112": "order them: wait for the first to be complete",
    "SV114": "mend the index, the count or the size of the buffer",
    "SV201": "let the next phase begin only when every waiter has seen this one: it arrives after its wait",
    "SV202": "count every lane that executes the arrive, and arrive as often as the init says",
    "SV203": "announce, with an arrival of the same phase, the bytes that its copies move",
    "SV204": "put a barrier between init and use, with fence.mbarrier_init in a cluster",
    "SV206": "announce bytes with an arrival of their phase; wait for a phase before the next one begins",
    "SV208": "keep data off the barrier's bytes; wait on a barrier of the own CTA only",
    "SV210": "compare both sides: the parity of the first wait (empty 1, full 0), its flips, the trip counts",
    "SV212": "mend the predicate of the copy, or announce only what is issued",
    "SV301": "give every participant the same id and count, and count the warps that really come",
    "SV302": "move it to where all threads pass, or use a named barrier for the threads that come",
    "SV304": "let a dec give back enough first; one setmaxnreg for all four warps of a warpgroup",
    "SV501": "wait for the whole operation (bulk.wait 0) before the release",
}

_OF_COPY = "wait for the copy's phase, or its group, before this access"
_OF_WRITER = "wait for the barrier that the writer arrives on behind its write, or let all meet at one"
_LEFT_OUT = "let all threads that share the data come to the barrier: count them, and no branch around it"
_OF_ITS_OWN = "give each thread bytes of its own, or let one store; a barrier orders stores of two turns"
_NEXT_PARITY = "ask for the parity of the next phase: it flips when the slot wraps to 0, and only then"
#: Where a rule has several kinds of mistakes behind it.
_BY_MISTAKE = {
    ("SV104", Mistake.MISSING_BARRIER): "let a barrier of threads follow the wait for the copy's reads",
    ("SV110", Mistake.MISSING_WAIT): _OF_COPY,
    ("SV110", Mistake.MISSING_BARRIER): "let all of these threads meet at a barrier behind the write",
    ("SV110", Mistake.DIVERGENCE): _LEFT_OUT,
    ("SV111", Mistake.DIVERGENCE): _LEFT_OUT,
    ("SV112", Mistake.DIVERGENCE): _LEFT_OUT,
    ("SV111", Mistake.MISSING_BARRIER): "let all of these threads meet at a barrier behind the read",
    ("SV111", Mistake.EARLY_RELEASE): "move the release behind the last read of the buffer",
    ("SV112", Mistake.MISSING_WAIT): _OF_COPY,
    ("SV112", Mistake.MISSING_BARRIER): "let all of these threads meet at a barrier behind the first write",
    ("SV112", Mistake.SECOND_PRODUCER): "let one thread issue the copy: elect it, or compare threadIdx.x",
    ("SV201", Mistake.PARITY): _NEXT_PARITY,
    (
        "SV201",
        Mistake.MISSING_WAIT,
    ): "let the arrival that gives the token follow a wait for the phase before",
    (
        "SV201",
        Mistake.TOKEN,
    ): "wait by the token of the arrival before it on the same mbarrier, one for each phase",
    ("SV203", Mistake.MISSING_WAIT): "wait until the phase before is complete, and copy then",
    ("SV203", Mistake.BYTES): "announce, with an arrival of the same phase, the bytes that its copies move",
    ("SV206", Mistake.BYTES): "announce bytes together with an arrival of the same phase",
    ("SV206", Mistake.MISSING_WAIT): "wait until the phase before is complete, and arrive then",
    ("SV210", Mistake.LATER_PARITY): _NEXT_PARITY,
    (
        "SV210",
        Mistake.FIRST_PARITY,
    ): "begin with parity 1 on a barrier that is free at first, and with 0 on others",
    ("SV210", Mistake.OTHER_BARRIER): "let both sides go back to the first slot behind the same one",
    ("SV210", Mistake.MISSING_ARRIVE): "arrive as often as the init says in each phase that is waited for",
}


def advice(
    rule: str, mistake: Mistake | None, *, after_thread: bool = False, one_store: bool = False
) -> str | None:
    """What to do about a finding of a rule, if there is anything to say.

    ``after_thread``: the access that it is not ordered after is a thread's own, and of no copy.
    ``one_store``: both accesses are of one instruction, which is no copy.
    """
    if one_store and mistake is Mistake.MISSING_BARRIER and rule == "SV112":
        return _OF_ITS_OWN
    if after_thread and mistake is Mistake.MISSING_WAIT and rule in ("SV110", "SV112"):
        return _OF_WRITER
    said = None if mistake is None else _BY_MISTAKE.get((rule, mistake))
    return said or _BY_RULE.get(rule)


__all__ = ["advice"]
