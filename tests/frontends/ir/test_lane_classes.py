"""Classes of lanes: where they split, and that a class emits what each of its lanes would."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import syncverify
from syncverify.base.diagnostics import Policy, Verdict
from syncverify.checker.prover.parametric.strategy import all_sizes
from syncverify.driver.ir import check_kernel
from syncverify.frontends.ir import systems as all_systems
from syncverify.frontends.ir.lane_classes import elections
from syncverify.frontends.ir.systems import IrSystem, systems
from syncverify.ir.launch_grid import Grid
from syncverify.ir.text.parser import parse, parse_file
from syncverify.model.events import Ev, Event, Footprint, LaneSplit
from tests.frontends.ir.helpers import build, only, run, streams

CORPUS = sorted(Path(__file__).parents[3].glob("corpus/**/*.syncir"))
BLOCK = "launch grid [1] block [64]\n mbarrier b[4]\n shared s : f32[4, 64]\n tensor a : f32[4096] in"


def classes(body: str, header: str = BLOCK) -> list[str]:
    return [c.name.removeprefix("cta0.") for c in only(body, header).info.classes]


HALVES = ["warp0.lanes0-15", "warp0.lanes16-31", "warp1.lanes0-15", "warp1.lanes16-31"]
WARPS = ["warp0.lanes0-31", "warp1.lanes0-31"]
SPLITS = [
    ("bulk.commit", WARPS),
    ("if tid < 40 {\n bulk.commit\n }", ["warp0.lanes0-31", "warp1.lanes0-7", "warp1.lanes8-31"]),
    (
        "if lane == 5 {\n bulk.commit\n }",
        ["warp0.lanes0-4,6-31", "warp0.lanes5", "warp1.lanes0-4,6-31", "warp1.lanes5"],
    ),
    ("for i in 0..tid >> 5 {\n bulk.commit\n }", WARPS),
    ("for i in 0..lane >> 4 {\n bulk.commit\n }", HALVES),
    ("mbarrier.arrive b[lane >> 4]", HALVES),
    ("mbarrier.wait b[0], warp", WARPS),
    ("mbarrier.wait b[0], lane >> 4", HALVES),
    ("role r threads 0..33 {\n bulk.commit\n }", ["warp0.lanes0-31", "warp1.lanes0", "warp1.lanes1-31"]),
    (
        "if warp == 0 {\n if lane < 2 {\n if lane < 1 {\n bulk.commit\n }\n }\n }",
        ["warp0.lanes0", "warp0.lanes1", "warp0.lanes2-31", "warp1.lanes0-31"],
    ),
    ("bulk.load s[lane & 3][0 : 4], a[0 : 4], b[0]", WARPS),
    ("st.shared s[0][0 : 1 + (lane & 1)], 1.0", WARPS),
    ("bulk.load s[0][0 : 4 + 4 * (lane >> 4)], a[0 : 4], b[0]", HALVES),
    ("let x = lane\n x = x - x\n if x {\n bulk.commit\n }", WARPS),
]


@pytest.mark.parametrize(("body", "expected"), SPLITS)
def test_classes(body: str, expected: list[str]) -> None:
    assert classes(body) == expected


ELECTED_COPY = """kernel k {{
 launch grid [1] block [32]
 shared a : f32[32, 4]
 tensor o : f32[4096] out
 st.shared a[lane][0 : 4], 1.0
 fence.proxy.async
 {meet}
 elect p
 if p {{
  bulk.store o[0 : 4], a[{row}][0 : 4]
  bulk.commit
  bulk.wait 0
 }}
}}
"""


@pytest.mark.parametrize("row", range(4))
def test_a_copy_of_a_place_that_no_meeting_orders_is_refuted(row: int) -> None:
    (report,) = syncverify.check(ELECTED_COPY.format(row=row, meet=""), advice=False)
    assert str(report.verdict) == "refuted"


@pytest.mark.parametrize("row", range(4))
def test_a_copy_that_an_elected_lane_starts_meets_lanes_at_their_own_places(row: int) -> None:
    (report,) = syncverify.check(ELECTED_COPY.format(row=row, meet="warp.sync"), advice=False)
    assert str(report.verdict) == "proved"


BEHIND_A_SIZE = """kernel k {{
 launch grid [1] block [32]
 param N : i32 = 2
 assume N >= 1
 mbarrier m
 elect p
 if p {{
  mbarrier.init m, 1
 }}
 bar.sync 0
 if N < 1000 {{
  if p {{
   mbarrier.arrive m
  }}
 }} else {{
  if {guard} {{
   if p {{
    mbarrier.arrive m
   }}
  }}
 }}
 mbarrier.wait m, 0
}}
"""


@pytest.mark.parametrize(("guard", "verdict"), [("lane >= 16", "refuted"), ("lane >= 0", "proved")])
def test_lanes_that_part_behind_a_branch_on_a_size_are_elected(guard: str, verdict: str) -> None:
    (report,) = syncverify.check(BEHIND_A_SIZE.format(guard=guard), advice=False)
    assert str(report.verdict) == verdict


OF_TWO_WARPS = """kernel k {{
 launch grid [1] block [64]
 shared a : f32[64]
 elect p
 let x = lane
 role one warps 0..1 {{
  if p {{
   if x == 5 {{
    st.shared a[0], 1.0
   }}
  }}
 }}
 role two warps 1..2 {{
  if p {{
   if {guard} {{
    st.shared a[0], 2.0
   }}
  }}
 }}
}}
"""


@pytest.mark.parametrize(
    ("guard", "verdict"), [("x == 5", "refuted"), ("x == 20", "unknown"), ("warp == 20", "proved")]
)
def test_pairs_of_lanes_that_two_warps_elect_are_not_proved_one_by_one(guard: str, verdict: str) -> None:
    (report,) = syncverify.check(OF_TWO_WARPS.format(guard=guard), advice=False)
    assert str(report.verdict) == verdict


def test_partial_last_warp() -> None:
    assert classes("bulk.commit", "launch grid [1] block [33]") == ["warp0.lanes0-31", "warp1.lanes0"]


def test_thread_coordinates() -> None:
    body = "if tid.y == 1 {\n bulk.commit\n }\n bar.arrive tid.x & 15, 32"
    found = classes(body, "launch grid [1] block [8, 2, 2]")
    assert len(found) == 16
    events = streams(only(body, "launch grid [1] block [8, 2, 2]"))
    assert events["cta0.warp0.lanes8,24"] == [("BULK_COMMIT",), ("BARRIER_ARRIVE", 0, 32, 32), ("EXIT",)]
    assert events["cta0.warp0.lanes1,17"] == [("BARRIER_ARRIVE", 1, 32, 32), ("EXIT",)]


def test_a_split_that_discovery_misses_is_raised_and_refined() -> None:
    # discovery answers polls with 1, so only a poll that fails gets to the guard
    body = "let p = mbarrier.test b[0], 0\n if p == 0 {\n if lane == 3 {\n bulk.commit\n }\n }"
    system = only(body, "launch grid [1] block [32]\n mbarrier b[4]")
    (agent,) = system.agents()
    assert agent.step()[0] == Ev.POLL
    with pytest.raises(LaneSplit) as split:
        agent.step(0)
    assert split.value.parts == (0xFFFFFFF7, 8)
    refined = system.refined(split.value)
    assert [c.lanes for c in refined.info.classes] == [0xFFFFFFF7, 8]
    assert [e[0] for e in run(refined.agents()[1])] == [Ev.POLL, Ev.BULK_COMMIT, Ev.EXIT]


def test_refining_keeps_the_other_classes() -> None:
    system = only("let p = mbarrier.test b[0], 0\n if not p {\n if tid == 40 {\n bulk.commit\n }\n }", BLOCK)
    agent = system.agents()[1]
    agent.step()
    with pytest.raises(LaneSplit) as split:
        agent.step(0)
    names = [c.name for c in system.refined(split.value).info.classes]
    assert names == ["cta0.warp0.lanes0-31", "cta0.warp1.lanes0-7,9-31", "cta0.warp1.lanes8"]


def projected(system: IrSystem, event: Event, lane: int) -> tuple[object, ...]:
    """The event as one lane sees it: footprints as that lane's bytes."""
    table = system.info.footprints

    def one(fp: int) -> object:
        if fp < 0:
            return fp
        f: Footprint = table[fp]
        if not f.lanes:
            return f.memory, f.intervals
        return f.memory, tuple((a, b) for a, b, who in f.lanes if who == lane)

    code, rest = event[0], list(event[2:])
    places = {Ev.READ: (0,), Ev.WRITE: (0,), Ev.ATOMIC: (0,), Ev.CP_ASYNC: (0, 1), Ev.BULK_STORE: (0, 1),
              Ev.BULK_COPY: (0, 1), Ev.ST_ASYNC: (0,), Ev.WGMMA: (1, 3), Ev.GLOBAL_READ: (0,),
              Ev.GLOBAL_WRITE: (0,), Ev.GLOBAL_ATOMIC: (0,), Ev.SPIN: (0,)}  # fmt: skip
    for i in places.get(code, ()):
        rest[i] = one(rest[i])
    if code == Ev.BULK_LOAD:
        rest[0] = tuple((one(fp), bar, size) for fp, bar, size in rest[0])
        rest[1] = -1
    if code in (Ev.GLOBAL_WRITE, Ev.GLOBAL_ATOMIC):
        rest[-1] = None  # a class knows a value only if its lanes share it
    return (code, event[1], *rest)


