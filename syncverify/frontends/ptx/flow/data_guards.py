"""Accesses to shared memory whose guard is made of loaded data, as branches around the access.

A branch on data has rules of its own (``compile/if_conversion.py``), which follow both sides. A guard has
none. The two forms mean the same, so that one set of rules serves both. Example:

    ld.global.u32 %r1, [%rd1];  setp.gt.s32 %p1, %r1, 0;  @%p1 st.shared.u32 [%r2], %r1;

becomes ``@!%p1 bra OVER; st.shared.u32 [%r2], %r1; OVER:``. What counts as data is read off the text,
register by register. A mistake there changes the form alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from syncverify.frontends.ptx.flow.expand import expanded
from syncverify.frontends.ptx.syntax.nodes import Function, Instr, Label
from syncverify.frontends.ptx.syntax.operands import computed_from, results

_ACCESSES = frozenset({"ld", "st", "atom", "red"})
#: State spaces that no access to shared memory names.
_ELSEWHERE = frozenset({"global", "local", "const", "param", "param::entry", "param::func"})
#: State spaces that nobody writes while the kernel runs.
_CONSTANT = frozenset({"param", "param::entry", "param::func", "const"})


def with_data_guards_as_branches(function: Function) -> Function:
    """The function with a branch around each such access; itself where there is none."""
    if not any(map(_is_guarded, function.body)):
        return function
    data = _data(function.body)
    by = {
        k: (
            replace(i, op="bra", mods=(), negated=not i.negated, operands=(Label("", k + 1),)),
            replace(i, guard=None, negated=False),
        )
        for k, i in enumerate(function.body)
        if _is_guarded(i) and i.guard is not None and i.guard.name in data
    }
    return expanded(function, by, {}) if by else function


def _is_guarded(i: Instr) -> bool:
    """Whether a guard decides about an access that may be to shared memory."""
    return i.guard is not None and i.op in _ACCESSES and _ELSEWHERE.isdisjoint(i.mods)


def _data(body: Sequence[Instr]) -> frozenset[str]:
    """Registers that may hold loaded data, or what is computed from it."""
    return computed_from((name for i in body if _loads(i) for name in results(i)), body)


def _loads(i: Instr) -> bool:
    return i.op in ("ld", "ldu", "tex", "atom") and _CONSTANT.isdisjoint(i.mods)


__all__ = ["with_data_guards_as_branches"]
