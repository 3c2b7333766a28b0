"""Single mutations of real kernels: verdicts, replays of what is refuted, executions of what is proved.

    python benchmarks/checker/real_mutants.py --count 2500 --seed 7 [--kernels 80] [--jobs 16]
        [--apart-from SEED] [--rows FILE] [--out FILE]

A mutation changes one instruction that synchronizes, moves data by an engine, or leads there: it is deleted,
or a parity, count, byte count, mask, address, width, descriptor, register count, scope or guard of it is
changed, or the comparison or the constant of an integer instruction. Kernels are drawn from each
generator of the real corpus in turn, mutations at random; a seed names all of them. Each mutant is checked
for the launch facts of its kernel, with the replay. What is proved is executed by the second reader on
launches that its facts allow; where one does harm, so is the kernel without the mutation (``without_it``:
it does the same). ``warned``: the report warns of a contested point at the line of the harm, or assumes that
values which lanes store there are one but for rounding. Neither counts as a wrong proof. Rows of the result
file: proofs, with what executions showed, and refutations that were not replayed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from syncverify.base.deadline import Guard, OutOfBudgetError, guarded  # noqa: E402
from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Severity, Verdict  # noqa: E402
from syncverify.base.reason import kind_of  # noqa: E402
from syncverify.checker.outcome import Outcome  # noqa: E402
from syncverify.checker.prover.strategy import Entry  # noqa: E402
from syncverify.driver.executions.confirmed import confirmed  # noqa: E402
from syncverify.driver.executions.drawn_launch import DRAWS, drawn_launch  # noqa: E402
from syncverify.driver.files import read_source  # noqa: E402
from syncverify.driver.prover import prover  # noqa: E402
from syncverify.driver.ptx.check import Checker, kernel_task, reports_of  # noqa: E402
from syncverify.driver.verdicts import run_system  # noqa: E402
from syncverify.frontends.launch_facts import read_facts  # noqa: E402
from syncverify.frontends.ptx.syntax.nodes import Function, Module  # noqa: E402
from syncverify.simulate.ptx import Harm, Kind  # noqa: E402
from syncverify.simulate.ptx.confirm import Confirmed, Limits, confirm  # noqa: E402
from tests.system.real.cache import Kernel, kernels  # noqa: E402

SECONDS, MEMORY = 40, 5 << 30
#: What executions of a proved mutant may cost.
LIMITS = Limits(steps=3_000_000, each=1_500_000, executions=12, seconds=3.0)
#: Seconds of the reader for one mutant.
READER = 20.0
SYNC = re.compile(
    r"(?P<guard>@!?[%\w$]+\s+)?(?<![\w.%])(?P<op>(?:mbarrier|bar|barrier|fence|membar|wgmma|cp\.async|cp\.reduce|"
    r"elect|setmaxnreg|griddepcontrol|st\.async|tensormap|shfl|vote|redux|match)\.[\w.:]+|"
    r"(?:ld|st|atom|red)\.[\w.:]*shared[\w.:]*|stmatrix[\w.:]*|ldmatrix[\w.:]*)"
    r"(?P<operands>[^;{}]*(?:\{[^{}]*\}[^;{}]*)*);"
)
#: Integer instructions whose results addresses, guards and counts are made of.
INTEGER = re.compile(
    r"(?<![\w.%])(?P<op>(?:add|sub|and|or|xor|shl|shr|mul|mad|rem|div|bfe|prmt)\.[\w.]*[bsu](?:32|64))\s+"
    r"(?P<operands>[^;{}\[\]]*);"
)
COMPARE = re.compile(
    r"(?<![\w.%])setp\.(?P<how>lt|le|gt|ge|eq|ne)(?P<rest>\.[\w.]*[bsu](?:16|32|64)\s+[^;]*);"
)
_COMPARED = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq"}
BRANCH = re.compile(r"@(?P<neg>!?)(?P<p>[%\w$]+)\s+bra(?P<rest>[.\w]*\s+[^;]+);")


@dataclass(frozen=True)
class Mutant:
    """``kind``: the operator. ``line``: of the mutation. ``text``: the whole file."""

    kernel: str
    kind: str
    line: int
    before: str
    after: str
    text: str


def _split(operands: str) -> list[str]:
    return [o.strip() for o in re.split(r",(?![^{\[]*[}\]])", operands)]


def _numbers(op: str, operands: list[str]) -> Iterator[tuple[str, int, str, int]]:
    """Operands that are numbers or addresses, as (kind, place, how, by)."""
    if "parity" in op:
        yield "parity", 2, "xor.b32", 1
    if op.startswith("mbarrier") and ("expect_tx" in op or "complete_tx" in op):
        yield "bytes more", len(operands) - 1, "add.u32", 16
        yield "bytes less", len(operands) - 1, "add.u32", -16
    if op.startswith("mbarrier.init"):
        yield "count more", 1, "add.u32", 1
        yield "count less", 1, "add.u32", -1
    if op.startswith(("bar.sync", "barrier.sync", "bar.arrive", "barrier.cta")) and len(operands) > 1:
        yield "threads more", 1, "add.u32", 32
        yield "threads less", 1, "add.u32", -32
    if op.startswith(("bar.sync", "barrier.sync", "bar.arrive", "barrier.cta")):
        yield "barrier id", 0, "xor.b32", 1
    if op.startswith("bar.warp.sync"):
        yield "mask", 0, "and.b32", 0x7FFFFFFF
        yield "mask half", 0, "and.b32", 0xFFFF
    if op.startswith(("shfl", "vote", "redux", "match")):
        yield "mask", len(operands) - 1, "and.b32", 0x7FFFFFFF
    if op.startswith("setmaxnreg"):
        yield "registers more", 0, "add.u32", 8
        yield "registers less", 0, "add.u32", -8
    if op.startswith("cp.async.bulk.") and "tensor" not in op and "mbarrier" in op and len(operands) > 3:
        yield "size", 2, "add.u32", 16


def _wide(guard: str, op: str, operands: list[str]) -> Iterator[tuple[str, str]]:
    """Descriptors of wgmma, masks of multicasts, widths of accesses."""

    def put(place: int, width: int, how: str, by: int) -> str:
        new = [*operands]
        new[place] = "%mutated"
        body = f"mov.b{width} %mutated, {operands[place]}; {how}.b{width} %mutated, %mutated, {by};"
        return f"{{ .reg .b{width} %mutated; {body} {guard}{op} {', '.join(new)}; }}"

    if op.startswith("wgmma.mma_async"):
        for place in (1, 2):
            if place < len(operands) and operands[place].startswith("%rd"):
                for kind, by in (("descriptor's address", 8), ("descriptor's stride", 1 << 32)):
                    yield kind, put(place, 64, "xor", by)
    if "multicast" in op:
        place = next(n for n in range(len(operands) - 1, 0, -1) if "%rd" not in operands[n])
        if "[" not in operands[place]:
            yield "cluster mask", put(place, 16, "xor", 3)
    if re.match(r"(ld|st)\.[\w.:]*shared", op):
        if re.search(r"\.[bu]32$", op) and ".v" not in op:
            yield "width", f"{guard}{re.sub(r'[.]([bu])32$', '.u16', op)} {', '.join(operands)};"
        wide = re.search(r"\.v([24])\.", op)
        if wide and op.startswith("st"):
            half = [o.strip() for o in operands[1].strip("{} ").split(",")][: int(wide[1]) // 2]
            vector = ".v2." if wide[1] == "4" else "."
            value = f"{{{', '.join(half)}}}" if wide[1] == "4" else half[0]
            yield "width", f"{guard}{op.replace(wide[0], vector)} {operands[0]}, {value};"


def changes(guard: str, op: str, operands: list[str]) -> Iterator[tuple[str, str]]:
    """What one instruction becomes under each operator that applies to it."""
    rest = ", ".join(operands)
    if op.endswith("_wait") or ("_wait." in op and op.startswith("mbarrier")):
        yield "deleted", f"setp.eq.b32 {operands[0].split('|')[0]}, 0, 0;"
    elif op.startswith(("ld", "shfl", "vote", "redux", "match", "elect", "atom")):
        pass  # their results are used
    else:
        yield "deleted", ""
    for kind, place, how, by in _numbers(op, operands):
        if place < len(operands) and "[" not in operands[place]:
            new = [*operands]
            new[place] = "%mutated"
            if op.startswith("setmaxnreg"):  # it takes a constant
                yield kind, f"{guard}{op} {int(operands[place]) + by};"
                continue
            body = f"mov.b32 %mutated, {operands[place]}; {how} %mutated, %mutated, {by};"
            yield kind, "{ .reg .b32 %mutated; " + body + f" {guard}{op} {', '.join(new)}; }}"
    yield from _wide(guard, op, operands)
    for n, o in enumerate(operands):
        address = re.fullmatch(r"\[([%\w$.]+)(\s*\+\s*-?\d+)?((?:,\s*\{[^{}]*\})?)\]", o)
        if address and (op.startswith(("mbarrier", "ld", "st", "cp.async.bulk")) or n < 2):
            barrier = op.startswith("mbarrier") or (n > 1 and "mbarrier" in op)
            at = int(address[2].replace("+", "").replace(" ", "")) if address[2] else 0
            for by in (8,) if barrier else (128, 16, 4):
                moved = [*operands]
                moved[n] = f"[{address[1]}+{at + by}{address[3]}]"
                yield f"address {n} by {by}", f"{guard}{op} {', '.join(moved)};"
    for kind, pattern, new in (
        ("scope", r"\.(?:gpu|sys|cluster)\b(?!::)", ".cta"),
        ("space", r"async\.shared::cta", "async.global"),
        ("order", r"\.(?:release|acquire|acq_rel)\b", ".relaxed"),
        ("read wait", r"wait_group(?!\.)", "wait_group.read"),
    ):
        fixed = "mbarrier_init" in op or op.startswith("barrier.cluster")  # the ISA has no other form of it
        if (kind == "read wait" and "bulk" not in op) or (kind in ("order", "scope") and fixed):
            continue
        if re.search(pattern, op):
            yield kind, f"{guard}{re.sub(pattern, new, op, count=1)} {rest};"
    if "wait_group" in op and operands and operands[-1].lstrip("-").isdigit():
        yield "groups more", f"{guard}{op} {int(operands[-1]) + 1};"
    if guard:
        name = guard.strip().lstrip("@").lstrip("!")
        negated = "@" if guard.startswith("@!") else "@!"
        yield "guard negated", f"{negated}{name} {op} {rest};"
        yield "guard dropped", f"{op} {rest};"


def mutants(kernel: Kernel) -> list[Mutant]:
    """All single mutants of a kernel."""
    text = kernel.ptx.read_text()
    # Comments become blanks, so that places are those of the text.
    code = re.sub(r"//[^\n]*", lambda m: " " * len(m[0]), text)
    found: list[Mutant] = []

    def put(at: re.Match[str], kind: str, new: str) -> None:
        start, end = at.span()
        body = text[:start] + new + "\n" * at[0].count("\n") + text[end:]
        line = text.count("\n", 0, start) + 1
        found.append(Mutant(kernel.label, kind, line, " ".join(at[0].split()), new.strip(), body))

    for m in SYNC.finditer(code):
        for kind, new in changes(m["guard"] or "", m["op"], _split(" ".join(m["operands"].split()))):
            put(m, kind, new)
    for m in BRANCH.finditer(code):
        put(m, "branch negated", f"@{'' if m['neg'] else '!'}{m['p']} bra{m['rest']};")
    for m in COMPARE.finditer(code):
        put(m, "comparison", f"setp.{_COMPARED[m['how']]}{m['rest']};")
    for m in INTEGER.finditer(code):
        parts = _split(m["operands"])
        for n in range(1, len(parts)):
            if re.fullmatch(r"-?\d+", parts[n]):
                new_parts = [*parts[:n], str(int(parts[n]) ^ 4), *parts[n + 1 :]]
                put(m, "constant", f"{m['op']} {', '.join(new_parts)};")
    return found


def drawn(draw: random.Random, most: int, longest: int, without: frozenset[str]) -> list[Kernel]:
    """So many kernels, from each generator in turn, none of those ``without``."""
    families: dict[str, list[Kernel]] = {}
    for k in sorted(kernels(), key=lambda k: k.lines):
        own = families.setdefault(k.family, [])
        if k.lines <= longest or len(own) < 5:
            own.append(k)
    for own in families.values():
        draw.shuffle(own)
    some: list[Kernel] = []
    while len(some) < most and any(families.values()):
        next_ones = [own.pop() for own in families.values() if own]
        some += [k for k in next_ones if k.label not in without][: most - len(some)]
    return some


def chosen(count: int, seed: int, most: int, longest: int, apart_from: int | None) -> list[Mutant]:
    """Mutants of so many kernels at random; none of the kernels that the seed ``apart_from`` takes."""
    draw = random.Random(seed)
    taken_before: frozenset[str] = frozenset()
    if apart_from is not None:
        of_before = drawn(random.Random(apart_from), 100, 2500, frozenset())
        taken_before = frozenset(k.label for k in of_before)
    some = drawn(draw, most, longest, taken_before)
    each = -(-count // len(some))
    out: list[Mutant] = []
    for k in some:
        every = mutants(k)
        # An operator that has many places does not crowd the others out.
        kinds: dict[str, list[Mutant]] = {}
        for m in every:
            kinds.setdefault(m.kind, []).append(m)
        for own_ in kinds.values():
            draw.shuffle(own_)
        taken: list[Mutant] = []
        while len(taken) < each and any(kinds.values()):
            taken += [own_.pop() for own_ in kinds.values() if own_]
        out += taken[:each]
    draw.shuffle(out)
    return out[:count]


def judged(path: Path, facts_file: Path) -> dict[str, Any]:
    """The verdict of a mutant with its replay, or what executions of a proved one show."""
    source = read_source(path)
    module = source.module
    assert module is not None
    facts = read_facts(facts_file)
    systems: list[Any] = []

    def judge(system: Any, policy: Policy) -> Outcome:
        systems.append(system)
        return run_system(system, policy)

    function = module.entries[0]
    task = kernel_task(
        module,
        function,
        facts,
        Policy.PRACTICAL,
        Checker(judge, prover(Entry.PTX)),
        {},
        source.hash,
        True,
    )
    begin = time.process_time()
    *_, report = reports_of(task, ScopeKind.EXACT)
    took = time.process_time() - begin
    first = next((d for d in report.diagnostics if d.severity is Severity.ERROR), None)
    row: dict[str, Any] = {
        "verdict": str(report.verdict),
        "rule": first.rule if first else "",
        "message": f"line {first.span.line}: {first.message}" if first else str(report.reason or ""),
        "kind_of_reason": kind_of(report.reason),
        "seconds": round(took, 2),
    }
    begin = time.process_time()
    if report.verdict is Verdict.REFUTED:
        with guarded(Guard(2 * READER, None)):
            found = confirmed(report, module)
        assert found.replay is not None
        row |= {"replay": str(found.replay.outcome), "detail": found.replay.detail}
        row["verdict"] = str(found.verdict)  # unknown where nothing shows it
    elif report.verdict is Verdict.PROVED and systems:
        system, bound = systems[-1], task.kernel.facts
        try:
            with guarded(Guard(READER, None)):
                ran = confirm(
                    module,
                    function.name,
                    [],
                    "",
                    lambda n: drawn_launch(module, function, bound, system, n),
                    DRAWS,
                    LIMITS,
                )
        except OutOfBudgetError:
            ran = Confirmed(None, "", 0, f"more than {READER:.0f} s")
        row |= {"executed": str(ran.harm) if ran.harm else "", "ended": ran.ended, "why": ran.why}
        if ran.harm is not None:
            row |= {
                "harm": f"{ran.harm.kind} {ran.harm.detail}",
                "warned": _warned(ran.harm, report, function, module),
            }
        row["warnings"] = sorted({f"{d.rule} {d.contested or ''}" for d in report.diagnostics})
    row["reader_seconds"] = round(time.process_time() - begin, 2)
    return row


def _warned(harm: Harm, report: KernelReport, function: Function, module: Module) -> bool:
    """Whether the report of a proof speaks of such harm at its line."""
    places = {module.span(i) for i in function.body if i.line == harm.where.line}
    rounded = any("but for rounding" in a for a in report.assumptions)
    alike = rounded and harm.kind is Kind.RACE and "different values" in harm.detail
    return any(
        d.span in places and (d.contested or (alike and d.rule == "SV112")) for d in report.diagnostics
    )


def apart(mutant: Mutant, facts: Path) -> dict[str, Any]:
    """``judged`` in a fork that takes its time and memory with it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.ptx"
        path.write_text(mutant.text)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.nice(5)
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            try:
                row = judged(path, facts)
            except BaseException as e:  # a crash is a finding
                row = {"verdict": "error", "message": f"{type(e).__name__}: {e}"[:300]}
            with os.fdopen(write, "w") as out:
                json.dump(row, out)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
    return json.loads(said) if said else {"verdict": "limit", "message": f"more than {SECONDS} s of CPU"}


