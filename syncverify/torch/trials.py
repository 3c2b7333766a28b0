"""Contexts timed as Inductor compiles them, and with kernels: which candidates become kernels."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.fx import GraphModule, Node

from syncverify.base.cache_dir import digest
from syncverify.gate import VerificationError
from syncverify.torch import operators, slower, workers
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
    warn,
)
from syncverify.torch.context import Context, alone, contexts
from syncverify.torch.dims import UnfitError
from syncverify.torch.graphs import sort
from syncverify.torch.products import kernel_call, library_call
from syncverify.torch.runners import RefusedError, Runner
from syncverify.torch.table import GROUPED, PRODUCTS
from syncverify.torch.worth import AGAIN, LEAST, gain_of, time_of

log = logging.getLogger("syncverify.torch")

#: Seconds that trials of a graph may take: some, and some for each node, a fifth of what Inductor takes for
#: it; and what they may take of any graph.
_LEAST_SECONDS, _SECONDS, _SECONDS_OF_A_NODE = 1.5, 0.5, 0.0025
#: What trials may take in all beside what Inductor takes; the part of their seconds that each round of a
#: graph has in any case.
_SHARE, _IN_ANY_CASE = 0.4, 1 / 3
#: Seconds that Inductor takes for a node, about, and for a process's first graph besides.
_INDUCTOR_OF_A_NODE, _INDUCTOR_AT_FIRST = 0.0125, 2.5
#: The part of these seconds for contexts whose proofs came while Inductor compiled the graph.
_SECOND_ROUND = 0.5
#: Seconds for halves of groups that were not taken, and for products alone, for which nothing is compiled.
ALONE_SECONDS = 0.6
#: Trials that Inductor's processes compile kernels for at a time.
_BEGUN = 8
#: Devices that a program was compiled for in this process.
_LOADED: set[torch.device] = set()
#: Inductor's code and its time of contexts whose proofs were late, by key, until their graph is compiled.
_TIMED_SO_FAR: dict[str, tuple[Run, Times]] = {}
#: Seconds after which trials see again whether a proof has come, and those that trials of a graph wait for
#: proofs in all. What is proved while Inductor compiles the graph is tried behind that.
_SLICE, _PATIENCE = 0.2, 0.6
#: Seconds that trials of a graph may take, and wait for proofs, where Inductor tunes: it takes a minute then.
_TUNED_SECONDS, TUNED_PATIENCE = 20.0, 15.0
#: Why a context is not tried.
_SLOW_ELSEWHERE = "not tried: slower by far in another context"


@dataclass
class Spent:
    """Seconds of this process in Inductor's compilations of graphs, and in trials."""

    inductor: float = 0.0
    trials: float = 0.0

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Counts what is done here."""
        began = time.monotonic()
        try:
            yield
        finally:
            setattr(self, what, getattr(self, what) + time.monotonic() - began)

    def forget(self) -> None:
        """What comes now is a compilation of its own."""
        self.inductor = self.trials = 0.0

    def left(self, nodes: int) -> float:
        """What trials of a graph of so many nodes may take, so that all have their share at most."""
        expected = _INDUCTOR_OF_A_NODE * nodes + (0.0 if self.inductor else _INDUCTOR_AT_FIRST)
        return _SHARE * (self.inductor + expected) - self.trials


#: Of this process.
SPENT = Spent()


@dataclass
class _Trial:
    """A context that is timed, of candidates whose places in it count; all contexts alike share it.

    ``owner`` has its nodes. ``plain`` is Inductor's code until the kernels are timed, ``arms`` its code with
    kernels. ``why_not``: why it is not worth it, or what went wrong. ``without``: by place, why a member has
    no kernel, or is not tried.
    """

    key: str
    context: Context
    members: list[Candidate]
    device: torch.device
    owner: GraphModule
    times: Times | None = None
    plain: Run | None = None
    arms: dict[str, Run] = field(default_factory=dict)
    why_not: str = ""
    without: dict[int, str] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> GraphModule:
        """The context's nodes alone."""
        return alone(self.owner, self.context.nodes, self.context.arguments, self.context.outputs)[0]

    def give_up(self, why: str) -> None:
        self.plain, self.arms, self.why_not = None, {}, why

    @property
    def arguments(self) -> list[Any]:
        return [a.meta.get("val") for a in self.context.arguments]

    @property
    def worth(self) -> float:
        """What it may gain at best, as a part of its graph's time."""
        return sum(c.region.worth for c in self.members)

    @property
    def of_a_library(self) -> bool:
        """Whether all of it is one product, which Inductor leaves to a library."""
        alone = len(self.members) == len(self.context.nodes) == 1 and not templates()
        return alone and self.context.nodes[0].target in {*PRODUCTS, GROUPED}

    @property
    def wanted(self) -> list[Candidate]:
        """The candidates that may become kernels."""
        if self.times is None or self.plain is not None:
            return self.members
        return [self.members[k] for k in self.times.taken]


