"""Masks that are constants: what they say, and that an attention without its mask computes the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402

import syncverify.torch as sv  # noqa: E402
from syncverify.torch.attention import CAUSAL, NOTHING, Mended, _fits, mend, says  # noqa: E402
from tests.torch.compiled import TOLERANCE, draw  # noqa: E402

HEADS, LENGTH, WIDTH = 2, 8, 16
Mask = Callable[[Any], Any]


def places(length: int = LENGTH) -> tuple[Any, Any]:
    """Numbers of queries, and of keys, as they are compared in a mask."""
    return torch.arange(length)[None, None, :, None], torch.arange(length)[None, None, None, :]


def causal(_: Any) -> Any:
    query, key = places()
    return (key <= query).expand(1, -1, LENGTH, LENGTH)


def window(_: Any) -> Any:
    query, key = places()
    return (key <= query) & (key > query - 100)


def added(_: Any) -> Any:
    keep = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    return torch.zeros(LENGTH, LENGTH).masked_fill(~keep, -torch.inf)


def everything(_: Any) -> Any:
    return (places()[0] >= 0).expand(1, 1, LENGTH, LENGTH)


def narrow_window(_: Any) -> Any:
    query, key = places()
    return (key <= query) & (key > query - 3)


def strictly_before(_: Any) -> Any:
    query, key = places()
    return (key < query) | (key == 0)


def bias(_: Any) -> Any:
    query, key = places()
    return (key - query).float() * 0.1


def of_the_input(x: Any) -> Any:
    query, key = places()
    return (key <= query) & (x[:, :, :1, :1] == x[:, :, :1, :1])


def random(_: Any) -> Any:
    return (torch.rand(LENGTH, LENGTH) < 2.0).tril()


def changed(_: Any) -> Any:
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    mask[:, 0] = True
    mask[3, 5] = True
    return mask


def attend(mask: Mask, **settings: Any) -> Callable[..., Any]:
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask(q), **settings)


def inputs(dtype: Any = torch.float32) -> list[Any]:
    return [draw(1, HEADS, LENGTH, WIDTH, dtype=dtype, seed=k) for k in range(3)]


def found(function: Callable[..., Any], dynamic: bool | None = None) -> list[str]:
    """What the masks of a function say; its result without them is the same."""
    return [m.said for m in mended(function, inputs(), dynamic)]


def mended(function: Callable[..., Any], given: list[Any], dynamic: bool | None = None) -> list[Mended]:
    """How the attentions of a function are called otherwise; its result is the same."""
    done: list[Mended] = []
    torch._dynamo.reset()

    def backend(module: Any, _: Any) -> Any:
        done.extend(mend(module))
        return module.forward

    torch.manual_seed(0)
    want = function(*given)
    torch.manual_seed(0)
    got = torch.compile(function, backend=backend, dynamic=dynamic)(*given)
    assert float((got - want).norm() / want.norm()) < TOLERANCE[torch.float32]
    return done


@pytest.mark.parametrize(
    ("mask", "said"), [(causal, CAUSAL), (window, CAUSAL), (added, CAUSAL), (everything, NOTHING)]
)
def test_known(mask: Mask, said: str) -> None:
    assert found(attend(mask)) == [said]


@pytest.mark.parametrize("mask", [narrow_window, strictly_before, bias, of_the_input, random, changed])
def test_left_as_they_are(mask: Mask) -> None:
    assert found(attend(mask)) == []


def of_places(said: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Attention with a mask of the numbers of as many places as there are keys."""

    def function(q: Any, k: Any, v: Any) -> Any:
        n = torch.arange(k.shape[2])
        mask = said(n[None, None, :, None], n[None, None, None, :])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.expand(q.shape[0], -1, -1, k.shape[2]))

    return function