def run(mutant: Mutant, of: dict[str, Kernel], ends: float, rows: Path | None) -> dict[str, Any]:
    """The row of a mutant, which is also appended to the file ``rows`` as soon as it is there."""
    row = _row(mutant, of[mutant.kernel], ends)
    if rows is not None:
        with rows.open("a") as out:
            out.write(json.dumps(row) + "\n")
    return row


def _row(mutant: Mutant, kernel: Kernel, ends: float) -> dict[str, Any]:
    head = {
        "kernel": mutant.kernel, "kind": mutant.kind, "line": mutant.line,
        "before": mutant.before[:160], "after": mutant.after[:200],
    }  # fmt: skip
    if time.monotonic() > ends:
        return head | {"verdict": "not run"}
    found = apart(mutant, kernel.facts("exact"))
    if found.get("executed"):
        found["without_it"] = _unmutated(kernel) == found["harm"]
    return head | found


@cache
def _unmutated(kernel: Kernel) -> str:
    """The harm that executions of a proved kernel without a mutation do. A mutation may move its line."""
    text = kernel.ptx.read_text()
    return str(apart(Mutant(kernel.label, "", 0, "", "", text), kernel.facts("exact")).get("harm", ""))


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    done = [r for r in rows if r["verdict"] != "not run"]

    def counted(key: str, of: list[dict[str, Any]]) -> dict[str, int]:
        return dict(Counter(str(r.get(key)) for r in of).most_common())

    refuted = [r for r in done if r.get("replay")]
    proved = [r for r in done if r["verdict"] == "proved"]
    harmful = [r for r in proved if r.get("executed")]
    warned = [r for r in harmful if r["warned"] and not r["without_it"]]
    return {
        "mutants": len(done),
        "kernels": len({r["kernel"] for r in done}),
        "generators": len({r["kernel"].split("/")[0] for r in done}),
        "verdicts": counted("verdict", done),
        "replays": counted("replay", refuted),
        "replays by rule": {
            rule: counted("replay", [r for r in refuted if r["rule"] == rule])
            for rule in sorted({r["rule"] for r in refuted})
        },
        "proved": {
            "executed without harm": len(proved) - len(harmful),
            "harm": len(harmful),
            "harm that the kernel without the mutation does": sum(r["without_it"] for r in harmful),
            "harm that a warning at its line names": len(warned),
        },
        "proved by kind": counted("kind", proved),
        "unknown by reason": counted("kind_of_reason", [r for r in done if r["verdict"] == "unknown"]),
        "seconds of the checker": round(sum(r.get("seconds", 0) for r in done)),
        "seconds of the reader": round(sum(r.get("reader_seconds", 0) for r in done)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2500)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--kernels", type=int, default=80)
    parser.add_argument("--lines", type=int, default=1 << 30, help="of the longest kernel")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this many")
    parser.add_argument("--apart-from", type=int, help="leave out the 100 kernels that this seed takes")
    parser.add_argument("--rows", type=Path, help="append each row as it comes")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    some = chosen(args.count, args.seed, args.kernels, args.lines, args.apart_from)
    of = {k.label: k for k in kernels()}
    ends = time.monotonic() + args.seconds
    with ThreadPoolExecutor(args.jobs) as pool:
        rows = list(pool.map(partial(run, of=of, ends=ends, rows=args.rows), some))
    found = summary(rows)
    print(json.dumps(found, indent=1))
    looked_at = [
        r
        for r in rows
        if r["verdict"] in ("proved", "error") or r.get("replay", "reproduced") not in (None, "reproduced")
    ]
    if args.out:
        data = {"command": " ".join(sys.argv), **found, "rows": looked_at}
        args.out.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
