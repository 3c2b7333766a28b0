"""Kernels of the CuTe DSL: the PTX that a compiled function keeps if it is told to.

The DSL drops PTX unless ``CUTE_DSL_KEEP`` holds ``ptx``, which is read when it compiles, and writes it into a
folder. Launch facts are in host code; what the PTX itself does not say stays open.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from syncverify.watch.caught import Caught, Sink
from syncverify.watch.replaced import Undo, wrap

_KEEP, _FOLDER = "CUTE_DSL_KEEP", "CUTE_DSL_DUMP_DIR"
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")


def keep_ptx() -> Undo:
    """Sets what makes the DSL keep PTX; to be called before it is imported."""
    before = {name: os.environ.get(name) for name in (_KEEP, _FOLDER)}
    kept = [x for x in (before[_KEEP] or "").split(",") if x]
    os.environ[_KEEP] = ",".join(dict.fromkeys((*kept, "ptx")))
    folder = None
    if before[_FOLDER] is None:
        folder = TemporaryDirectory(prefix="syncverify-cute-")
        os.environ[_FOLDER] = folder.name

    def undo() -> None:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if folder is not None:
            folder.cleanup()

    return undo


def catch(executor: ModuleType, sink: Sink) -> Undo:
    """Hands what ``cutlass.base_dsl.jit_executor`` holds of a compiled function to ``sink``."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def made(function: Any, *args: Any, **named: Any) -> None:
            original(function, *args, **named)
            text = function.__ptx__
            if text:
                sink(caught(text))

        return made

    return wrap(executor.JitCompiledFunction, "__init__", around)


def caught(text: str | bytes) -> Caught:
    """The kernels of a compiled function; all of one module."""
    text = text.decode() if isinstance(text, bytes) else text
    text = text.rstrip("\0")
    names = _ENTRY.findall(text)
    return Caught("CuTe DSL", names[0] if len(names) == 1 else "", "ptx", text)
