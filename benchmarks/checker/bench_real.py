"""Check the real-kernel corpus, each kernel in processes of its own, and write docs/real_kernels.md.

    python benchmarks/checker/bench_real.py [--family NAME] [--match TEXT] [--scope SCOPE]    measure
    python benchmarks/checker/bench_real.py --table                                           write the table

Results are kept in benchmarks/results/real.json; a run replaces those of the kernels and scopes it measures.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.system.real.cache import Kernel, kernels  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "real.json"
TABLE = ROOT / "docs" / "real_kernels.md"
SCOPES = ("exact", "all", "block")
SECONDS, MEMORY = 60, 4 << 30
NOT_SHOWN = "this is not shown for every size: "


def measure(kernel: Kernel, scope: str, most: int = SECONDS) -> dict[str, Any]:
    """Verdict, reason, findings, seconds (wall and CPU) and peak memory of one `syncverify check`, which may
    take ``most`` seconds of CPU."""
    command = [sys.executable, "-m", "syncverify", "check", str(kernel.ptx), "--format", "json"]
    command += ["--launch", str(kernel.facts(scope))]
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, cwd=ROOT, env=_compiled())
        _limit(process.pid, most)
        status, usage = _wait(process)
        wall = time.perf_counter() - start
        out.seek(0)
        err.seek(0)
        row = _verdict(status, out.read(), err.read(), most)
    cpu = usage.ru_utime + usage.ru_stime
    return row | {"seconds": round(wall, 2), "cpu": round(cpu, 2), "mb": usage.ru_maxrss // 1024}


def measure_forked(kernel: Kernel, scope: str, most: int = SECONDS) -> dict[str, Any]:
    """As ``measure``, in a fork: what a check takes beyond starting Python and loading code; no advice."""
    from syncverify.base.diagnostics import Policy, ScopeKind
    from syncverify.driver.files import check_source, read_source
    from syncverify.frontends.launch_facts import read_facts
    from syncverify.report.base import Report
    from syncverify.report.json import render

    read, write = os.pipe()
    start = time.perf_counter()
    child = os.fork()
    if child == 0:
        _limit(os.getpid(), most)
        try:
            (report,) = check_source(
                read_source(kernel.ptx), facts=read_facts(kernel.facts(scope)), scope=ScopeKind.ALL
            )
            status, said, err = 0, render(Report(Policy.PRACTICAL, (report,))), ""
        except Exception as error:
            said, status, err = "", 2, f"{type(error).__name__}: {error}"
        with os.fdopen(write, "w") as out:
            json.dump([status, said, err], out)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    _, status, usage = os.wait4(child, 0)
    wall = time.perf_counter() - start
    row = _verdict(*json.loads(said), most) if said else _verdict(-1, "", "", most)
    cpu = usage.ru_utime + usage.ru_stime
    return row | {
        "seconds": round(wall, 2),
        "cpu": round(cpu, 2),
        "mb": usage.ru_maxrss // 1024,
        "forked": True,
    }


@cache
def _compiled() -> dict[str, str]:
    """An environment in which modules are compiled to bytecode once, as an installation does."""
    kept = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, kept, ignore_errors=True)
    places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places), "PYTHONPYCACHEPREFIX": kept}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    modules = ("cli.check", "driver.ptx.check", "checker.prover.parametric.strategy")
    load = "import z3, " + ", ".join(f"syncverify.{m}" for m in modules)
    subprocess.run([sys.executable, "-c", load], env=environment, cwd=ROOT, check=True)
    return environment


def _limit(pid: int, most: int) -> None:
    """Limits of a process that runs already: no code of this one runs in a fork of many threads."""
    os.setpriority(os.PRIO_PROCESS, pid, 5)
    resource.prlimit(pid, resource.RLIMIT_CPU, (most, most + 5))
    resource.prlimit(pid, resource.RLIMIT_AS, (MEMORY, MEMORY))


def _wait(process: subprocess.Popen[str]) -> tuple[int, Any]:
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage


def _verdict(status: int, out: str, err: str, most: int) -> dict[str, Any]:
    if status < 0:
        return {"verdict": "limit", "reason": f"killed after {most} s of CPU", "findings": []}
    out, err = (
        re.sub(r"(?<![\w.])(?:/[\w.+-]+)+/(?=[\w.+-])", "", text) for text in (out, err)
    )  # names of files only
    try:
        (report,) = json.loads(out)["kernels"]
    except (ValueError, KeyError):
        lines = [line for line in err.splitlines() if line.strip()]
        return {
            "verdict": "error",
            "reason": lines[-1][:300] if lines else f"status {status}",
            "findings": [],
        }
    findings = [
        {k: d[k] for k in ("rule", "name", "severity", "message", "line", "file")}
        for d in report["diagnostics"]
        if d["severity"] != "note"
    ]
    return {
        "verdict": report["verdict"],
        "reason": _not_shown(report) or report["reason"],
        "scope": report["scope"]["kind"],
        "assumptions": len(report["assumptions"]),
        "findings": findings,
    }


def _not_shown(report: dict[str, Any]) -> str | None:
    """Why there is no proof for every size: a report's own reason only says why it cannot do without one."""
    notes = (d["message"] for d in report["diagnostics"] if d["severity"] == "note")
    return next((m.removeprefix(NOT_SHOWN) for m in notes if m.startswith(NOT_SHOWN)), None)


