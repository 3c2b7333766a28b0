"""Kernels that see what a GPU's would: addresses alone, and the sizes and pitches of the call.

They share nothing with a call's tensors. Where one is read as if it lay otherwise, numbers are wrong.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from syncverify.fusion import Fusion
from syncverify.fusion.functions import numpy_dtype
from syncverify.fusion.row_strides import pitch, tensors
from syncverify.matmul.problem import Problem
from syncverify.torch.runners import product_names

#: Bytes that every tensor starts at a multiple of.
_ALIGNMENT = 16


@dataclass(frozen=True)
class Place:
    """A tensor in memory: its extents, and how far apart its elements lie along each."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def at(self, address: int) -> Any:
        """The elements there, as an array that writes through."""
        assert address % _ALIGNMENT == 0, "a tensor that no kernel can read"
        kind = np.dtype(numpy_dtype(self.dtype))
        span = 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        memory: Any = (ctypes.c_char * (span * kind.itemsize)).from_address(address)
        flat = np.frombuffer(memory, kind)
        steps = [s * kind.itemsize for s in self.strides]
        return np.lib.stride_tricks.as_strided(flat, self.shape, steps)


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides = [1]
    for n in reversed(shape[1:]):
        strides.append(strides[-1] * n)
    return tuple(reversed(strides)) if shape else ()


def of_fusion(fusion: Fusion, sizes: Mapping[str, int]) -> list[Place]:
    """Its inputs, then its outputs."""
    apart = tensors(fusion)
    every = [(n, t.dtype, t.dims) for n, t in fusion.inputs]
    every += [(o.name, o.dtype, o.dims) for o in fusion.outputs]
    found = []
    for name, dtype, dims in every:
        shape = tuple(sizes[d] for d in dims)
        steps = (*(sizes[pitch(name, d)] for d in dims[:-1]), 1) if name in apart else contiguous(shape)
        found.append(Place(dtype, shape, steps))
    return found


def of_product(problem: Problem, sizes: Mapping[str, int]) -> list[Place]:
    """Factors, other inputs, results."""
    kinds = {**problem.stored, **{n: t.dtype for n, t in problem.others}}
    kinds |= {o.name: o.dtype for o in problem.epilogue.outputs}
    shapes = {n: tuple(sizes[d] for d in problem.shapes[n]) for n in product_names(problem)}
    return [Place(kinds[n], shape, contiguous(shape)) for n, shape in shapes.items()]


class MemoryRunner:
    """Makes such kernels."""

    name = "memory"

    def __init__(self) -> None:
        self.launches = 0

    def why_not(self, device: torch.device) -> str:
        return ""

    def fusion(self, fusion: Fusion) -> _Kernel:
        def run(sizes: Mapping[str, int], arrays: list[Any]) -> tuple[Any, ...]:
            names = [n for n, _ in fusion.inputs]
            return fusion.reference(dict(zip(names, arrays, strict=True)))

        return _Kernel(self, lambda sizes: of_fusion(fusion, sizes), run, len(fusion.outputs))

    def product(self, problem: Problem) -> _Kernel:
        def run(sizes: Mapping[str, int], arrays: list[Any]) -> tuple[Any, ...]:
            a, rights, others = (
                arrays[0],
                arrays[1 : 1 + len(problem.rights)],
                arrays[1 + len(problem.rights) :],
            )
            left = np.swapaxes(a, -1, -2) if problem.a_t else a
            turned = [np.swapaxes(b, -1, -2) if problem.b_t else b for b in rights]
            made = [left.astype(np.float32) @ b.astype(np.float32) for b in turned]
            names = [n for n, _ in problem.others]
            given = dict(zip(names, others, strict=True))
            if not problem.batched:
                return problem.epilogue.reference({**dict(zip(problem.products, made, strict=True)), **given})
            each = [
                problem.epilogue.reference({**dict(zip(problem.products, own, strict=True)), **given})
                for own in zip(*made, strict=True)
            ]
            return tuple(np.stack(one) for one in zip(*each, strict=True))

        return _Kernel(self, lambda sizes: of_product(problem, sizes), run, len(problem.epilogue.outputs))


class _Kernel:
    def __init__(
        self, runner: MemoryRunner, places: Callable[[Mapping[str, int]], list[Place]],
        run: Callable[..., tuple[Any, ...]], results: int,
    ) -> None:  # fmt: skip
        self._runner, self._places, self._run, self._results = runner, places, run, results

    def prepare(self, sizes: Mapping[str, int], device: torch.device) -> str:
        return "nothing is proved"

    def prepared(self, sizes: Mapping[str, int], device: torch.device) -> bool:
        return True

    def __call__(self, sizes: Mapping[str, int], inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        places = self._places(sizes)
        for x, place in zip((*inputs, *outputs), places, strict=True):
            last = sum((n - 1) * s for n, s in zip(place.shape, place.strides, strict=True))
            inside = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
            assert last < inside, "a kernel would read behind a tensor's memory"
        self._launch(sizes, places, [x.data_ptr() for x in (*inputs, *outputs)])

    def bound(self, sizes: Mapping[str, int], device: torch.device) -> Any:
        """What a call that finds everything ready runs: no tensors are seen any more."""
        places = self._places(sizes)

        def run(addresses: Sequence[int]) -> None:
            self._launch(sizes, places, addresses)

        run.device = 0  # type: ignore[attr-defined]
        return run

    def _launch(self, sizes: Mapping[str, int], places: list[Place], addresses: Sequence[int]) -> None:
        self._runner.launches += 1
        arrays = [p.at(a) for p, a in zip(places, addresses, strict=True)]
        given, made = arrays[: -self._results], arrays[-self._results :]
        for out, result in zip(made, self._run(sizes, [np.array(x) for x in given]), strict=True):
            out[...] = result.reshape(out.shape)


__all__ = ["MemoryRunner"]
