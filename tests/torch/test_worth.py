"""What is tried: contexts whose gain would be seen in their graph, and as long as there is time."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import torch.nn.functional as F  # noqa: E402

import syncverify.torch as sv  # noqa: E402
from syncverify.torch import choice, trials  # noqa: E402
from syncverify.torch.worth import gain_of, time_of  # noqa: E402
from tests.torch.compiled import draw  # noqa: E402
from tests.torch.test_context import found, norm  # noqa: E402

#: Bytes in a microsecond.
SPEED = 1e6


def test_a_product_counts_by_its_operations() -> None:
    module, _, _ = found(lambda x, y: x @ y, draw(1024, 2048), draw(2048, 512))
    operations, bytes_ = 2 * 1024 * 2048 * 512, 4 * (1024 * 2048 + 2048 * 512 + 1024 * 512)
    assert time_of(module.graph, SPEED) == pytest.approx(operations / 600e6 + 2 * bytes_ / SPEED)


def test_loops_gain_least_and_long_rows_most() -> None:
    def gain(function: Any, *shape: int) -> float:
        _, groups, (context,) = found(function, draw(*shape))
        return gain_of(context, groups, SPEED)

    loop = gain(lambda x: x.exp() * 2 + 1, 8, 16384)
    short = gain(lambda x: x.softmax(-1), 128, 1024)
    long = gain(lambda x: x.softmax(-1), 8, 16384)
    assert 0 < 5 * loop < short < long


def test_a_sum_behind_a_product_gains_little_where_a_norm_reads_it() -> None:
    """Inductor's loop of the norm adds as well. Another function behind the product is worth a trial."""
    x, w, r = draw(512, 512).bfloat16(), draw(512, 512).bfloat16(), draw(512, 512).bfloat16()

    def gain(function: Any) -> float:
        _, groups, contexts = found(function, x, w, r)
        return sum(gain_of(c, [groups[k] for k in c.members], SPEED) for c in contexts)

    added = gain(lambda x, w, r: F.layer_norm(x @ w + r, (512,)))
    other = gain(lambda x, w, r: F.layer_norm(F.gelu(x @ w) + r, (512,)))
    assert 0 < 5 * added < other


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SYNCVERIFY_CACHE", str(tmp_path))
    monkeypatch.setattr(choice, "_FOUND", {})
    monkeypatch.setattr(trials, "bytes_per_us", lambda device: SPEED)
    monkeypatch.setattr(trials, "_LEAST_SECONDS", 60.0)
    torch._dynamo.reset()
    return sv.make_backend({"runner": "reference", "use": "faster"})


class Seconds:
    """A budget that has so many seconds left whenever it is asked, and none in the end."""

    def __init__(self, left: list[float]) -> None:
        self.left = left

    def free(self) -> Any:
        return nullcontext()

    def seconds(self) -> float:
        return self.left.pop(0) if self.left else 0.0


def refused(backend: Any, function: Any, *inputs: Any) -> list[str]:
    made = torch.compile(function, backend=backend)(*inputs)
    # sums of hundreds in f32: the order of additions differs by the processor
    torch.testing.assert_close(made, function(*inputs), rtol=1e-4, atol=1e-3)
    return [r.refused for r in backend.report.refused]


def test_what_nobody_would_see_is_not_tried(backend: Any) -> None:
    def function(x: Any, w: Any, y: Any) -> Any:
        return norm(x, w).cumsum(0) @ y

    (reason,) = refused(backend, function, draw(8, 512), draw(512), draw(512, 65536))
    assert reason.startswith("not tried: it gains")


def test_the_time_for_trials_ends(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "_Budget", lambda seconds: Seconds([]))
    assert refused(backend, norm, draw(8, 512), draw(512)) == ["not tried: the time for trials was over"]


