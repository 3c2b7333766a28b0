"""From failures to findings: one mistake gives one error, its consequences become notes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from syncverify.base.absent_blocks import AbsentBlock
from syncverify.base.diagnostics import Diagnostic, Label, Severity
from syncverify.checker.explain.advice import advice
from syncverify.checker.explain.causes import announced_twice, cause, reaches_other_block
from syncverify.checker.explain.evidence import comers, evidence
from syncverify.checker.explain.left_out import blame
from syncverify.checker.happens_before.failure import Failure, Obligation
from syncverify.checker.happens_before.handlers.mbarriers import Barrier, name
from syncverify.checker.happens_before.handlers.waits import waits_by_token
from syncverify.checker.happens_before.race_findings import access, first_after, idle_wait, what
from syncverify.checker.happens_before.run import Run
from syncverify.checker.happens_before.shadow import Record
from syncverify.checker.happens_before.undetermined import in_no_order
from syncverify.model.events import Ev
from syncverify.model.proxies import Access

#: Failures of the barrier protocol: one mistake usually breaks several.
PROTOCOL = frozenset(
    {
        Obligation.O1,
        Obligation.O2,
        Obligation.O3,
        Obligation.O4,
        Obligation.O6,
        Obligation.O7,
        Obligation.OVERFLOW,
    }
)
#: Mistakes that make what comes after them meaningless.
FIRST = frozenset({Obligation.UB, Obligation.SYNC, Obligation.O5})
#: How copies that complete on an mbarrier read in the source.
#: Accesses whose completion a group wait shows.
GROUPED = (Access.ASYNC_READ, Access.CPASYNC_WRITE, Access.MMA_READ)
#: Events that touch the data which barriers guard.
DATA = frozenset(
    {
        Ev.READ,
        Ev.WRITE,
        Ev.ATOMIC,
        Ev.SIGNAL,
        Ev.WGMMA,
        Ev.FRAG_READ,
        Ev.FRAG_WRITE,
        Ev.BULK_STORE,
        Ev.CP_ASYNC,
    }
)
COPY_TEXTS = ("bulk.load", "tma.load", "bulk.copy", "st.async", "red.async")
EXECUTION = frozenset({"SV301", "SV302", "SV303"})


@dataclass(frozen=True, slots=True)
class Group:
    """A root failure and what follows from it."""

    root: Failure
    consequences: tuple[Failure, ...]


def _behind_others(failures: list[Failure]) -> None:
    """What is not determined is a warning beside an error of another kind, which refutes by itself."""
    if any(f.severity == Severity.ERROR and f.undetermined is None for f in failures):
        for f in failures:
            if f.undetermined is not None:
                f.severity = Severity.WARNING


def group_by_root_cause(
    run: Run, failures: list[Failure], hang: Failure | None, again: bool = False
) -> list[Group]:
    """Splits failures into mistakes, most important first. ``again``: their rules have been refined."""
    failures = [f for f in failures if not harmless_tail(run, f, hang)]
    _behind_others(failures)
    errors = [f for f in failures if f.severity == Severity.ERROR]
    for f in errors if not again else ():
        specialise_rule(run, f)
    for f in () if again else errors if hang is None else (*errors, hang):
        blame(run, f)
    left = _Unexplained.of(run, errors, hang)
    groups = left.execution_errors()
    groups += left.polls([f for f in failures if f.obligation == Obligation.POLL])
    groups += left.protocol_errors()
    groups += left.first_errors()
    groups += left.register_errors()
    broken = bool(left.protocol) or any(g.root.obligation == Obligation.POLL for g in groups)
    groups += _race_groups(run, left.races)
    if left.unborn and groups:
        groups[0] = Group(groups[0].root, (*groups[0].consequences, *left.unborn))
    if not groups and (wait := suspect_wait(run, left.leftovers)) is not None:
        return [Group(wait, tuple(left.leftovers))]  # what nobody waits for, a wait before it was meant for
    leftovers = [f for f in left.leftovers if f.rule == "SV207" and not broken] if groups else left.leftovers
    return groups + _by_rule(leftovers)


@dataclass(slots=True)
class _Unexplained:
    """Errors by what they break, of which each step takes those that one mistake explains.

    ``execution``: of who executes what together; ``first``: of a barrier's life, by position; ``protocol``:
    of phases, with the hang; ``registers``: of the pool; ``unborn``: what follows where an init is missing;
    ``leftovers``: mistakes of their own only if there is no other.
    """

    run: Run
    hang: Failure | None
    execution: list[Failure]
    first: list[Failure]
    protocol: list[Failure]
    races: list[Failure]
    registers: list[Failure]
    unborn: list[Failure]
    leftovers: list[Failure]

    @classmethod
    def of(cls, run: Run, errors: list[Failure], hang: Failure | None) -> _Unexplained:
        """Sorts errors; a hang that requests for registers make is one of those."""
        leftovers = [f for f in errors if f.rule in ("SV211", "SV207")]
        errors = [f for f in errors if f not in leftovers]
        registers = [f for f in errors if f.rule == "SV304"]
        if hang is not None and hang.rule == "SV304":
            registers.append(hang)
            hang = None
        execution = [f for f in errors if f.rule in EXECUTION]
        others = [f for f in errors if f not in execution]
        first = sorted((f for f in others if f.obligation in FIRST), key=lambda f: f.position)
        protocol = [f for f in others if f.obligation in PROTOCOL]
        races = sorted((f for f in errors if f.obligation == Obligation.RACE), key=lambda f: f.position)
        if hang is not None:
            protocol.append(hang)
        first, unborn = _without_init(first)
        unborn += [f for f in first if _unwaited(run, f, races)]
        first = [f for f in first if f not in unborn]
        return cls(run, hang, execution, first, protocol, races, registers, unborn, leftovers)

    def execution_errors(self) -> list[Group]:
        """What is executed by too few, or apart, explains all that it breaks, but no hang before it."""
        execution, hang = self.execution, self.hang
        if not execution or not (
            hang is None
            or hang.rule in EXECUTION
            or any(f.rule == "SV303" for f in execution)
            or min(f.position for f in execution) <= hang.position
        ):
            return []
        root = min(execution, key=lambda f: f.position)
        rest = _without(root, [*execution, *self.protocol, *self.races])
        chain, self.first = _split_consequences(root, rest, self.first)
        self.protocol, self.races = [], []
        return [chain]

    def polls(self, polls: list[Failure]) -> list[Group]:
        """Control that depends on how often a poll fails explains what goes wrong after it."""
        if not polls or not (self.protocol or self.races):
            return []
        polls[0].severity = Severity.ERROR
        found = Group(polls[0], (*self.protocol, *self.races))
        self.protocol, self.races = [], []
        return [found]

    def protocol_errors(self) -> list[Group]:
        """One mistake in the protocol of phases, and the races that follow from it."""
        run, hang, races = self.run, self.hang, self.races
        if not self.protocol and suspect_wait(run, races) is None:
            return []
        root = protocol_root(run, self.protocol, races)
        if hang is not None:
            never = [site for site in dead_copies(run, None) if site not in {s for s, _ in root.labels}]
            root.labels += [(site, "nobody ever executes this copy") for site in never]
        fences = [f for f in races if f.rule in FENCE and f is not root and hang is None]
        rest = [f for f in races if f not in fences]
        chain, self.first = _split_consequences(root, _without(root, [*self.protocol, *rest]), self.first)
        self.races = fences  # no order mends a missing fence
        return [chain]

    def first_errors(self) -> list[Group]:
        """Errors of a barrier's life, one mistake for each rule; races that follow go with the first."""
        if not (self.first and self.races):
            return _by_rule(self.first)
        late = [f for f in self.races if any(_is_consequence(f, e) for e in self.first)]
        self.races = [f for f in self.races if f not in late]
        head, *rest = _by_rule(self.first)
        return [Group(head.root, (*head.consequences, *late)), *rest]

    def register_errors(self) -> list[Group]:
        """Requests for registers that cannot be met."""
        if not self.registers:
            return []
        root = min(self.registers, key=lambda f: (f.obligation == Obligation.O6, f.phase, f.position))
        return [Group(root, _without(root, self.registers))]


