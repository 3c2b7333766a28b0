"""From a witness of a PTX kernel to the kernel that the simulator replays it on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from syncverify.base.diagnostics import Blocked, Policy, Verdict, Witness
from syncverify.base.source import InputError, Span
from syncverify.checker.outcome import Outcome
from syncverify.driver.ptx.check import Checker, check_module
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.exec.system import PtxSystem
from syncverify.frontends.ptx.launch.concretize import sizes_at
from syncverify.frontends.ptx.launch.facts import VARIABLE, PtxFacts, ptx_facts
from syncverify.frontends.ptx.syntax.nodes import Module
from syncverify.ir import nodes as n
from syncverify.ir.expr import Binary, Int, Var
from syncverify.model.events import Ev, Event, System, SystemInfo
from syncverify.ptx_replay.places import Places, Unfit
from syncverify.ptx_replay.run import answers_of, is_poll, with_final_classes
from syncverify.ptx_replay.statements import TENSORS, Translator, barrier_names, fragment_name
from syncverify.ptx_replay.weave import Member, woven

_AGENT = re.compile(r"cta(\d+)\.warp(\d+)\.lanes")
_ASYNC = re.compile(r"\.async(\d+)\Z")
_BLOCKING = frozenset({Ev.WAIT, Ev.WAIT_TOKEN, Ev.POLL, Ev.POLL_TOKEN, Ev.BARRIER_SYNC, Ev.WARP_SYNC,
                       Ev.CLUSTER_WAIT, Ev.SETMAXNREG, Ev.WGMMA_WAIT})  # fmt: skip

_ON_BARRIER = frozenset({Ev.WAIT, Ev.WAIT_TOKEN})


@dataclass(frozen=True, slots=True)
class Unrolled:
    """A straight-line kernel, the witness in its terms, the way back to the source, and what was left out."""

    kernel: n.Kernel
    witness: Witness
    places: Places
    left_out: str = ""


def unroll(module: Module, facts: LaunchFacts, witness: Witness) -> Unrolled:
    """The kernel of a witness as one launch executes it. Raises InputError where there is no such launch, or
    the kernel does what the IR has no statement for."""
    systems = _systems(module, facts, witness)
    if not systems:
        raise InputError(
            f"no launch of {witness.kernel} is the witness's: check it again", Span(witness.file)
        )
    reasons: list[str] = []
    for system in systems:
        try:
            return _unrolled(system, witness)
        except Unfit as e:
            reasons.append(str(e))
    raise InputError(f"{witness.kernel} cannot be stepped through: {reasons[0]}", Span(witness.file))


# ---------------------------------------------------------------- the launch


def _systems(module: Module, facts: LaunchFacts, witness: Witness) -> list[PtxSystem]:
    """The systems that a check of these values would judge, for the witness's block and elected lane."""
    found: list[PtxSystem] = []

    def collect(system: System, policy: Policy) -> Outcome:
        if isinstance(system, PtxSystem):
            found.append(system)
        return Outcome(Verdict.UNKNOWN, (), None, "", {})

    function = next((f for f in module.entries if f.name == witness.kernel), None)
    if function is None:
        raise InputError(f"{module.path} has no kernel {witness.kernel}", Span(witness.file))
    sizes = dict(_sizes(ptx_facts(facts, function, module), witness.values))
    others = frozenset(f.name for f in module.entries) - {function.name}
    only = replace(module, functions=tuple(f for f in module.functions if f.name not in others))
    check_module(only, facts, witness.policy, Checker(collect), values=sizes)
    blocks = 1 + max((int(m[1]) for step in witness.steps if (m := _AGENT.match(step.agent))), default=0)
    return [
        s
        for s in found
        if (s.info.block, s.info.elected_lane) == (witness.block, witness.elected_lane)
        and dict(s.info.values) == dict(witness.values)
        and s.info.ctas * s.info.clusters >= blocks
    ]


