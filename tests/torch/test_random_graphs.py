"""Random functions, with kernels that see addresses alone: as near to float64 as torch itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch.fx import Interpreter  # noqa: E402

import syncverify.torch as sv  # noqa: E402
from syncverify import gate  # noqa: E402
from syncverify.simulate import ir  # noqa: E402
from syncverify.torch import table  # noqa: E402
from syncverify.torch.backend import lower  # noqa: E402
from syncverify.torch.call import _computable  # noqa: E402
from syncverify.torch.dims import UnfitError  # noqa: E402
from tests.codegen import executed  # noqa: E402
from tests.torch import random_operators  # noqa: E402
from tests.torch.compiled import compiled  # noqa: E402
from tests.torch.compiled import draw as numbers  # noqa: E402
from tests.torch.memory import MemoryRunner  # noqa: E402
from tests.torch.random_graphs import Drawn, draw  # noqa: E402

BF16 = torch.bfloat16
#: Errors that results may have beside four times those of torch.
TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 1e-2, torch.float32: 1e-2, torch.float64: 1e-2}


@pytest.fixture(autouse=True)
def one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)


class _Checked(Interpreter):  # type: ignore[misc]
    """Runs a graph and holds every result against what was known of it."""

    def run_node(self, n: Any) -> Any:
        made, known = super().run_node(n), n.meta.get("val")
        if isinstance(made, torch.Tensor) and isinstance(known, torch.Tensor) and n.op == "call_function":
            assert made.dtype == known.dtype
            if all(isinstance(size, int) for size in known.shape) and _lies(made) != _lies(known):
                # torch's own operators lie otherwise than it foretold where several orders are as good
                assert getattr(n.target, "namespace", "") in ("aten", "prims"), n
                return torch.empty_strided(known.shape, known.stride(), dtype=made.dtype).copy_(made)
        return made


def _lies(x: Any) -> list[tuple[int, int]]:
    return [(n, s) for n, s in zip(x.shape, x.stride(), strict=True) if n != 1]


def without_inductor(runner: MemoryRunner) -> Callable[..., Any]:
    """A backend with kernels, whose other nodes torch runs one by one."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    def kernels(graph: Any, given: Any) -> Any:
        runs = _Checked(lower(graph, runner)[0])
        return make_boxed_func(lambda *args: runs.run(*args))

    made: Callable[..., Any] = aot_autograd(
        fw_compiler=kernels, bw_compiler=kernels, decompositions=table.decompositions(),
        partition_fn=min_cut_rematerialization_partition, keep_inference_input_mutations=True,
    )  # fmt: skip
    return made


def copied(x: Any, dtype: Any = None) -> Any:
    """The same numbers in memory of their own, that lie alike."""
    count = x.untyped_storage().nbytes() // x.element_size()
    memory = x.as_strided((count,), (1,), 0).to(dtype or x.dtype, copy=True)
    return memory.as_strided(x.shape, x.stride(), x.storage_offset())


def elsewhere(x: Any) -> Any:
    """The same numbers where no kernel can read them, or as they are."""
    if not x.is_contiguous():
        return x
    memory = torch.empty(x.numel() + 1, dtype=x.dtype)
    return memory[1:].view(x.shape).copy_(x)


def error(got: Any, want: Any) -> float:
    return float((got.double() - want.double()).norm() / want.double().norm().clamp_min(1e-2))


def judge(got: Any, exact: Any, plain: Any) -> None:
    for g, w, p in zip(got, exact, plain, strict=True):
        assert (g is None) == (p is None)
        if g is not None:
            g, w, p = g.detach(), w.detach(), p.detach()
            assert g.shape == p.shape and g.dtype == p.dtype
            assert error(g, w) <= max(4 * error(p, w), TOLERANCE[g.dtype])


def run(drawn: Drawn, *, trained: bool, dynamic: bool, runner: Any = None) -> int:
    """Calls of a function, with other numbers, and with inputs elsewhere. The number of launches."""
    torch._dynamo.reset()
    runner = runner or MemoryRunner()
    function = torch.compile(
        lambda *given: drawn(*given),
        backend=without_inductor(runner),
        dynamic=dynamic or None,
        fullgraph=True,
    )
    exactly = replace(drawn, wide=True)
    for turn in range(3):
        given = [copied(x) if turn < 2 else elsewhere(copied(x)) for x in drawn.inputs]
        plain, exact = [copied(x) for x in drawn.inputs], [copied(x, torch.float64) for x in drawn.inputs]
        if trained:
            for x in (*given, *plain, *exact):
                x.requires_grad_()
        pairs = (function, given), (exactly, exact), (drawn, plain)
        made = [f(*inputs) for f, inputs in pairs]
        judge(*made)
        if not trained:
            judge(given, exact, plain)  # what is written to
            continue
        for results in made:
            losses = [
                (x.double() * torch.linspace(-1, 1, x.numel()).double().view(x.shape)).sum() for x in results
            ]
            sum(x for x in losses if x.requires_grad).backward()
        judge(*([x.grad for x in inputs] for _, inputs in pairs))
    count: int = runner.launches
    return count