_Step = Callable[[_Trial], None]


@dataclass
class Patience:
    """Seconds that trials of one graph may still wait for proofs."""

    left: float = field(default_factory=lambda: TUNED_PATIENCE if templates() else _PATIENCE)


@dataclass(frozen=True)
class Limits:
    """``seconds``: what trials may take at most, if it is not what the graph's size allows. ``only``: the
    names of those that are tried, where a first round has tried the others. ``patience``: of all rounds of a
    graph."""

    seconds: float | None = None
    only: Set[str] | None = None
    patience: Patience = field(default_factory=Patience)


def faster(
    module: GraphModule,
    candidates: Sequence[Candidate],
    runner: Runner,
    limits: Limits | None = None,
    then: Sequence[Candidate] = (),
) -> list[Candidate]:
    """The candidates with whose kernels their contexts are faster. The others' regions note why not.

    ``then``: what is proved behind them.
    """
    limits = limits or Limits()
    with SPENT.on("trials"):
        return _faster(module, candidates, runner, limits, then)


def _faster(
    module: GraphModule, candidates: Sequence[Candidate], runner: Runner, limits: Limits,
    then: Sequence[Candidate],
) -> list[Candidate]:  # fmt: skip
    left = _Budget(_seconds_of(module, limits))
    try:
        trials, placed = _trials(module, candidates, runner)
    except SlowerError as e:  # not even memory could be timed
        for c in candidates:
            c.region.note(str(e))
        return []
    fresh, known = _remembered(trials.values(), limits.only)
    begin_proofs([c for t in (*fresh, *known) for c in t.wanted], runner)
    begin_proofs(promising(module, then, runner), runner)
    tried = _Tried(left, runner, limits.patience)
    tried.now(tried.without_processes(fresh))
    prove_ahead([c for t in known for c in t.wanted], runner)
    tried.later([t for t in fresh if t.plain is not None])
    return _taken(trials, placed)


def forget_late() -> None:
    """A graph is compiled: nobody asks again for what was late of it."""
    _TIMED_SO_FAR.clear()


def _seconds_of(module: GraphModule, limits: Limits) -> float:
    """What a round of a graph's trials may take: by its size, and less where those before took much."""
    nodes = len(module.graph.nodes)
    least, seconds = _LEAST_SECONDS, limits.seconds
    if seconds is not None:
        least = seconds
    else:
        share = 1.0 if limits.only is None else _SECOND_ROUND
        seconds = share * (_SECONDS + _SECONDS_OF_A_NODE * nodes)
        if templates():
            return max(_TUNED_SECONDS, seconds)
    return max(_IN_ANY_CASE * least, min(max(least, seconds), SPENT.left(nodes)))


def whole_of(module: GraphModule, device: torch.device) -> float:
    """The estimate of what a graph takes, in microseconds."""
    return time_of(module.graph, bytes_per_us(device))