def _is_consequence(race: Failure, cause: Failure) -> bool:
    """Whether a race is only what an earlier illegal operation led to."""
    if cause.obligation == Obligation.O5:
        return race.position >= cause.position
    if cause.rule == "SV401" and race.first is not None and race.first.kind == Access.MMA_READ:
        return True  # the same wait is missing
    return cause.site in _sites(race)


def _without(root: Failure, failures: list[Failure]) -> tuple[Failure, ...]:
    return tuple(f for f in failures if f is not root)


def harmless_tail(run: Run, f: Failure, hang: Failure | None) -> bool:
    """An arrival that may count in an earlier phase matters to nobody if no wait looks at either.

    Let K be the newest phase that a wait means. Arrivals after phase K + 1 that all come after every wait
    for K, on a barrier without bytes from then on, cannot change what any wait sees, wherever they count, if
    each counts for one: a larger count might exceed what is pending (B17). On a barrier whose life ends
    without a wait, that goes for all arrivals.
    """
    if (
        f.obligation != Obligation.O1
        or f.rule not in ("SV202", "SV206")
        or hang is not None
        or f.past is None
    ):
        return False
    if f.barrier < 0:
        return False
    s: Barrier = run.barriers[f.barrier]
    last = s.last_waited
    if last < -1:
        over = s.inval_site >= 0 and s.inits == 1
        return over and not s.waiters and s.last_tx < 0 and not s.net_zero and not s.uneven
    if last < 0 or f.phase <= last + 1 or s.last_tx > last or s.net_zero or s.uneven:
        return False
    return bool(f.past[s.column] > last) and all(f.past[c] >= time for c, time in s.final_waits.items())


