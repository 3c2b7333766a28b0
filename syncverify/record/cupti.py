"""Calls of the CUDA driver in this process, told by CUPTI (the CUDA profiling tools' interface)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_uint32, c_void_p
from typing import Any, cast

from syncverify.record.listen import Listener
from syncverify.source import InputError

#: CUpti_CallbackDomain of the driver; CUpti_ApiCallbackSite before a call.
DRIVER_API, ENTER = 1, 0
NAMES = ("libcupti.so", "libcupti.so.13", "libcupti.so.12")


class CallbackData(Structure):
    """What begins CUpti_CallbackData."""

    _fields_ = (
        ("site", c_int), ("function", c_char_p), ("arguments", c_void_p), ("result", POINTER(c_int)),
        ("symbol", c_char_p),
    )  # fmt: skip


Callback = CFUNCTYPE(None, c_void_p, c_int, c_uint32, POINTER(CallbackData))


def library() -> ctypes.CDLL:
    """CUPTI. Raises InputError where it is not found."""
    for find in (_by_pathfinder, *(lambda n=name: ctypes.CDLL(n) for name in NAMES)):
        try:
            return find()
        except OSError:
            continue
    raise InputError(
        "record needs CUPTI (libcupti.so), which comes with the CUDA toolkit, torch, or "
        "`pip install nvidia-cuda-cupti`; put its folder into LD_LIBRARY_PATH"
    )


def _by_pathfinder() -> ctypes.CDLL:
    try:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
    except ImportError as e:
        raise OSError(str(e)) from None
    try:
        return ctypes.CDLL(cast(str, load_nvidia_dynamic_lib("cupti").abs_path))
    except DynamicLibNotFoundError as e:
        raise OSError(str(e)) from None


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
