"""Products of experts of different sizes: tables of groups, and the kernel instead of ``_grouped_mm``."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402
from functorch.compile import make_boxed_func  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402

import syncverify.torch as sv  # noqa: E402
from syncverify.base.diagnostics import Policy  # noqa: E402
from syncverify.matmul import grouped_product  # noqa: E402
from syncverify.matmul.problem import GROUP_ROWS, STARTS  # noqa: E402
from syncverify.torch import choice, experts, trials  # noqa: E402
from syncverify.torch.runners import ProductOnGpu, product_names  # noqa: E402
from tests.torch.compiled import draw  # noqa: E402
from tests.torch.test_ready import Here  # noqa: E402

BF16 = torch.bfloat16
#: Where rows of four experts end: one has none, or all; some have less than a group, or whole ones.
ENDS = ([10, 650, 650, 1500], [0, 0, 1500, 1500], [1500] * 4, [128, 512, 640, 1500], [1, 2, 3, 1500])


def ends(*given: int) -> Any:
    return torch.tensor(given, dtype=torch.int32)


def by_experts(a: Any, b: Any, where: Any) -> Any:
    """The product by one expert after the other, as wide as its factors."""
    found = torch.zeros(a.shape[0], b.shape[2], dtype=a.dtype)
    at = 0
    for k, end in enumerate(where.tolist()):
        found[at:end] = a[at:end] @ b[k]
        at = end
    return found


def near(got: Any, want: Any) -> None:
    assert float((got.double() - want.double()).norm() / want.double().norm()) < 1e-2


def test_tables_name_each_row_once_and_its_expert() -> None:
    """Beside a walk over rows: each row of C is one of a group of its expert."""
    g = random.Random(7)
    for _ in range(200):
        count, rows = g.randrange(1, 9), g.randrange(1, 900)
        where = sorted(g.choices((0, rows, g.randrange(rows + 1), 128, 256), k=count))
        where = [*(min(x, rows) for x in where[:-1]), rows]
        expert, starts, place = (x.tolist() for x in experts.tables(ends(*where), count, rows))
        assert len(expert) == len(starts) == experts.groups_of(rows, count) and len(place) == rows
        for row, at in enumerate(place):
            group, inside = divmod(at, GROUP_ROWS)
            own = next(k for k, end in enumerate(where) if row < end)
            assert expert[group] == own and starts[group] + inside == row
        used = len({at // GROUP_ROWS for at in place})
        assert expert[used:] == [count] * (len(expert) - used)
        assert starts[used:] == [rows] * (len(starts) - used)


def test_so_many_groups_are_needed_at_worst_and_no_more() -> None:
    for rows, count in ((1, 4), (5, 4), (128, 1), (129, 1), (130, 3), (513, 3), (1000, 8)):
        # all but one expert have one row more than whole groups, or none where rows are few
        some = min(rows, count)
        worst = [1] * some
        worst[-1] += (rows - some) // GROUP_ROWS * GROUP_ROWS
        assert sum(-(-n // GROUP_ROWS) for n in worst) == experts.groups_of(rows, count)
        g = random.Random(rows)
        for _ in range(50):
            cuts = sorted(g.randrange(rows + 1) for _ in range(count - 1))
            sizes = np.diff([0, *cuts, rows])
            assert sum(-(-int(n) // GROUP_ROWS) for n in sizes) <= experts.groups_of(rows, count)


@pytest.mark.parametrize("where", ENDS)
def test_torchs_function_makes_the_rows_that_are_taken(where: list[int]) -> None:
    a, b, at = draw(1500, 16, dtype=BF16), draw(4, 16, 24, dtype=BF16), ends(*where)
    expert, starts, place = experts.tables(at, 4, 1500)
    made = torch.ops.syncverify.rows_of_experts(a, b, expert, starts)
    near(made[place], by_experts(a.double(), b.double(), at))


def layer(x: Any, w: Any, v: Any, where: Any) -> Any:
    """Factors as models have them: turned."""
    h = F.silu(torch._grouped_mm(x, w.mT, offs=where))
    return torch._grouped_mm(h, v.mT, offs=where)


def trained(runner: str, shapes: tuple[int, int, int], where: tuple[list[int], ...]) -> Any:
    """The report of a layer whose results and gradients were right for all ends."""
    rows, width, inner = shapes
    x, w, v = (
        draw(rows, width, dtype=BF16),
        draw(4, inner, width, dtype=BF16),
        draw(4, width, inner, dtype=BF16),
    )
    given = [t.requires_grad_() for t in (x, w / 8, v / 8)]
    given = [t.detach().requires_grad_() for t in given]
    backend = sv.make_backend({"runner": runner})
    torch._dynamo.reset()
    made = torch.compile(layer, backend=backend)
    for one in where:
        at = ends(*one)
        wide = [t.detach().double().requires_grad_() for t in given]
        want = by_experts(F.silu(by_experts(wide[0], wide[1].mT, at)), wide[2].mT, at)
        got = made(*given, at)
        weights = torch.linspace(-1, 1, got.numel()).view(got.shape)
        got.backward(weights.to(BF16))
        want.backward(weights.double())
        near(got.detach(), want.detach())
        for t, u in zip(given, wide, strict=True):
            near(t.grad, u.grad)
            t.grad = None
    return backend.report


def test_a_layer_with_its_gradients_for_all_ends() -> None:
    """The gradients of factors are products of another kind, and the library's."""
    report = trained("reference", (1500, 32, 24), ENDS)
    products = [r for r in report.regions if r.kind == "product"]
    assert len(products) == 4 and all(r.operations == ("_grouped_mm.default",) for r in products)
    assert {tuple(r.sizes[d] for d in "MLE") for r in products} == {("1920", "1500", "4")}
    left = [name for graph in report.graphs for _, name, _ in graph.left]
    assert left.count("_grouped_mm.default") == 2


