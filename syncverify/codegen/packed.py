"""Launches whose parameters lie packed in memory: a call writes the addresses and the stream, nothing else.

The driver's own functions are called (by ctypes, which lets other threads run); no object is made for a call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import Any

from syncverify.base.source import InputError
from syncverify.codegen import driver
from syncverify.codegen.tensor_maps import EncodedMap

#: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION (cuda.h).
_DEPENDENT = 6
#: Maps of one tensor that are kept, at most.
_MOST_MAPS = 64


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute: a number, and a union of 64 bytes."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int * 16)]


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    ]  # fmt: skip


@lru_cache(maxsize=1)
def functions() -> tuple[Callable[..., int], Callable[..., int]]:
    """``cuCtxSetCurrent`` and ``cuLaunchKernelEx`` themselves; InputError without a driver."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
        current, launch = library.cuCtxSetCurrent, library.cuLaunchKernelEx
    except (OSError, AttributeError):
        raise InputError(driver.NO_DRIVER) from None
    place = ctypes.c_void_p
    current.argtypes, launch.argtypes = [place], [place] * 4
    current.restype = launch.restype = ctypes.c_int
    return current, launch


@dataclass(frozen=True, slots=True)
class Shape:
    """What stays the same: the function, blocks, and the numbers behind pointers and maps."""

    function: driver.Function
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    numbers: tuple[tuple[int, Any], ...]
    device: int
    dependent: bool


class Packed:
    """The memory of one launch: pointers in ``slots``, then tensor maps, then the numbers of its shape."""

    __slots__ = ("_attribute", "_numbers", "config", "config_at", "parameters", "parameters_at", "slots")

    def __init__(self, shape: Shape, slots: int, maps: int) -> None:
        self.slots = (ctypes.c_uint64 * max(slots, 1))()
        self._numbers = [kind(value) for value, kind in shape.numbers]
        first = ctypes.addressof(self.slots)
        places = [
            *(first + 8 * k for k in range(slots)),
            *([0] * maps),
            *map(ctypes.addressof, self._numbers),
        ]
        self.parameters = (ctypes.c_void_p * max(len(places), 1))(*places)
        self.parameters_at = ctypes.addressof(self.parameters)
        self._attribute = _Attribute(_DEPENDENT, 0, (1,))
        own = (ctypes.addressof(self._attribute), 1) if shape.dependent else (None, 0)
        self.config = _Config(shape.grid, shape.block, shape.function.shared_bytes, None, *own)
        self.config_at = ctypes.addressof(self.config)


class Launcher:
    """Enqueues launches of one shape, each with ``count`` addresses. Any number of threads may call it.

    ``places``: for each pointer, which address, and bytes behind it. ``maps``: for each tensor map, which
    address, and what encodes it.
    """

    __slots__ = (
        "_context", "_current", "_encoded", "_free", "_handle", "_launch", "_maps", "_pack", "_places",
        "_plain", "_shape",
    )  # fmt: skip

    def __init__(
        self, shape: Shape, count: int, places: Sequence[tuple[int, int]],
        maps: Sequence[tuple[int, Callable[[int], EncodedMap]]] = (),
    ) -> None:  # fmt: skip
        self._shape = shape
        self._places = tuple(places)
        # whether the addresses are the pointers, one by one
        self._plain = self._places == tuple((k, 0) for k in range(count))
        self._maps = tuple((len(self._places) + k, at, encode) for k, (at, encode) in enumerate(maps))
        self._encoded: tuple[dict[int, EncodedMap], ...] = tuple({} for _ in self._maps)
        self._current, self._launch = functions()
        self._pack = Struct(f"={len(self._places)}Q").pack_into
        self._context = driver.context(shape.device)
        self._handle = int(shape.function.handle)
        # a thread takes the memory of its launch from here, so that no two write to the same
        self._free: list[Packed] = []

    def __call__(self, addresses: Sequence[int], stream: int) -> None:
        """The caller holds a proof for this shape. InputError for what the driver refuses."""
        try:
            packed = self._free.pop()
        except IndexError:
            packed = Packed(self._shape, len(self._places), len(self._maps))
        if self._plain:
            self._pack(packed.slots, 0, *addresses)
        else:
            self._pack(packed.slots, 0, *[addresses[at] + offset for at, offset in self._places])
        # kept until the driver has copied them
        held = [self._map(k, place, addresses[at], packed) for k, (place, at, _) in enumerate(self._maps)]
        packed.config.stream = stream
        status = self._current(self._context) or self._launch(
            packed.config_at, self._handle, packed.parameters_at, None
        )
        del held
        self._free.append(packed)
        if status:
            raise InputError(f"CUDA: the launch failed: {driver.error(status)}")

    def _map(self, k: int, place: int, address: int, packed: Packed) -> EncodedMap:
        """The map of a tensor at an address, as a parameter."""
        known = self._encoded[k]
        found = known.get(address)
        if found is None:
            if len(known) >= _MOST_MAPS:
                known.clear()
            found = known[address] = self._maps[k][2](address)
        packed.parameters[place] = found.address
        return found


__all__ = ["Launcher", "Packed", "Shape", "functions"]