@pytest.mark.parametrize("path", CORPUS[1::4], ids=[p.name for p in CORPUS[1::4]])
def test_a_class_emits_what_each_of_its_lanes_would(path: Path) -> None:
    for kernel in parse_file(path):
        for system in systems(kernel, {}):
            assert isinstance(system, IrSystem)
            for agent in system.agents():
                c = system.info.classes[agent.cls]
                events = run(agent, 1)
                if any(e[0] == Ev.FAULT for e in events):
                    continue
                lanes = [lane for lane in range(32) if c.lanes >> lane & 1]
                for lane in {lanes[0], lanes[len(lanes) // 2], lanes[-1]}:
                    alone = system._agent(0, replace(c, lanes=1 << lane))
                    expected = [projected(system, e, lane) for e in run(alone, 1)]
                    assert [projected(system, e, lane) for e in events] == expected


def test_a_divisor_that_the_guard_keeps_out() -> None:
    body = """
      let x = 0
      let y = lane
      if x != 0 and (8 // x) > lane {
        bulk.commit
      }
      if y != 0 and (8 // y) > 3 {
        fence.mbarrier_init
      }
    """
    got = streams(only(body, "launch grid [1] block [32]"))
    assert got == {
        "cta0.warp0.lanes0,3-31": [("EXIT",)],
        "cta0.warp0.lanes1-2": [("INIT_FENCE",), ("EXIT",)],
    }


ELECTED = "launch grid [1] block [32]\n shared s : f32[64]\n shared t : f32[64]"


@pytest.mark.parametrize(
    ("body", "lanes"),
    [
        ("if p {\n st.shared s[0], 1.0\n }", [1]),
        ("if p {\n st.shared s[0], 1.0\n }\n st.shared t[tid], 1.0", [1]),
        ("if p {\n st.shared s[1], 1.0\n }\n st.shared s[tid], 1.0", [1, 2]),
        ("if p {\n st.shared s[31 - tid], 1.0\n }", [*range(32)]),
        ("let x = lane * 2\n if p {\n st.shared s[x], 1.0\n }", [*range(32)]),
        ("if p {\n st.shared s[2], 1.0\n }\n if lane < 4 {\n st.shared s[tid], 1.0\n }", [4, 5, 0, 1]),
    ],
)
def test_the_lanes_that_are_elected(body: str, lanes: list[int]) -> None:
    assert [s.info.elected_lane for s in build(f"elect p\n{body}", ELECTED)] == lanes


def test_an_elected_lane_that_is_at_the_place_itself_hides_no_race() -> None:
    text = "kernel k {\n launch grid [1] block [32]\n shared s : f32[64]\n elect p\n if p {\n"
    text += "  st.shared s[1], 1.0\n }\n%s st.shared s[tid], 2.0\n}\n"
    verdicts = [str(syncverify.check(text % between)[0].verdict) for between in ("", " warp.sync\n")]
    assert verdicts == ["refuted", "proved"]


_MEETS = """kernel k {
  launch grid [1] block [64]
  param N : i32 = 2
  assume N >= 1
  shared tile : f32[64] align 128
  mbarrier b[2]
  elect p
  role init warps 0..1 {
    if p {
      mbarrier.init b[0], COUNT
      mbarrier.init b[1], COUNT
    }
  }
  bar.sync 0
  role load warps 0..1 {
    let x = lane
    let w = warp
    let k = 1
    for n in 0..N {
      BODY
      bar.sync 1, 64
    }
  }
  role math warps 1..2 {
    for i in 0..N {
      mbarrier.wait b[0], i % 2
      ld.shared v, tile[][0 : 1]
      bar.sync 1, 64
    }
  }
}
"""
_ARRIVE = "mbarrier.arrive b[0]\n"
_STORE = "if p {\n st.shared tile[][0 : 1], 1.0\n }\n"
#: What a role does in each turn: right for some elected lanes alone; then a twin, right for each.
BY_WHOM = {
    "an elected lane turns as often as its number": (
        f"if p {{\n for i in 0..lane {{\n {_ARRIVE} }}\n }}",
        f"if p {{\n for i in 0..w + 1 {{\n {_ARRIVE} }}\n }}",
    ),
    "as often as a count that turned so often": (
        f"k = 0\n for i in 0..lane {{\n k = k + 1\n }}\n if p {{\n for i in 0..k {{\n {_ARRIVE} }}\n }}",
        f"k = 0\n for i in 0..w + 1 {{\n k = k + 1\n }}\n if p {{\n for i in 0..k {{\n {_ARRIVE} }}\n }}",
    ),
    "to its number, from bounds that are never 0": (
        f"if p {{\n for i in 1..lane + 1 {{\n {_ARRIVE} }}\n }}",
        f"if p {{\n for i in lane + 1..lane + 2 {{\n {_ARRIVE} }}\n }}",
    ),
    "one elected lane does not arrive": (
        f"if p {{\n if lane != 5 {{\n {_ARRIVE} }}\n }}",
        f"if p {{\n if lane != 35 {{\n {_ARRIVE} }}\n }}",
    ),
    "in one guard with the election": (
        f"if p and lane != 5 {{\n {_ARRIVE} }}",
        f"if p and w != 5 {{\n {_ARRIVE} }}",
    ),
    "some do not, by a register": (
        f"if p {{\n if x < 7 {{\n {_ARRIVE} }}\n }}",
        f"if p {{\n if x < 32 {{\n {_ARRIVE} }}\n }}",
    ),
    "a register that a guard has changed": (
        f"if x > 20 {{\n k = 2\n }}\n if p {{\n for i in 0..k {{\n {_ARRIVE} }}\n }}",
        f"if w > 20 {{\n k = 2\n }}\n if p {{\n for i in 0..k {{\n {_ARRIVE} }}\n }}",
    ),
    "another lane than the elected one arrives": (
        f"{_STORE} if x == 1 {{\n {_ARRIVE} }}",
        f"{_STORE} warp.sync\n if x == 1 {{\n {_ARRIVE} }}",
    ),
    "half of the lanes arrive": (
        f"{_STORE} mbarrier.arrive b[lane >> 4]",
        f"{_STORE} warp.sync\n mbarrier.arrive b[lane >> 4]",
    ),
}


#: These look at many launches before they say so.
_LONG = tuple(BY_WHOM)[:3]


@pytest.mark.parametrize(
    "what", [pytest.param(x, marks=[pytest.mark.slow] if x in _LONG else []) for x in BY_WHOM]
)
def test_any_lane_may_be_elected(what: str) -> None:
    text = _MEETS.replace("COUNT", "16" if "half" in what else "1")
    found = []
    for body in BY_WHOM[what]:
        (kernel,) = parse(text.replace("BODY", body), "elected.syncir")
        found.append(check_kernel(kernel, {"N": 2}).verdict)
    assert found == [Verdict.REFUTED, Verdict.PROVED]


#: The elected lane arrives early, or beside a guard that parts lanes behind many steps.
LATE = """kernel late {
  launch grid [1] block [32]
  param N : i32 = 1
  assume N >= 1
  mbarrier m

  elect p
  if p {
    mbarrier.init m, 1
  }
  bar.sync 0
  for i in 0..12 {
    bar.sync 1, 32
  }
  if lane >= 16 {
    if p {
      mbarrier.arrive m
    }
  }
  mbarrier.wait m, 0
}
"""


def test_each_lane_is_elected_where_lanes_may_part_behind_what_was_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(all_systems, "_SIZED_DISCOVERY", 10)
    monkeypatch.setattr(all_systems, "_DISCOVERY", 10)
    (bad,) = parse(LATE, "late.syncir")
    (good,) = parse(LATE.replace("lane >= 16", "lane >= 0"), "late.syncir")
    assert check_kernel(bad, {"N": 1}).verdict is Verdict.REFUTED
    assert check_kernel(good, {"N": 1}).verdict is Verdict.PROVED
    assert all_sizes(bad, {}, Policy.PRACTICAL, check_nothing).verdict is not Verdict.PROVED
    assert all_sizes(good, {}, Policy.PRACTICAL, check_nothing).verdict is Verdict.PROVED


def check_nothing(_: object) -> Verdict:
    return Verdict.UNKNOWN


#: A register of one role has the name of a loop of the elected lane in another.
NAMED_ALIKE = """kernel alike {
  launch grid [1] block [64]
  shared tile : f32[32]
  mbarrier b[4]
  elect p
  role init warps 0..1 {
    if p {
      for s in 0..TURNS {
        mbarrier.init b[PLACE], 1
      }
    }
  }
  bar.sync 0
  role math warps 1..2 {
    let s = lane
    st.shared tile[][s : 1], 1.0
  }
}
"""


@pytest.mark.parametrize(
    ("turns", "place", "by_number"),
    [("4", "s", False), ("lane % 4 + 1", "s", True), ("1", "lane % 4", True), ("1", "s + lane % 4", True)],
)
def test_a_loop_of_the_elected_lane_is_no_register_of_its_name(
    turns: str, place: str, by_number: bool
) -> None:
    (kernel,) = parse(NAMED_ALIKE.replace("TURNS", turns).replace("PLACE", place), "alike.syncir")
    assert elections(kernel, {}, Grid.of(kernel, {})).by_number is by_number


@pytest.mark.parametrize(("turns", "by_number"), [("4", False), ("lane % 4 + 1", True)])
def test_what_a_loop_of_lanes_left_in_a_register_varies(turns: str, by_number: bool) -> None:
    """The elected lane initializes the mbarrier of the last turn, which is that of its own number."""
    loop = (
        f"let s = 0\n }}\n }}\n for s in 0..{turns} {{\n warp.sync\n }}\n if p {{\n mbarrier.init b[s], 1\n"
    )
    text = NAMED_ALIKE.replace("for s in 0..TURNS {", "if warp {").replace(
        "mbarrier.init b[PLACE], 1\n      }\n", loop
    )
    (kernel,) = parse(text.replace("let s = lane", "let s = warp"), "left.syncir")
    assert elections(kernel, {}, Grid.of(kernel, {})).by_number is by_number


def test_a_name_of_two_things_makes_no_proof_for_each_lane() -> None:
    alike = NAMED_ALIKE.replace("TURNS", "4").replace("PLACE", "s")
    other = alike.replace("for s", "for t").replace("b[s]", "b[t]")
    (kernel,), (apart,) = (parse(text, "alike.syncir") for text in (alike, other))
    assert elections(kernel, {}, Grid.of(kernel, {})) == elections(apart, {}, Grid.of(apart, {}))
    assert check_kernel(kernel, {}).verdict is check_kernel(apart, {}).verdict is Verdict.PROVED
