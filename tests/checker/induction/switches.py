"""Each rule of the reading, how it is switched off, and a wrong kernel that only this rule keeps out.

The table is for tests: nothing of it is in the reader. ``size`` refutes the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from syncverify.checker.induction import assemble, event_operations, program, quotients, read, slots, stepping
from syncverify.checker.induction.operations import essence
from syncverify.checker.kernel import hops
from syncverify.checker.kernel.protocol import N
from syncverify.checker.prover.protocols import registers
from syncverify.frontends.ptx.values import division_idioms
from syncverify.model.events import Ev
from syncverify.symbolic.quotients import BY_NUMBER
from tests.checker.induction.advanced import AGAIN, FALLING, UNWAITED
from tests.checker.induction.bases import BEGUN, COMPILED, ENDED, IR, LOADED, STORED, WRAPPED, changed
from tests.checker.induction.test_clusters import MISTAKES as OF_PAIR
from tests.checker.induction.test_clusters import PAIR
from tests.checker.induction.test_read import CORPUS, RING

RED = Path(__file__).parents[1] / "red"
Patch = Callable[[pytest.MonkeyPatch], None]
RELEASE = "      mbarrier.arrive empty[i % 3]\n"
USED = "      st.global out[block * 64 + lane * 2 : 2], x\n"
WAIT = "      mbarrier.wait full[i % 3], (i // 3) % 2\n"
LOAD = "      ld.shared x, tile[i % 3][lane * 2 : 2]\n"


@dataclass(frozen=True, slots=True)
class Switch:
    """``claim``: what is claimed besides of the kernel, with the rule and without."""

    off: Patch
    kernel: str
    size: dict[str, int] = field(default_factory=dict)
    slow: bool = False
    claim: Patch = lambda _: None


def _ring(*changes: tuple[str, str]) -> str:
    text = RING
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def _epilogue(before: str, slot: str) -> str:
    """The consumer reads what a third warp stores: slot 0 after a wait, slot 1 may not be read at all. No
    claim says what ``c`` is after the loop.
    """
    text = _ring(
        ("block [64]", "block [96]"),
        ("  mbarrier full[3]\n", "  shared other : f32[2, 64]\n  mbarrier full[3]\n  mbarrier fin\n"),
        ("      for s in 0..3 {\n", "      mbarrier.init fin, 32\n      for s in 0..3 {\n"),
        ("    for i in 0..N {\n      mbarrier.wait full", "    let c = 1\n    for i in 0..N {\n"
         "      c = c * 2 % 61\n      mbarrier.wait full"),
    )  # fmt: skip
    wait = "" if "wait" in before else "mbarrier.wait fin, 0\n"
    read = f"    {wait}{before}\n    ld.shared y, other[{slot}][lane * 2 : 2]\n{USED.replace('x', 'y')}  }}\n"
    third = (
        "  role third warps 2..3 {\n    st.shared other[0][lane * 2 : 2], 1.0\n    mbarrier.arrive fin\n"
        "    st.shared other[1][lane * 2 : 2], 1.0\n  }\n}\n"
    )
    return text.removesuffix("  }\n}\n") + read + third


def _set(owner: Any, name: str, new: Any) -> Patch:
    return lambda patch: patch.setattr(owner, name, new)


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _kept(self: Any, old: Any) -> Any:
    return old


def _any_offset(order: Any, cycle: Any) -> int:
    return list(order).index(cycle[0])


def _first_parity(self: Any, m: Any, depth: int) -> Any:
    r = min(m.parities)
    return replace(m.op, parity=m.parities[r] % 2)


def _apart(accesses: Any, steps: Any) -> list[Any]:
    """Each access in a buffer of its own: hazards between accesses are not looked at."""
    from syncverify.checker.induction.slots import laid_out

    out = []
    for i, a in enumerate(accesses):
        (region,) = laid_out([a], {0: steps[i]})
        region.name += f" of access {i}"
        out.append(region)
    return out


def _any_memory(real: Any) -> Any:
    def access(info: Any, c: Any, fps: Any, block: int | None = None) -> Any:
        return real(info, c, fps, info.footprints[next(iter(fps.values()))].memory)

    return access


def _without_waits(pieces: Iterable[Any]) -> Iterator[Any]:
    return (p for p in pieces if next(iter(p.events.values()))[0] != Ev.CLUSTER_WAIT)


def _one_function(self: Any) -> tuple[Any, ...]:
    return ()


def _any_comparison(real: Any) -> Any:
    """Where several comparisons decide, or none does, the loop ends at the largest bound."""

    def deciding(self: Any, goes: Any, ends: Any, *at: Any) -> list[Any]:
        return list(real(self, goes, ends, *at) or real(self, goes, {}, *at)[:1])

    return deciding


def _as_if_alike(patch: pytest.MonkeyPatch) -> None:
    """All agents count with one function, whatever their tiles have."""
    patch.setattr(program, "_by_trips", list)
    patch.setattr(assemble.Assembly, "schemas", _one_function)


def _elsewhere(rest: Any, _: Any, pieces: Any) -> Any:
    """As if each thread touched a byte of its own."""
    return (slots.SlotBytes(rest, 0, tuple(sorted({(2**20 + t, 2**20 + t + 1, t) for _, _, t in pieces}))),)


def _at_any_residue(self: Any, g: Any, _: Any) -> Any:
    """What was asked at one residue is taken for what is asked at the others."""
    return next((raw for (h, _), raw in self.asked.items() if h == g), None)


#: Turn 1 of the second role stores where N is 3 or 4, when the third one loads: at even turns ``2 n + 2 < N``
#: is asked, at odd ones ``2 n < N``.
BY_TWO = """kernel by_two {
  launch grid [1] block [96]
  param N : i32 = 3
  param M : i32 = 2
  assume N >= 3
  assume M >= 0
  shared one : f32[1, 64]
  shared other : f32[1, 64]
  shared tile : f32[2, 64]
  role first warps 0..1 {
    for s in 0..N step 2 {
      st.shared one[0][lane * 2 : 2], 1.0
    }
  }
  role second warps 1..2 {
    for n in 0..M {
      st.shared other[0][lane * 2 : 2], 1.0
      if 2 * n + 2 - 2 * (n % 2) < N {
        st.shared tile[n % 2][lane * 2 : 2], 1.0
      }
    }
  }
  role third warps 2..3 {
    if N < 5 {
      ld.shared x, tile[1][lane * 2 : 2]
    }
  }
}
"""


def _most_turns(self: Any, header: Any, residue: Any, before: Any, given: Any) -> Any:
    start = self.visit(header, residue, before, given, {})
    return read.leaves(self.space, start, self.headers.keys())


def _all_rise(self: Any) -> list[Any]:
    """Every register that moves is taken to rise."""
    return [self.atoms[x] - self.begins[x] for x in self.begins if x in self.moves]


def _first_again(self: Any, leaf: Any, header: Any, _: Any) -> bool:
    """Whatever turn it is, registers may hold what they hold in the first one."""
    held = stepping.registers(leaf.agent)
    return any(all(held.get(s) == f.c for s, f in some.items()) for some in header.others.values())


def _folded_blindly(first: Any, loop: Any) -> Any:
    """The step before a loop is taken for the beginning of its turns."""
    k = len(first.pieces)
    more = (replace(p, guards=(*p.guards, N - loop.lo)) for p in loop.body.pieces[k:])
    body = replace(loop.body, pieces=(*loop.body.pieces[:k], *more))
    return replace(first, pieces=()), read.LoopText(loop.lo - 1, loop.hi, body)


SWITCHES: dict[str, Switch] = {
    "registers are what the claim says of the next turn": Switch(
        _set(read.Reader, "zero", lambda *_: True),
        _ring(("        stage = stage + 1\n", "        stage = stage + 1\n        if i == 70 {\n"
               "          phase = phase ^ 1\n        }\n")),
        {"N": 75},
    ),
    "what no form fits may be any number": Switch(
        _set(read.Reader, "unknown", _kept),
        _ring(("    for i in 0..N {\n      mbarrier.wait full", "    let c = 1\n    for i in 0..N {\n"
               "      c = c * 2 % 61\n      mbarrier.wait full"),
              (RELEASE, f"      if c != 8 {{\n  {RELEASE}      }}\n")),
        {"N": 9},
    ),
    "operations have guards that hold where they are executed": Switch(
        _set(read.Reader, "executed", _nothing),
        _epilogue("if c != 8 {\nmbarrier.wait fin, 0\n}", "0"),
        {"N": 3},
    ),
    "an operation is the same on all ways": Switch(
        _set(read, "alike", _nothing),
        _epilogue("let s = 0\nif c == 8 {\ns = 1\n}", "s"),
        {"N": 3},
    ),
    "parities follow turns": Switch(
        _set(assemble.Assembly, "waited", _first_parity),
        _ring(("(i // 3) % 2", "(i // 6) % 2")),
        {"N": 5},
    ),
    "slots are gone through in one order": Switch(
        _set(assemble, "offset", _any_offset),
        _ring((WAIT, WAIT.replace("full[i % 3]", "full[2 * i % 3]")),
              (LOAD, ""), (USED, ""),
              (RELEASE, RELEASE.replace("empty[i % 3]", "empty[2 * i % 3]"))),
        {"N": 2},
    ),
    "accesses to the same bytes share a buffer": Switch(
        _set(assemble, "laid_out", _apart),
        _ring((LOAD, LOAD.replace("i % 3", "(i + 1) % 3"))),
        {"N": 5},
    ),
    "accesses are to the memory of the own block": Switch(
        _set(event_operations, "access", _any_memory(event_operations.access)),
        (RED / "remote_write_before_start.bad.syncir").read_text("utf-8"),
    ),
    "no access touches a barrier": Switch(
        _set(assemble.Assembly, "no_barriers", _nothing),
        (CORPUS / "more/staging_before_inval.bad.syncir").read_text("utf-8"),
    ),
    "four warps execute a wgmma": Switch(
        _set(assemble, "warpgroups", _nothing),
        (RED / "wgmma_of_three_warps.bad.syncir").read_text("utf-8"),
    ),
    "registers of the tensor core": Switch(
        _set(assemble.Assembly, "alone", _nothing),
        (CORPUS / "rulebook/E35_accumulator_read_in_flight.bad.syncir").read_text("utf-8"),
    ),
    "setmaxnreg goes in its own direction": Switch(
        _set(event_operations, "legal_request", lambda *_: True),
        (CORPUS / "rulebook/E63_setmaxnreg_wrong_direction.bad.syncir").read_text("utf-8"),
        slow=True,
    ),
    "blocks of a cluster leave together": Switch(
        _set(assemble, "_leaves_together", lambda _: True),
        PAIR.replace(*OF_PAIR["a block leaves early"]),
    ),
    "who arrives at the cluster's barrier waits for it": Switch(
        _set(assemble, "_met", _without_waits),
        PAIR.replace("  cluster.arrive.relaxed\n  cluster.wait\n", "  cluster.arrive.relaxed\n"),
    ),
    "a release of block scope hands on completions only": Switch(
        _set(hops.Graph, "hands_on", lambda *_: True),
        PAIR.replace(*OF_PAIR["generic reads are released at block scope"]),
    ),
    "what is asked of turns is asked at its residue": Switch(
        _set(read.Reader, "as_asked", _at_any_residue), BY_TWO
    ),
    "registers that are taken to rise do not fall": Switch(
        _set(read.Reader, "rising", _all_rise), FALLING, {"N": 6, "D": 101}
    ),
    "a first turn does not come again": Switch(
        _set(read.Reader, "is_first", _first_again), AGAIN, {"N": 77}
    ),
    "a step before a loop is as its turns begin": Switch(
        _set(read, "folded", _folded_blindly), UNWAITED, {"B": 2, "N": 4, "R": 5}
    ),
    "tiles of all agents have as many steps": Switch(
        _as_if_alike,
        IR["tiles"].text.replace("    for i in 0..N {\n      mbarrier.wait full",
                                 "    for i in 0..N + 1 {\n      mbarrier.wait full"),
        {"N": 1, "T": 2},
    ),
}  # fmt: skip


def _skipped_wait() -> str:
    """The first turn of the consumer waits for nothing."""
    first = BEGUN.replace("%r95;", "-1;") + "\tsetp.eq.s32 \t%p18, %r97, -1;\n" + WRAPPED
    return changed(
        (WRAPPED, ""), (BEGUN, first), (".pred \t%p<18>", ".pred \t%p<19>"),
        ("\tadd.s32 \t%r8, %r55, 768;\n", "\tadd.s32 \t%r8, %r55, 768;\n\t@%p18 bra \t$L__BB0_20;\n"),
        ("\t@%p9 bra \t$L__BB0_6;\n", "\t@%p9 bra \t$L__BB0_6;\n\n$L__BB0_20:\n"),
    )  # fmt: skip


def _one_step_less() -> str:
    """N - 1 steps, or one where N is 1; the consumer then goes on, for its counter is never 0."""
    return changed(
        (LOADED, LOADED + "\tadd.s32 \t%r101, %r20, -1;\n"), (".b32 \t%r<101>", ".b32 \t%r<102>"),
        ("setp.lt.s32 \t%p11, %r95, %r20", "setp.ne.s32 \t%p11, %r95, %r101"),
        ("setp.lt.s32 \t%p17, %r98, %r20", "setp.lt.s32 \t%p17, %r98, %r101"),
    )  # fmt: skip


def _two_quotients() -> str:
    """The producer makes (N + 31) / 16 steps, the consumer (N + 30) / 16: one less at N = 1, 17, ..."""
    return changed(
        (LOADED, LOADED + "\tadd.s32 \t%r101, %r20, 30;\n\tshr.s32 \t%r101, %r101, 4;\n"
         "\tadd.s32 \t%r20, %r20, 31;\n\tshr.s32 \t%r20, %r20, 4;\n"),
        (".b32 \t%r<101>", ".b32 \t%r<102>"), ("setp.lt.s32 \t%p7, %r20", "setp.lt.s32 \t%p7, %r101"),
        ("setp.lt.s32 \t%p11, %r95, %r20", "setp.lt.s32 \t%p11, %r95, %r101"),
    )  # fmt: skip


def _quotients_alike(patch: pytest.MonkeyPatch) -> None:
    """What is divided by one number has one quotient."""
    real = quotients.by_number

    def by_number(space: Any, x: Any, m: int) -> Any:
        known = (key[1] for key in space.path.memo if key[0] == BY_NUMBER and key[2] == m)
        return real(space, next(known, x), m)

    for owner in (quotients, division_idioms):
        patch.setattr(owner, "by_number", by_number)


def _looked(parity: str) -> str:
    """The consumer looks at the barrier, and waits if that says no. ``parity``: of the look."""
    ready, waited = "\tadd.s32 \t%r8, %r55, 768;\n", "\t@%p9 bra \t$L__BB0_6;\n"
    look = (
        "\txor.b32 \t%r101, %r96, 1;\n"
        f"\tmbarrier.try_wait.parity.shared::cta.b64 %p18, [%r8], {parity};\n\t@%p18 bra \t$L__BB0_20;\n"
    )
    return changed(
        (".pred \t%p<18>", ".pred \t%p<19>"), (".b32 \t%r<101>", ".b32 \t%r<102>"),
        (ready, ready + look), (waited, waited + "\n$L__BB0_20:\n"),
    )  # fmt: skip


#: The look is at the phase of the wait; that of the wrong kernel is at the phase before.
LOOKED, LOOKED_BEFORE = _looked("%r96"), _looked("%r101")


def _any_look(one: Any, look: Any, headers: Any) -> Any:
    """A look that spares a wait is that wait, of whatever phase it is."""
    no, yes = one.agent.fork(), one.agent.fork()
    passed = [(x.point(), x.live()) for x, event in stepping._moves(yes, 1, headers) if event is None]
    wait = next(event for _, event in stepping._moves(no, 0, headers) if event is not None)
    return next(
        (x, wait)
        for x, event in stepping._moves(no, 0, headers)
        if event is None and (x.point(), x.live()) in passed
    )


#: Whether the consumer is at its last step.
LAST = (
    (LOADED, LOADED + "\tadd.s32 \t%r101, %r20, -1;\n"), (".b32 \t%r<101>", ".b32 \t%r<104>"),
    (".pred \t%p<18>", ".pred \t%p<20>"),
)  # fmt: skip
SKIPPED = "\tsetp.ge.s32 \t%p18, %r95, %r101;\n\t@%p18 bra \t$L__BB0_20;\n"


def _last_unwaited() -> str:
    """The consumer does not wait for the last step."""
    ready, waited = "\tadd.s32 \t%r8, %r55, 768;\n", "\t@%p9 bra \t$L__BB0_6;\n"
    return changed(*LAST, (ready, ready + SKIPPED), (waited, waited + "\n$L__BB0_20:\n"))


def _last_kept() -> str:
    """The consumer does not release the last step, and the producer waits for that behind its loop."""
    fence = "\t// begin inline asm\n\tfence.proxy.async.shared::cta;\n"
    done = "\t@%p17 bra \t$L__BB0_10;\n"
    tail = """
	add.s32 	%r102, %r100, 2;
	setp.gt.s32 	%p19, %r102, 2;
	add.s32 	%r103, %r102, -3;
	selp.b32 	%r102, %r103, %r102, %p19;
	selp.u32 	%r103, 1, 0, %p19;
	xor.b32 	%r103, %r103, %r99;
	xor.b32 	%r103, %r103, 1;
	shl.b32 	%r102, %r102, 3;
	add.s32 	%r102, %r78, %r102;

