"""Views of tensors that kernels read where they lie: chunks, slices, heads of a packed projection."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402

import syncverify.torch as sv  # noqa: E402
from syncverify.fusion import Tensor, Value, silu, trace  # noqa: E402
from syncverify.torch import call  # noqa: E402
from tests.torch.compiled import close, compiled, draw  # noqa: E402

BF16 = torch.bfloat16


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For every tensor that a kernel read: whether it was copied."""
    seen: list[bool] = []
    plain = call.stored

    def stored(x: Any, *args: Any) -> Any:
        made = plain(x, *args)
        seen.append(made.data_ptr() != x.data_ptr())
        return made

    monkeypatch.setattr(call, "stored", stored)
    return seen


def chunked(x: Any) -> Any:
    a, b = x.chunk(2, -1)
    return F.silu(a) * b


def heads(x: Any, w: Any) -> Any:
    """The first part of a packed projection, and a norm of each of its heads."""
    q = x.split(256, -1)[0]
    return F.rms_norm(q.view(*q.shape[:-1], 4, 64), (64,), w, 1e-6)


def packed(x: Any, w: Any) -> Any:
    q, _, v = x.view(*x.shape[:-1], 3, 4, 64).unbind(2)
    return F.rms_norm(q, (64,), w, 1e-6), F.gelu(v) * 2


def turned(x: Any, cosine: Any, sine: Any) -> Any:
    """Rotary embedding of a slice, whose halves are slices of it."""
    q = x[:, :, 64:128]
    a, b = q.chunk(2, -1)
    return a * cosine - b * sine, b * cosine + a * sine


def prefix(x: Any) -> Any:
    return F.softmax(x[:, 8:72] * 2, -1)


def loss(x: Any, t: Any) -> Any:
    return F.cross_entropy(x[:, :40].float(), t, reduction="none")


CASES = {
    "chunked": (chunked, (draw(6, 64, dtype=BF16),)),
    "three dimensions": (chunked, (draw(3, 5, 64, dtype=BF16),)),
    "heads": (heads, (draw(2, 5, 768, dtype=BF16), draw(64, dtype=BF16))),
    "packed": (packed, (draw(2, 5, 768, dtype=BF16), draw(64, dtype=BF16))),
    "turned": (turned, (draw(2, 5, 192, dtype=BF16), draw(5, 32, dtype=BF16), draw(5, 32, dtype=BF16))),
    "prefix": (prefix, (draw(9, 128, dtype=BF16),)),
    "loss": (loss, (draw(9, 128, dtype=BF16), torch.arange(9))),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("runner", [sv.ReferenceRunner, sv.SimulatorRunner])
def test_views_are_not_copied(name: str, runner: Any, copies: list[bool]) -> None:
    function, given = CASES[name]
    report = compiled(function, *given, runner=runner())
    assert report.regions and not report.refused
    assert copies and not any(copies)


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (chunked, draw(6, 66, dtype=BF16)),  # rows that start at no multiple of 16 bytes
        (lambda x: F.softmax(x[:, 1:65] * 2, -1), draw(6, 128, dtype=BF16)),
        (lambda x: F.silu(x[:, ::2]) * 3, draw(6, 64, dtype=BF16)),  # elements that are no neighbours
        (lambda x: (x[:, :, :8] * 2).exp().sum((1, 2)), draw(6, 4, 16, dtype=BF16)),  # rows in parts
    ],
)
@pytest.mark.parametrize("runner", [sv.ReferenceRunner, sv.SimulatorRunner])
def test_what_no_kernel_reads_is_copied(function: Any, x: Any, runner: Any, copies: list[bool]) -> None:
    report = compiled(function, x, runner=runner())
    assert report.regions and any(copies)


@pytest.mark.parametrize("runner", [sv.ReferenceRunner, sv.SimulatorRunner])
def test_inputs_that_are_views(runner: Any, copies: list[bool]) -> None:
    def function(x: Any, y: Any) -> Any:
        return torch.tanh(x + 1) * y

    x = draw(4, 6, 32, dtype=BF16)
    compiled(function, x[:, :, 8:24], x[:, :, 16:], runner=runner())
    compiled(function, x[1:3, 2:5], x[:2, 3:], runner=runner())
    compiled(function, x.transpose(0, 1)[:, :, :16], x[0, :, 16:].unsqueeze(1), runner=runner())
    report = compiled(function, x[:, :1, :16].expand(4, 6, 16), x[:, :, 16:], runner=runner())
    assert report.regions[0].notes == [] and not any(copies)


@pytest.mark.parametrize("runner", [sv.ReferenceRunner, sv.SimulatorRunner])
@pytest.mark.parametrize(
    "function",
    [
        lambda q: F.silu(q) * 2 + 1,
        lambda q: F.rms_norm(q, (16,), None, 1e-6),
        lambda q: F.silu(q[:, :, :, :8]) * 2,  # rows of 16 bytes
        lambda q: F.silu(q[:, :, :, :6]) * 2,  # rows that no kernel writes where they belong
    ],
)
def test_results_lie_as_torch_has_them(function: Any, runner: Any) -> None:
    q = draw(2, 5, 3, 16, dtype=BF16).transpose(1, 2)
    torch._dynamo.reset()
    backend = sv.Backend(runner())
    got, plain = torch.compile(function, backend=backend)(q), function(q)
    assert backend.report.regions and not backend.report.refused
    close(got, function(q.double()))
    assert got.stride() == plain.stride()


def test_numbers_of_rows_that_differ(copies: list[bool]) -> None:
    torch._dynamo.reset()
    backend = sv.Backend(sv.SimulatorRunner())
    function = torch.compile(chunked, backend=backend, dynamic=True)
    for rows, width in ((6, 64), (9, 64), (4, 96), (5, 66)):
        x = draw(rows, width, dtype=BF16)
        torch._dynamo.mark_static(x, 1)
        close(function(x), chunked(x.double()))
    assert backend.report.regions


def test_one_kernel_reads_views_and_copies(copies: list[bool]) -> None:
    """What a call copies does not change which launch it is."""
    torch._dynamo.reset()
    backend = sv.Backend(sv.SimulatorRunner())
    function = torch.compile(lambda x, y: torch.tanh(x + 1) * y, backend=backend)
    whole = draw(6, 64, dtype=BF16)
    memory = draw(6 * 64 + 1, dtype=BF16)
    views = (whole[:, :32], whole[:, 32:], memory[1:].view(6, 64)[:, :32])
    for x in views:
        for y in views:
            close(function(x, y), torch.tanh(x.double() + 1) * y.double())
    assert any(copies) and not all(copies)


def test_an_operator_takes_views() -> None:
    def gated(a: Value, b: Value) -> Value:
        return silu(a) * b

    rows = Tensor("bf16", ("R", "C"), apart=True)
    fusion = trace(gated, {"a": rows, "b": rows})
    op = sv.custom_op(fusion, "test_views_gated", runner=sv.SimulatorRunner())
    x = draw(6, 64, dtype=BF16)
    a, b = x.chunk(2, -1)
    for given in ((a, b), (a.contiguous(), b), (x[:, 1:33], b)):
        close(op(*given), F.silu(given[0].double()) * given[1].double())
