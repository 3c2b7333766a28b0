"""Contexts timed as Inductor compiles them, and with kernels: which candidates become kernels."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from syncverify.base.cache_dir import digest
from syncverify.torch import operators
from syncverify.torch.candidate import Candidate, begin_proofs, operator_of, prove_ahead
from syncverify.torch.choice import (
    Run,
    SlowerError,
    Times,
    arms,
    bytes_per_us,
    compiled,
    least_of,
    name_of,
    remember,
    remembered,
    templates,
    timed,
)
from syncverify.torch.context import Context, alone, contexts
from syncverify.torch.dims import UnfitError
from syncverify.torch.graphs import sort
from syncverify.torch.products import kernel_call, library_call
from syncverify.torch.runners import RefusedError, Runner
from syncverify.torch.table import PRODUCTS
from syncverify.torch.worth import LEAST, gain_of, time_of

log = logging.getLogger("syncverify.torch")

#: Seconds that trials of a graph may take: some, and some for each node, as Inductor takes for it.
_SECONDS, _SECONDS_OF_A_NODE = 2.0, 0.004
#: Seconds for products alone whose groups were not taken. Nothing is compiled for them.
ALONE_SECONDS = 2.0
#: Seconds after which trials see again whether a proof has come.
_SLICE = 0.2


@dataclass
class _Trial:
    """A context that is timed, of candidates whose places in it count; all contexts alike share it.

    ``why_not``: why it is not worth it.
    """

    key: str
    context: Context
    members: list[Candidate]
    device: torch.device
    nodes: GraphModule
    times: Times | None = None
    plain: Run | None = None
    why_not: str = ""

    @property
    def arguments(self) -> list[Any]:
        return [a.meta.get("val") for a in self.context.arguments]

    @property
    def of_a_library(self) -> bool:
        """Whether all of it is one product, which Inductor leaves to a library."""
        alone = len(self.members) == len(self.context.nodes) == 1 and not templates()
        return alone and self.context.nodes[0].target in PRODUCTS

    @property
    def wanted(self) -> list[Candidate]:
        """The candidates that may become kernels."""
        if self.times is None or self.plain is not None:
            return self.members
        return [self.members[k] for k in self.times.taken]


def faster(
    module: GraphModule, candidates: Sequence[Candidate], runner: Runner, seconds: float | None = None
) -> list[Candidate]:
    """The candidates with whose kernels their contexts are faster. The others' regions note why not.

    ``seconds``: what trials may take, if it is not what the graph's size allows.
    """
    left = _Budget(_SECONDS + _SECONDS_OF_A_NODE * len(module.graph.nodes) if seconds is None else seconds)
    trials, placed = _trials(module, candidates, runner)
    for trial in trials.values():
        trial.times = remembered(trial.key, trial.device)
    failed = {t.key: t.why_not for t in trials.values() if t.times is None and t.why_not}
    fresh = [t for t in trials.values() if t.times is None and not t.why_not]
    known = [t for t in trials.values() if t.times is not None]
    begin_proofs([c for t in (*fresh, *known) for c in t.wanted], runner)
    for trial in sorted(fresh, key=lambda t: not t.of_a_library):  # those first that compile nothing
        _attempt(trial, failed, left, _time_plain)
        _with_proofs([trial], failed, left, runner)
    prove_ahead([c for t in known for c in t.wanted], runner)
    waiting = [t for t in fresh if t.plain is not None]
    while waiting and left.seconds():
        if not _with_proofs(waiting, failed, left, runner):
            prove_ahead(waiting[0].members, runner, min(_SLICE, left.seconds()))
        waiting = [t for t in waiting if t.plain is not None]
    failed |= dict.fromkeys((t.key for t in waiting), "not tried: its proof was not there in time")
    found: list[Candidate] = []
    for key, members in placed:
        times = trials[key].times
        for place, c in enumerate(members):
            if key in failed or times is None:
                c.region.note(failed.get(key, "it could not be timed"))
                continue
            taken = place in times.taken
            c.region.note(("" if taken else "not faster: ") + times.summary(place))
            if taken:
                found.append(c)
    return found


def _with_proofs(trials: Sequence[_Trial], failed: dict[str, str], left: _Budget, runner: Runner) -> int:
    """Times those whose kernels are proved, or given up, by now; how many these are."""
    ready = [t for t in trials if t.plain is not None and not prove_ahead(t.members, runner, 0.0)]
    for trial in ready:
        _attempt(trial, failed, left, lambda t: _time_kernels(t, runner))
    return len(ready)


def promising(module: GraphModule, candidates: Sequence[Candidate], runner: Runner) -> list[Candidate]:
    """The candidates that would be tried, those that may gain most first."""
    trials, _ = _trials(module, candidates, runner)
    return [c for t in trials.values() if not t.why_not for c in t.members]


class _Budget:
    """Seconds that trials of one graph may take."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def seconds(self) -> float:
        return max(0.0, self._until - time.monotonic())


