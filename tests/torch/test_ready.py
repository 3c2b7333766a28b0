"""Calls of which everything is known already: only addresses and the stream are new."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402

import syncverify.torch as sv  # noqa: E402
from syncverify.torch import call  # noqa: E402
from syncverify.torch.runners import GateRunner  # noqa: E402
from tests.torch.compiled import close, draw  # noqa: E402

BF16 = torch.bfloat16


class Here(GateRunner):
    """Kernels for a GPU, on the host memory that the fixture simulates."""

    def why_not(self, device: torch.device) -> str:
        return ""


def norm(x: Any, w: Any) -> Any:
    return F.rms_norm(x * 2.0, x.shape[-1:], w, 1e-6)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls that were not ready."""
    seen: list[Any] = []
    plain = call.Fused._found

    def found(self: Any, given: Any, computed: Any, key: Any) -> Any:
        seen.append(key)
        return plain(self, given, computed, key)

    monkeypatch.setattr(call.Fused, "_found", found)
    return seen


def compiled(function: Any, dynamic: bool = False) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend=sv.Backend(Here()), dynamic=dynamic)


def check(run: Any, function: Any, *given: Any) -> Any:
    made = run(*given)
    close(made, function(*(x.double() for x in given)))
    return made


def test_later_calls_are_ready(launches: list[Any], slow: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    run = compiled(norm)
    w = draw(64, dtype=BF16)
    first = check(run, norm, draw(24, 64, dtype=BF16), w)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 99)
    second = check(run, norm, draw(24, 64, dtype=BF16, seed=1), w)
    third = check(run, norm, draw(24, 64, dtype=BF16, seed=2), draw(64, dtype=BF16, seed=3))
    assert len(slow) == 1 and [stream for _, _, _, stream in launches] == [77, 99, 99]
    assert len({x.data_ptr() for x in (first, second, third)}) == 3
    assert first.stride() == second.stride() and first.dtype is third.dtype


def test_what_does_not_start_at_a_multiple_of_16_bytes_is_copied_in_every_call(
    launches: list[Any], slow: list[Any]
) -> None:
    run = compiled(norm)
    w = draw(64, dtype=BF16)
    for seed, shift in enumerate((0, 1, 0, 3, 0)):
        whole = draw(24 * 64 + 8, dtype=BF16, seed=seed)
        check(run, norm, whole[shift : shift + 24 * 64].view(24, 64), w)
    assert len(slow) == 3 and len(launches) == 5


def test_another_current_device_is_not_ready(
    launches: list[Any], slow: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = compiled(norm)
    given = draw(24, 64, dtype=BF16), draw(64, dtype=BF16)
    check(run, norm, *given)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    check(run, norm, *given)
    assert len(slow) == 2


def shaped(x: Any, y: Any) -> Any:
    """The kernel's rows are the same for (4, 6) and (8, 3); its result's shape is another."""
    return (F.softmax(x + 1.0, -1)).view(y.shape[0], y.shape[1], x.shape[-1])


def test_shapes_of_as_many_rows_are_told_apart(launches: list[Any], slow: list[Any]) -> None:
    run = compiled(shaped, dynamic=True)
    for rows in ((4, 6), (8, 3), (4, 6), (8, 3), (2, 12)):
        x, y = draw(24, 64, dtype=BF16), torch.zeros(rows)
        made = run(x, y)
        assert made.shape == (*rows, 64)
        close(made, shaped(x.double(), y))
    assert len(launches) == 5


def prefix(x: Any) -> Any:
    return F.silu(x[:, :64]) * x[:, 64:]


def test_views_are_ready_where_they_lie(launches: list[Any], slow: list[Any]) -> None:
    run = compiled(prefix)
    for seed in range(3):
        check(run, prefix, draw(10, 128, dtype=BF16, seed=seed))
    assert len(slow) == 1 and len(launches) == 3


def test_factors_are_ready_turned_or_not(launches: list[Any], slow: list[Any]) -> None:
    def linear(x: Any, w: Any, b: Any) -> Any:
        return F.gelu(F.linear(x, w, b))

    run = compiled(linear)
    for seed in range(3):
        given = (draw(*s, dtype=BF16, seed=seed) for s in ((20, 64), (72, 64), (72,)))
        check(run, linear, *given)
    assert len(slow) == 1 and len(launches) == 3


def test_a_start_that_is_no_multiple_of_16_bytes_is_a_copy_once(launches: list[Any], slow: list[Any]) -> None:
    def chunked(x: Any) -> Any:
        a, b = x.chunk(2, -1)
        return F.silu(a) * b

    for function in (prefix, chunked):
        slow.clear()
        backend = sv.Backend(Here())
        torch._dynamo.reset()
        run = torch.compile(function, backend=backend, dynamic=False)
        for seed in range(3):
            check(run, function, draw(10, 128, dtype=BF16, seed=seed))
        ready = len(slow)
        whole = draw(10 * 128 + 4, dtype=BF16, seed=9)
        check(run, function, whole[4:].view(10, 128))
        check(run, function, draw(10, 128, dtype=BF16, seed=5))
        assert (ready, len(slow)) in ((1, 2), (0, 1))  # the second function may find the first one's operator


def returned(x: Any) -> Any:
    part = x[:, 64:]
    return F.silu(part) * 2.0, part


def changed(x: Any) -> Any:
    y = F.silu(x[:, :64]) * x[:, 64:]
    x.mul_(2.0)
    return y


def changed_before(x: Any) -> Any:
    x.mul_(2.0)
    return F.silu(x[:, :64]) * x[:, 64:]


@pytest.mark.parametrize("function", [returned, changed, changed_before])
def test_views_of_what_is_returned_or_changed(function: Any, launches: list[Any]) -> None:
    run = compiled(function)
    for seed in range(3):
        x = draw(10, 128, dtype=BF16, seed=seed)
        y, wide = x.clone(), x.double()
        close(run(y), function(wide))
        close(y, wide)
    assert len(launches) >= 3


def test_a_view_that_would_be_a_copy_is_made_in_every_call(launches: list[Any], slow: list[Any]) -> None:
    def turned(x: Any) -> Any:
        return F.softmax(x.t().reshape(64, 40) * 2.0, -1)

    run = compiled(turned)
    for seed in range(3):
        check(run, turned, draw(40, 64, dtype=BF16, seed=seed))
