"""Mutate the synchronization of PTX kernels, one site at a time, and write docs/ptx_mutants.md.

    python benchmarks/checker/ptx_deletion.py [--kernel LABEL ...] [--jobs N]    measure
    python benchmarks/checker/ptx_deletion.py --simulate [--kernel LABEL ...]    every schedule of those
        that stand
    python benchmarks/checker/ptx_deletion.py --table                            write the table

Kernels are those of the real corpus and, with ``--pairs``, the right halves of corpus/ptx.

A site is one instruction. It is removed (a poll answers "complete" instead, so that its loop falls through);
its byte count is raised by 16; its parity is negated. A mutant that stands at the sizes of the launch file
is checked at others, where rings turn round: every size of 256 becomes 1280, the number of rounds of a pair
3 and 11. Results are kept in
benchmarks/results/ptx_deletion.json; a run measures what is missing or undecided there. Mutants that stand
are unrolled for the launch file and simulated, every schedule of them, by the oracle that shares nothing with
the checker; why they are right is said in benchmarks/checker/ptx_redundant.toml.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from syncverify.base.diagnostics import Claim, Policy, ScopeKind, Witness  # noqa: E402
from syncverify.driver.files import check_source, read_source  # noqa: E402
from syncverify.frontends.launch_facts import LaunchFacts, read_facts  # noqa: E402
from syncverify.ptx_replay import unroll  # noqa: E402
from syncverify.simulate.ir import explore  # noqa: E402
from tests.system.real.cache import Kernel, kernels  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "ptx_deletion.json"
TABLE = ROOT / "docs" / "ptx_mutants.md"
ARGUMENTS = ROOT / "benchmarks" / "checker" / "ptx_redundant.toml"
SECONDS, MEMORY = 60, 4 << 30
SIMULATED, STATES = 600, 30_000  # CPU seconds and states of one simulation
#: One tile for each block: every schedule of several tiles is too many.
ONE_TILE = {"quack/gemm": ("grid = [1, 1, 4]", "grid = [1, 1, 16]")}
SIZE = re.compile(r"\b(i32|i64) = 256\b")  # of problems, in launch files
COUNT = re.compile(r"\bi32 = (\d+)")  # of rounds, in those of pairs
PAIRS = "corpus/ptx"
CHOSEN = (
    "triton_tma/matmul_s3",
    "tilelang/one_role_matmul_s4_small",
    "quack/gemm",
    "gluon/matmul_specialized_loader4",
    "cutlass/tma_single_role",
    "fa4/forward_d64",
    "triton_ws/matmul_s2",
)

SYNC = re.compile(
    r"(?P<guard>@!?[%\w$]+\s+)?"
    r"(?<![\w.])(?P<op>mbarrier\.(?:init|arrive|expect_tx|complete_tx|try_wait|test_wait)|cp\.async\.mbarrier\.arrive"
    r"|fence\.|membar\.|bar\.|barrier\.|wgmma\.(?:fence|commit_group|wait_group)"
    r"|cp\.async\.(?:bulk\.)?(?:commit_group|wait_group|wait_all)|griddepcontrol\.wait)"
    r"(?P<rest>[\w.:]*)(?P<operands>[^;]*);"
)


@dataclass(frozen=True)
class Mutant:
    line: int
    kind: str  # deleted, bytes, parity
    op: str
    text: str  # the whole mutated file


def mutants(text: str) -> Iterator[Mutant]:
    lines = text.split("\n")
    for index, line in enumerate(lines):
        code = line.split("//")[0]
        for found in SYNC.finditer(code):
            op = found["op"] + found["rest"]
            for kind, new in _changes(found):
                changed = code[: found.start()] + new + code[found.end() :]
                yield Mutant(index + 1, kind, op, "\n".join([*lines[:index], changed, *lines[index + 1 :]]))


def _changes(found: re.Match[str]) -> Iterator[tuple[str, str]]:
    """What a site becomes under each kind of mutation that applies to it."""
    op, guard = found["op"], found["guard"] or ""
    operands = [o.strip() for o in re.split(r",(?![^{\[]*[}\]])", found["operands"])]
    if op.endswith("_wait"):
        yield "deleted", f"setp.eq.b32 {operands[0]}, 0, 0;"
    else:
        yield "deleted", ""
    opcode = op + found["rest"]
    if op.endswith("_wait") and ".parity" in found["rest"]:
        yield "parity", _with(guard, opcode, operands, 2, "xor.b32", 1)
    if "expect_tx" in opcode:
        yield "bytes", _with(guard, opcode, operands, len(operands) - 1, "add.u32", 16)


def _with(guard: str, opcode: str, operands: list[str], place: int, change: str, by: int) -> str:
    """The same instruction with one operand changed, in a scope of its own."""
    old, new = operands[place], [*operands]
    new[place] = "%mutated"
    body = f"mov.b32 %mutated, {old}; {change} %mutated, %mutated, {by}; {guard}{opcode} {', '.join(new)};"
    return "{ .reg .b32 %mutated; " + body + " }"


def _small(facts: str) -> str:
    return facts


def _large(facts: str) -> str:
    return SIZE.sub(r"\1 = 1280", facts)


def _rounds(n: int) -> Callable[[str], str]:
    return lambda facts: COUNT.sub(f"i32 = {n}", facts)


def others(kernel: Kernel) -> tuple[Callable[[str], str], ...]:
    """The other sizes at which a mutant is checked."""
    return (_rounds(3), _rounds(11)) if kernel.family == PAIRS else (_large,)


def pairs() -> list[Kernel]:
    """The right halves of corpus/ptx."""
    return [
        Kernel(path.stem, PAIRS, "nvcc 13.0", len(path.read_text().splitlines()), (), path)
        for path in sorted((ROOT / PAIRS).glob("*.good.ptx"))
    ]


def _boxless(facts: str) -> str:
    return re.sub(r"box = \[[^\]]*\], ", "", facts)


def check(
    kernel: Kernel, mutant: Mutant, given: Callable[[str], str], policy: Policy = Policy.PRACTICAL
) -> dict[str, Any]:
    """Verdict of the mutant."""

    def judged(path: Path, facts: LaunchFacts) -> dict[str, Any]:
        (report,) = check_source(read_source(path), policy=policy, facts=facts, scope=ScopeKind.ALL)
        errors = [d for d in report.diagnostics if d.severity.value == "error"]
        return {
            "verdict": report.verdict.value,
            "rule": errors[0].rule if errors else "",
            "message": errors[0].message if errors else report.reason or "",
            "errors": sorted({f"{d.rule} line {d.span.line}" for d in errors}),
            "assumed": [str(a) for a in report.assumptions],
            "warned": sorted({f"{d.rule} {d.contested}" for d in report.diagnostics if d.contested}),
        }

    return apart(kernel, mutant, given, judged, SECONDS)


def simulate(kernel: Kernel, mutant: Mutant) -> dict[str, Any]:
    """What every schedule of the mutant, unrolled for one launch, does wrong."""

    def explored(path: Path, facts: LaunchFacts) -> dict[str, Any]:
        source = read_source(path)
        (report,) = check_source(source, facts=facts, scope=ScopeKind.ALL)
        assert source.module is not None
        values = dict(report.scope.values)
        clean = Witness(Claim.UB, "", "", (), kernel=report.name, file=source.path, values=values)
        found = explore(unroll(source.module, facts, report.witness or clean).kernel, limit_states=STATES)
        harms = sorted({f"{h.rule} {h.message}" for h in found.harms if h.kind != Claim.ORDER_VIOLATION})
        return {"complete": found.complete, "states": found.states, "harms": harms}

    tile = ONE_TILE.get(kernel.label, ("", ""))
    return apart(kernel, mutant, lambda facts: facts.replace(*tile), explored, SIMULATED)


def apart(
    kernel: Kernel,
    mutant: Mutant,
    given: Callable[[str], str],
    of: Callable[[Path, LaunchFacts], dict[str, Any]],
    seconds: int,
) -> dict[str, Any]:
    """A function of the mutant and its launch facts, in a fork that takes its time and memory with it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.ptx"
        path.write_text(mutant.text)
        (facts := Path(folder) / "launch.toml").write_text(given(kernel.facts("exact").read_text()))
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.nice(5)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            try:
                row = of(path, read_facts(facts))
            except Exception as error:  # a crash is a result, and a bad one
                row = {
                    "verdict": "error",
                    "rule": "",
                    "message": f"{type(error).__name__}: {error}",
                    "assumed": [],
                }
            with os.fdopen(write, "w") as out:
                json.dump(row, out)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
    return json.loads(said) if said else {"verdict": "limit", "rule": "", "message": "", "assumed": []}