def _sizes(facts: PtxFacts, values: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The sizes that the facts leave open, as the values of their places give them, and variables."""
    yield from ((place, value) for place, value in values.items() if place.startswith(VARIABLE))
    yield from sizes_at(facts, values).items()


# ---------------------------------------------------------------- the kernel


def _unrolled(system: PtxSystem, witness: Witness) -> Unrolled:
    if system.info.clusters > 1:
        raise Unfit("its blocks share global memory")
    system, sequences = with_final_classes(system, answers_of(witness))
    info = system.info
    places, names = Places(info.sites), barrier_names(info)
    groups: dict[tuple[int, int], list[Member]] = {}
    translators = []
    copies: set[int] = set()  # places of no statement
    for cls, events in zip(info.classes, sequences, strict=True):
        t = Translator(info, places, cls, names)
        body = [(e[1], s) for e in events for s in t.statements(e)]
        groups.setdefault((cls.cta, cls.warp // 4), []).append(Member(cls, body))
        translators.append(t)
        copies |= {places.number(e[1]) for e in events if e[0] is Ev.FRAG_WRITE and len(e) > 3}
    statements: list[n.Stmt] = []
    for (cta, wg), members in groups.items():
        here = Binary("and", Binary("==", Var("rank"), Int(cta)), Binary("==", Var("wg"), Int(wg)))
        statements.append(n.If(here, woven(members)))
    kernel = _kernel(info, names, tuple(statements))
    done = [s for s in witness.steps if s.phase is not None or not is_poll(s)]
    placed = [x for x in map(places.numbered, done) if x.span.line not in copies]
    steps = tuple(replace(s, agent=_renumbered(s.agent, translators)) for s in placed)
    stuck = tuple(_placed(b, system, sequences, places) for b in witness.blocked)
    return Unrolled(
        kernel,
        replace(witness, steps=steps, blocked=stuck, values={}, block=(0, 0, 0), grid=None, registers=None),
        places,
        _left_out(system, translators),
    )


def _left_out(system: PtxSystem, translators: list[Translator]) -> str:
    if system.program.steers:  # which value a load brings may depend on the schedule
        return "what it loads from shared memory decides what it does"
    return next((t.left_out for t in translators if t.left_out), "")


def _kernel(info: SystemInfo, barriers: Mapping[int, str], body: tuple[n.Stmt, ...]) -> n.Kernel:
    ends = [hi for f in info.footprints if f.memory >= 0 for _, hi in f.intervals]
    size = max([16, *ends, *(o + 8 for o in barriers)])
    return n.Kernel(
        info.name,
        n.Launch(
            (Int(info.ctas), Int(1), Int(1)),
            (info.threads, 1, 1),
            (info.ctas, 1, 1),
            info.registers,
            dependent=info.has_to_wait,
        ),
        tensors=tuple(n.Tensor(name, "u8", (Int(1 << 40),), "inout") for name in TENSORS),
        shared=(n.Shared("smem", "u8", (Int(size),), offset=Int(0)),),
        barriers=tuple(n.Barrier(name, offset=Int(o)) for o, name in barriers.items()),
        fragments=tuple(n.Fragment(fragment_name(i), "f32", (64, 8)) for i in range(len(info.fragments))),
        body=body,
        span=Span(info.file, 0),
    )


# ---------------------------------------------------------------- the witness


def _renumbered(agent: str, translators: list[Translator]) -> str:
    """An asynchronous operation as the simulator counts them."""
    m = _ASYNC.search(agent)
    if m is None:
        return agent
    owner, number = agent[: m.start()], int(m[1])
    mine = next((t.numbers for t in translators if t.me.name == owner), None)
    if mine is None:
        cta, warp = _who(owner)
        mine = next((t.numbers for t in translators if (t.me.cta, t.me.warp) == (cta, warp)), [])
    return f"{owner}.async{mine[number]}" if number < len(mine) else agent


def _who(agent: str) -> tuple[int, int]:
    m = _AGENT.match(agent)
    return (int(m[1]), int(m[2])) if m else (-1, -1)


def _placed(b: Blocked, system: PtxSystem, sequences: list[list[Event]], places: Places) -> Blocked:
    """Where a blocked class waits: on its line, at something that can wait."""
    info = system.info
    for cls, events in zip(info.classes, sequences, strict=True):
        if (cls.cta, cls.warp) == _who(b.agent) and (cls.name == b.agent or b.agent.startswith(cls.name)):
            there = [
                e
                for e in events
                if e[0] in _BLOCKING and e[1] >= 0 and info.sites[e[1]].span.line == b.span.line
            ]
            named = [e for e in there if e[0] in _ON_BARRIER and info.barriers[e[2]].name == b.waits_on]
            for e in named or there:
                return replace(b, span=Span(b.span.file, places.number(e[1])))
    return replace(b, span=Span(b.span.file, 0))