def test_a_proof_that_comes_late(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "prove_ahead", lambda candidates, *_: {c.name for c in candidates})
    monkeypatch.setattr(trials, "_Budget", lambda seconds: Seconds([1.0] * 4))
    monkeypatch.setattr(trials, "least_of", lambda group, device: 0.0)
    (reason,) = refused(backend, lambda x: F.softmax(x, -1), draw(8, 512))
    assert reason == "not tried: its proof was not there in time"
    assert [r.late > 0.0 for r in backend.report.refused] == [True]


@pytest.mark.parametrize(("gain", "again"), [(10.0, False), (25.0, False), (50.0, True)])
def test_a_late_proof_of_little_worth_compiles_no_graph_again(
    backend: Any, monkeypatch: pytest.MonkeyPatch, gain: float, again: bool
) -> None:
    monkeypatch.setattr(trials, "prove_ahead", lambda candidates, *_: {c.name for c in candidates})
    monkeypatch.setattr(trials, "_Budget", lambda seconds: Seconds([1.0] * 4))
    monkeypatch.setattr(trials, "least_of", lambda group, device: 0.0)
    monkeypatch.setattr(trials, "gain_of", lambda *_: gain)
    monkeypatch.setattr(trials, "time_of", lambda *_: 1000.0)
    monkeypatch.setattr(sys.modules["syncverify.torch.backend"], "asked", lambda found, runner: list(found))
    refused(backend, lambda x: F.softmax(x, -1), draw(8, 512))
    assert [r.late for r in backend.report.refused] == [gain / 1000.0]
    assert [bool(g.late) for g in backend.report.graphs] == [again]