def promising(module: GraphModule, candidates: Sequence[Candidate], runner: Runner) -> list[Candidate]:
    """The candidates that would be tried, those that may gain most first."""
    try:
        trials, _ = _trials(module, candidates, runner)
    except SlowerError:
        return []
    return [c for t in trials.values() if not t.why_not for c in t.members]


def _remembered(trials: Iterable[_Trial], only: Set[str] | None = None) -> tuple[list[_Trial], list[_Trial]]:
    """The trials that are worth it, of the ``only`` names, and those whose times are known from before."""
    fresh, known = [], []
    for trial in trials:
        trial.times = remembered(trial.key, trial.device)
        if trial.times is not None:
            trial.why_not = ""
            known.append(trial)
            _note_slow(trial)
        elif only is not None and only.isdisjoint(c.name for c in trial.members):
            trial.why_not = trial.why_not or "not tried in time"
        elif not trial.why_not:
            fresh.append(trial)
    return fresh, known


def _taken(trials: Mapping[str, _Trial], placed: Iterable[tuple[str, list[Candidate]]]) -> list[Candidate]:
    """The candidates with which their contexts are faster; every region notes what was found."""
    found: list[Candidate] = []
    for key, members in placed:
        trial = trials[key]
        for place, c in enumerate(members):
            why_not = trial.why_not or (trial.times.without.get(place, "") if trial.times else "")
            if why_not or trial.times is None:
                c.region.note(why_not or "it could not be timed")
                continue
            taken = place in trial.times.taken
            c.region.note(("" if taken else "not faster: ") + trial.times.summary(place))
            if taken:
                c.region.saved = trial.times.saved / len(trial.times.taken)
                found.append(c)
    return found


@dataclass
class _Tried:
    """What times trials, one after the other, while there is time.

    Inductor's processes compile the kernels of the next ones while one is timed.
    """

    left: _Budget
    runner: Runner
    patience: Patience

    def without_processes(self, trials: Iterable[_Trial]) -> list[_Trial]:
        """Times products alone while Inductor's processes are still to come, which compile nothing for them.

        Returns the others, those first that may gain most. Example: a loss may save a tenth of a graph, and a
        product alone a hundredth. Where all are proved, the time for trials is for the loss.
        """
        others = []
        for trial in trials:
            if trial.of_a_library and not workers.there(trial.device):
                with self.left.free():
                    self.now([trial])
            else:
                others.append(trial)
        return others

    def now(self, trials: Iterable[_Trial]) -> None:
        """Times Inductor's code of each, and its kernels where they are proved by now."""
        waiting = deque(trials)
        begun: deque[tuple[_Trial, _Step]] = deque()
        while waiting or begun:
            if waiting and len(begun) < _BEGUN:
                trial = waiting.popleft()
                if self._attempt(trial, self._begin_plain):
                    begun.append((trial, _time_plain))
                continue
            trial, step = begun.popleft()
            if not self._attempt(trial, step, always=step is _time_kernels) or trial.plain is None:
                continue
            if self._proved(trial) and self._attempt(trial, self._begin_kernels):
                begun.append((trial, _time_kernels))

    def later(self, trials: list[_Trial]) -> None:
        """Times kernels as soon as they are proved, or given up, and waits a while for proofs: where Inductor
        does not tune, only for those of much worth."""
        while trials and self.left.seconds() and self.patience.left > 0.0:
            ready = [t for t in trials if self._proved(t)]
            for trial in ready:
                if self._attempt(trial, self._begin_kernels):
                    self._attempt(trial, _time_kernels, always=True)
            if not ready:
                if not templates() and all(t.worth < AGAIN for t in trials):
                    break
                self.patience.left -= _SLICE
                prove_ahead(trials[0].members, self.runner, min(_SLICE, self.left.seconds()))
            trials = [t for t in trials if t.plain is not None]
        for trial in trials:
            if trial.plain is not None and trial.times is not None:
                _TIMED_SO_FAR[trial.key] = trial.plain, trial.times
            trial.give_up("not tried: its proof was not there in time")
            for c in trial.members:
                c.region.late = c.region.worth

    def _proved(self, trial: _Trial) -> bool:
        return not prove_ahead(trial.members, self.runner, 0.0)

    def _begin_plain(self, trial: _Trial) -> None:
        """The first program of a process does not count: it loads what Inductor needs in any case."""
        _demand_promise(trial)
        if trial.of_a_library or trial.device in _LOADED:
            _begin_plain(trial)
            return
        with self.left.free():
            workers.wait(trial.device)
            _begin_plain(trial)
        _LOADED.add(trial.device)

    def _begin_kernels(self, trial: _Trial) -> None:
        _demand_promise(trial)
        _begin_kernels(trial, self.runner)

    def _attempt(self, trial: _Trial, step: _Step, *, always: bool = False) -> bool:
        """Whether a step went well. ``always``: also when time is over."""
        if not always and not self.left.seconds():
            trial.give_up("not tried: the time for trials was over")
            for c in trial.members:
                c.region.untried = c.region.worth
            return False
        try:
            step(trial)
        except (SlowerError, UnfitError, RefusedError) as e:
            trial.give_up(str(e))
            return False
        return True


