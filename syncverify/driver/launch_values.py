"""The values that a launch gives to the parameters of a kernel of the IR, and whether it may."""

from __future__ import annotations

from collections.abc import Mapping

from syncverify.base.source import InputError
from syncverify.ir.expr import Expr, evaluate, names
from syncverify.ir.nodes import Kernel, Param
from syncverify.ir.text.printed_expressions import print_expr

_RANGES = {
    "i32": (-(2**31), 2**31 - 1),
    "u32": (0, 2**32 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "u64": (0, 2**64 - 1),
}


def launch_values(kernel: Kernel, given: Mapping[str, int]) -> tuple[dict[str, int], list[str]]:
    """The value of every parameter (the caller's, else its default), and the parameters without one."""
    known = {p.name: p for p in kernel.params}
    for name in given:
        if name not in known:
            has = ", ".join(known) or "none"
            raise InputError(f"kernel {kernel.name} has no parameter {name!r} (it has: {has})", kernel.span)
    bound: dict[str, int] = {}
    missing: list[str] = []
    for name, param in known.items():
        value = given.get(name, param.default)
        if value is None:
            missing.append(name)
        else:
            bound[name] = _in_range(param, value)
    return bound, missing


def _in_range(param: Param, value: int) -> int:
    low, high = _RANGES[param.dtype]
    if not low <= value <= high:
        raise InputError(f"{param.name} = {value} does not fit its type {param.dtype}", param.span)
    return value


def check_assumes(kernel: Kernel, values: Mapping[str, int]) -> None:
    """A check under values that an ``assume`` excludes would prove nothing."""
    for fact in kernel.assumes:
        if not _holds(fact, values):
            shown = ", ".join(f"{n} = {values[n]}" for n in sorted(names(fact) & values.keys()))
            raise InputError(f"launch values break `assume {print_expr(fact)}`: {shown}", kernel.span)


def _holds(fact: Expr, values: Mapping[str, int]) -> bool:
    try:
        return bool(evaluate(fact, values))
    except (KeyError, ZeroDivisionError) as e:
        raise InputError(f"cannot evaluate `assume {print_expr(fact)}`: {e}") from e


__all__ = ["check_assumes", "launch_values"]