def judge(kernel: Kernel, mutant: Mutant) -> dict[str, Any]:
    found = check(kernel, mutant, _small)
    if found["verdict"] != "refuted":
        for size in others(kernel):
            found["large"] = check(kernel, mutant, size)
            if found["large"]["verdict"] != "proved":
                break
    if mutant.kind == "bytes" and "box = " in kernel.facts("exact").read_text():
        found["boxless"] = check(kernel, mutant, _boxless)
    return {"line": mutant.line, "kind": mutant.kind, "op": mutant.op} | found


def run(chosen: list[Kernel], jobs: int) -> None:
    for kernel in chosen:
        results = _load()
        entry = results.setdefault(kernel.label, {"mutants": []}) | {"generator": kernel.generator}
        entry["whole"] = check(kernel, Mutant(0, "", "", kernel.ptx.read_text()), others(kernel)[-1])
        entry["mutants"] = [r for r in entry["mutants"] if not _open(r)]
        done = {(r["line"], r["kind"], r["op"]) for r in entry["mutants"]}
        every = list(mutants(kernel.ptx.read_text()))
        entry["total"] = len(every)
        todo = [m for m in every if (m.line, m.kind, m.op) not in done]
        with ThreadPoolExecutor(jobs) as pool:
            for row in pool.map(judge, repeat(kernel), todo):
                entry["mutants"].append(row)
                wide = row.get("large", {})
                place = f"{kernel.label}:{row['line']:5} {row['kind']:8}{row['op']:55}"
                said = (
                    f"{row['verdict']:8} {row['rule']:6}{wide.get('verdict', ''):8} {wide.get('rule', ''):6}"
                )
                _keep(kernel.label, entry)
                print(place, said, (wide or row)["message"][-120:], flush=True)