class _Budget:
    """Seconds that trials of one graph may take."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def seconds(self) -> float:
        return max(0.0, self._until - time.monotonic())

    @contextmanager
    def free(self) -> Iterator[None]:
        """What is done here does not count."""
        began = time.monotonic()
        try:
            yield
        finally:
            took = time.monotonic() - began
            self._until += took
            SPENT.trials -= took


def _trials(
    module: GraphModule, candidates: Sequence[Candidate], runner: Runner
) -> tuple[dict[str, _Trial], list[tuple[str, list[Candidate]]]]:
    """What is to be timed, by key, those first that may gain most; and the candidates of every context."""
    trials: dict[str, _Trial] = {}
    gains: dict[str, float] = {}
    wholes: dict[torch.device, float] = {}
    placed: list[tuple[str, list[Candidate]]] = []
    for context in contexts(module.graph, [c.found.group for c in candidates], templates()):
        trial = _trial(module, context, [candidates[k] for k in context.members], runner)
        speed = bytes_per_us(trial.device)
        if trial.device not in wholes:
            wholes[trial.device] = time_of(module.graph, speed)
        gain = gain_of(context, [c.found.group for c in trial.members], speed)
        gains[trial.key] = gains.get(trial.key, 0.0) + gain
        trials.setdefault(trial.key, trial)
        placed.append((trial.key, trial.members))
    for key, gain in gains.items():
        trial = trials[key]
        whole = wholes[trial.device]
        for c in trial.members if whole else ():
            c.region.worth = gain / whole / len(trial.members)
        if gain < LEAST * whole:
            trial.why_not = f"not tried: it gains {gain:.1f} us of {whole:.0f} at best"
    return {key: trials[key] for key in sorted(gains, key=lambda k: -gains[k])}, placed


def _trial(module: GraphModule, context: Context, members: list[Candidate], runner: Runner) -> _Trial:
    key = operators.identity(context.nodes, context.arguments, context.outputs, runner)
    places = [str([context.nodes.index(n) for n in c.found.group.operations]) for c in members]
    key = digest("\0".join([key, *(c.key for c in members), *places]))
    return _Trial(key, context, members, members[0].device, module)


def _demand_promise(trial: _Trial) -> None:
    """SlowerError where all that is tried was slower by far in another context."""
    if all(_slow(trial, c) for c in trial.members):
        raise SlowerError(_SLOW_ELSEWHERE)


def _slow(trial: _Trial, c: Candidate) -> bool:
    return not trial.of_a_library and slower.known(c)


def _note_slow(trial: _Trial) -> None:
    if trial.times is not None and not trial.of_a_library:
        slower.note(trial.members, trial.times)


def _begin_plain(trial: _Trial) -> None:
    """Lets Inductor compile a context, unless it has."""
    if trial.key in _TIMED_SO_FAR:
        trial.plain, trial.times = _TIMED_SO_FAR.pop(trial.key)
    elif trial.of_a_library:
        trial.plain = library_call(trial.members[0])
    else:
        trial.plain = compiled(trial.nodes, trial.arguments, trial.device)


def _time_plain(trial: _Trial) -> None:
    """Times Inductor's code, and leaves a context with which no kernel can be faster."""
    assert trial.plain is not None
    if trial.times is not None:
        return
    if trial.of_a_library:
        # behind experts something changes: rows are taken elsewhere
        trial.times = Times(math.inf, library=trial.context.nodes[0].target != GROUPED)
        return
    (inductor,) = timed([trial.plain], trial.arguments, trial.device)
    trial.times = Times(inductor, _least(trial))
    if trial.times.hopeless:
        remember(trial.key, trial.device, trial.times)
        trial.plain = None