# ------------------------------------------------------------------ which rule, which line


def specialise_rule(run: Run, f: Failure) -> None:
    """The rule that names the mistake, once the whole run is known."""
    if f.obligation == Obligation.O1 and f.barrier >= 0:
        _refine_contribution(run, f)
    elif f.obligation == Obligation.O4 and f.rule == "SV203" and f.past is None:
        dead = dead_copies(run, f.barrier)
        if run.barriers[f.barrier].copies == 0 or (dead and f.lacks_bytes):
            f.rule = "SV212"
            f.message += "; no path issues the copy"
            f.labels += [(site, "nobody ever executes this copy") for site in dead]
    elif f.obligation == Obligation.RACE and f.first is not None and f.second is not None:
        _refine_race(run, f)
    elif f.rule == "SV201" and f.obligation == Obligation.O2 and f.past is not None:
        _refine_turn(run, f)
    elif f.rule == "SV301" and f.obligation == Obligation.O1:
        _refine_meeting(run, f)


def _array(run: Run, b: int) -> str:
    """The name of the array that a barrier belongs to."""
    return re.sub(r"\[[^\[\]]*\]$|\+\d+$", "", run.info.barriers[b].name)


def dead_copies(run: Run, b: int | None) -> list[int]:
    """Copies on a barrier's array (None: on any) that stand in the source but that nobody ever executed."""
    base = "" if b is None else rf"\b{re.escape(_array(run, b))}\b"
    executed = {op.site for op in run.asyncs}
    return [
        i
        for i, site in enumerate(run.info.sites)
        if i not in executed and site.text.startswith(COPY_TEXTS) and re.search(base, site.text)
    ]


def _refine_contribution(run: Run, f: Failure) -> None:
    s: Barrier = run.barriers[f.barrier]
    lanes = sum(s.lanes.values())
    if f.rule == "SV203" and s.bytes_completed > s.bytes_expected > 0:
        f.message = (
            f"{s.bytes_completed} bytes are copied on {name(run, f.barrier)} and {s.bytes_expected} are "
            f"announced: this copy may land in phase {f.phase}, or in the one before"
        )
    if f.rule in ("SV203", "SV207"):
        return
    if lanes > s.auto.count and s.auto.count:
        f.rule = "SV202"
        f.message = (
            f"{lanes} arrivals on {name(run, f.barrier)} against a count of {s.auto.count}: the surplus "
            "falls "
            f"into the next phase ({f.phase})"
        )
        explain_surplus(run, f, s, lanes)
    elif f.rule == "SV202" and lanes == s.auto.count:
        f.rule = "SV206"
        if f.again is not None:
            cls, _, f.site = f.again
            f.message = (
                f"a second arrival of {run.threads[cls].info.name} may count in phase {f.phase - 1} of "
                f"{name(run, f.barrier)}: nothing makes it wait for the end of that phase"
            )


