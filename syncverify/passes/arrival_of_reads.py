"""Which reads of shared memory have surely arrived after a stretch of statements (K1)."""

from __future__ import annotations

from dataclasses import dataclass, field

from syncverify.ir.nodes import (
    AtomGlobal,
    AtomShared,
    For,
    If,
    LdGlobal,
    LdMatrix,
    LdShared,
    Multimem,
    Role,
    Stmt,
)
from syncverify.ir.value_uses import carried, pinned
from syncverify.passes.edits import Path
from syncverify.passes.rewrite import Body


@dataclass(slots=True)
class _State:
    """After some statements: what each register may still wait for, and which reads nothing has shown to be
    over. One that is made again before that is lost."""

    waits: dict[str, frozenset[Path]] = field(default_factory=dict)
    open: frozenset[Path] = frozenset()
    lost: frozenset[Path] = frozenset()

    def copy(self) -> _State:
        return _State(dict(self.waits), self.open, self.lost)

    def join(self, other: _State) -> None:
        for name, reads in other.waits.items():
            self.waits[name] = self.waits.get(name, frozenset()) | reads
        self.open |= other.open
        self.lost |= other.lost

    def pin(self, names: frozenset[str]) -> None:
        over = frozenset[Path]().union(*(self.waits.get(x, frozenset()) for x in names))
        if over:
            self.waits = {x: reads - over for x, reads in self.waits.items()}
            self.open -= over

    def read(self, name: str, at: Path) -> None:
        if at in self.open:
            self.lost |= {at}
        self.waits = {x: reads - {at} for x, reads in self.waits.items()}
        self.waits[name] = frozenset({at})
        self.open |= {at}


def open_reads(body: Body) -> frozenset[Path]:
    """The places of shared reads whose values may have reached no memory by the end of ``body``."""
    state = _State()
    _run(state, body, ())
    return state.open | state.lost


def _run(state: _State, body: Body, around: Path) -> None:
    for k, s in enumerate(body):
        _step(state, s, (*around, k))


def _step(state: _State, s: Stmt, at: Path) -> None:
    match s:
        case If(then=then, orelse=orelse):
            other = state.copy()
            _run(state, then, (*at, 0))
            _run(other, orelse, (*at, 1))
            state.join(other)
        case For(body=inner):
            for _ in range(2):  # in its second turn it meets what the first has left
                before = state.copy()
                _run(state, inner, (*at, 0))
                state.join(before)
        case Role(body=inner):
            _run(state, inner, (*at, 0))
        case LdShared(name) | LdMatrix(name):
            state.read(name, at)
        case _:
            state.pin(pinned(s))
            flow = carried(s)
            if flow is not None:
                name, read = flow
                state.waits[name] = frozenset[Path]().union(*(state.waits.get(x, frozenset()) for x in read))
            elif isinstance(s, LdGlobal | AtomShared | AtomGlobal | Multimem) and s.name is not None:
                state.waits.pop(s.name, None)
