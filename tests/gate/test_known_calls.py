"""Calls of products that came before: they enqueue what the long way enqueued, and nothing else."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from syncverify import gate
from syncverify.base.source import InputError
from syncverify.codegen import driver, packed
from syncverify.codegen.cache import Cache
from syncverify.fusion import Tensor, trace
from syncverify.gate import matmul, prepared_launch
from syncverify.matmul import Problem, Schedule, product


@dataclass(frozen=True)
class Place:
    """A device of torch."""

    index: int


SMALL = Schedule(64, 64, consumers=1)


class Array:
    """A matrix of torch on a GPU that is not there."""

    __module__ = "torch"
    device, is_cuda = Place(0), True

    def __init__(self, address: int, shape: tuple[int, ...], dtype: str = "torch.bfloat16") -> None:
        self.address, self.shape, self.dtype = address, shape, dtype

    def stride(self) -> tuple[int, ...]:
        return tuple(math.prod(self.shape[k + 1 :]) for k in range(len(self.shape)))

    def data_ptr(self) -> int:
        return self.address

    def is_contiguous(self) -> bool:
        return True


class Turned(Array):
    """One whose memory runs along columns."""

    __module__ = "torch"

    def swapaxes(self, first: int, second: int) -> Array:
        return Array(self.address, self.shape[::-1], self.dtype)

    def stride(self) -> tuple[int, ...]:
        return (1, self.shape[0])


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """Addresses, blocks and the stream of each launch."""
    seen: list[tuple[Any, ...]] = []

    def launch(self: packed.Launcher, addresses: Sequence[int], stream: int) -> None:
        seen.append((tuple(addresses), self._shape.grid, stream))

    torch = ModuleType("torch")
    torch.cuda = SimpleNamespace(current_stream=lambda d: SimpleNamespace(cuda_stream=11))  # type: ignore
    torch.empty = lambda shape, dtype, device: Array(9 << 20, shape)  # type: ignore
    torch.bfloat16 = "torch.bfloat16"  # type: ignore
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(prepared_launch, "encoder", lambda *given: None)
    monkeypatch.setattr(packed, "functions", lambda: (None, None))
    monkeypatch.setattr(packed.Launcher, "__call__", launch)
    monkeypatch.setattr(driver, "context", lambda device: 1)
    monkeypatch.setattr(driver, "capture", lambda stream: 0)
    monkeypatch.setattr(driver, "use_device", lambda device: None)
    monkeypatch.setattr(driver, "zeroed", lambda size: 7 << 30)
    monkeypatch.setattr(driver, "multiprocessors", lambda device: 132)
    monkeypatch.setattr(gate.Program, "function", lambda self, device: driver.Function(5, None, 1024))
    monkeypatch.setattr(gate.Program, "require_proof", lambda self, values: None)
    return seen


def arrays(first: int, m: int, n: int, k: int) -> tuple[Array, Array, Array]:
    return Array(first, (m, k)), Turned(first + (1 << 28), (k, n)), Array(first + (1 << 29), (m, n))


@pytest.mark.parametrize("schedule", [
    SMALL, Schedule(64, 64, consumers=1, by_columns=True, store="tma"),
    Schedule(64, 64, consumers=1, split_k=2, shares="one"),
])  # fmt: skip
def test_a_known_call_enqueues_what_the_long_way_does(
    launched: list[Any], tmp_path: Path, schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = matmul.CompiledMatmul(product(), schedule, cache=Cache(tmp_path))
    points = [(1 << 20, 64, 64, 512), (2 << 20, 64, 64, 512), (1 << 20, 128, 64, 512)]
    for first, *sizes in points:
        a, b, out = arrays(first, *sizes)
        assert f(a, b, out=out) is out
    assert len(f._known) == 2
    monkeypatch.setattr(f.__class__, "_inputs", None)  # the long way
    for first, *sizes in points:
        a, b, out = arrays(first, *sizes)
        assert f(a, b, out=out) is out
    assert launched[:3] == launched[3:]
    assert len(set(launched)) == 3


@pytest.mark.parametrize("known", [False, True])
def test_a_result_that_shares_memory_with_a_factor_is_refused(
    launched: list[Any], tmp_path: Path, known: bool
) -> None:
    f = matmul.CompiledMatmul(product(), SMALL, cache=Cache(tmp_path))
    a, b, out = arrays(1 << 20, 64, 64, 64)
    if known:
        f(a, b, out=out)
    for shift, shares in ((0, "a"), (64 * 64 * 2 - 16, "a"), ((1 << 28) - 64 * 64 * 2 + 16, "b")):
        with pytest.raises(InputError, match=f"shares memory with {shares}"):
            f(a, b, out=Array(a.address + shift, (64, 64)))
    assert len(launched) == known
    beside = Array(a.address + 64 * 64 * 2, (64, 64))
    assert f(a, b, out=beside) is beside


def test_a_known_call_makes_its_result_and_takes_the_stream(launched: list[Any], tmp_path: Path) -> None:
    f = matmul.Matmul(product(), cache=Cache(tmp_path))
    a, b, _ = arrays(1 << 20, 64, 64, 64)
    for stream in (None, 5, None):
        assert f(a, b, stream=stream).shape == (64, 64)
    assert len(f._known) == 1
    assert [stream for *_, stream in launched] == [11, 5, 11]
    assert launched[0] == launched[2]


def test_what_the_long_way_refuses_is_refused_again(launched: list[Any], tmp_path: Path) -> None:
    f = matmul.CompiledMatmul(product(), SMALL, cache=Cache(tmp_path))
    a, b, out = arrays(1 << 20, 64, 64, 64)
    f(a, b, out=out)
    with pytest.raises(InputError, match="multiple of 16 bytes"):
        f(Array(a.address + 2, a.shape), b, out=out)
    with pytest.raises(InputError, match="elements of type f16"):
        f(Array(a.address, a.shape, "torch.float16"), b, out=out)
    with pytest.raises(InputError, match="K of"):
        f(Array(a.address, (64, 128)), b, out=out)
    assert len(launched) == 1


def test_a_call_without_a_proof_is_not_remembered(
    launched: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = matmul.CompiledMatmul(product(), SMALL, cache=Cache(tmp_path))
    a, b, out = arrays(1 << 20, 64, 64, 64)
    f(a, b, out=out, proved=False)

    def refused(self: gate.Program, values: Any) -> None:
        raise InputError("no proof")

    monkeypatch.setattr(gate.Program, "require_proof", refused)
    for _ in range(2):
        with pytest.raises(InputError, match="no proof"):
            f(a, b, out=out)
    assert len(launched) == 1


def test_inputs_of_an_epilogue_go_by_the_names_of_the_call(launched: list[Any], tmp_path: Path) -> None:
    def shifted(acc: Any, bias: Any) -> Any:
        return (acc + bias).cast("bf16")

    tensors = {"acc": Tensor("f32", ("M", "N")), "bias": Tensor("bf16", ("N",))}
    f = matmul.CompiledMatmul(Problem("shifted", "bf16", "KK", trace(shifted, tensors)), SMALL)
    a, b, out = arrays(1 << 20, 64, 64, 64)
    for _ in range(2):
        assert f(a, b, bias=Array(3 << 20, (64,)), out=out) is out
    assert launched[0] == launched[1] and len(f._known) == 1