def run(chosen: list[Kernel], scopes: Iterable[str], jobs: int, forked: bool, most: int) -> None:
    _compiled()  # once, before there are threads
    work = _longest_first([(kernel, scope) for kernel in chosen for scope in scopes])
    with ThreadPoolExecutor(jobs) as pool:
        for kernel, scope, row in _measured_rows(work, pool, forked, most):
            cost = f"{row['seconds']:6.2f} s {row['cpu']:6.2f} s CPU {row['mb']:5} MB"
            print(f"{kernel.label:44} {scope:6} {row['verdict']:8} {cost}  {why(row)}", flush=True)
            _keep(kernel, scope, row)


def _longest_first(work: list[tuple[Kernel, str]]) -> list[tuple[Kernel, str]]:
    """In the order of CPU time when last measured: several jobs then end at about the same time."""
    before = _load()

    def took(one: tuple[Kernel, str]) -> float:
        kernel, scope = one
        return -float(before.get(kernel.label, {}).get(scope, {}).get("cpu", SECONDS))

    return sorted(work, key=took)


def _measured_rows(
    work: list[tuple[Kernel, str]], pool: ThreadPoolExecutor, forked: bool, most: int
) -> Iterator[tuple[Kernel, str, dict[str, Any]]]:
    """Each check with its row as soon as it ends. Forks are made here, one after the other."""
    if forked:
        yield from ((kernel, scope, measure_forked(kernel, scope, most)) for kernel, scope in work)
        return
    places = {pool.submit(measure, *one, most): one for one in work}
    for ended in as_completed(places):
        yield *places[ended], ended.result()


def _keep(kernel: Kernel, scope: str, row: dict[str, Any]) -> None:
    results = _load()  # another run may have added to it
    entry = results.setdefault(kernel.label, {})
    entry |= {"generator": kernel.generator, "lines": kernel.lines, "covers": list(kernel.covers)}
    entry[scope] = {**row, "at": _commit()}
    kept = {label: results[label] for label in sorted(results)}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


@cache
def _commit() -> str:
    """What is measured: the commit, or what SYNCVERIFY_COMMIT says where there is no git."""
    if given := os.environ.get("SYNCVERIFY_COMMIT"):
        return given
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return git.stdout.strip()


def _measured(results: dict[str, dict[str, Any]]) -> str:
    """Which of the checks were measured at which commit."""
    found = Counter(entry[s].get("at", "") for entry in results.values() for s in SCOPES if s in entry)
    before = found.pop("", 0)
    said = [f"{n} at {commit}" for commit, n in found.most_common()]
    said += [f"{before} at commits before those"] if before else []
    return f"Of {found.total() + before} checks {', '.join(said)}."


def _load() -> dict[str, dict[str, Any]]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def why(row: dict[str, Any]) -> str:
    """One line for what stands in the way, or what was found: places left out, so that equal causes group."""
    if row["verdict"] == "proved":
        return ", ".join(sorted({f["rule"] for f in row["findings"]}))
    if row["verdict"] == "refuted":
        errors = [f for f in row["findings"] if f["severity"] == "error"]
        return f"{errors[0]['rule']} {errors[0]['message']}" if errors else "?"
    text = str(row["reason"])
    text = re.sub(r"\S*/([\w.+-]+):\d+: ", "", text)
    return re.sub(r" \(line \d+\)", "", text)


def group(results: dict[str, dict[str, Any]], scope: str) -> Counter[str]:
    """How many kernels each cause stops, numbers and names left out."""
    causes: Counter[str] = Counter()
    for row in results.values():
        if scope in row and row[scope]["verdict"] != "proved":
            cause = re.sub(r"\d+", "#", why(row[scope]))
            causes[f"{row[scope]['verdict']}: {cause[:150]}"] += 1
    return causes


def shares(results: dict[str, dict[str, Any]], labels: list[str], scope: str) -> str:
    rows = [results[label][scope] for label in labels if scope in results[label]]
    proved = sum(r["verdict"] == "proved" for r in rows)
    return f"{proved}/{len(labels)} ({100 * proved // max(1, len(labels))}%)"


