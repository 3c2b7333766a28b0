"""Regions as operators in Inductor's graph: what is around them, their contract, and when they are chosen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402

import syncverify.torch as sv  # noqa: E402
from syncverify.base.source import InputError  # noqa: E402
from syncverify.torch import choice, operators, trials  # noqa: E402
from syncverify.torch.backend import lower  # noqa: E402
from syncverify.torch.candidate import operator_of  # noqa: E402
from syncverify.torch.partition import partition  # noqa: E402
from tests.torch.compiled import compiled, draw, trained  # noqa: E402
from tests.torch.test_context import graph_of  # noqa: E402

BF16 = torch.bfloat16


def rotated(x: Any, w: Any) -> Any:
    """A norm between operations that no kernel holds."""
    y = F.rms_norm(x.transpose(0, 1) + 1, x.shape[-1:], w, 1e-6)
    return torch.cat([-y[..., 8:], y[..., :8]], -1)


def code(function: Any, backend: Any, *inputs: Any) -> tuple[Any, str]:
    """The result of a compiled function, and Inductor's program for it."""
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    result, programs = run_and_get_code(torch.compile(function, backend=backend), *inputs)
    return result, "\n".join(programs)


def test_inductor_compiles_what_is_around_a_kernel() -> None:
    x, w = draw(6, 5, 32), draw(32)
    got, program = code(rotated, sv.Backend(sv.ReferenceRunner()), x, w)
    torch.testing.assert_close(got, rotated(x, w))
    assert program.count(".into(") == 1 and "cpp_fused" in program
    assert "= torch.ops.aten." not in program


def test_products_alone_are_inductors() -> None:
    x, w = draw(16, 32, dtype=BF16), draw(32, 24, dtype=BF16)
    _, program = code(lambda x, w: x @ w, sv.Backend(sv.ReferenceRunner()), x, w)
    assert "torch.ops.syncverify" not in program


def test_equal_regions_share_an_operator() -> None:
    def twice(x: Any, w: Any) -> Any:
        y = F.rms_norm(x, x.shape[-1:], w, 1e-6).cumsum(0)
        return F.rms_norm(y, y.shape[-1:], w, 1e-6)

    runner = sv.ReferenceRunner()
    before = len(operators._MADE)
    assert len(compiled(twice, draw(6, 48), draw(48), runner=runner).regions) == 2
    assert len(operators._MADE) == before + 1


def test_operators_keep_the_contract_of_torch() -> None:
    x, w = draw(6, 40), draw(40)
    compiled(lambda x, w: F.rms_norm(x * 3, (40,), w, 1e-6), x, w)
    op = list(operators._MADE.values())[-1][2]
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_static")
    torch.library.opcheck(op, (x, w), test_utils=checks)


def test_what_saved_tensors_look_like_is_read_where_it_is_compiled() -> None:
    def function(x: Any, w: Any) -> Any:
        y = torch.tanh(x.transpose(1, 2) @ w)
        return F.layer_norm(y.transpose(1, 2) * 2, (5,))

    trained(function, draw(3, 4, 5, dtype=BF16), draw(4, 4, dtype=BF16))


def test_what_changes_an_argument_stays_behind_its_readers() -> None:
    def function(x: Any) -> Any:
        first, later = torch.sigmoid(x[:, :8]), x[:, 8:].cumsum(0)
        y = torch.tanh(first) * later + 1
        x.mul_(2)
        return y

    for least in (1, 2):
        torch._dynamo.reset()
        x = draw(6, 16)
        given, other = x.clone(), x.clone()
        got = torch.compile(function, backend=sv.Backend(sv.ReferenceRunner(), least))(given)
        torch.testing.assert_close(got, function(other))
        torch.testing.assert_close(given, other)


# ---------------------------------------------------------------- which are taken


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    monkeypatch.setattr(choice, "_FOUND", {})
    monkeypatch.setattr(trials, "_LEAST_SECONDS", 60.0)
    return tmp_path / "torch-choices"


def norm(x: Any, w: Any) -> Any:
    return F.rms_norm(x, x.shape[-1:], w, 1e-6)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float]]:
    """What contexts take: Inductor's code alone, then beside kernels for all regions and for each."""
    times: dict[str, list[float]] = {"plain": [10.0], "beside": []}

    def timed(runs: Any, arguments: Any, device: Any) -> list[float]:
        with choice.real(device):
            for run in runs:
                run([choice._example(x) for x in arguments])
        return times["plain"][:1] if len(runs) == 1 else [*times["plain"], *times["beside"]][: len(runs)]

    monkeypatch.setattr(trials, "timed", timed)
    monkeypatch.setattr(trials, "bytes_per_us", lambda device: 1e9)
    monkeypatch.setattr(trials, "least_of", lambda group, device: 0.0)
    return times


