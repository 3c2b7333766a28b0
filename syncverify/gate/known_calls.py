"""Calls of products that came before: what was found of their arrays stays found.

A call's *signature* is all that a launch depends on beside addresses and the stream: names, types, shapes,
strides and devices of the arrays. A call whose signature is known needs no second look at sizes, no second
proof and no new launch values: it reads addresses, and enqueues. Only torch's arrays have signatures;
what is not known takes the long way, which checks everything.

For example a product of 256 x 5688 x 336 takes the GPU 5 us. The long way takes the host 150 us, a known call
some 10.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from syncverify.codegen.arrays import empty_torch
from syncverify.codegen.workspaces import workspaces
from syncverify.gate.prepared_launch import Enqueue

#: Names of arrays, each with its type, shape, strides and device.
Signature = tuple[tuple[Any, ...], ...]
#: Bytes that every array's start is a multiple of.
ALIGN = 16


def _of_torch(x: Any) -> bool:
    return type(x).__module__.partition(".")[0] == "torch"


def signature(given: Mapping[str, Any]) -> Signature | None:
    """The signature of a call's arguments by name; None where one is no array of torch on a GPU. ``out`` may
    be None."""
    found: list[tuple[Any, ...]] = []
    for name, x in given.items():
        if x is None and name == "out":
            found.append((name,))
        elif _of_torch(x) and x.is_cuda:
            found.append((name, x.dtype, x.shape, x.stride(), x.device))
        else:
            return None
    return tuple(found)


@dataclass(frozen=True, slots=True)
class KnownCall:
    """Enqueues calls of one signature, for which a proof is held.

    ``places``: for each address of the kernel, the name of an argument, or of a workspace. ``made``: shape
    and type of the result that a call without ``out`` gets. ``others``: bytes of each argument but ``out``;
    ``written``: those of ``out``.
    """

    enqueue: Enqueue
    places: Sequence[str]
    device: int
    sums: str
    kept: Mapping[str, int]
    made: tuple[tuple[int, ...], str]
    others: Mapping[str, int]
    written: int

    def __call__(self, arrays: dict[str, Any], stream: int | None) -> Any:
        """The result; None, with nothing enqueued, where an array is not aligned as the kernel needs, or the
        result shares memory with another."""
        torch = sys.modules["torch"]
        result = arrays.get("out")
        if result is None:
            shape, dtype = self.made
            result = arrays["out"] = empty_torch(shape, dtype, arrays["a"].device)
        addresses = {name: x.data_ptr() for name, x in arrays.items()}
        if any(at % ALIGN for at in addresses.values()):
            return None
        low = addresses["out"]
        if any(
            low < addresses[n] + size and addresses[n] < low + self.written for n, size in self.others.items()
        ):
            return None
        on = torch.cuda.current_stream(self.device).cuda_stream if stream is None else stream
        if self.kept:
            addresses |= workspaces(self.device, on, self.sums, self.kept)
        self.enqueue.launcher([addresses[name] for name in self.places], on)
        return result


__all__ = ["ALIGN", "KnownCall", "Signature", "signature"]