def _least(trial: _Trial) -> float:
    """What a context is not below, with kernels for all of its regions or for one alone."""
    groups, speed = [c.found.group for c in trial.members], bytes_per_us(trial.device)
    own = [least_of(g, trial.device) for g in groups]
    each = (us + trial.context.rest([g]) / speed for us, g in zip(own, groups, strict=True))
    return min(sum(own) + trial.context.rest(groups) / speed, *each)


def _begin_kernels(trial: _Trial, runner: Runner) -> None:
    """Lets Inductor compile a context with kernels for some regions; RefusedError where none has one."""
    ops: dict[int, Any] = {}
    for place, c in enumerate(trial.members):
        if _slow(trial, c):
            trial.without[place] = _SLOW_ELSEWHERE
            continue
        try:
            ops[place] = operator_of(c, runner)
        except (RefusedError, UnfitError) as e:
            trial.without[place] = str(e)
            if isinstance(e.__cause__, VerificationError):
                warn(f"{c.region.name} has no proof: {e}")
        except Exception as e:  # of torch or a driver, whatever it raises
            trial.without[place] = f"its operator could not be made: {type(e).__name__}: {e}"
            warn(f"{c.region.name}: {trial.without[place]}")
    if not ops:
        raise RefusedError("; ".join(dict.fromkeys(trial.without.values())))
    fit = (tuple(k for k in arm if k in ops) for arm in arms(len(trial.members)))
    tried = [arm for arm in dict.fromkeys(fit) if arm]
    trial.arms = {name_of(arm): _run_of(trial, {k: ops[k] for k in arm}) for arm in tried}


def _time_kernels(trial: _Trial) -> None:
    """Times a context with kernels for some of its regions, beside Inductor's code."""
    assert trial.plain is not None and trial.times is not None
    inductor, *others = _both(trial, [trial.plain, *trial.arms.values()])
    found = dict(zip(trial.arms, others, strict=True))
    trial.times = Times(inductor, trial.times.least, found, trial.times.library, trial.without)
    trial.plain, trial.arms = None, {}
    _note_slow(trial)
    # another process may have kernels for all; a second round of this one keeps what it takes
    remember(trial.key, trial.device, trial.times, on_disk=not trial.without)


def _both(trial: _Trial, runs: Sequence[Run]) -> list[float]:
    """Times of all; the better of two where one is slower by far, for it is not tried elsewhere then."""
    first = timed(runs, trial.arguments, trial.device)
    if trial.of_a_library or not any(slower.by_far(us, first[0]) for us in first[1:]):
        return first
    return list(map(min, first, timed(runs, trial.arguments, trial.device)))


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


__all__ = [
    "ALONE_SECONDS", "SPENT", "TUNED_PATIENCE", "Limits", "Patience", "faster", "forget_late", "promising",
    "whole_of",
]  # fmt: skip