def _open(row: dict[str, Any]) -> bool:
    """Whether an earlier run left a mutant undecided: it is measured again."""
    last = row.get("large", row)
    return row["verdict"] != "refuted" and last["verdict"] not in ("refuted", "proved")


def run_simulations(chosen: list[Kernel]) -> None:
    """Simulates what stands; a mutant that answers a contested point is checked in strict mode."""
    for kernel in chosen:
        entry = _load().get(kernel.label)
        if entry is None:
            continue
        every = {(m.line, m.kind, m.op): m for m in mutants(kernel.ptx.read_text())}
        whole = set(entry["whole"]["warned"])
        itself = Mutant(0, "", "", kernel.ptx.read_text())
        if "simulated" not in entry:
            entry["simulated"] = simulate(kernel, itself)
        for row in entry["mutants"]:
            mutant = every[row["line"], row["kind"], row["op"]]
            stands = standing(row, whole, {})[0]
            if stands == "warning" and "strict" not in row:
                if "strict" not in entry:
                    entry["strict"] = check(kernel, itself, _small, Policy.STRICT)["errors"]
                for size in (_small, *others(kernel)):
                    found = check(kernel, mutant, size, Policy.STRICT).get("errors", ())
                    row["strict"] = [e for e in found if e not in entry["strict"]]
                    if row["strict"]:
                        break
            if stands == "proved" and "simulated" not in row:
                row["simulated"] = simulate(kernel, mutant)
                print(f"{kernel.label}:{row['line']:5} {row['op']:55}", row["simulated"], flush=True)
            _keep(kernel.label, entry)


def _keep(label: str, entry: dict[str, Any]) -> None:
    entry["mutants"].sort(key=lambda r: (r["line"], r["kind"]))
    RESULTS.write_text(json.dumps(_load() | {label: entry}, indent=1, sort_keys=True) + "\n")


def _load() -> dict[str, Any]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


# ---------------------------------------------------------------- the table


def write_table() -> None:
    """docs/ptx_mutants.md from the results and the arguments."""
    arguments = tomllib.loads(ARGUMENTS.read_text())
    counts: dict[str, Counter[str]] = {}
    rows: list[str] = []
    for label, entry in _load().items():
        why = {int(line): a for line, a in arguments.get(label, {}).items()}
        whole = set(entry["whole"]["warned"])
        groups: dict[tuple[str, ...], list[str]] = {}
        for row in entry["mutants"]:
            verdict, rule = standing(row, whole, why)
            if verdict == "proved":
                states = simulated(row, entry)
                verdict = "simulated" if states else "argued"
                rule += f" ({states})" if states else ""
            counts.setdefault(label, Counter())[_class(row["kind"], verdict)] += 1
            key = (row["kind"], row["op"], verdict, rule)
            groups.setdefault(key, []).append(str(row["line"]))
        for (kind, op, verdict, rule), lines in groups.items():
            rows.append(f"| {label} | {kind} | {op} | {', '.join(lines)} | {verdict} | {rule} |")
    TABLE.write_text(_document(counts, rows))


def standing(row: dict[str, Any], whole: set[str], why: dict[int, str]) -> tuple[str, str]:
    """Verdict and what is behind it: the rule, or why the mutant is right."""
    if row["verdict"] == "refuted":
        return "refuted", row["rule"]
    wide = row["large"]
    if wide["verdict"] == "refuted":
        return "refuted, larger sizes", wide["rule"]
    if "unknown" in (row["verdict"], wide["verdict"]) or wide["verdict"] != "proved":
        return wide["verdict"] if wide["verdict"] != "proved" else "unknown", wide["message"].split(": ")[-1]
    if row["kind"] == "deleted" and (new := set(wide["warned"]) - whole):
        strict = ", ".join(sorted({e.split()[0] for e in row.get("strict", ())}))
        return "warning", ", ".join(sorted(new)) + (f"; strict: {strict}" if strict else "")
    return "proved", why.get(row["line"], "no argument") if row["kind"] == "deleted" else ""


