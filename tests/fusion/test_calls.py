"""Calls of compiled fusions: what was found of sizes stays found, and nothing unproved is ever enqueued."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from syncverify import gate
from syncverify.base.source import InputError
from syncverify.codegen import driver, packed
from syncverify.codegen.cache import Cache
from syncverify.examples import fusions as examples
from syncverify.fusion import Schedule

SMALL = Schedule(tile=1024, compute_warps=4, stages=2)


class Array:
    """Memory of a GPU that is not there."""

    def __init__(self, address: int, shape: tuple[int, ...]) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": "<f4", "data": (address, False), "strides": None, "version": 3,
        }  # fmt: skip


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[int], int]]:
    """The three pointers and the stream of each launch."""
    seen: list[tuple[list[int], int]] = []

    def launch(config: int, function: int, parameters: int, extra: Any) -> int:
        places = (ctypes.c_void_p * 3).from_address(parameters)
        seen.append(
            (
                [ctypes.c_uint64.from_address(p).value for p in places],
                packed._Config.from_address(config).stream,
            )
        )
        return 0

    monkeypatch.setattr(packed, "functions", lambda: (lambda context: 0, launch))
    monkeypatch.setattr(driver, "context", lambda device: 1)
    monkeypatch.setattr(driver, "multiprocessors", lambda device: 2)
    monkeypatch.setattr(gate.Program, "function", lambda self, device: driver.Function(5, None, 1024))
    return seen


def call(kernel: Any, first: int, shape: tuple[int, ...], stream: int) -> None:
    a, b, out = (Array(first + k * 65536, shape) for k in range(3))
    kernel(a, b, out=out, stream=stream)


def test_each_call_has_its_own_addresses_and_stream(tmp_path: Path, launched: list[Any]) -> None:
    kernel = gate.compile(examples.mul, SMALL, cache=Cache(tmp_path))
    for first, stream in ((1 << 20, 7), (2 << 20, 8), (1 << 20, 9)):
        call(kernel, first, (16, 64), stream)
    call(kernel, 3 << 20, (8, 64), 7)
    firsts = [1 << 20, 2 << 20, 1 << 20, 3 << 20]
    assert [sorted(places) for places, _ in launched] == [[f, f + 65536, f + 131072] for f in firsts]
    assert [stream for _, stream in launched] == [7, 8, 9, 7]
    assert len(kernel._ready) == 2


def test_a_result_in_the_place_of_an_input_is_refused(tmp_path: Path, launched: list[Any]) -> None:
    kernel = gate.compile(examples.mul, SMALL, cache=Cache(tmp_path))
    a, b = Array(1 << 20, (16, 64)), Array(2 << 20, (16, 64))
    for out in (a, b, Array((1 << 20) + 16 * 64 * 4 - 16, (16, 64))):
        with pytest.raises(InputError, match="shares memory with"):
            kernel(a, b, out=out, stream=7)
    assert not launched


def test_what_is_not_proved_is_refused_in_every_call(
    tmp_path: Path, launched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = gate.compile(examples.mul, SMALL, cache=Cache(tmp_path))

    def refused(self: gate.Program, values: Any) -> None:
        raise gate.VerificationError(self.proofs["ir"])

    monkeypatch.setattr(gate.Program, "require_proof", refused)
    for _ in range(2):
        with pytest.raises(gate.VerificationError):
            call(kernel, 1 << 20, (16, 64), 7)
    assert not launched and not kernel._ready