@pytest.mark.slow
def test_the_proved_kernels_compute_a_layer() -> None:
    report = trained("simulator", (1500, 32, 24), ENDS[:2])
    found = [r.status for r in report.regions if r.kind == "product"]
    assert found == ["proved, and simulated"] * 4


def test_one_product_by_its_proved_kernel() -> None:
    a, b, at = draw(600, 16, dtype=BF16), draw(2, 16, 24, dtype=BF16), ends(200, 600)
    backend = sv.make_backend({"runner": "simulator"})
    torch._dynamo.reset()
    got = torch.compile(lambda a, b, at: torch._grouped_mm(a, b, offs=at), backend=backend)(a, b, at)
    near(got, by_experts(a.double(), b.double(), at))
    (region,) = backend.report.regions
    assert region.status == "proved, and simulated" and region.inputs == ("a", "b", "experts", STARTS)


def kernels_of(a: Any, b: Any, at: Any, **options: Any) -> int:
    backend = sv.make_backend({"runner": "reference"})
    torch._dynamo.reset()
    torch.compile(lambda a, b, at: torch._grouped_mm(a, b, offs=at, **options), backend=backend)(a, b, at)
    return len(backend.report.regions)


def test_which_products_have_a_kernel() -> None:
    a, b, at = draw(600, 16, dtype=BF16), draw(2, 16, 24, dtype=BF16), ends(200, 600)
    assert kernels_of(a, b, at) == 1
    assert kernels_of(a, b.mT.contiguous().mT, at) == 1
    assert kernels_of(a, b, at, out_dtype=BF16) == 1
    # few rows of each of many experts; rows divided along K
    assert kernels_of(a, draw(8, 16, 24, dtype=BF16), ends(*range(0, 525, 75), 600)) == 0
    assert kernels_of(a.t(), draw(600, 24, dtype=BF16), ends(200, 600)) == 0
    # columns that lie apart
    assert kernels_of(draw(600, 64, dtype=BF16)[:, :16], b, at) == 0


@pytest.fixture
def clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Microseconds of the library's product and of the kernel, whose results are compared."""
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    monkeypatch.setattr(choice, "_FOUND", {})
    monkeypatch.setattr(sys.modules["syncverify.torch.backend"], "ALONE_SECONDS", 60.0)
    monkeypatch.setattr(trials, "_LEAST_SECONDS", 60.0)
    times = {"library": 10.0, "kernel": 9.0}

    def timed(runs: Any, arguments: Any, device: Any) -> list[float]:
        with choice.real(device):
            given = [choice._example(x) for x in arguments]
            library, *others = [run(given) for run in runs]
            for other in others:
                near(other, library)
        return [times["library"], *[times["kernel"]] * len(others)]

    monkeypatch.setattr(trials, "timed", timed)
    monkeypatch.setattr(trials, "bytes_per_us", lambda device: 1e9)
    return times


