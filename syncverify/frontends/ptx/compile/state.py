"""What compiled code works on: the list of an agent's slots, labels, agreement of lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syncverify.base.reason import Reason
from syncverify.frontends.ptx.decode.effects import Effect, Opaque, Unsupported
from syncverify.frontends.ptx.decode.memory import Access
from syncverify.frontends.ptx.values.register_values import PerLane, Unknown, per_lane
from syncverify.frontends.ptx.values.symbolic_words import SymbolicWord
from syncverify.model.events import Event

PC, QUEUE, CLASS, CONTEXT, LOCAL, SHARED, PARTED, MASK, PASSED = range(9)
FIRST = 9
QUEUED, ENDED = 0, 1
#: Labels of instruction k are ``8 * k`` plus these.
START, EVENT, AFTER, DECIDE = range(8, 12)
#: And of an instruction whose answer has been taken, and is not asked for again.
SETTLED = 13
#: And of the last instruction of a block from which control runs to the end: its exit.
LEAVE = 12
#: Slots that count an agent's takes of an atomic's numbers begin with this.
TAKE = "%take"
#: What the agent is given that may be a size without a number.
SIZED = ("param ", "%ctaid", "%nctaid", "%clusterid", "%nclusterid", "%block_group", "%member")
#: State spaces that an instruction may name.
SPACES = frozenset({"param", "local", "global", "const", "shared"})

Registers = list[Any]
Run = Callable[[Registers, Any], Event | None]
Decoded = Effect | Unsupported | Access


class Disagreement(Exception):  # noqa: N818 -- control flow: the class splits
    """Lanes of a class hold different values where they must agree; ``masks``: the parts."""

    def __init__(self, masks: tuple[int, ...]) -> None:
        super().__init__("lanes disagree")
        self.masks = masks


def _answered(r: Registers, value: PerLane, what: str) -> Any:
    """The value with the answers that lanes of the class hold for questions; Opaque where one has none."""
    lanes = list(value.lanes)
    for i, v in enumerate(lanes):
        if r[MASK] >> i & 1 and isinstance(v, Unknown):
            lanes[i] = r[CONTEXT].answer(v)
            if lanes[i] is None:
                raise Opaque(Reason(f"{what} depends on {v.why}", parts=(v.why,)))
    return per_lane(lanes).on(r[MASK]) if per_lane(lanes).__class__ is PerLane else per_lane(lanes)


def agreed(r: Registers, value: Any, what: str) -> Any:
    """The value that all lanes of the class hold. Raises Disagreement, or Opaque where it is not known."""
    if value.__class__ is PerLane:
        value = value.on(r[MASK])
        if value.__class__ is PerLane:
            value = _answered(r, value, what)
            if value.__class__ is PerLane:
                raise Disagreement(tuple(value.parts(r[MASK]).values()))
    if isinstance(value, SymbolicWord):
        return value.number()
    if isinstance(value, Unknown):
        answer = r[CONTEXT].answer(value)
        if answer is None:
            raise Opaque(Reason(f"{what} depends on {value.why}", parts=(value.why,)))
        return answer
    return value