@pytest.mark.parametrize(("kernel", "taken"), [(5.0, 1), (9.95, 0), (50.0, 0)])
def test_a_kernel_has_to_be_faster(
    kernel: float, taken: int, store: Path, clocks: dict[str, list[float]]
) -> None:
    clocks["beside"] = [kernel]
    given = draw(6, 56), draw(56)
    backends = [sv.make_backend({"runner": "reference", "use": "faster"}) for _ in range(2)]
    for backend in backends:
        torch._dynamo.reset()
        choice._FOUND.clear()
        torch.testing.assert_close(torch.compile(norm, backend=backend)(*given), norm(*given))
        assert len(backend.report.regions) == taken and len(backend.report.refused) == 1 - taken
        clocks["plain"] = clocks["beside"] = []  # the second finds what the first wrote
    assert len(list(store.iterdir())) == 1


@pytest.mark.parametrize(("use", "taken"), [("faster", 1), ("always", 0)])
def test_a_reduction_alone_is_tried_where_it_is_timed(
    use: str, taken: int, store: Path, clocks: dict[str, list[float]]
) -> None:
    clocks["beside"] = [5.0]
    given = draw(6, 60)
    backend = sv.make_backend({"runner": "reference", "use": use})
    torch._dynamo.reset()
    got = torch.compile(lambda x: (x.amax(-1), x.relu().cumsum(0)), backend=backend)(given)
    torch.testing.assert_close(got, (given.amax(-1), given.relu().cumsum(0)))
    assert [len(r.operations) for r in backend.report.regions] == [1] * taken


def test_reading_alone_takes_less_than_copying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "bytes_per_us", lambda device: 1.0)
    given = draw(64, 1000)
    (sums,), (halves,) = (groups_of(f, given) for f in (lambda x: x.sum(-1), lambda x: x * 0.5 + 1))
    read, few = 256000, 256
    device = torch.device("cpu")
    assert choice.least_of(sums, device) == pytest.approx(read + few - 0.08 * (read - few) + 2)
    assert choice.least_of(halves, device) == pytest.approx(2 * read + 2)


def groups_of(function: Any, *given: Any) -> list[Any]:
    return [f.group for f in partition(graph_of(function, *given).graph, reductions=True).found]


def test_what_no_kernel_can_beat_is_not_compiled(
    store: Path, clocks: dict[str, list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "least_of", lambda group, device: 9.94)
    backend = sv.make_backend({"runner": "reference", "use": "faster"})
    torch._dynamo.reset()
    torch.compile(norm, backend=backend)(draw(6, 52), draw(52))
    (region,) = backend.report.refused
    assert region.refused == "not faster: 9.9 us at least, 10.0 us of Inductor's code"


def two_norms(x: Any, w: Any) -> Any:
    """Two regions that Inductor might fuse through what stands between them."""
    y = F.rms_norm(x, x.shape[-1:], w, 1e-6).transpose(0, 1) + 1
    return F.rms_norm(y, y.shape[-1:], w, 1e-6)


def test_regions_that_inductor_might_fuse_are_timed_together(
    store: Path, clocks: dict[str, list[float]]
) -> None:
    clocks["beside"] = [9.0, 8.0, 20.0]  # both, the first, the second
    backend = sv.make_backend({"runner": "reference", "use": "faster"})
    given = draw(6, 5, 44), draw(44)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(two_norms, backend=backend)(*given), two_norms(*given))
    assert len(backend.report.regions) == 1
    (region,) = backend.report.refused
    assert region.refused.startswith("not faster: 9.0 us in its context with other kernels, 10.0 us of")


def test_what_cannot_be_timed_is_inductors(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(runs: Any, arguments: Any, device: Any) -> list[float]:
        raise choice.SlowerError("it could not be timed: out of memory")

    monkeypatch.setattr(trials, "timed", timed)
    backend = sv.make_backend({"runner": "reference", "use": "faster"})
    given = draw(6, 36), draw(36)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(norm, backend=backend)(*given), norm(*given))
    assert [r.refused for r in backend.report.refused] == ["it could not be timed: out of memory"]
    assert not store.exists()


