"""Contexts timed as Inductor compiles them, and with kernels: which candidates become kernels."""

from __future__ import annotations

import logging
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
from syncverify.torch.runners import RefusedError, Runner

log = logging.getLogger("syncverify.torch")


@dataclass
class _Trial:
    """A context that is timed, of candidates whose places in it count; all contexts alike share it."""

    key: str
    context: Context
    members: list[Candidate]
    device: torch.device
    nodes: GraphModule
    times: Times | None = None
    plain: Run | None = None

    @property
    def arguments(self) -> list[Any]:
        return [a.meta.get("val") for a in self.context.arguments]

    @property
    def wanted(self) -> list[Candidate]:
        """The candidates that may become kernels."""
        if self.times is None or self.plain is not None:
            return self.members
        return [self.members[k] for k in self.times.taken]


def faster(module: GraphModule, candidates: Sequence[Candidate], runner: Runner) -> list[Candidate]:
    """The candidates with whose kernels their contexts are faster. The others' regions note why not."""
    trials: dict[str, _Trial] = {}
    placed: list[tuple[str, list[Candidate]]] = []
    for context in contexts(module.graph, [c.found.group for c in candidates], templates()):
        trial = _trial(module, context, [candidates[k] for k in context.members], runner)
        trials.setdefault(trial.key, trial)
        placed.append((trial.key, trial.members))
    for trial in trials.values():
        trial.times = remembered(trial.key, trial.device)
    fresh = [t for t in trials.values() if t.times is None]
    begin_proofs([c for t in trials.values() for c in t.wanted], runner)
    failed: dict[str, str] = {}
    for trial in fresh:
        _attempt(trial, failed, _time_plain)
    fresh = [t for t in fresh if t.plain is not None]
    prove_ahead([c for t in trials.values() if t.key not in failed for c in t.wanted], runner)
    for trial in fresh:
        _attempt(trial, failed, lambda t: _time_kernels(t, runner))
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


def _attempt(trial: _Trial, failed: dict[str, str], step: Callable[[_Trial], None]) -> None:
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
    runs = [trial.plain, *(_with(trial, {k: ops[k] for k in arm}) for arm in tried)]
    inductor, *others = timed(runs, trial.arguments, trial.device)
    found = dict(zip(map(name_of, tried), others, strict=True))
    trial.times = Times(inductor, trial.times.least, found)
    trial.plain = None
    remember(trial.key, trial.device, trial.times)


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


__all__ = ["faster"]