def test_proofs_that_come_one_by_one(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each context is timed when its proofs are there, and waits for no other's."""
    answers, timed = [2, 1], []
    monkeypatch.setattr(trials, "_Budget", lambda seconds: Seconds([1.0] * 20))
    monkeypatch.setattr(trials, "least_of", lambda group, device: 0.0)
    monkeypatch.setattr(trials, "_time_kernels", lambda trial: timed.append(done(trial)))

    def late(candidates: Any, runner: Any, seconds: float = 0.0) -> set[str]:
        if candidates and answers:
            return {c.name for c in candidates} if answers.pop() else set()
        return set()

    def done(trial: Any) -> str:
        trial.plain = None
        return str(trial.members[0].region.name)

    monkeypatch.setattr(trials, "prove_ahead", late)
    refused(backend, lambda x, w: F.softmax(norm(x, w).cumsum(0), -1), draw(8, 512), draw(512))
    assert len(timed) == 2


def test_rounds_of_a_graph_wait_for_proofs_once(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group and then its product alone are late: both together are waited for as long as one would be."""
    waited: list[float] = []

    def late(candidates: Any, runner: Any, seconds: float = 0.0) -> set[str]:
        waited.append(seconds)
        return {c.name for c in candidates}

    monkeypatch.setattr(trials, "prove_ahead", late)
    monkeypatch.setattr(trials, "_Budget", lambda seconds: Seconds([1.0] * 40))
    monkeypatch.setattr(trials, "least_of", lambda group, device: 0.0)
    monkeypatch.setattr(sys.modules["syncverify.torch.backend"], "AGAIN", 1e9)
    factors = draw(64, 32, dtype=torch.bfloat16), draw(32, 24, dtype=torch.bfloat16)
    refused(backend, lambda x, w: (x @ w).relu() + 1.0, *factors)
    late_ones = [r for r in backend.report.refused if "its proof was not there" in r.refused]
    assert [len(r.operations) for r in late_ones] == [3, 1]
    assert sum(waited) == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("share", "tuned", "least", "most"),
    [(0.0, False, 1.0, 1.0), (0.5, False, 1.0, 1.0), (0.0, True, 10.0, 30.0)],
)
def test_proofs_are_waited_for_longer_where_inductor_tunes(
    backend: Any, monkeypatch: pytest.MonkeyPatch, share: float, tuned: bool, least: float, most: float
) -> None:
    """The seconds that a graph's second look asks for, whatever the kernels may save."""
    own = sys.modules["syncverify.torch.backend"]
    waited: list[float] = []

    def late(candidates: Any, runner: Any, *seconds: float) -> set[str]:
        waited.extend(seconds)
        return {c.name for c in candidates}

    monkeypatch.setattr(trials, "prove_ahead", lambda candidates, *_: {c.name for c in candidates})
    monkeypatch.setattr(trials, "_Budget", lambda seconds: Seconds([1.0] * 4))
    monkeypatch.setattr(trials, "least_of", lambda group, device: 0.0)
    monkeypatch.setattr(trials, "gain_of", lambda *_: max(share, 0.01))
    monkeypatch.setattr(trials, "time_of", lambda *_: 1.0)
    monkeypatch.setattr(own, "prove_ahead", late)
    monkeypatch.setattr(trials.SPENT, "inductor", 100.0)
    with torch._inductor.config.patch(max_autotune=tuned):
        refused(backend, lambda x: F.softmax(x, -1), draw(8, 512))
    (seconds,) = waited
    assert least <= seconds <= most


@pytest.mark.parametrize(
    ("inductor", "spent", "seconds"),
    [(0.0, 0.0, 3.0), (0.0, 4.0, 2.0), (0.0, 99.0, 0.5), (40.0, 2.0, 3.0), (4.0, 5.0, 1.6), (4.0, 9.0, 0.5)],
)
def test_trials_of_many_graphs_take_their_share_of_what_inductor_takes(
    monkeypatch: pytest.MonkeyPatch, inductor: float, spent: float, seconds: float
) -> None:
    graph = torch.fx.Graph()
    graph.output([graph.placeholder(f"x{n}") for n in range(999)])
    monkeypatch.setattr(trials.SPENT, "inductor", inductor)
    monkeypatch.setattr(trials.SPENT, "trials", spent)
    assert trials._seconds_of(torch.fx.GraphModule({}, graph), trials.Limits()) == pytest.approx(seconds)


@pytest.mark.parametrize(("spent", "seconds"), [(0.0, 0.6), (5.7, 0.3), (9.0, 0.2)])
def test_later_rounds_of_a_first_graph_have_what_the_share_leaves(
    monkeypatch: pytest.MonkeyPatch, spent: float, seconds: float
) -> None:
    """Halves of groups and products alone once had their seconds whatever trials had taken before."""
    graph = torch.fx.Graph()
    graph.output([graph.placeholder(f"x{n}") for n in range(999)])
    monkeypatch.setattr(trials.SPENT, "trials", spent)
    limits = trials.Limits(trials.ALONE_SECONDS)
    assert trials._seconds_of(torch.fx.GraphModule({}, graph), limits) == pytest.approx(seconds)


def test_trials_of_a_model_take_their_share_from_the_first_graph_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three graphs of 200 nodes, of three rounds each that take all they may: these were half of it."""
    graph = torch.fx.Graph()
    graph.output([graph.placeholder(f"x{n}") for n in range(199)])
    module = torch.fx.GraphModule({}, graph)
    alone = trials.Limits(trials.ALONE_SECONDS)
    for _ in range(3):
        for limits in (trials.Limits(), alone, alone):
            trials.SPENT.trials += trials._seconds_of(module, limits)
        trials.SPENT.inductor += 4.0
    assert trials.SPENT.trials <= 0.4 * trials.SPENT.inductor


@pytest.mark.parametrize(("spent", "seconds"), [(0.0, 1.0), (1.1, 0.5), (9.0, 0.0)])
def test_waits_for_late_proofs_are_part_of_what_trials_may_take(
    monkeypatch: pytest.MonkeyPatch, spent: float, seconds: float
) -> None:
    own: Any = sys.modules["syncverify.torch.backend"]
    graph = torch.fx.Graph()
    graph.output(())
    monkeypatch.setattr(trials.SPENT, "inductor", 4.0)
    monkeypatch.setattr(trials.SPENT, "trials", spent)
    assert own._patience(torch.fx.GraphModule({}, graph)) == pytest.approx(seconds, abs=0.01)
