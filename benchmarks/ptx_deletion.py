"""Mutate the synchronization of real PTX kernels, one site at a time, and write docs/ptx_mutants.md.

    python benchmarks/ptx_deletion.py [--kernel LABEL ...] [--jobs N]    measure
    python benchmarks/ptx_deletion.py --table                            write the table

A site is one instruction. It is removed (a poll answers "complete" instead, so that its loop falls through);
its byte count is raised by 16; its parity is negated. A mutant that stands at the sizes of the launch file
is checked at larger ones, where rings turn round: every size of 256 becomes 1280. Results are kept in
benchmarks/results/ptx_deletion.json; a run measures what is missing there. Mutants that stand, and why that
is right, are listed in benchmarks/ptx_redundant.toml.
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

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.real.cache import Kernel, kernels  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "ptx_deletion.json"
TABLE = ROOT / "docs" / "ptx_mutants.md"
ARGUMENTS = ROOT / "benchmarks" / "ptx_redundant.toml"
SECONDS, MEMORY = 60, 4 << 30
SIZE = re.compile(r"\b(i32|i64) = 256\b")  # of problems, in launch files
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


def _boxless(facts: str) -> str:
    return re.sub(r"box = \[[^\]]*\], ", "", facts)


def check(kernel: Kernel, mutant: Mutant, given: Callable[[str], str]) -> dict[str, Any]:
    """Verdict of the mutant, in a fork that takes its time and memory with it."""
    from syncverify.diagnostics import ScopeKind
    from syncverify.files import check_source, read_source
    from syncverify.launch import read_facts

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.ptx"
        path.write_text(mutant.text)
        (facts := Path(folder) / "launch.toml").write_text(given(kernel.facts("exact").read_text()))
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.nice(5)
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            try:
                (report,) = check_source(read_source(path), facts=read_facts(facts), scope=ScopeKind.ALL)
                errors = [d for d in report.diagnostics if d.severity.value == "error"]
                row = {
                    "verdict": report.verdict.value,
                    "rule": errors[0].rule if errors else "",
                    "message": errors[0].message if errors else report.reason or "",
                    "assumed": [str(a) for a in report.assumptions],
                    "warned": sorted({f"{d.rule} {d.contested}" for d in report.diagnostics if d.contested}),
                }
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
        found["large"] = check(kernel, mutant, _large)
    if mutant.kind == "bytes":
        found["boxless"] = check(kernel, mutant, _boxless)
    return {"line": mutant.line, "kind": mutant.kind, "op": mutant.op} | found


def run(chosen: list[Kernel], jobs: int) -> None:
    for kernel in chosen:
        results = _load()
        entry = results.setdefault(kernel.label, {"mutants": []}) | {"generator": kernel.generator}
        entry["whole"] = check(kernel, Mutant(0, "", "", kernel.ptx.read_text()), _large)
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
        return "warning", ", ".join(sorted(new))
    return "proved", why.get(row["line"], "no argument") if row["kind"] == "deleted" else ""


def _class(kind: str, verdict: str) -> str:
    return f"{'deleted' if kind == 'deleted' else 'changed'} {verdict.split(',')[0]}"


def _document(counts: dict[str, Counter[str]], rows: list[str]) -> str:
    results = _load()
    names = ("refuted", "warning", "proved", "unknown", "limit")
    text = [
        "# Mutants of real kernels",
        "",
        "Synchronization taken out of kernels that generators emit, or changed, one site at a time, and",
        "what `check` says with the sizes of the launch file and, where it finds nothing, with K = 1280, so",
        "that rings turn round. Made by `benchmarks/ptx_deletion.py`. *Warning*: what was removed answers",
        "a contested point ([rules.md](rules.md)); strict mode refutes the mutant. *Proved*: the site is",
        "redundant, as explained.",
        "",
        "| kernel | generator | deleted | " + " | ".join(names) + " | changed | refuted | proved | unknown |",
        "|---" * 12 + "|",
    ]
    for label, c in counts.items():
        cells = [c[f"deleted {n}"] for n in names]
        changed = [c[f"changed {n}"] for n in ("refuted", "proved", "unknown")]
        figures = [sum(cells), *cells, sum(changed), *changed]
        text.append(f"| {label} | {results[label]['generator']} | {' | '.join(map(str, figures))} |")
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", action="append")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        write_table()
    else:
        wanted = options.kernel or CHOSEN
        run([k for k in kernels() if k.label in wanted], options.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
