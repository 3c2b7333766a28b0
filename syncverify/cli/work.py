"""The check of each input of a run: alone or side by side, from the cache where it can be, until all are done
or the user ends it. What was found by then is never lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from syncverify.base.deadline import Guard
from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind
from syncverify.base.source import InputError, decode, read_bytes
from syncverify.cli.common import bug, complain, say
from syncverify.cli.inputs import Item
from syncverify.driver.reports import stored_reports
from syncverify.frontends.launch_facts import NO_FACTS, LaunchFacts, facts_for

if TYPE_CHECKING:
    from syncverify.driver.files import SourceFile
    from syncverify.frontends.cuda.options import CudaOptions

#: One write in so many looks for entries of the cache that are too old.
_PRUNE = 64


@dataclass(frozen=True, slots=True)
class Wanted:
    """How to check."""

    facts: LaunchFacts | None
    values: Mapping[str, int]
    kernel: str | None
    policy: Policy
    cuda: CudaOptions | None
    infer: bool
    guard: Guard
    caches: bool = True
    kernel_judges: bool = False  # the trusted kernel is asked about every proof
    replay: bool = True  # refutations are replayed on the second reader
    advice: bool = True  # repairs and advice are looked for

    def facts_of(self, item: Item) -> LaunchFacts:
        """The launch facts of an input: those that were named, else those beside it."""
        if self.facts is not None:
            return self.facts
        return NO_FACTS if item.data is not None else facts_for(item.path)


@dataclass(frozen=True, slots=True)
class Checked:
    """What the check of one input has found. ``lost``: its process ended so, with nothing told."""

    reports: tuple[KernelReport, ...] = ()
    names: frozenset[str] = frozenset()  # every kernel seen, selected or not
    errors: tuple[InputError, ...] = ()
    interrupted: bool = False
    lost: str | None = None
    stored: bool = False  # it comes from the cache


@dataclass(slots=True)
class Run:
    """What one ``check`` has found so far."""

    reports: list[KernelReport] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    errors: list[InputError] = field(default_factory=list)
    inputs: int = 0
    stored: int = 0

    def add(self, file: Checked) -> None:
        """Adds what one input came to."""
        self.reports += file.reports
        self.names |= file.names
        self.inputs += 1
        self.stored += file.stored
        for error in file.errors:
            self.reject(error)

    def reject(self, error: InputError) -> None:
        """Tells of input that nobody can use."""
        if str(error) not in map(str, self.errors):  # a launch file's mistake is each kernel's
            complain(error)
        self.errors.append(error)


OnDone = Callable[[int, Item, Checked], None]


def check_all(
    run: Run, inputs: Sequence[Item], wanted: Wanted, jobs: int, on_done: OnDone, cluster: str | None = None
) -> bool:
    """Checks the inputs in their order; True if the user ended it before the last was done.

    ``cluster``: the address of a Dask scheduler whose workers check them.
    """
    at_once = 1 if cluster is not None else _at_once(jobs, len(inputs))
    work = partial(_without_proofs, wanted)
    alone = partial(check_item, wanted)
    try:
        if cluster is not None:
            results = _over_cluster(wanted, inputs, cluster)
        else:
            results = map(alone, inputs) if at_once == 1 else _side_by_side(work, inputs, at_once)
        for i, (item, checked) in enumerate(zip(inputs, results, strict=False)):
            done = _once_more(wanted, item) if checked.lost is not None else checked
            run.add(done)
            on_done(i, item, done)
            if done.interrupted:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        whole = "all inputs" if run.inputs == len(inputs) else f"{run.inputs} of {len(inputs)} inputs"
        say(f"interrupted: {whole} looked at, {len(run.reports)} kernels checked")
        return True
    return False


def _at_once(jobs: int, inputs: int) -> int:
    if jobs == 1 or inputs <= 1:
        return 1
    from syncverify.cli.jobs import cores  # loads much of multiprocessing

    return min(jobs or cores(), inputs)


def _side_by_side(work: Callable[[Item], Checked], inputs: Sequence[Item], jobs: int) -> Iterator[Checked]:
    from syncverify.cli.jobs import side_by_side

    return side_by_side(work, inputs, jobs, _lost)


def _over_cluster(wanted: Wanted, inputs: Sequence[Item], address: str) -> Iterator[Checked]:
    """The results from a cluster. What is in the cache here is not asked for again; what comes is kept."""
    from syncverify.cli.cluster import over_cluster

    known: dict[int, Checked] = {}
    keys: dict[int, str | None] = {}
    sent: list[tuple[Wanted, Item]] = []
    for i, item in enumerate(inputs):
        try:
            keys[i], found = _stored(wanted, item) if wanted.caches else (None, None)
            if found is not None:
                known[i] = Checked(*found, stored=True)
            else:
                sent.append(_travelling(wanted, item))
        except InputError as e:
            known[i] = Checked(errors=(e,))
    answers = over_cluster(_served, sent, address, _lost_job) if sent else iter(())
    for i in range(len(inputs)):
        if i in known:
            yield known[i]
            continue
        checked = next(answers)
        _keep(keys[i], checked)
        yield checked


def _travelling(wanted: Wanted, item: Item) -> tuple[Wanted, Item]:
    """The same check for a machine without our files: with its facts and, but for CUDA sources, its text."""
    found = replace(wanted, facts=wanted.facts_of(item), caches=False)
    kind = Path(item.path).suffix.removeprefix(".")
    if item.data is not None or kind not in ("ptx", "syncir"):
        return found, item
    return found, replace(item, data=read_bytes(item.path), kind=kind)


def _lost_job(job: tuple[Wanted, Item], code: int | None) -> Checked:
    return _lost(job[1], code)


def _served(job: tuple[Wanted, Item]) -> Checked:
    return _without_proofs(*job)


def _without_proofs(wanted: Wanted, item: Item) -> Checked:
    """What another process needs of a result."""
    checked = check_item(wanted, item)
    return replace(checked, reports=tuple(replace(r, proof=None, protocol=None) for r in checked.reports))


def _lost(item: Item, code: int | None) -> Checked:
    how = f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with status {code}"
    return Checked(lost=f"the process that checked it {how} (too little memory?)")


def _once_more(wanted: Wanted, item: Item) -> Checked:
    """An input whose process died, each kernel in a process of its own: what dies again is lost."""
    from syncverify.driver.reports.capture import lost

    try:
        source = _source(item, wanted.cuda)
    except InputError as e:
        return Checked(errors=(e,))
    entries = () if source.module is None else source.module.entries
    names = [k.name for k in source.kernels] + [f.name for f in entries]
    alone = [replace(item, entry=name) for name in names]
    reports: list[KernelReport] = []
    errors: list[InputError] = []
    results = _side_by_side(partial(_without_proofs, wanted), alone, 1)
    for name, checked in zip(names, results, strict=True):
        reports += checked.reports
        errors += checked.errors
        if checked.lost is not None:
            reports.append(lost(name, source.path, wanted.policy, checked.lost))
    return Checked(tuple(reports), frozenset(source.names), tuple(errors))


def check_item(wanted: Wanted, item: Item) -> Checked:
    """Checks one input; whatever is wrong with it stands beside what was found."""
    try:
        key, found = _stored(wanted, item) if wanted.caches else (None, None)
        if found is not None:
            return Checked(*found, stored=True)
        checked = _checked(wanted, item)
        _keep(key, checked)
        return checked
    except InputError as e:
        return Checked(errors=(e,))
    except KeyboardInterrupt:
        return Checked(interrupted=True)
    except Exception as e:
        return Checked(errors=(bug(e, item.path),))


def _keep(key: str | None, checked: Checked) -> None:
    """Puts a result into the cache, unless it was cut off."""
    whole = not (checked.errors or checked.interrupted or checked.lost)
    if key is not None and whole and stored_reports.kept(checked.reports):
        place = stored_reports.store()
        place.write(key, stored_reports.dumped(checked.reports, checked.names))
        if int(key[:8], 16) % _PRUNE == 0:
            stored_reports.pruned(place.root)


def _checked(wanted: Wanted, item: Item) -> Checked:
    from syncverify.driver.files import Options, check_each, finished

    errors: list[InputError] = []
    reports: list[KernelReport] = []
    interrupted = False
    source = _source(item, wanted.cuda)
    first = None
    if wanted.kernel_judges:
        from syncverify.driver.acceptance import KernelFirst, asked_after

        first = KernelFirst(source, wanted.facts_of(item), wanted.values, wanted.infer)
    options = Options(
        values=wanted.values,
        kernel=wanted.kernel,
        entry=item.entry,
        policy=wanted.policy,
        advice=wanted.advice,
        scope=ScopeKind.ALL,
        infer=wanted.infer,
        guard=wanted.guard,
        isolated=True,
        replay=wanted.replay,
        repairs=wanted.advice,
        first=first,
    )
    try:
        for report in check_each(source, wanted.facts_of(item), options, errors.append):
            reports.append(report)
    except KeyboardInterrupt:
        interrupted = True
    if first is not None and not interrupted:
        reports = asked_after(first, reports)
    every = wanted.kernel is None and item.entry is None and not interrupted
    shown = finished(source, reports, every)
    return Checked(tuple(shown), frozenset(source.names), tuple(errors), interrupted)


def _source(item: Item, cuda: CudaOptions | None) -> SourceFile:
    from syncverify.driver.files import read_source, read_text

    if item.data is not None:
        return read_text(decode(item.data, item.path), item.path, item.kind)
    return read_source(item.path, cuda)


def _stored(
    wanted: Wanted, item: Item
) -> tuple[str | None, tuple[tuple[KernelReport, ...], frozenset[str]] | None]:
    """The key of an input and what is kept for it; no key where its headers cannot be told."""
    data = item.data if item.data is not None else read_bytes(item.path)
    facts = wanted.facts_of(item)
    parts: dict[str, object] = {
        "path": item.path,
        "kind": item.kind,
        "facts": (facts.file, facts.tables),
        "values": sorted(wanted.values.items()),
        "kernel": (wanted.kernel, item.entry),
        "policy": str(wanted.policy),
        "infer": wanted.infer,
        "replay": wanted.replay,
        "advice": wanted.advice,
    }
    is_cuda = Path(item.path).suffix == ".cu"
    headers = _compiled_with(wanted, item, data, parts) if is_cuda else stored_reports.listed(data)
    if headers is None:
        return None, None
    key = stored_reports.key(data, parts, headers)
    return key, stored_reports.restored(stored_reports.store().read(key))


def _compiled_with(wanted: Wanted, item: Item, data: bytes, parts: dict[str, object]) -> list[bytes] | None:
    """The headers of a CUDA source; what else its PTX depends on goes to the parts of the key."""
    from syncverify.frontends.cuda.nvcc import HOST_COMPILER, nvcc

    cuda = wanted.cuda
    folders = () if cuda is None else cuda.include_paths
    parts["cuda"] = repr(cuda)
    parts["nvcc"] = tool = nvcc()
    parts["installed"] = tool and Path(tool).resolve().stat().st_mtime_ns
    for name in ("CUDA_HOME", "CUDA_PATH", "CPATH", "CPLUS_INCLUDE_PATH", HOST_COMPILER):
        parts[name] = os.environ.get(name)
    return stored_reports.headers(Path(item.path), data, folders)


__all__ = ["Checked", "Run", "Wanted", "check_all", "check_item"]
