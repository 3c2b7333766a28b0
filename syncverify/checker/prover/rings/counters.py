"""Registers that a loop carries, in closed form: ``r = r + c``, and a stage with its parity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from syncverify.checker.prover.rings.linear import OutsideError
from syncverify.ir import nodes as n
from syncverify.ir.evaluate import fold, statements
from syncverify.ir.expr import Binary, Expr, Int, Unary, Var


@dataclass(frozen=True, slots=True)
class _Stage:
    """``stage = turn mod depth`` and ``parity = (turn div depth + odd) mod 2``."""

    stage: str
    parity: str | None
    turn: Expr
    depth: Expr
    odd: int

    def put(self, env: dict[str, Expr], turn: Expr) -> None:
        env[self.stage] = Binary("%", turn, self.depth)
        if self.parity is not None:
            whole: Expr = Binary("//", turn, self.depth)
            env[self.parity] = Binary("%", Binary("+", whole, Int(self.odd)), Int(2))


@dataclass(slots=True)
class Counters:
    """Closed forms of the loop being walked, and of stages that earlier loops have moved."""

    stages: dict[str, _Stage] = field(default_factory=dict)
    _moving: list[_Stage] = field(default_factory=list)
    _plain: dict[str, tuple[Expr, int]] = field(default_factory=dict)

    def forget(self, name: str) -> None:
        self.stages.pop(name, None)

    def enter(self, body: Sequence[n.Stmt], env: dict[str, Expr], ahead: Expr) -> set[int]:
        """Sets carried registers to their values after ``ahead`` turns; returns what that accounts for."""
        self._moving, self._plain = [], {}
        hidden: set[int] = set()
        rest = list(body)
        while (found := _tail(rest, env)) is not None:
            stage, parity, depth, length = found
            hidden |= {id(s) for s in rest[-length:]}
            del rest[-length:]
            self._moving.append(self._start(stage, parity, depth, env))
        declared = {s.name for s in statements(tuple(rest)) if isinstance(s, n.Let)}
        every = [s for s in statements(tuple(rest)) if isinstance(s, n.Assign)]
        for s in every:
            if s.name in declared:
                continue
            step = _step(s)
            if step is None or sum(x.name == s.name for x in every) > 1 or s not in rest or s.name not in env:
                raise OutsideError(
                    f"{s.name} is carried from iteration to iteration in a way that is not recognized"
                )
            self._plain[s.name] = (env[s.name], step)
        for m in self._moving:
            m.put(env, fold(Binary("+", m.turn, ahead), {}))
        for name, (start, step) in self._plain.items():
            env[name] = fold(Binary("+", start, Binary("*", ahead, Int(step))), {})
        return hidden

    def leave(self, env: dict[str, Expr], turns: Expr) -> None:
        """Values after the loop's last iteration."""
        for m in self._moving:
            turn = fold(Binary("+", m.turn, turns), {})
            m.put(env, turn)
            self.stages[m.stage] = _Stage(m.stage, m.parity, turn, m.depth, m.odd)
        for name, (start, step) in self._plain.items():
            env[name] = fold(Binary("+", start, Binary("*", turns, Int(step))), {})
        self._moving, self._plain = [], {}

    def _start(self, stage: str, parity: str | None, depth: Expr, env: dict[str, Expr]) -> _Stage:
        before = self.stages.get(stage)
        if before is not None and before.depth == depth and before.parity == parity:
            return before
        odd = Int(0) if parity is None else env.get(parity)
        if env.get(stage) != Int(0) or not isinstance(odd, Int) or odd.value not in (0, 1):
            raise OutsideError(f"the stage {stage} does not start at 0")
        return _Stage(stage, parity, Int(0), depth, odd.value)


def _step(s: n.Assign) -> int | None:
    match s.value:
        case Binary("+", Var(v), Int(c)) | Binary("+", Int(c), Var(v)) if v == s.name:
            return c
    return None


def _tail(body: list[n.Stmt], env: dict[str, Expr]) -> tuple[str, str | None, Expr, int] | None:
    """A stage that moves at the end of the body: its name, its parity, the depth, how many statements."""
    if len(body) >= 2 and isinstance(body[-2], n.Assign):
        first, second = body[-2], body[-1]
        assert isinstance(first, n.Assign)
        s = first.name
        if _step(first) == 1 and isinstance(second, n.If) and not second.orelse:
            match second.cond:
                case Binary("==" | ">=", Var(v), d) if v == s:
                    found = _wrapped(second.then, s)
                    if found is not None:
                        return s, found[0], fold(d, env), 2
        match first.value:
            case Binary("%", Binary("+", Var(v), Int(1)), d) if v == s:
                p = _flipped_at_zero(second, s)
                if p is not None:
                    return s, p, fold(d, env), 2
    if body and isinstance(body[-1], n.Assign):
        match body[-1].value:
            case Binary("%", Binary("+", Var(v), Int(1)), d) if v == body[-1].name:
                return v, None, fold(d, env), 1
    return None


def _wrapped(then: tuple[n.Stmt, ...], s: str) -> tuple[str | None] | None:
    """The parity that flips where the stage wraps to 0, if that is all that happens."""
    parity: list[str] = []
    reset = False
    for x in then:
        if isinstance(x, n.Assign) and x.name == s and x.value == Int(0):
            reset = True
        elif isinstance(x, n.Assign) and _flips(x):
            parity.append(x.name)
        else:
            return None
    return (parity[0] if parity else None,) if reset and len(parity) < 2 else None


def _flips(x: n.Assign) -> bool:
    me = Var(x.name)
    return x.value in (
        Binary("^", me, Int(1)), Binary("-", Int(1), me), Unary("not", me),
        Binary("%", Binary("+", me, Int(1)), Int(2)),
    )  # fmt: skip


def _flipped_at_zero(x: n.Stmt, s: str) -> str | None:
    zero = Binary("==", Var(s), Int(0))
    if isinstance(x, n.If) and x.cond == zero and not x.orelse and len(x.then) == 1:
        inner = x.then[0]
        return inner.name if isinstance(inner, n.Assign) and _flips(inner) else None
    if isinstance(x, n.Assign) and x.value == Binary("^", Var(x.name), zero):
        return x.name
    return None
