"""What Python and numpy would do with a tensor expression, and no fusion can: each says what to write."""

from __future__ import annotations

import operator
from typing import Any

from syncverify.base.source import InputError

#: Operators that numpy's numbers call as functions of numpy.
_OPERATORS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "power": "pow", "less": "lt",
    "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
}  # fmt: skip


class NoNumber:
    """An expression is no number, no array and no sequence."""

    __slots__ = ()

    def __bool__(self) -> bool:
        raise InputError("a fusion cannot branch on a tensor's value: use where(condition, a, b)")

    def __float__(self) -> float:
        raise InputError("a tensor expression is no number: use the functions of syncverify.fusion")

    def __getitem__(self, place: object) -> Any:
        raise InputError("a tensor expression has no slices: use take(x, i), or where(index(dim) < n, ...)")

    def __matmul__(self, o: object) -> Any:
        raise InputError("matrix products are no part of a fusion: see syncverify.gate.matmul")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        name = _OPERATORS.get(ufunc.__name__)
        numbers = all(isinstance(x, NoNumber) or getattr(x, "shape", None) == () for x in inputs)
        if method != "__call__" or len(inputs) != 2 or name is None or not numbers:
            raise InputError(f"numpy's {ufunc.__name__} of a tensor expression: use syncverify.fusion's own")
        return getattr(operator, name)(*(x if isinstance(x, NoNumber) else x.item() for x in inputs))


__all__ = ["NoNumber"]
