"""A GPU that is not there: its launches are simulated on the host memory that they name."""

from __future__ import annotations

import ctypes
import importlib.util
from typing import Any

import numpy as np
import pytest

from syncverify.codegen import driver
from syncverify.fusion.functions import numpy_dtype
from syncverify.gate import fusions
from syncverify.simulate import ir


@pytest.fixture(autouse=True)
def no_trials_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What trials of other tests took and found is forgotten."""
    if importlib.util.find_spec("torch") is not None:
        from syncverify.torch import slower, trials

        for what in ("inductor", "trials"):
            monkeypatch.setattr(trials.SPENT, what, 0.0)
        slower.forget()


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Program, values, device and stream of each launch."""
    torch = pytest.importorskip("torch")
    seen: list[tuple[Any, ...]] = []

    def launch(program: Any, addresses: Any, values: Any, device: int, stream: int) -> None:
        seen.append((program, values, device, stream))
        kernel = program.kernel
        memory = {}
        for t in kernel.tensors:
            if t.name in addresses:
                shape = [fusions.evaluate(e, values) for e in t.shape]
                kind = np.dtype(np.uint32) if t.dtype == "u32" else numpy_dtype(t.dtype)
                memory[t.name] = (addresses[t.name], shape, kind)
        arrays = {n: _at(*m) for n, m in memory.items()}
        for name, result in ir.run(kernel, values, {n: a.copy() for n, a in arrays.items()}).items():
            if name in arrays:
                arrays[name][...] = np.asarray(result).reshape(arrays[name].shape)

    class Device:
        def __init__(self, device: Any) -> None: ...
        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    def launcher(program: Any, values: Any, device: int, names: Any) -> Any:
        return lambda addresses, stream: launch(
            program, dict(zip(names, addresses, strict=True)), values, device, stream
        )

    monkeypatch.setattr(fusions, "launcher", launcher)
    monkeypatch.setattr(fusions.Program, "function", lambda self, device: None)
    monkeypatch.setattr(driver, "multiprocessors", lambda device: 2)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 77, raising=False)
    monkeypatch.setattr(torch.cuda, "device", Device)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    return seen


def _at(address: int, shape: list[int], dtype: Any) -> Any:
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype).reshape(shape)