$L__BB0_21:
	mbarrier.try_wait.parity.shared::cta.b64 %p19, [%r102+792], %r103;
	@!%p19 bra 	$L__BB0_21;
"""
    return changed(
        *LAST, (fence, SKIPPED + fence), ("\tadd.s32 \t%r72, %r97, 1;\n",
        "\n$L__BB0_20:\n\tadd.s32 \t%r72, %r97, 1;\n"), (done, done + tail),
    )  # fmt: skip


def _all_late(patch: pytest.MonkeyPatch) -> None:
    """Every loop is claimed to execute its body in its last turn, too."""
    patch.setattr(registers, "_late", lambda *_: True)


def _body_to_the_end(real: Any) -> Any:
    """The body is that of all turns, also where the last one stands behind the loop."""

    def parted(self: Any, header: Any, bodies: Any, exits: Any, counts: Any, end: Any) -> Any:
        return self.region(bodies, *counts), real(self, header, bodies, exits, counts, end)[1]

    return parted


def _as_many_as_the_body(self: Any, leaf: Any, body: Any, r: Any, *counts: Any) -> Any:
    """The first events of the last turn are taken for those of the body, whatever they are."""
    many = sum(len(self.present(leaf, p, r, *counts)) for p in body.pieces)
    return tuple(e for e in leaf.events if essence(e) is not None)[many:]


#: The same for the compiled ring.
COMPILED_SWITCHES: dict[str, Switch] = {
    "a first turn that differs is looked at": Switch(
        _set(read.Reader, "onward", _most_turns), _skipped_wait()
    ),
    "a loop that ends where its counter is a number begins below it": Switch(
        _set(read.Reader, "entered", _nothing), _one_step_less()
    ),
    "bytes in several slots are touched in each": Switch(
        _set(slots, "_split", _elsewhere),
        changed((BEGUN, BEGUN.replace("\n$L__BB0_5", STORED + "\n$L__BB0_5"))),
        slow=True,
    ),
    "a look is of the phase of its wait": Switch(_set(stepping, "_waited", _any_look), LOOKED_BEFORE),
    "quotients of different sums are different sizes": Switch(_quotients_alike, _two_quotients()),
    "a last turn that stands apart is none of the body's": Switch(
        lambda patch: patch.setattr(read.Reader, "parted", _body_to_the_end(read.Reader.parted)),
        _last_kept(),
        claim=_all_late,
        slow=True,
    ),
    "the last turn does what the body does": Switch(
        _set(read.Reader, "without", _as_many_as_the_body), _last_unwaited(), claim=_all_late, slow=True
    ),
}
__all__ = ["COMPILED", "COMPILED_SWITCHES", "ENDED", "LOOKED", "SWITCHES", "Switch"]