@pytest.mark.parametrize(("kernel", "taken"), [(9.0, 1), (9.95, 0), (11.0, 0)])
def test_a_kernel_is_taken_where_it_is_faster(kernel: float, taken: int, clocks: dict[str, float]) -> None:
    """As fast is not enough: rows are taken from elsewhere then. What is timed is the same product."""
    clocks["kernel"] = kernel
    a, b, at = draw(600, 16, dtype=BF16), draw(2, 16, 24, dtype=BF16), ends(200, 600)
    backend = sv.make_backend({"runner": "reference", "use": "faster"})
    torch._dynamo.reset()
    got = torch.compile(lambda a, b, at: torch._grouped_mm(a, b, offs=at), backend=backend)(a, b, at)
    near(got, by_experts(a.double(), b.double(), at))
    assert len(backend.report.regions) == taken
    assert len(backend.report.regions) + len(backend.report.refused) == 1


def test_tensors_of_a_kernel_are_named_in_the_order_of_its_inputs() -> None:
    assert product_names(grouped_product(anywhere=True)) == ("a", "b", "experts", "starts", "out")


def test_a_launch_gets_every_tensor_by_its_name(launches: list[tuple[Any, ...]]) -> None:
    """By the runner of GPUs, whose launches are simulated."""
    a, b, at = draw(300, 16, dtype=BF16), draw(2, 16, 24, dtype=BF16), ends(130, 300)
    expert, starts, place = experts.tables(at, 2, 300)
    problem = grouped_product(layout="KN", anywhere=True)
    kernel = ProductOnGpu(problem, Policy.PRACTICAL)
    sizes = {"M": len(expert) * GROUP_ROWS, "N": 24, "K": 16, "E": 2, "L": 300}
    out = torch.full((sizes["M"], 24), float("nan"), dtype=BF16)
    kernel(sizes, [a, b, expert, starts], [out])
    near(out[place], by_experts(a.double(), b.double(), at))
    assert len(launches) == 1


def test_a_compiled_product_launches_its_kernel_for_all_ends(launches: list[tuple[Any, ...]]) -> None:
    a, b = draw(600, 16, dtype=BF16), draw(2, 24, 16, dtype=BF16)
    torch._dynamo.reset()
    made = torch.compile(
        lambda a, b, at: torch._grouped_mm(a, b.mT, offs=at).relu(), backend=sv.Backend(Here())
    )
    for at in (ends(200, 600), ends(0, 600), ends(1, 600)):
        near(made(a, b, at), by_experts(a.double(), b.mT.double(), at).relu())
    assert [program.kernel.name for program, *_ in launches].count("fused_grouped_mm") == 3


@pytest.mark.parametrize(
    ("behind", "taking"),
    [
        (lambda c: c, experts.MOVED),
        (lambda c: c.mT @ c, experts.MOVED),
        (lambda c: c.chunk(2, 1)[0].relu(), experts.FREE),
        (lambda c: (c, c.relu()), experts.WRITTEN),
    ],
)
def test_what_taking_rows_costs_follows_from_who_reads_them(behind: Any, taking: str) -> None:
    """For a library they are moved, and loops read them there, or write them as well."""
    found: list[str] = []

    def listed(graph: Any, _: Any) -> Any:
        candidates = experts.of_experts(graph, set(), sv.ReferenceRunner())
        found.extend(c.taking for c in candidates if isinstance(c, experts.ExpertsCandidate))
        return make_boxed_func(graph.forward)

    torch._dynamo.reset()
    made = torch.compile(
        lambda a, b, at: behind(torch._grouped_mm(a, b, offs=at)), backend=aot_autograd(fw_compiler=listed)
    )
    made(draw(600, 16, dtype=BF16), draw(2, 16, 24, dtype=BF16), ends(200, 600))
    assert found == [taking]