def _trials(
    module: GraphModule, candidates: Sequence[Candidate], runner: Runner
) -> tuple[dict[str, _Trial], list[tuple[str, list[Candidate]]]]:
    """What is to be timed, by key, those first that may gain most; and the candidates of every context."""
    trials: dict[str, _Trial] = {}
    gains: dict[str, float] = {}
    placed: list[tuple[str, list[Candidate]]] = []
    for context in contexts(module.graph, [c.found.group for c in candidates], templates()):
        trial = _trial(module, context, [candidates[k] for k in context.members], runner)
        speed = bytes_per_us(trial.device)
        gain = gain_of(context, [c.found.group for c in trial.members], speed)
        gains[trial.key] = gains.get(trial.key, 0.0) + gain
        trials.setdefault(trial.key, trial)
        placed.append((trial.key, trial.members))
    for key, gain in gains.items():
        trial = trials[key]
        whole = time_of(module.graph, bytes_per_us(trial.device))
        if gain < LEAST * whole:
            trial.why_not = f"not tried: it gains {gain:.1f} us of {whole:.0f} at best"
    return {key: trials[key] for key in sorted(gains, key=lambda k: -gains[k])}, placed


def _attempt(trial: _Trial, failed: dict[str, str], left: _Budget, step: Callable[[_Trial], None]) -> None:
    if not left.seconds():
        failed[trial.key] = "not tried: the time for trials was over"
        trial.plain = None
        return
    try:
        step(trial)
    except (SlowerError, UnfitError) as e:
        failed[trial.key] = str(e)
        trial.plain = None


def _trial(module: GraphModule, context: Context, members: list[Candidate], runner: Runner) -> _Trial:
    nodes, _ = alone(module, context.nodes, context.arguments, context.outputs)
    key = operators.identity(nodes.graph, context.arguments, runner)
    places = [str([context.nodes.index(n) for n in c.found.group.operations]) for c in members]
    key = digest("\0".join([key, *(c.key for c in members), *places]))
    return _Trial(key, context, members, members[0].device, nodes)


def _time_plain(trial: _Trial) -> None:
    """Times Inductor's code, and leaves a context with which no kernel can be faster."""
    if trial.of_a_library:
        trial.plain = library_call(trial.members[0])
        trial.times = Times(math.inf)
        return
    plain = compiled(trial.nodes, trial.arguments, trial.device)
    (inductor,) = timed([plain], trial.arguments, trial.device)
    groups = [c.found.group for c in trial.members]
    least = sum(least_of(g, trial.device) for g in groups)
    least += trial.context.rest(groups) / bytes_per_us(trial.device)
    trial.times = Times(inductor, min(least, *(_least_with(trial, k) for k in range(len(groups)))))
    if trial.times.hopeless:
        remember(trial.key, trial.device, trial.times)
    else:
        trial.plain = plain


def _least_with(trial: _Trial, place: int) -> float:
    """What a context is not below with the kernel of one region alone."""
    group = trial.members[place].found.group
    return least_of(group, trial.device) + trial.context.rest([group]) / bytes_per_us(trial.device)


def _time_kernels(trial: _Trial, runner: Runner) -> None:
    """Times a context with kernels for some of its regions, beside Inductor's code."""
    assert trial.plain is not None and trial.times is not None
    ops: dict[int, Any] = {}
    for place, c in enumerate(trial.members):
        try:
            ops[place] = operator_of(c, runner)
        except (RefusedError, UnfitError) as e:
            log.info("%s is left to Inductor: %s", c.region.name, e)
    fit = (tuple(k for k in arm if k in ops) for arm in arms(len(trial.members)))
    tried = [arm for arm in dict.fromkeys(fit) if arm]
    runs = [trial.plain, *(_run_of(trial, {k: ops[k] for k in arm}) for arm in tried)]
    inductor, *others = timed(runs, trial.arguments, trial.device)
    found = dict(zip(map(name_of, tried), others, strict=True))
    trial.times = Times(inductor, trial.times.least, found)
    trial.plain = None
    remember(trial.key, trial.device, trial.times)


def _run_of(trial: _Trial, ops: Mapping[int, Any]) -> Run:
    return kernel_call(trial.members[0]) if trial.of_a_library else _with(trial, ops)


def _with(trial: _Trial, ops: Mapping[int, Any]) -> Run:
    """What Inductor makes of a context with operators in the place of some regions."""
    nodes, copies = alone(trial.nodes, trial.context.nodes, trial.context.arguments, trial.context.outputs)
    moved: dict[Node, Node] = {}
    for place, op in ops.items():
        trial.members[place].put_into(nodes.graph, op, moved, copies)
    sort(nodes.graph)
    nodes.graph.eliminate_dead_code()
    nodes.recompile()
    return compiled(nodes, trial.arguments, trial.device)


__all__ = ["ALONE_SECONDS", "faster", "promising"]