def _refine_turn(run: Run, f: Failure) -> None:
    """A first wait on a barrier for a later phase, where others wait for the phase before: the parity may be
    right, and what lacks is an order."""
    before = ((who, e) for who, e in run.trace[: f.position] if who >= 0)  # others are completions
    waits = [who for who, e in before if e[0] == Ev.WAIT and e[2] == f.barrier]
    if waits and f.cls not in waits:
        f.fix = f"wait for phase {f.phase - 1} of it first, or meet those who have seen it complete"


def _refine_meeting(run: Run, f: Failure) -> None:
    """More warps come to a barrier of threads than its count says: that is why one comes too early."""
    event = run.trace[f.position][1] if f.position < len(run.trace) else ()
    if len(event) < 4 or event[0] not in (Ev.BARRIER_SYNC, Ev.BARRIER_ARRIVE):
        return
    number, count = event[2:4]
    came = comers(run, run.threads[f.cls].info.cta, number)
    if 0 < count < came:
        f.message = (
            f"barrier {number} is for {count} threads here and {came} come to it: "
            "it completes before all of them have come"
        )
        f.fix = f"give the count {came} wherever threads come to barrier {number}, or keep the others away"


def explain_surplus(run: Run, f: Failure, s: Barrier, lanes: int) -> None:
    """Names the threads that arrive without sharing the data, and arrivals that stand there twice."""
    touching = {who for who, event in run.trace if who >= 0 and event[0] in DATA}
    idle = [c for c in s.lanes if c >= 0 and c not in touching]
    extra = sum(s.lanes[c] for c in idle)
    if idle and lanes - extra == s.auto.count:
        warps = sorted({(run.threads[c].info.cta, run.threads[c].info.warp) for c in idle})
        text = ", ".join(f"cta{cta}.warp{w}" for cta, w in warps)
        f.message += f"; {extra} of them come from {text}, which touch no data"
        f.fix = f"keep {text} out of this branch, or count them"
    if f.again is not None:
        cls, _, site = f.again
        f.labels.append(
            (site, f"{run.threads[cls].info.name} arrives a second time here before the phase is over")
        )
    f.labels += [(site, f"{n} arrivals in all") for site, n in s.arrivals.items() if site != f.site]
    f.labels += (groups := _groups(run, s))
    if f.fix is None and announced_twice(s):
        f.fix = "let one thread announce the bytes and issue the copy: elect it, or compare threadIdx.x"
    if groups and f.fix is None:
        f.fix = (
            "let one group alone release a stage in a phase: its first stage and its stride decide which; "
            f"if all of them use each stage, initialize with {lanes}"
        )


