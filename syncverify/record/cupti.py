"""Calls of the CUDA driver in this process, told by CUPTI (the CUDA profiling tools' interface)."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_uint32, c_void_p
from glob import escape, glob
from typing import Any

from syncverify.base.source import InputError
from syncverify.record.listen import Listener

#: CUpti_CallbackDomain of the driver; CUpti_ApiCallbackSite before a call.
DRIVER_API, ENTER = 1, 0
NAMES = ("libcupti.so.13", "libcupti.so.12", "libcupti.so")
#: Where packages bring it, below a folder of ``sys.path``.
BROUGHT = (
    "nvidia/cu1*/lib/libcupti.so.*",
    "nvidia/cuda_cupti/lib/libcupti.so.*",
    "triton/backends/nvidia/lib/cupti/libcupti.so.*",
)


class CallbackData(Structure):
    """What begins CUpti_CallbackData."""

    _fields_ = (
        ("site", c_int), ("function", c_char_p), ("arguments", c_void_p), ("result", POINTER(c_int)),
        ("symbol", c_char_p),
    )  # fmt: skip


Callback = CFUNCTYPE(None, c_void_p, c_int, c_uint32, POINTER(CallbackData))


def library() -> ctypes.CDLL:
    """CUPTI. Raises InputError where it is not found."""
    for name in (*NAMES, *brought(sys.path)):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise InputError(
        "record needs CUPTI (libcupti.so), which comes with the CUDA toolkit, torch, or "
        "`pip install nvidia-cuda-cupti`; put its folder into LD_LIBRARY_PATH"
    )


def brought(folders: Iterable[str]) -> Iterator[str]:
    """The files that packages in some folders bring."""
    for pattern in BROUGHT:
        for folder in folders:
            yield from sorted(glob(f"{escape(folder)}/{pattern}"))


@contextmanager
def listening(listener: Listener) -> Iterator[list[str]]:
    """While it lasts, the listener is told of calls; the list holds what went wrong in it.

    Raises InputError where CUPTI cannot listen: another tool does, or there is no driver.
    """
    lib = library()
    wrong: list[str] = []
    busy = False

    def called(_: Any, domain: int, number: int, data: Any) -> None:
        nonlocal busy
        if busy:  # calls that the listener itself makes
            return
        busy = True
        try:
            d = data.contents
            name = (d.function or b"").decode()
            if d.site == ENTER:
                listener.entered(name, d.arguments or 0, (d.symbol or b"").decode(errors="replace"))
            elif d.result and not d.result[0]:
                listener.left(name, d.arguments or 0)
        except Exception as e:  # an exception cannot pass through the driver
            wrong.append(f"{type(e).__name__}: {e}")
        finally:
            busy = False

    subscriber, callback = c_void_p(), Callback(called)
    _must(lib, "cuptiSubscribe", ctypes.byref(subscriber), callback, None)
    try:
        _must(lib, "cuptiEnableDomain", c_uint32(1), subscriber, c_int(DRIVER_API))
        yield wrong
    finally:
        lib.cuptiUnsubscribe(subscriber)


def _must(lib: ctypes.CDLL, call: str, *arguments: Any) -> None:
    failed = getattr(lib, call)(*arguments)
    if failed:
        text = c_char_p()
        lib.cuptiGetResultString(c_int(failed), ctypes.byref(text))
        raise InputError(f"CUPTI cannot listen: {(text.value or b'?').decode()} ({call}, {failed})")