#: Masks of queries and keys, and what is understood of them at sizes that are symbols.
OF_PLACES: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda q, k: k <= q, CAUSAL),
    (lambda q, k: k < q + 1, CAUSAL),
    (lambda q, k: (q - k) >= 0, CAUSAL),
    (lambda q, k: q.new_ones((), dtype=torch.bool) & (k <= q) & (k >= 0), CAUSAL),
    (lambda q, k: (k <= q).to(torch.bool) & (k + 3 > 2), CAUSAL),
    (lambda q, k: q >= 0, NOTHING),
    (lambda q, k: (q + k) > -1, NOTHING),
    (lambda q, k: k < q, ""),
    (lambda q, k: q <= k, ""),
    (lambda q, k: (k <= q) & (k > q - 4), ""),
    (lambda q, k: k + k <= q, ""),
    (lambda q, k: k <= q + 1, ""),
    (lambda q, k: k <= 3, ""),
    (lambda q, k: (k <= q) | (k == 0), ""),
    (lambda q, k: torch.add(k, q, alpha=-2) <= 0, ""),
    (lambda q, k: k <= q[:, :, 0:1], ""),
    (lambda q, k: k[..., 0:1] <= q, ""),
    (lambda q, k: k <= q * 1, ""),
]


@pytest.mark.parametrize(("mask", "said"), OF_PLACES)
def test_sizes_that_are_symbols(mask: Callable[[Any, Any], Any], said: str) -> None:
    """What is understood is what the mask says at every size, as far as they are tried."""
    assert [m.said for m in mended(of_places(mask), inputs(), dynamic=True)] == ([said] if said else [])
    for n in (2, 3, 7, 20):
        made = mask(*places(n)).expand(1, 1, n, n)
        assert not said or says(made, n, n) == said


def test_more_keys_than_queries() -> None:
    given = [draw(1, HEADS, n, WIDTH, seed=n) for n in (LENGTH - 1, LENGTH, LENGTH)]
    function = lambda q, k, v: F.scaled_dot_product_attention(  # noqa: E731
        q, k, v, attn_mask=torch.arange(k.shape[2]) <= torch.arange(q.shape[2])[:, None]
    )
    assert mended(function, given, dynamic=True) == []


def test_one_place_that_is_broadcast() -> None:
    function = lambda q, k, v: F.scaled_dot_product_attention(  # noqa: E731
        q, k, v, attn_mask=(torch.arange(1) <= torch.arange(q.shape[2])[:, None]).expand(-1, k.shape[2])
    )
    assert [m.said for m in mended(function, inputs(), dynamic=True)] in ([], [NOTHING])


def test_a_mask_that_makes_more_results_stays() -> None:
    """Torch repeats the queries for each matrix of such a mask."""
    mask = torch.ones(3, 1, LENGTH, LENGTH, dtype=torch.bool)
    one = torch.ones(2, HEADS, LENGTH, WIDTH)
    assert not _fits(mask, one[:1]) and not _fits(mask, one) and not _fits(mask, one[0])
    assert _fits(mask[:1], one) and _fits(mask[0, 0], one) and _fits(mask, torch.ones(3, 1, 8, 16))


def test_other_settings_stay() -> None:
    assert found(attend(causal, scale=0.5)) == [CAUSAL]


@pytest.mark.parametrize(
    ("mask", "queries", "keys", "said"),
    [
        (torch.ones(4, 6, dtype=torch.bool), 4, 6, NOTHING),
        (torch.ones(4, 6, dtype=torch.bool).tril(), 4, 6, None),
        (torch.ones(2, 4, 4, dtype=torch.bool).tril(), 4, 4, CAUSAL),
        (torch.ones(4, 4, dtype=torch.bool).triu(), 4, 4, None),
        (torch.ones(4, 1, dtype=torch.bool), 4, 4, NOTHING),
        (torch.tensor([True, False, True, True]).view(4, 1), 4, 4, None),
        (torch.ones(4, 4, dtype=torch.int64), 4, 4, None),
        (torch.full((4, 4), torch.finfo(torch.bfloat16).min, dtype=torch.bfloat16).triu(1), 4, 4, CAUSAL),
        (torch.full((4, 4), -1e4).triu(1), 4, 4, None),
    ],
)
def test_what_a_mask_says(mask: Any, queries: int, keys: int, said: str | None) -> None:
    assert says(mask, queries, keys) == said


def by_expand(x: Any, count: int) -> Any:
    b, h, s, d = x.shape
    return x[:, :, None, :, :].expand(b, h, count, s, d).reshape(b, h * count, s, d)