def _groups(run: Run, s: Barrier) -> list[tuple[int, str]]:
    """Who arrives in one phase, if these are several warpgroups' worth that each make up the count."""
    groups: dict[tuple[int, int], list[int]] = {}
    for c, n in s.lanes.items():
        if c >= 0:
            info = run.threads[c].info
            groups.setdefault((info.cta, info.warp // 4), []).append(n)
    whole = {g: sum(ns) for g, ns in groups.items()}
    if len(whole) < 2 or set(whole.values()) != {s.auto.count}:
        return []
    who = ", ".join(f"cta{cta}.warps {4 * g} to {4 * g + 3}" for cta, g in sorted(whole))
    text = f"each of these arrives as often as the count says: {who}"
    return [(next(iter(s.arrivals)), text)]


def _refine_race(run: Run, f: Failure) -> None:
    """Read against write, neither order enforced: name it by the order the source means."""
    first, second = f.first, f.second
    assert first is not None and second is not None
    if f.rule in ("SV104", "SV110", "SV111", "SV112") and first.kind in GROUPED:
        idle = idle_wait(run, first)
        if idle is not None:
            f.rule, f.site = "SV403", idle
            f.message = f"this wait by threads that issued nothing covers nothing: {f.message}"
            return
    if f.fix is None and max(first.barrier, second.barrier) < 0:
        _across_blocks(run, f, first, second)
    if first.cls == second.cls or max(first.barrier, second.barrier) >= 0:
        return  # program order names it
    if f.rule in ("SV111", "SV104") and first.fresh and second.over is None:
        _swap(run, f, "SV110")
    elif f.rule == "SV110" and not first.kind.asynchronous and _meant_for_later(run, first, second):
        _swap(run, f, "SV104" if second.kind == Access.ASYNC_READ else "SV111")


def _across_blocks(run: Run, f: Failure, first: Record, second: Record) -> None:
    """Two accesses of which one reaches into another block of the cluster: what orders blocks."""
    if second.kind.asynchronous and reaches_other_block(run, second):
        owner = run.info.footprints[second.fp].memory
        f.fix = (
            f"before this copy into cta{owner}, wait until the readers there have released the buffer: "
            f"they arrive, across the cluster, on the barrier that the copy waits for"
        )
        f.labels += _releases_of_others(run, second, owner)
    elif reaches_other_block(run, first) or reaches_other_block(run, second):
        f.fix = "order the two blocks: a cluster barrier, or an mbarrier that one arrives on for the other"


def _releases_of_others(run: Run, copy: Record, owner: int) -> list[tuple[int, str]]:
    """Who arrives on the barrier that a copy's issuer waited for last, if none of the block it writes to."""
    waited = next((e[2] for who, e in reversed(run.trace) if who == copy.cls and e[0] in _PHASE_WAITS), None)
    if waited is None:
        return []
    arrivals = [(who, e[1]) for who, e in run.trace if who >= 0 and e[0] == Ev.ARRIVE and e[2] == waited]
    ctas = {run.threads[who].info.cta for who, _ in arrivals}
    if not arrivals or owner in ctas:
        return []
    who = " and ".join(f"cta{c}" for c in sorted(ctas))
    return [(arrivals[-1][1], f"only {who} arrives on {name(run, waited)}, which the copy waits for")]


_PHASE_WAITS = (Ev.WAIT, Ev.POLL)


def _meant_for_later(run: Run, write: Record, read: Record) -> bool:
    """Whether a read without order means an older value: the write stands behind it, or had written before.

    A statement in a loop that has written these bytes already, with no race then, is ahead by a turn.
    """
    if _line(run, write.site) > _line(run, read.site):
        return write.over is not None or read.kind == write.kind
    return write.over is not None and write.over.site == write.site


def _swap(run: Run, f: Failure, rule: str) -> None:
    f.first, f.second = f.second, f.first
    f.rule = rule
    assert f.first is not None and f.second is not None
    f.site = f.second.site
    if f.undetermined is None:
        f.message = f"{what(run, f.second)} is not ordered after {what(run, f.first)}"
    else:
        f.message = in_no_order(run, f.first, f.second)


def _line(run: Run, site: int) -> int:
    return run.info.sites[site].span.line


def _unwaited(run: Run, f: Failure, races: list[Failure]) -> bool:
    """Whether a race shows that nobody waited for the copy that this edit or inval comes too early for."""
    if f.rule == "SV502":
        return any(r.first is not None and r.first.site in {s for s, _ in f.labels} for r in races)
    if f.rule != "SV205" or f.barrier < 0:
        return False
    tags = {_tag_barrier(run, r) for r in races if r.position < f.position} - {-1}
    return _array(run, f.barrier) in {_array(run, b) for b in tags}


def _without_init(early: list[Failure]) -> tuple[list[Failure], list[Failure]]:
    """Where a barrier is used without its init, nothing later means much; nor is the start of a CTA shown."""
    first = next((f for f in early if f.rule == "SV204"), None)
    if first is None:
        return early, []
    gone = [f for f in early if f.rule != "SV204" and (f.position >= first.position or f.rule == "SV114")]
    return [f for f in early if f not in gone], gone


def _split_consequences(
    root: Failure, rest: tuple[Failure, ...], early: list[Failure]
) -> tuple[Group, list[Failure]]:
    """A group, under an earlier illegal operation if there is one; and the illegal ones left."""
    cause = next((f for f in early if f.position <= root.position), None)
    if cause is None and root.rule not in EXECUTION:
        cause = next((f for f in early if f.rule == "SV204"), None)
    if cause is None:
        late = tuple(
            f for f in early if f.rule == "SV204"
        )  # the meeting that should publish the init is broken
        return Group(root, (*rest, *late)), [f for f in early if f not in late]
    same = [f for f in early if f.rule == cause.rule]
    return Group(cause, (*_without(cause, same), root, *rest)), [f for f in early if f.rule != cause.rule]


@dataclass(frozen=True, slots=True)
class _Broken:
    """Broken obligations of barriers, and races. ``solid``: the obligations that no other one explains."""

    run: Run
    failures: list[Failure]
    races: list[Failure]
    solid: list[Failure]

    def of(self, obligation: Obligation) -> list[Failure]:
        return [f for f in self.failures if f.obligation == obligation]


def protocol_root(run: Run, failures: list[Failure], races: list[Failure]) -> Failure:
    """The mistake behind broken obligations: of the first case that applies."""
    broken = _Broken(run, failures, races, _solid(run, failures))
    for case in _ROOTS:
        found = case(broken)
        if found is not None:
            return found
    hang = next(iter(broken.of(Obligation.O6)), None)
    others = [f for f in failures if hang is None or not _still_to_be_copied(run, f, hang)]
    return (broken.of(Obligation.O7) or others or races)[0]


def _solid(run: Run, failures: list[Failure]) -> list[Failure]:
    """Failures but hangs and reused phases. What only who was let through has met is no cause of a hang, nor
    are bytes that who hangs would still copy."""
    hang = next((f for f in failures if f.obligation == Obligation.O6), None)
    return [
        f
        for f in failures
        if f.obligation not in (Obligation.O6, Obligation.O7)
        and (hang is None or f.obligation != Obligation.O3 or f.position < hang.position)
        and not (hang is not None and _still_to_be_copied(run, f, hang))
    ]


def _still_to_be_copied(run: Run, f: Failure, hang: Failure) -> bool:
    """Whether the bytes that a phase lacks are those that the class which hangs elsewhere copies into it."""
    if f.obligation is not Obligation.O4 or not f.lacks_bytes or hang.barrier in (-1, f.barrier):
        return False
    return hang.cls in run.contributors.get(("wait", f.barrier), ())


def _earliest(failures: list[Failure]) -> Failure | None:
    return min(failures, key=lambda f: f.position, default=None)


def _unannounced(broken: _Broken) -> Failure | None:
    """A hang at bytes that nobody announced."""
    return next((f for f in broken.of(Obligation.O6) if f.rule == "SV203"), None)


def _unheard_copy(broken: _Broken) -> Failure | None:
    """Reads of what copies wrote on barriers that nobody waits for, if that explains every other failure."""
    run = broken.run
    unheard = [f for f in broken.races if _never_waited(run, f)]
    silent = {_array(run, _tag_barrier(run, f)) for f in unheard}
    explains = all(f.barrier >= 0 and _array(run, f.barrier) in silent for f in broken.solid)
    return unheard[0] if unheard and explains else None


def _wrong_parity(broken: _Broken) -> Failure | None:
    """A wait that passed on a phase that was complete before."""
    return suspect_wait(broken.run, [*broken.failures, *broken.races])


def _uneven_surplus(broken: _Broken) -> Failure | None:
    """More threads that arrive than a phase takes, and not so many as several phases take: no turn of theirs
    is a phase."""
    surplus = (f for f in broken.of(Obligation.O1) if f.rule == "SV202" and f.barrier >= 0)
    states = (
        (f, broken.run.barriers[f.barrier].auto.count, broken.run.barriers[f.barrier].lanes) for f in surplus
    )
    arrivers = ((f, count, sum(lanes.values())) for f, count, lanes in states)
    return _earliest([f for f, count, n in arrivers if 0 < count < n and n % count])


def _surplus(broken: _Broken) -> Failure | None:
    """More arrivals than a phase takes."""
    kinds = (Obligation.O1, Obligation.OVERFLOW)
    return _earliest([f for f in broken.failures if f.rule == "SV202" and f.obligation in kinds])


def _open_phase(broken: _Broken) -> Failure | None:
    """A phase that a copy may complete too early, of which no past is shown.

    One that lacks bytes at the end follows from a copy that may land in the phase before.
    """
    run = broken.run
    early = {_array(run, f.barrier) for f in broken.of(Obligation.O1) if f.rule == "SV203"}
    phases = (f for f in broken.solid if f.obligation is Obligation.O4 and f.past is None)
    return next((f for f in phases if not (f.lacks_bytes and _array(run, f.barrier) in early)), None)


def _lapped_only(broken: _Broken) -> Failure | None:
    """Only lapped waiters, and races on data that nobody protects either: a release is missing."""
    lapped = all(f.obligation == Obligation.O3 for f in broken.solid)
    return broken.races[0] if broken.solid and lapped and broken.races else None


def _first_solid(broken: _Broken) -> Failure | None:
    return _earliest(broken.solid)


#: The cases of ``protocol_root``, the one that explains most first.
_ROOTS = (
    _unannounced, _unheard_copy, _uneven_surplus, _wrong_parity, _surplus, _open_phase, _lapped_only,
    _first_solid,
)  # fmt: skip


def _tag_barrier(run: Run, f: Failure) -> int:
    if f.first is None or not f.first.kind.asynchronous:
        return -1
    return next((s.index for s in run.barriers.values() if s.column == f.first.tag), -1)


def _never_waited(run: Run, f: Failure) -> bool:
    """A read of what a copy wrote, on whose barrier nobody waits at all."""
    b = _tag_barrier(run, f)
    return f.rule == "SV110" and b >= 0 and not run.barriers[b].waiters


def suspect_wait(run: Run, failures: list[Failure]) -> Failure | None:
    """A wait that let its class through without a new phase, before the first failure: a wrong parity."""
    if not run.suspects or not failures:
        return None
    earliest = min(failures, key=lambda f: f.position)
    candidates = [
        w
        for w in run.suspects
        if (w[0] <= earliest.position and _may_follow(run, w, earliest))
        or (
            not _plain(earliest)
            and any(_may_follow(run, w, f) for f in failures if f.cls == w[1] and f.time >= w[2])
        )
    ]
    if not candidates:
        return None
    position, cls, time, site, b = min(candidates)
    t = run.threads[cls]
    return Failure(
        Obligation.O2,
        "SV201",
        f"this wait of {t.info.name} passes on a phase of {name(run, b)} that was complete before: "
        f"its {'token' if waits_by_token(run, site) else 'parity'} does not mean the next phase",
        site,
        cls,
        time,
        position,
        barrier=b,
    )


def _may_follow(run: Run, wait: tuple[int, int, int, int, int], f: Failure) -> bool:
    """Whether a wait came too early for a failure.

    A race is with a copy on the barrier, or with who arrives; where only a fence lacks, all is in order. A
    copy that is in flight at the end is one on a barrier of this ring, into the block that waits. A phase of
    another barrier that is too early is one that somebody waits for who arrives on this one, or nobody yet.
    """
    _, cls, _, _, b = wait
    arriving, column = run.contributors.get(("wait", b), set()), run.barriers[b].column
    if f.rule in FENCE:
        return False
    if f.rule == "SV211":
        ring = f.barrier >= 0 and _array(run, f.barrier) == _array(run, b)
        return ring and run.threads[cls].info.cta == run.threads[f.cls].info.cta
    if f.obligation is Obligation.O4 and f.barrier == b:
        return False
    if f.obligation in (Obligation.O1, Obligation.O3, Obligation.O4) and f.barrier not in (-1, b):
        waiting = run.barriers[f.barrier].waits
        return not waiting or not (arriving - {cls}).isdisjoint(waiting)
    if f.obligation != Obligation.RACE or f.first is None or f.second is None:
        return True
    pair = (f.first, f.second), (f.second, f.first)
    return any(r.cls == cls and (o.cls in arriving or o.tag == column) for r, o in pair)


def _plain(f: Failure) -> bool:
    """A race of two ordinary accesses, which no later wait explains (and which may explain a token)."""
    kinds = [r.kind for r in (f.first, f.second) if r is not None]
    return f.obligation == Obligation.RACE and not any(k.asynchronous for k in kinds)


def _by_rule(failures: list[Failure]) -> list[Group]:
    groups: dict[str, list[Failure]] = {}
    for f in failures:
        groups.setdefault(f.rule, []).append(f)
    return [Group(fs[0], tuple(fs[1:])) for fs in groups.values()]


def _race_groups(run: Run, races: list[Failure]) -> list[Group]:
    """Races that share an access belong to one mistake."""
    groups: list[list[Failure]] = []
    for f in races:
        for g in groups:
            if any(_related(run, f, o) for o in g):
                g.append(f)
                break
        else:
            groups.append([f])
    return [Group(g[0], tuple(g[1:])) for g in groups]


def _sites(f: Failure) -> set[int]:
    return {r.site for r in (f.first, f.second) if r is not None}


#: Mistakes of one missing fence, however many buffers it leaves open.
FENCE = frozenset({"SV101", "SV102", "SV103", "SV105"})


def _one_fence(run: Run, a: Failure, b: Failure) -> bool:
    """Whether one fence would mend both: the first accesses lie in one stretch of one class."""
    if a.rule != b.rule or a.rule not in FENCE or a.first is None or b.first is None:
        return False
    if a.first.cls != b.first.cls:
        return False
    syncs = run.threads[a.first.cls].syncs
    return first_after(syncs, a.first.time) == first_after(syncs, b.first.time)


def _related(run: Run, a: Failure, b: Failure) -> bool:
    if _one_fence(run, a, b):
        return True
    if {a.rule, b.rule} & FENCE and "SV104" in (a.rule, b.rule):
        return False  # no fence waits for a store's reads
    return bool(_sites(a) & _sites(b)) or not _sites(a) or not _sites(b)


# ------------------------------------------------------------------ text


def distinct(failures: Iterable[Failure], *said: Failure) -> list[Failure]:
    """One failure for each rule and line; ``said`` has been reported already."""
    seen = {(f.rule, f.site) for f in said}
    out: list[Failure] = []
    for f in failures:
        if (f.rule, f.site) not in seen:
            seen.add((f.rule, f.site))
            out.append(f)
    return out


def warnings(failures: list[Failure], broken: bool) -> list[Failure]:
    """Warnings worth a line: in a broken kernel, who has looked at which phase says nothing."""
    return [f for f in failures if f.severity == Severity.WARNING and not (broken and f.rule == "SV207")]


def diagnostic(run: Run, f: Failure, severity: Severity | None = None) -> Diagnostic:
    """One failure as a finding."""
    sites = run.info.sites
    severity = severity or f.severity
    more = evidence(run, f) if severity is Severity.ERROR else []
    labels = [Label(sites[s].span, text) for s, text in f.labels if s >= 0]
    labels += [Label(sites[x.site].span, x.text, x.detail, x.unmended, around=x.detail) for x in more]
    if f.rule == "SV204" and severity is Severity.ERROR and run.info.entry.line:
        labels.append(Label(run.info.entry, "the kernel begins here"))
    if f.first is not None and f.first.site != f.site:
        labels.append(Label(sites[f.first.site].span, access(run, f.first)))
        labels += [Label(span, "where that is called") for span in sites[f.first.site].callers]
    labels += [Label(span, "called from here") for span in sites[f.site].callers]
    if (inside := sites[f.site].wrapped) is not None:
        labels.append(Label(inside, f"the operation: {_opcode(sites[f.site].text)}", detail=True))
    follows = severity == Severity.NOTE  # from a mistake whose finding says how to mend it
    mistake = cause(run, f) if severity is Severity.ERROR else None
    after_thread = f.first is not None and not f.first.kind.asynchronous
    one_store = after_thread and f.first is not None and f.first.site == f.site
    said = advice(f.rule, mistake, after_thread=after_thread, one_store=one_store)
    if isinstance(f.message, AbsentBlock):
        said = f.message.advice
    return Diagnostic(
        rule=f.rule,
        severity=severity,
        message=f.message,
        span=sites[f.site].span,
        fix=f.fix or (None if follows else said),
        contested=f.contested,
        related=tuple(labels),
        condition=f.condition,
        cause=mistake,
        undetermined=f.undetermined if severity is Severity.ERROR else None,
    )


def _opcode(instruction: str) -> str:
    """An instruction, without operands whose names only the compiled code has."""
    name, _, operands = instruction.partition(" ")
    return name if "%" in operands else instruction