def table() -> str:
    """docs/real_kernels.md from the results."""
    results = _load()
    families: dict[str, list[str]] = {}
    for label in results:
        families.setdefault(label.split("/")[0], []).append(label)
    lines = [
        _INTRODUCTION.replace("MEASURED", _measured(results)),
        "## Shares",
        "",
        "proved / kernels, by family and by what the launch file says; what was not measured is not proved",
        "",
    ]
    lines += [
        "| family | generator | kernels | exact sizes | every size | block and cluster alone |",
        "|---|---|---|---|---|---|",
    ]
    for family, labels in [*families.items(), ("all", list(results))]:
        made = results[labels[0]]["generator"] if family != "all" else ""
        cells = [family, made, str(len(labels)), *(shares(results, labels, s) for s in SCOPES)]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Time and memory of a whole process", ""]
    lines += [
        "| facts | median s | median CPU s | largest s | median MB | largest MB |",
        "|---|---|---|---|---|---|",
    ]
    for scope in SCOPES:
        rows = [r[scope] for r in results.values() if scope in r]
        if rows:
            cells = [
                scope,
                *(
                    f"{f([r[k] for r in rows]):.2f}"
                    for f, k in ((median, "seconds"), (median, "cpu"), (max, "seconds"))
                ),
                *(f"{f([r['mb'] for r in rows]):.0f}" for f in (median, max)),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Refutations that stand", ""]
    for finding in confirmed():
        labels = [label for label in results if refuted_by(results[label], finding, label)]
        if labels:
            lines += [f"**{finding['rule']}** in {', '.join(labels)}. {finding['why'].strip()}", ""]
    lines += ["## What stands in the way", ""]
    for scope in SCOPES:
        lines += [f"### {scope}", "", "| kernels | verdict: cause |", "|---|---|"]
        lines += [f"| {n} | {_cell(cause)} |" for cause, n in group(results, scope).most_common()]
        lines.append("")
    lines += ["## Kernels", ""]
    lines += [
        "| kernel | lines | exact | s | MB | every size | s | MB | block | s | MB | found, or why unknown |"
    ]
    lines += ["|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for label, row in results.items():
        cells = [label, str(row["lines"])]
        notes = []
        for scope in SCOPES:
            if scope in row:
                one = row[scope]
                kind = f" ({one['scope']})" if one["verdict"] == "proved" and scope != "exact" else ""
                cells += [one["verdict"] + kind, f"{one['seconds']:.2f}", str(one["mb"])]
                if why(one) and (one["verdict"] != "proved" or scope == "exact"):
                    notes.append(f"{scope}: {why(one)[:200]}")
            else:
                cells += ["", "", ""]
        lines.append(f"| {' | '.join([*cells, _cell('; '.join(notes))])} |")
    return "\n".join(lines) + "\n"


def confirmed() -> list[dict[str, Any]]:
    """The refutations that were looked into and stand."""
    return tomllib.loads((ROOT / "tests" / "system" / "real" / "confirmed.toml").read_text())["finding"]


def refuted_by(entry: dict[str, Any], finding: dict[str, Any], label: str) -> bool:
    """Whether the kernel's refutation, for exact sizes or else for every size, is this finding."""
    rows = [entry[s] for s in ("exact", "all") if entry.get(s, {}).get("verdict") == "refuted"]
    if not rows or not any(fnmatchcase(label, p) for p in finding["kernels"]):
        return False
    return why(rows[0]).startswith(finding["rule"])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


_INTRODUCTION = """\
# Real kernels

Kernels that today's generators emit for sm_90a, made by `python -m tests.system.real.generate` from pinned
packages without a GPU, and what `syncverify check` says of them. Three launch files go with each kernel:

- *exact*: each parameter of a small launch, grid, block, cluster, tensor maps;
- *all*: the same facts with sizes as symbols, any grid (of CUTLASS any along the axis on which its
  scheduler lays all clusters out);
- *block*: block and cluster sizes alone.

Made by `benchmarks/checker/bench_real.py`, each check in a process of its own that is killed after 60 s of
CPU time. They were measured on a shared machine, beside other work, where seconds of wall time say less
than seconds of CPU. MEASURED

Of the kernels that are not proved for exact sizes every one is refuted, and the refutation stands (below).

The kernels `tilelang/suite_*` are chosen by a list, not by what is found in them. There is one for each
test function of six files of TileLang's own tests, with the sizes of its first case: products, batched and
strided, reductions, transposes, copies. Those of `tests/system/real/families/quack_rows.py` are the
package's other row kernels, one for each backward pass and helper. The exact launch of `topk_backward`
gives the places it scatters to; without them it is unknown, for a shared-memory address depends on data.
"""


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--family", action="append")
    options.add_argument("--match", default="", help="only kernels whose family/name contains this")
    options.add_argument("--scope", action="append", choices=SCOPES)
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--forked", action="store_true", help="forks, which load no code of their own")
    options.add_argument("--table", action="store_true", help="write the table from the kept results")
    options.add_argument("--seconds", type=int, default=SECONDS, help="of CPU time that a check may take")
    chosen = options.parse_args()
    if chosen.table:
        TABLE.write_text(table())
        return
    picked = [
        k for k in kernels() if (not chosen.family or k.family in chosen.family) and chosen.match in k.label
    ]
    run(picked, chosen.scope or SCOPES, chosen.jobs, chosen.forked, chosen.seconds)
    results = _load()
    for scope in chosen.scope or SCOPES:
        print(f"\n{scope}: {shares(results, [k.label for k in picked], scope)} proved")
        for cause, count in group({k.label: results[k.label] for k in picked}, scope).most_common(40):
            print(f"{count:4}  {cause}")


if __name__ == "__main__":
    main()
