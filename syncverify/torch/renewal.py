"""A program that counts its calls, and has its graph compiled again where that pays (``late.py``).

Dynamo keeps the program of a graph with the function that has it. What is known of that function is dropped,
so that its next call traces it once more, and the backend compiles what was late. The call at hand, and the
backward pass of what was called before, run the program that they have.
"""

from __future__ import annotations

import functools
import inspect
import logging
import math
from collections.abc import Callable
from types import CodeType
from typing import Any

from syncverify.torch import late
from syncverify.torch.trials import SPENT

log = logging.getLogger("syncverify.torch")

#: Calls behind which late kernels are asked for first: a compilation takes seconds, a call milliseconds.
_FIRST = 100


def counted(program: Callable[..., Any], graph: str) -> Callable[..., Any]:
    """The program of a graph, by the graph's key."""
    calls, then = 0, float(_FIRST)

    @functools.wraps(program)
    def call(*given: Any) -> Any:
        nonlocal calls, then
        calls += 1
        if calls >= then:
            then = calls + _left(graph, calls)
        return program(*given)

    return call


def _left(graph: str, calls: int) -> float:
    """Calls behind which it is asked again; the graph is compiled again where there are none."""
    try:
        left = late.calls_left(graph, calls)
        if left > 0:
            return left
        code = _compiled_from()
        if code is None or not _may_trace():
            return math.inf
        from torch._C._dynamo.eval_frame import reset_code

        late.renew(graph)
        SPENT.forget()
        reset_code(code)
    except Exception as e:  # of another release of torch, or of files: the program at hand is right
        log.warning("a graph is not compiled again: %s: %s", type(e).__name__, e)
    return math.inf


def _compiled_from() -> CodeType | None:
    """The function whose compiled code calls."""
    from torch._dynamo.utils import orig_code_map

    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code in orig_code_map:
            found: CodeType = orig_code_map[frame.f_code]
            return found
        frame = frame.f_back
    return None


def _may_trace() -> bool:
    """Whether the caller lets Dynamo compile functions that it has compiled before."""
    from torch._dynamo import config, eval_frame

    stance = getattr(eval_frame, "_stance", None)
    return not config.error_on_recompile and getattr(stance, "stance", "default") == "default"


__all__ = ["counted"]