@pytest.mark.parametrize(
    ("error", "reason", "said"),
    [
        (sv.RefusedError("rows that are too long"), "rows that are too long", False),
        (RuntimeError("no such operator"), "its operator could not be made: RuntimeError: no such op", True),
    ],
)
def test_a_kernel_that_fails_is_not_called_slower(
    error: Exception,
    reason: str,
    said: bool,
    store: Path,
    clocks: dict[str, list[float]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Why there is none is reported, and nothing is remembered that another process could take for a time."""

    def fails(candidate: Any, runner: Any) -> Any:
        raise error

    monkeypatch.setattr(choice, "_WARNED", set())
    monkeypatch.setattr(trials, "operator_of", fails)
    backend = sv.make_backend({"runner": "reference", "use": "faster"})
    given = draw(6, 92), draw(92)
    torch._dynamo.reset()
    with caplog.at_level("WARNING", "syncverify.torch"):
        torch.testing.assert_close(torch.compile(norm, backend=backend)(*given), norm(*given))
    (region,) = backend.report.refused
    assert region.refused.startswith(reason) and not store.exists()
    assert ("no such operator" in caplog.text) is said


def test_of_several_kernels_those_that_fail_say_so(
    store: Path, clocks: dict[str, list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process keeps the times of the others, so that a second round takes the same."""
    clocks["beside"] = [8.0]
    names: list[str] = []

    def some(candidate: Any, runner: Any) -> Any:
        names.append(candidate.name)
        if len(names) == 1:
            raise sv.RefusedError("no schedule")
        return operator_of(candidate, runner)

    monkeypatch.setattr(trials, "operator_of", some)
    backend = sv.make_backend({"runner": "reference", "use": "faster"})
    given = draw(6, 5, 76), draw(76)
    for count in (1, 2):
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(two_norms, backend=backend)(*given), two_norms(*given))
        assert [r.refused for r in backend.report.refused] == ["no schedule"] * count
        assert len(backend.report.regions) == count and len(names) == 2
    assert not store.exists()


def test_times_that_cannot_be_read_are_taken_again(
    store: Path, clocks: dict[str, list[float]], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(choice, "_WARNED", set())
    cpu = torch.device("cpu")
    choice.remember("some", cpu, choice.Times(10.0, 1.0, {"0": 5.0}))
    (file,) = store.iterdir()
    file.write_text('{"inductor": "fast"}')
    choice._FOUND.clear()
    with caplog.at_level("WARNING", "syncverify.torch"):
        assert choice.remembered("some", cpu) is None
    assert "are taken again" in caplog.text


def test_without_a_speed_of_memory_all_is_inductors(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(device: Any) -> float:
        raise choice.SlowerError("it could not be timed: out of memory")

    monkeypatch.setattr(trials, "bytes_per_us", full)
    backend = sv.make_backend({"runner": "reference", "use": "faster"})
    given = draw(6, 36), draw(36)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(norm, backend=backend)(*given), norm(*given))
    assert [r.refused for r in backend.report.refused] == ["it could not be timed: out of memory"]


def test_a_group_with_several_results_has_to_be_faster_too(
    store: Path, clocks: dict[str, list[float]]
) -> None:
    clocks["beside"] = [583.0, 583.0, 583.0]
    clocks["plain"] = [547.0]

    def gated(x: Any, w: Any, v: Any) -> Any:
        a, b = x @ w, x @ v
        return a, b, F.silu(a) * b

    given = [t.bfloat16() for t in (draw(16, 32), draw(32, 64), draw(32, 64))]
    backend = sv.make_backend({"runner": "reference", "use": "faster"})
    torch._dynamo.reset()
    torch.compile(gated, backend=backend)(*given)
    assert not backend.report.regions
    groups = [r for r in backend.report.refused if len(r.outputs) == 3]
    assert [r.refused for r in groups] == ["not faster: 583.0 us in its context, 547.0 us of Inductor's code"]


def test_times_say_what_is_taken() -> None:
    times = choice.Times(10.0, 1.0, {"0,1": 8.0, "0": 7.0, "1": 9.0})
    assert times.taken == (0,) and not times.hopeless
    assert choice.Times(10.0, 1.0, {"0": 9.95}).taken == () and choice.Times(10.0, 9.95).hopeless
    assert times.saved == 3.0 and choice.Times(10.0, 1.0, {"0": 9.95}).saved == 0.0


@pytest.mark.parametrize(("us", "taken"), [(9.9, (0,)), (10.04, (0,)), (10.06, ())])
def test_in_the_place_of_a_librarys_call_a_kernel_may_be_as_fast(us: float, taken: tuple[int, ...]) -> None:
    assert choice.Times(10.0, others={"0": us}, library=True).taken == taken


def test_never_is_inductor_alone() -> None:
    backend = sv.make_backend({"runner": "reference", "use": "never"})
    x, target = draw(12, 40), torch.arange(12)
    got, program = code(lambda x: F.cross_entropy(x, target), backend, x)
    torch.testing.assert_close(got, F.cross_entropy(x, target))
    assert "torch.ops.syncverify" not in program and backend.report.graphs == []


def test_losses_that_no_kernel_holds_are_compiled() -> None:
    backend = sv.Backend(sv.ReferenceRunner(), least=1000)
    x, target = draw(12, 40).requires_grad_(), torch.arange(12) * 3
    got, program = code(lambda x: F.cross_entropy(x, target), backend, x)
    got.backward()
    other = x.detach().clone().requires_grad_()
    F.cross_entropy(other, target).backward()
    torch.testing.assert_close(x.grad, other.grad)
    assert "torch.ops.syncverify" not in program


# ---------------------------------------------------------------- settings


def test_modes_and_settings_are_inductors() -> None:
    backend = sv.make_backend({"runner": "reference", "epilogue_fusion": False}, mode="reduce-overhead")
    assert backend.inductor == {"triton.cudagraphs": True, "epilogue_fusion": False}
    with pytest.raises(InputError, match="unknown mode 'fast': use"):
        sv.make_backend({}, mode="fast")


def test_the_default_is_what_is_faster_on_a_gpu() -> None:
    assert sv.make_backend().use == "faster"
    assert sv.make_backend({"runner": "reference"}).use == "always"


def test_lower_says_what_is_left() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    module = make_fx(lambda x: torch.relu(x * 2).cumsum(0), tracing_mode="fake")(draw(4, 8))
    lowered, report = lower(module, sv.ReferenceRunner())
    assert len(report.regions) == 1 and [n for n, *_ in report.left] == ["cumsum"]
    torch.testing.assert_close(lowered(draw(4, 8)), torch.relu(draw(4, 8) * 2).cumsum(0))


# ---------------------------------------------------------------- what a call costs, and what is begun early


def test_a_result_of_fixed_sizes_is_inductors_to_plan() -> None:
    """The program gives the kernel a tensor; several results go through the dispatcher."""

    def two(x: Any, w: Any) -> Any:
        y = x * 2 + 1
        return F.rms_norm(y, y.shape[-1:], w, 1e-6), y

    x, w = draw(6, 60), draw(60)
    _, one = code(norm, sv.Backend(sv.ReferenceRunner()), x, w)
    got, several = code(two, sv.Backend(sv.ReferenceRunner()), x, w)
    assert ".into(" in one and "out=buf" in one
    assert "torch.ops.syncverify.fused_" in several and ".into(" not in several
    torch.testing.assert_close(got, two(x, w))


def test_the_host_counts_unless_a_graph_saves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    device = torch.device("cpu")
    monkeypatch.setattr(choice, "_medians", lambda runs, device: [(10.0, 30.0), (8.0, 45.0), (9.0, 20.0)])
    assert choice.timed([], [], device) == [10.0, 23.0, 9.0]
    with config.patch({"triton.cudagraphs": True}):
        assert choice.timed([], [], device) == [10.0, 8.0, 9.0]


def test_products_alone_are_tried_where_inductor_tunes_them() -> None:
    x, w = draw(16, 32, dtype=BF16), draw(32, 24, dtype=BF16)
    from torch._inductor import config
    from torch.fx.experimental.proxy_tensor import make_fx

    from syncverify.torch.backend import grouped

    module = make_fx(lambda x, w: x @ w, tracing_mode="fake")(x, w)
    assert grouped(module, sv.ReferenceRunner(), 2)[2] == []
    with config.patch(max_autotune=True):
        (found,) = grouped(module, sv.ReferenceRunner(), 2)[2]
    assert found.region.kind == "product"


@pytest.mark.parametrize("changed", [False, True], ids=["same", "changed since"])
def test_both_passes_are_begun_when_they_are_divided_the_forward_pass_first(
    changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[list[str]] = []
    backend_module = sys.modules["syncverify.torch.backend"]
    plain, grouped = backend_module._computed, list[Any]()
    looked_at = backend_module.grouped

    def counted(module: Any, *settings: Any) -> Any:
        grouped.append(module)
        return looked_at(module, *settings)

    monkeypatch.setattr(backend_module, "grouped", counted)
    if changed:  # as if every graph were another one whenever it is looked at
        monkeypatch.setattr(backend_module, "_computed", lambda module: f"{plain(module)} {len(grouped)}")

    class Begins(sv.ReferenceRunner):
        def spare(self) -> bool:
            return True

        def ahead(self, kernels: Any, device: Any, worth: Any = ()) -> None:
            begun.append([kernel.name for kernel, _ in kernels])

    x, w = draw(6, 68).requires_grad_(), draw(68)
    torch._dynamo.reset()
    compiled_norm = torch.compile(norm, backend=sv.Backend(Begins()))
    y = compiled_norm(x, w)
    assert len(begun) >= 2 and "mean" in begun[0][0] and "mean" not in begun[1][0]
    y.sum().backward()
    torch.testing.assert_close(y, norm(x, w))
    found, x.grad = x.grad, None
    norm(x, w).sum().backward()
    torch.testing.assert_close(found, x.grad)
    assert len(grouped) == (4 if changed else 2)  # each graph once, unless it is another one since
