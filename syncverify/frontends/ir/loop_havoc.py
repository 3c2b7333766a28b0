"""Sizes that loops havoc in every iteration: see ``SymbolicContext.fresh_per_iteration``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syncverify.frontends.ir.code_text import CodeText
from syncverify.ir import nodes as n
from syncverify.ir.evaluate import choice, chosen_ends, control_names, statements
from syncverify.ir.expr import LANE_BUILTINS, Expr, Int, names
from syncverify.symbolic.conditional_lengths import CHOSEN, select_symbol

if TYPE_CHECKING:
    from syncverify.frontends.ir.code import Program

#: Among how many roles iterations are distributed round-robin.
ROUND_ROBIN_ROLES = 2


@dataclass(frozen=True, slots=True)
class IterationHavoc:
    """The sizes that a loop havocs in every iteration. ``round_robin``: its iterations are those of one role
    of
    several;
    ``first``: statements up to the last loop inside that reads these sizes."""

    names: tuple[str, ...]
    round_robin: bool
    first: int


class IterationText(CodeText):
    """Code that takes sizes again."""

    program: Program
    iteration_slots: dict[str, int]  # sizes that loops havoc in every iteration -> the slot that counts
    inside: list[str]  # variables of the loops around
    hesitant: set[int]  # blocks in which it is asked whether a role has a further iteration

    def _turning(self, s: n.For) -> IterationHavoc:
        """Sizes that control inside the loop reads, and not the loop itself: each iteration havocs them."""
        space = self.program.space
        if space is None:
            return IterationHavoc((), False, 0)
        own = frozenset[str]().union(*(names(self._ready(e)) for e in (s.lo, s.hi, s.step)))
        # for how many lanes a condition holds would tell turns apart, if each had its own number
        control = control_names(s.body, LANE_BUILTINS, chosen_ends(self.program.kernel))
        found = sorted((control - own) & set(self.program.kernel_sizes))
        for name in found:
            if name not in self.iteration_slots:
                self.iteration_slots[name] = self._slot()
        if not found or space.round_robin is None or not is_round_robin(s):
            return IterationHavoc(tuple(found), False, 0)
        space.round_robin.havocked_sizes.update(found)
        return IterationHavoc(tuple(found), True, _readers(s, set(found)))

    def _begin(self, turning: IterationHavoc, var: int) -> None:
        """The first iteration of a role, before it is asked whether there is one."""
        if turning.round_robin:
            self._pause()
            self._text(f"if r[{var}]:")
            self._take(turning, f"r[{var}]", "    ")

    def _next(self, turning: IterationHavoc) -> None:
        """The sizes of the next iteration that the role has; others begin to read them in their own
        iteration.
        """
        if turning.round_robin:
            self._pause()
        self._take(turning, str(ROUND_ROBIN_ROLES - 1 if turning.round_robin else 1))

    def _choose(self, name: str, e: Expr) -> str | None:
        """Text for what comparisons choose in this iteration, where that is one of a loop; else None."""
        space, found = self.program.space, choice(e)
        if space is None or found is None or not self.inside or name not in chosen_ends(self.program.kernel):
            return None
        key = CHOSEN + found.form
        iteration = self.iteration_slots.setdefault(key, -1)
        if iteration < 0:
            iteration = self.iteration_slots[key] = self._slot()
        parts = (found.differences, found.values)
        keys, arms = (", ".join(self._value(x, decision=False) for x in part) for part in parts)
        again = self._constant(lambda *given: select_symbol(space, key, *given))
        self._text(f"r[{iteration}] = r[{iteration}] + 1")
        return f"{again}([{keys}], [{arms}], r[{iteration}], lambda: {self._value(e, decision=False)})"

    def _pause(self) -> None:
        label = self._label()
        self._jump(label)
        self._open(label)
        self.hesitant.add(label)

    def _take(self, turning: IterationHavoc, on: str, indent: str = "") -> None:
        """Takes the sizes of so many iterations further on."""
        for name in turning.names:
            iteration, slot, again = (
                self.iteration_slots[name],
                self.slots[name],
                self._constant(self._again(name)),
            )
            self._text(f"{indent}r[{iteration}] = r[{iteration}] + {on}")
            self._text(f"{indent}r[{slot}] = {again}(r[{iteration}])")

    def _again(self, name: str) -> Callable[[Any], Any]:
        space = self.program.space
        assert space is not None
        return lambda iteration: space.fresh_per_iteration(name, iteration)


def is_round_robin(s: n.For) -> bool:
    """Whether each role takes some iterations of a loop only: in ``for i in wg..turns step 2``."""
    first = names(s.lo)
    return (
        isinstance(s.step, Int)
        and s.step.value == ROUND_ROBIN_ROLES
        and bool(first)
        and first <= {"wg", "warp"}
    )


def _readers(s: n.For, sizes: set[str]) -> int:
    """Statements of a loop up to the last with a loop that some sizes end."""
    return max(
        (
            i + 1
            for i, x in enumerate(s.body)
            for y in statements((x,))
            if isinstance(y, n.For) and not sizes.isdisjoint(names(y.lo) | names(y.hi))
        ),
        default=0,
    )


__all__ = ["IterationHavoc", "IterationText", "is_round_robin"]
