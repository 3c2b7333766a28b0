"""A run that is another system's as well is judged once; what differs in anything is judged on its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from syncverify.base.diagnostics import Policy, Verdict
from syncverify.checker.kernel.exact import Follower
from syncverify.checker.kernel.exact.polls import Use
from syncverify.checker.outcome import Outcome
from syncverify.driver import files
from syncverify.driver.certificates import RejectedError, exact
from syncverify.driver.certificates.ptx_posed import checked
from syncverify.driver.ptx.task import Checker
from syncverify.frontends.ir.systems import systems as of_kernel
from syncverify.frontends.launch_facts import LaunchFacts, facts_for
from syncverify.ir.text.parser import parse
from syncverify.model.events import LaneSplit
from tests.checker.kernel.exact.test_polls import POLL, look

#: Each block stores into 128 bytes of its own, or all into the first ones.
PLACES = """.version 8.3
.target sm_90a
.address_size 64
.visible .entry k() {{
  .reg .b32 %r<6>;
  .shared .align 16 .b8 s[512];
  mov.u32 %r0, %ctaid.x;
  {0};
  mov.u32 %r2, %tid.x;
  shl.b32 %r2, %r2, 2;
  mov.u32 %r3, s;
  add.s32 %r3, %r3, %r2;
  add.s32 %r3, %r3, %r1;
  st.shared.u32 [%r3], %r0;
  ret;
}}
"""


def systems(source: files.SourceFile, facts: LaunchFacts) -> list[Any]:
    """Those of the launch of a source's entry."""
    found: list[Any] = []

    def judge(system: Any, _: Policy) -> Outcome:
        found.append(system)
        return Outcome(Verdict.PROVED)

    assert source.module is not None
    name = source.module.entries[0].name
    checked(source.module, name, facts, {}, Policy.PRACTICAL, Checker(judge, None, again=False))
    return found


def run(system: Any) -> tuple[Follower, Any]:
    """A run that the judge accepts, and the system with the classes that it needs."""
    while True:
        try:
            follower = Follower.of(system)
            follower.judge(20_000)
            return follower, system
        except LaneSplit as split:
            system = system.refined(split)


def looks() -> Any:
    """A system with a look ahead of a wait."""
    text = look(late=POLL)
    (kernel,) = parse(text, "look.syncir")
    (system,) = of_kernel(kernel, {})
    return system


def test_systems_that_do_the_same_are_judged_once() -> None:
    proof = exact.written([looks(), looks(), looks()], Policy.PRACTICAL)
    first, *others = proof["systems"]
    assert "events" in first
    assert others == [{"judge": "own", "run": 0}] * 2
    met = exact.recheck(proof, [looks(), looks(), looks()], Policy.PRACTICAL, "proof")
    assert met.counts["systems"] == 3
    assert not met.reasons
    others[1]["run"] = 1
    with pytest.raises(RejectedError, match="run"):
        exact.recheck(proof, [looks(), looks(), looks()], Policy.PRACTICAL, "proof")


def test_what_the_judge_may_ask_is_the_same() -> None:
    follower, _ = run(looks())
    other = run(looks())[1]
    assert follower.is_of(other)
    assert not follower.is_of(replace(other, info=replace(other.info, registers=7)))
    more = [*other.info.footprints, other.info.footprints[0]]
    assert not follower.is_of(replace(other, info=replace(other.info, footprints=more)))
    i = next(i for i, (_, answer, said) in enumerate(follower.asked) if answer is None)
    assert follower.asked[i][2] is Use.GUARD
    follower.asked[i] = (follower.asked[i][0], None, Use.LOOP)
    assert not follower.is_of(other)


@pytest.mark.parametrize("places", ["shl.b32 %r1, %r0, 7", "shr.u32 %r1, %r0, 1"])
def test_blocks_that_store_elsewhere_differ(tmp_path: Path, places: str) -> None:
    path, launch = tmp_path / "k.ptx", tmp_path / "k.toml"
    path.write_text(PLACES.format(places))
    launch.write_text("[kernel.k]\nblock = [32]\ngrid = [2]\n")
    first, *others = systems(files.read_source(path), facts_for(str(path), str(launch)))
    follower, _ = run(first)
    assert [follower.is_of(other) for other in others] == ([False] if places.startswith("shl") else [])


#: Both warps store 0 into one word in block 0, and 1 and 2 in block 1; where is the same, says a shift.
VALUES = PLACES.format("shr.u32 %r1, %r0, 6").replace(
    "add.s32 %r3, %r3, %r2;\n  add.s32 %r3, %r3, %r1;\n  st.shared.u32 [%r3], %r0;",
    "add.s32 %r3, %r3, %r1;\n  shr.u32 %r4, %r2, 7;\n  add.u32 %r4, %r4, 1;\n"
    "  VALUE;\n  st.shared.u32 [%r3], %r5;",
)


@pytest.mark.parametrize(("value", "same"), [("mov.u32 %r5, %r0", []), ("mul.lo.u32 %r5, %r0, %r4", [False])])
def test_blocks_that_store_other_values_differ(tmp_path: Path, value: str, same: list[bool]) -> None:
    """Blocks 1 and 2 do the same, and store values of each warp: that is seen when they are run."""
    path, launch = tmp_path / "k.ptx", tmp_path / "k.toml"
    path.write_text(VALUES.replace("VALUE", value))
    launch.write_text("[kernel.k]\nblock = [64]\ngrid = [3]\n")
    found: list[bool] = []
    first: list[Follower] = []

    def judge(system: Any, _: Policy) -> Outcome:
        if first:
            found.append(first[0].is_of(system))
        else:
            first.append(run(system)[0])
        return Outcome(Verdict.PROVED)

    source = files.read_source(path)
    assert source.module is not None
    facts = facts_for(str(path), str(launch))
    checked(source.module, "k", facts, {}, Policy.PRACTICAL, Checker(judge, None, again=False))
    assert found == same