def kinds(seed: int) -> dict[str, bool]:
    return {"trained": seed % 3 == 0, "dynamic": seed % 5 == 0}


def launched(seeds: Iterable[int]) -> int:
    total = 0
    for seed in seeds:
        trained = seed % 3 == 0
        total += run(draw(seed, changes=not trained), trained=trained, dynamic=seed % 5 == 0)
    return total


def test_as_near_as_torch() -> None:
    assert launched([10, 36, 37]) > 5


def test_masks_losses_and_gathers_are_as_near() -> None:
    drawn = [(seed, random_operators.draw(seed)) for seed in (5, 17, 31)]
    assert sum(run(d, trained=False, dynamic=seed % 5 == 0) for seed, d in drawn) > 5


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 25))
def test_many_masks_losses_and_gathers(first: int) -> None:
    for seed in range(first, first + 25):
        run(random_operators.draw(seed), trained=False, dynamic=seed % 5 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(40_000, 40_300, 25))
def test_many(first: int) -> None:
    assert launched(range(first, first + 25)) > 50


# ---------------------------------------------------------------- NaN and infinities

#: A finite number that is large makes a product that is none in f16.
_UNUSUAL = (torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1e4, -1e4, 1e-6)


def unusual(x: Any, share: float, generator: Any) -> Any:
    """The same numbers, some of them replaced; as they are, where several places are one in memory."""
    y = copied(x)
    if all(y.stride()):
        chosen = torch.randint(0, len(_UNUSUAL), y.shape, generator=generator)
        at = torch.rand(y.shape, generator=generator) < share
        y.copy_(torch.where(at, torch.tensor(_UNUSUAL)[chosen].to(y.dtype), y))
    return y


def sorts(x: Any) -> Any:
    """0 of a finite number, 1 or -1 of an infinity, 2 of NaN."""
    return torch.where(x.isnan(), 2.0, torch.where(x.isinf(), x.double().sign(), 0.0))


def same_sorts(drawn: Drawn, seed: int, runner: Any = None) -> int:
    """Holds the sort of each number against torch's and float64's. The number of places that are not finite.

    Torch rounds between operators and float64 does not, so a number may be as in either.
    """
    torch._dynamo.reset()
    generator = torch.Generator().manual_seed(seed)
    inputs = [unusual(x, (0.02, 0.1)[seed % 2], generator) for x in drawn.inputs]
    function = torch.compile(
        lambda *given: drawn(*given), backend=without_inductor(runner or MemoryRunner()), fullgraph=True
    )
    pairs = (function, None), (drawn, None), (replace(drawn, wide=True), torch.float64)
    made = []
    for called, dtype in pairs:
        given = [copied(x, dtype) for x in inputs]
        made.append([*called(*given), *given])
    count = 0
    for got, plain, exact in zip(*made, strict=True):
        sort = sorts(got)
        assert bool(((sort == sorts(plain)) | (sort == sorts(exact.to(got.dtype)))).all()), drawn.text
        count += int((sort != 0).sum())
    return count


def test_nan_and_infinities_are_as_in_torch_or_in_float64() -> None:
    assert sum(same_sorts(draw(seed), seed) for seed in (910_016, 910_042)) > 100


def test_numbers_between_operators_of_a_kernel_are_not_rounded() -> None:
    def function(x: Any, c: Any) -> Any:
        return (1 - x * (1 - 2**-10)) * c

    given = torch.ones(8, 16, dtype=BF16), torch.full((8, 16), torch.inf, dtype=BF16)
    runner = MemoryRunner()
    got = torch.compile(function, backend=without_inductor(runner))(*given)
    assert runner.launches == 1 and bool(got.isposinf().all())
    assert bool(function(*given).isnan().all())  # bf16 has no number between 1 - 2**-8 and 1


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1075, 25))
def test_many_masks_of_nan_and_infinities(first: int) -> None:
    assert sum(same_sorts(random_operators.draw(seed), seed) for seed in range(first, first + 25)) > 1000


@pytest.mark.slow
@pytest.mark.parametrize("first", range(910_000, 910_075, 25))
def test_many_with_nan_and_infinities(first: int) -> None:
    assert sum(same_sorts(draw(seed), seed) for seed in range(first, first + 25)) > 1000