def simulated(row: dict[str, Any], entry: dict[str, Any]) -> str:
    """How many states all schedules of a mutant have, if none does harm that the kernel does not do."""
    found, known = row.get("simulated", {}), entry.get("simulated", {})
    if not found.get("complete") or set(found["harms"]) - set(known.get("harms", ())):
        return ""
    return f"{found['states']} states"


def _class(kind: str, verdict: str) -> str:
    return f"{'deleted' if kind == 'deleted' else 'changed'} {verdict.split(',')[0]}"


def _document(counts: dict[str, Counter[str]], rows: list[str]) -> str:
    results = _load()
    names = ("refuted", "warning", "simulated", "argued", "unknown", "limit")
    text = [
        "# Mutants of PTX kernels",
        "",
        "Synchronization is taken out of kernels that generators emit, and out of the right halves of",
        "`corpus/ptx`, or changed, one site at a time. The tables show what `check` says of it with the",
        "sizes of the launch file. Where it finds nothing, K = 1280 is tried (3 and 11 rounds for the",
        "pairs), so that rings turn round. Made by `benchmarks/checker/ptx_deletion.py`",
        "from `benchmarks/results/ptx_deletion.json` ([where figures come from](measurements.md)).",
        "",
        "*Warning*: what was removed answers",
        "a contested point ([rules.md](rules.md)); strict mode refutes the mutant, by the rule beside it (or",
        "the kernel itself, where none stands there).",
        "*Simulated*: the mutant is proved, and the simulator, which shares no rule with the checker, went",
        "through every schedule of it, for one launch and as the front end unrolls it (so many states). No",
        "schedule does harm that the kernel itself does not do (in Gluon, two stores of one value).",
        "*Argued*: the mutant is proved, and has too many schedules for that.",
        "Why a site is redundant, it says beside.",
        "",
        "| kernel | generator | deleted | " + " | ".join(names) + " | changed | refuted | proved | unknown |",
        "|---" * 12 + "|",
    ]
    for label, c in counts.items():
        cells = [c[f"deleted {n}"] for n in names]
        changed = [c[f"changed {n}"] for n in ("refuted", "argued", "unknown")]
        figures = [sum(cells), *cells, sum(changed), *changed]
        text.append(f"| {label} | {results[label]['generator']} | {' | '.join(map(str, figures))} |")
    whole = sum(counts.values(), Counter[str]())
    deleted = {n: whole[f"deleted {n}"] for n in names}
    total = sum(deleted.values())
    text += [
        "",
        f"Of {total} deletions {deleted['refuted']} are refuted, {deleted['warning']} warned of, "
        f"{deleted['simulated']} redundant by simulation and {deleted['argued']} by argument "
        f"({deleted['argued'] / max(1, total):.0%}), {deleted['unknown'] + deleted['limit']} undecided.",
    ]
    missing = [
        f"{label}: {len(entry['mutants'])} of {entry['total']} mutants are measured so far."
        for label, entry in results.items()
        if len(entry["mutants"]) < entry["total"]
    ]
    text += ["", *missing, "", *_expectations(results), "## Mutants", ""]
    text += [
        "| kernel | mutant | instruction | lines | verdict | rule, or why |",
        "|---|---|---|---|---|---|",
        *rows,
    ]
    return "\n".join(text) + "\n"


def _expectations(results: dict[str, Any]) -> list[str]:
    """What is said of byte counts when the launch file gives no boxes of tensor maps."""
    found: Counter[str] = Counter()
    for entry in results.values():
        for row in entry["mutants"]:
            if "boxless" in row:
                open_ = row["boxless"]
                listed = any(f"line {row['line']}" in a or f":{row['line']}" in a for a in open_["assumed"])
                what = "listed under assumptions" if listed else "not listed"
                found[open_["verdict"] + (f", the line {what}" if open_["verdict"] == "proved" else "")] += 1
    said = "; ".join(f"{n} {what}" for what, n in sorted(found.items()))
    return [f"Byte counts without the boxes of tensor maps: {said}.", ""] if found else []


def _default(every: list[Kernel]) -> list[Kernel]:
    return [k for k in every if k.family == PAIRS or k.label in CHOSEN]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", action="append")
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    every = pairs() if options.pairs else kernels()
    chosen = [k for k in every if k.label in options.kernel] if options.kernel else _default(every)
    if options.table:
        write_table()
    elif options.simulate:
        run_simulations(chosen)
    else:
        run(chosen, options.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
