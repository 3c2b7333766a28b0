"""Mistakes in CUTLASS's ping-pong product, as edits of its PTX, each labelled before it was first run.

Each edit says which occurrence of a text becomes which other one. All are wrong at the sizes of its launch,
which has 8 tiles a block and 4 steps a tile; those of ``RIGHT`` leave the kernel right.
"""

from __future__ import annotations

Edits = tuple[tuple[str, int, str], ...]

_REMOTE = "mbarrier.arrive.shared::cluster.b64  _, [remAddr32];"
_NEXT_TURN, _NEXT_EPILOGUE = (f"mbarrier.arrive.shared::cta.b64 _, [%r{x}];" for x in (36, 42))
_TURN, _EPILOGUE = (f"mbarrier.try_wait.parity.shared::cta.b64 P1, [%r{x}], %r1177" for x in (34, 38))
_FULL_FIRST = "P1, [%r451], %r1178"
_FULL = "P1, [%r490], %r1185"
_EMPTY = "P1, [%r1061], %r1262"
_MEET = "bar.sync %r615, %r616;"
_INIT = "mbarrier.init.shared::cta.b64 "

#: By what is wrong.
WRONG: dict[str, Edits] = {
    "slots are not handed back within a tile": ((_REMOTE, 0, ""),),
    "the last slot of a tile is not handed back": ((_REMOTE, 1, ""),),
    "the other group gets no turn": ((_NEXT_TURN, 0, ""),),
    "the other group gets no turn in the epilogue": ((_NEXT_EPILOGUE, 0, ""),),
    "a group waits for the turn of the steps before its epilogue": (
        (_EPILOGUE, 0, _EPILOGUE.replace("38", "34")),
    ),
    "the turn is waited for with the phase of the ring": ((_TURN, 0, _TURN.replace("1177", "1178")),),
    "the epilogue's turn is waited for with one phase": ((_EPILOGUE, 0, _EPILOGUE.replace("%r1177", "1")),),
    "the first step is waited for with one phase": tuple(
        (_FULL_FIRST, 0, _FULL_FIRST.replace("%r1178", "0")) for _ in range(2)
    ),
    "later steps are waited for with one phase": tuple(
        (_FULL, 0, _FULL.replace("%r1185", "0")) for _ in range(2)
    ),
    "the loader waits with one phase": ((_EMPTY, 0, _EMPTY.replace("%r1262", "1")),),
    "the loader waits with the other phase first": ((_EMPTY, 0, _EMPTY.replace("%r1262", "0")),),
    "full barriers wait for 128": ((f"{_INIT}[%r263], %r290", 0, f"{_INIT}[%r263], 128"),),
    "empty barriers wait for one": ((f"{_INIT}[%r265], %r292", 0, f"{_INIT}[%r265], %r290"),),
    "a turn waits for half of a group": ((f"{_INIT}[%r349], %r354", 0, f"{_INIT}[%r349], 64"),),
    "a turn waits for both groups": ((f"{_INIT}[%r351], %r354", 0, f"{_INIT}[%r351], 256"),),
    "a barrier of turns is not initialized": ((f"{_INIT}[%r353], %r354;", 0, ""),),
    "fewer bytes are announced than come": (("_, [%r1066], %r6;", 0, "_, [%r1066], 16384;"),),
    "writes are not fenced before they are stored from": (("fence.proxy.async.shared::cta;", 0, ""),),
    "a store does not wait for the other warps": ((_MEET, 0, ""),),
    "slots are handed back while they are read": (("wgmma.wait_group.sync.aligned 1;", 0,
                                                  "wgmma.wait_group.sync.aligned 2;"),),
    "the epilogue begins before its stores have read": (("cp.async.bulk.wait_group.read 0;", 0, ""),),
    "threads begin before barriers are initialized": (("bar.sync \t0;", 0, ""),),
    "the last slot is handed back before it is read": (
        ("wgmma.wait_group.sync.aligned 0;", 0, "wgmma.wait_group.sync.aligned 1;"),
    ),
}  # fmt: skip
#: By what is changed. The last two were labelled wrong at first: groups take whole tiles in turn then, so
#: that no two of their steps overlap.
RIGHT: dict[str, Edits] = {
    "nothing": (),
    "turns of steps and epilogue are exchanged": (
        (_NEXT_TURN, 0, _NEXT_TURN.replace("36", "42")),
        (_NEXT_EPILOGUE, 1, _NEXT_EPILOGUE.replace("42", "36")),
    ),
    "a group waits for the turn of the epilogue before its steps": ((_TURN, 0, _TURN.replace("34", "38")),),
}


def changed(text: str, edits: Edits) -> str:
    """The text with these edits; each must be there."""
    for old, which, new in edits:
        at = -1
        for _ in range(which + 1):
            at = text.index(old, at + 1)
        text = text[:at] + new + text[at + len(old) :]
    return text


__all__ = ["RIGHT", "WRONG", "changed"]