# ---------------------------------------------------------------- the PTX of the kernels, executed


class Executed(sv.SimulatorRunner):
    """Kernels that nobody proves, run as the PTX that NVRTC made of them."""

    launches = 0

    def count(self, *args: Any) -> dict[str, Any]:
        self.launches += 1
        return executed.run(*args)


@pytest.fixture
def by_ptx(monkeypatch: pytest.MonkeyPatch) -> Executed:
    runner = Executed()
    monkeypatch.setattr(gate.Program, "proofs", property(lambda self: {}))
    monkeypatch.setattr(gate.Program, "require_proof", lambda self, values: None)
    monkeypatch.setattr(ir, "run", runner.count)
    return runner


def test_the_ptx_of_kernels_computes_as_near(by_ptx: Executed) -> None:
    assert run(random_operators.draw(2006), trained=False, dynamic=False, runner=by_ptx) > 3
    assert same_sorts(draw(910_042), 910_042, by_ptx) > 20


@pytest.mark.slow
@pytest.mark.parametrize("first", range(2000, 2040, 5))
def test_many_by_ptx(by_ptx: Executed, first: int) -> None:
    for seed in range(first, first + 5):
        run(random_operators.draw(seed), trained=False, dynamic=seed % 5 == 0, runner=by_ptx)
        same_sorts(random_operators.draw(seed + 1000), seed, by_ptx)
        run(draw(seed, changes=False), trained=True, dynamic=False, runner=by_ptx)


# ---------------------------------------------------------------- what they found


def test_elements_that_are_repeated_are_summed_as_often() -> None:
    def function(x: Any) -> Any:
        between = (x[:, None, :].expand(8, 5, 16) * 1.5).exp().sum((1, 2))
        constant = (x[:, :, None] + torch.full((8, 16, 5), 2.0)).exp().var((1, 2))
        return between, constant, (x[0][:, None].expand(16, 5) * 1.5).exp().sum()

    found = [r.operations for r in compiled(function, numbers(8, 16)).regions]
    assert not any("sum" in name or "var" in name for names in found for name in names)


def test_a_column_beside_a_row_that_comes_first() -> None:
    def outer(row: Any, column: Any) -> Any:
        return torch.tanh(row) - column

    (region,) = compiled(outer, numbers(16), numbers(16, 1, seed=1)).regions
    assert list(region.sizes) == ["r0", "c"]


def test_copies_of_rows_and_of_columns_are_different_factors() -> None:
    def gate(x: Any, a: Any, b: Any) -> Any:
        columns, rows = x[:, None].expand(64, 64).contiguous(), x.expand(64, 64).contiguous()
        return torch.nn.functional.silu(columns @ a) * (rows @ b)

    given = numbers(64, dtype=BF16), numbers(64, 48, dtype=BF16), numbers(64, 48, dtype=BF16, seed=1)
    assert all(r.operations.count("mm.default") < 2 for r in compiled(gate, *given).regions)


def test_what_is_added_nought_times_is_not_read() -> None:
    def function(z: Any, x: Any, y: Any) -> Any:
        return torch.addmm(z, x, y, beta=0, alpha=2).relu()

    nothing = torch.full((48,), torch.nan, dtype=BF16)
    compiled(function, nothing, numbers(32, 64, dtype=BF16), numbers(64, 48, dtype=BF16))


def test_each_draw_is_its_own() -> None:
    def function(x: Any) -> Any:
        return torch.normal(x, x).exp() * 2, torch.normal(x, x).exp() * 2

    one, two = torch.compile(function, backend=without_inductor(MemoryRunner()))(torch.ones(8, 16))
    assert not torch.equal(one, two)


def test_sizes_that_are_divided() -> None:
    """Heads of a width that is a symbol: their length is a quotient."""

    def heads(x: Any) -> Any:
        parts = x.view(*x.shape[:-1], 4, -1)
        return torch.nn.functional.rms_norm(parts, (x.shape[-1] // 4,), eps=1e-5).flatten(-2) + 1

    runner = MemoryRunner()
    function = torch.compile(heads, backend=without_inductor(runner), dynamic=True)
    for shape in ((8, 16, 32), (3, 5, 64)):
        x = numbers(*shape)
        judge([function(x)], [heads(x.double())], [heads(x)])


def test_sizes_that_are_unknown_are_left_to_torch() -> None:
    import sympy

    assert _computable([sympy.Max(sympy.Symbol("a"), 2)])["Max"](1, 2) == 2
    with pytest.raises(UnfitError, match="sin"):
        _computable([sympy.sin(sympy.Symbol("a"))])