def by_unsqueeze(x: Any, count: int) -> Any:
    return x.unsqueeze(2).expand(-1, -1, count, -1, -1).reshape(x.shape[0], -1, *x.shape[2:])


def other_order(x: Any, count: int) -> Any:
    b, h, s, d = x.shape
    return x[:, None].expand(b, count, h, s, d).reshape(b, h * count, s, d)


def along_places(x: Any, count: int) -> Any:
    b, h, s, d = x.shape
    return x[:, :, :, None].expand(b, h, s, count, d).reshape(b, h * count, s, d)


def attend_to_groups(repeat: Callable[..., Any], mask: Mask = lambda _: None) -> Callable[..., Any]:
    return lambda q, k, v: F.scaled_dot_product_attention(q, repeat(k, 3), repeat(v, 3), attn_mask=mask(q))


def of_groups() -> list[Any]:
    return [draw(1, heads, LENGTH, WIDTH, seed=heads) for heads in (3 * HEADS, HEADS, HEADS)]


@pytest.mark.parametrize("repeat", [by_expand, by_unsqueeze])
@pytest.mark.parametrize(("mask", "said"), [(lambda _: None, ""), (causal, CAUSAL), (everything, NOTHING)])
def test_repeated_heads(
    repeat: Callable[..., Any], mask: Mask, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syncverify.torch.attention.grouped", lambda key: True)
    (one,) = mended(attend_to_groups(repeat, mask), of_groups())
    assert (one.said, one.repeated) == (said, 3)


@pytest.mark.parametrize("repeat", [other_order, along_places])
def test_other_heads(repeat: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncverify.torch.attention.grouped", lambda key: True)
    assert mended(attend_to_groups(repeat), of_groups()) == []


def _filled(c: Any) -> Any:
    c[:, 0] = 3.0


@pytest.mark.parametrize(
    "write",
    [
        lambda c: c.add_(1.0),
        lambda c: c.copy_(c.flip(-1)),
        lambda c: torch.mul(c, 2.0, out=c),
        lambda c: F.relu(c, inplace=True),
        lambda c: torch._foreach_add_([c], 1.0),
        _filled,
    ],
    ids=["add", "copy", "out", "inplace", "foreach", "setitem"],
)
def test_what_writes_to_a_tensor_stays(write: Callable[[Any], Any]) -> None:
    """Nobody reads what it returns: it is there for what it writes, such as a cache of keys."""

    def function(q: Any, k: Any, v: Any, c: Any) -> Any:
        write(c)
        return attend(causal)(q, k, v)

    cache, wanted = draw(4, 8), draw(4, 8)
    write(wanted)
    torch._dynamo.reset()
    made: list[Any] = []

    def backend(module: Any, _: Any) -> Any:
        made.extend(mend(module))
        return module.forward

    torch.compile(function, backend=backend)(*inputs(), cache)
    assert [m.said for m in made] == [CAUSAL] and torch.equal(cache, wanted)


def test_heads_that_change_behind_their_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attention reads copies of what heads were before."""
    monkeypatch.setattr("syncverify.torch.attention.grouped", lambda key: True)

    def function(q: Any, k: Any, v: Any) -> Any:
        k = k + 0
        copies = by_expand(k, 3)
        k.zero_()
        return F.scaled_dot_product_attention(q, copies, by_expand(v, 3)) + k.sum()

    assert mended(function, of_groups()) == []


def test_a_mask_that_stays_keeps_the_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("syncverify.torch.attention.grouped", lambda key: True)
    assert mended(attend_to_groups(by_expand, narrow_window), of_groups()) == []


def test_no_kernel_reads_groups() -> None:
    assert mended(attend_to_groups(by_expand), of_groups()) == []


def test_trained() -> None:
    torch._dynamo.reset()
    narrow = [x.requires_grad_() for x in inputs()]
    exact = [x.detach().double().requires_grad_() for x in narrow]
    function = attend(causal)
    torch.compile(function, backend=sv.Backend(sv.ReferenceRunner()))(*narrow).square().sum().backward()
    function(*exact).square().sum().backward()
    for x, y in zip(narrow, exact, strict=True):
        assert float((x.grad - y.grad).norm() / y.grad.norm()) < 1e-5
