"""The schedule of a witness as a drawing in characters, for terminals.

A row for each lane and each mbarrier, a column for each step that synchronizes. Only the last steps are drawn
where a line cannot hold all of them::

    warp 0 lane 0    iie>....w~~~~
     async of it        ====c
    warps 1-4                w a~~
    full[0]          000000001111

``i`` init, ``e`` expect-tx, ``a`` arrive, ``w`` wait, ``f`` fence, ``|`` execution barrier, ``g`` groups,
``>`` issue, ``=`` in flight, ``c`` completion, ``~`` waits for ever. Rows of barriers show the last digit of
their phase.
"""

from __future__ import annotations

from collections.abc import Iterator

from syncverify.base.diagnostics import StepKind, Witness
from syncverify.report.schedule_view import View, view_of

SYMBOLS = {
    StepKind.INIT: "i",
    StepKind.INVAL: "x",
    StepKind.ARRIVE: "a",
    StepKind.EXPECT: "e",
    StepKind.WAIT: "w",
    StepKind.SYNC: "|",
    StepKind.FENCE: "f",
    StepKind.ISSUE: ">",
    StepKind.COMPLETION: "c",
    StepKind.GROUP: "g",
}
#: Columns that show who is stuck at the end.
TAIL = 4
LEGEND = (
    "i init, e expect-tx, a arrive, w wait, f fence, | barrier, g groups, > issue, = in flight, "
    "c completion, ~ waits for ever; of a barrier the number of its phase"
)


def draw(witness: Witness, width: int = 80) -> Iterator[str]:
    """The drawing, line by line, no line longer than ``width`` characters."""
    view = view_of(witness)
    steps = [i for i, s in enumerate(witness.steps) if s.kind in SYMBOLS]
    names = [*_lane_names(view), *view.barriers]
    label = min(max((len(n) for n in names), default=0), width // 3)
    shown = steps[-max(width - label - 2 - TAIL, 1) :]
    column = {step: n for n, step in enumerate(shown)}
    if len(shown) < len(steps):
        yield f"the last {len(shown)} of {len(steps)} synchronizing steps"
    rows = _lane_rows(witness, view, shown, column)
    for name, row in zip(_lane_names(view), rows, strict=True):
        yield f"{_fitted(name, label)}  {row}".rstrip()
    for name in view.barriers:
        yield f"{_fitted(name, label)}  {_phases(view, name, shown)}".rstrip()
    yield from _wrapped(LEGEND, width)


def _lane_names(view: View) -> list[str]:
    blocks = len({lane.cta for lane in view.lanes}) > 1
    block = [f"cta{lane.cta} " if blocks else "" for lane in view.lanes]
    return [
        f"{b}{' async of it' if lane.asynchronous else lane.label}"
        for b, lane in zip(block, view.lanes, strict=True)
    ]


def _fitted(name: str, label: int) -> str:
    return name.ljust(label) if len(name) <= label else name[: label - 1] + "~"


def _lane_rows(witness: Witness, view: View, shown: list[int], column: dict[int, int]) -> list[str]:
    grid = [[" "] * (len(shown) + TAIL) for _ in view.lanes]
    first = shown[0] if shown else 0
    for copy in view.copies:
        start = column.get(copy.issue, 0 if copy.issue < first else None)
        end = len(shown) + TAIL if copy.completion is None else column.get(copy.completion, 0)
        for n in range(start, end) if start is not None else ():
            grid[copy.lane][n] = "="
    for step, n in column.items():
        grid[view.lane_of[step]][n] = SYMBOLS[witness.steps[step].kind]
    for lane in view.waiting:
        own = [n for step, n in column.items() if view.lane_of[step] == lane]
        for n in range(max(own, default=-1) + 1, len(shown) + TAIL):
            grid[lane][n] = "~"
    return ["".join(row) for row in grid]


def _phases(view: View, barrier: str, shown: list[int]) -> str:
    spans = view.barriers[barrier]
    out: list[str] = []
    for step in shown:
        phase = next((s.state.phase for s in reversed(spans) if s.start <= step), None)
        out.append(" " if phase is None else str(phase % 10))
    return "".join(out)


def _wrapped(text: str, width: int) -> Iterator[str]:
    line = ""
    for part in text.split(", "):
        if line and len(line) + 2 + len(part) > width:
            yield line + ","
            line = part
        else:
            line = f"{line}, {part}" if line else part
    yield line
