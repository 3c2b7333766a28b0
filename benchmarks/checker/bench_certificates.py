"""Certificates of the corpus: size, time of recheck against check, and changes of their leaves.

    python benchmarks/checker/bench_certificates.py FILE ... [--changes [--most 40]] [--limit 60] [--json \
        FILE]

With ``--json`` each row is kept as it comes, and files that have one (of the same text) are left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from syncverify.base.diagnostics import KernelReport, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.driver import files
from syncverify.driver.certificates import RejectedError, dumps, resealed
from syncverify.frontends.launch_facts import LaunchFacts, facts_for
from tests.driver.certificates.mutate import changed, changes, elsewise, unordered

ROOT = Path(__file__).resolve().parents[2]
Row = dict[str, Any]


class OutOfTimeError(Exception):
    """A file took longer than ``--limit``."""


def _stop(*_: object) -> None:
    raise OutOfTimeError


def timed(f: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    out = f()
    return round(time.process_time() - start, 3), out


def tries(data: Any, most: int | None) -> list[Any]:
    """Changes of a certificate, or some of them spread evenly."""
    every = [c for c in changes(data) if not unordered(*c) and not elsewise(*c)]
    return every[:: max(1, len(every) // most)] if most else every


def accepted(text: str, source: files.SourceFile, facts: LaunchFacts, most: int | None) -> Row:
    """How many changes were tried, those that the validator did not reject, and the time of each."""
    data, passed = json.loads(text), []
    chosen = tries(data, most)
    start = time.process_time()
    for change in chosen:
        try:
            files.recheck(json.dumps(resealed(changed(data, *change))), "changed", source, facts)
            passed.append(change)
        except (RejectedError, InputError):
            pass
    return {"changes": len(chosen), "accepted": passed, "changes_s": round(time.process_time() - start, 1)}


def measured(
    report: KernelReport, source: files.SourceFile, facts: LaunchFacts, most: int | None, mutate: bool
) -> Row:
    """The certificate of a proved kernel, written down and followed."""
    made, found = timed(partial(files.certificates, source, facts, {}, [report]))
    text = dumps(found)
    row: Row = {"write_s": made, "bytes": len(text)}
    try:
        row["recheck_s"], (done,) = timed(partial(files.recheck, text, "certificate", source, facts))
    except (RejectedError, InputError) as e:
        return row | {"problem": str(e)}
    row |= {"kind": done.kind, "scope": str(done.scope), "by_checker": "by the checker" in done.met}
    return row | accepted(text, source, facts, most) if mutate else row


def rows(path: str, most: int | None, mutate: bool, scope: ScopeKind) -> Iterator[Row]:
    """What the kernels of a file give, each row as soon as it is known."""
    source, facts = files.read_source(path), facts_for(path)
    checked, reports = timed(partial(files.check_source, source, facts=facts, scope=scope))
    for report in reports:
        row: Row = {"kernel": report.name, "verdict": str(report.verdict), "check_s": checked}
        if report.verdict is Verdict.PROVED:
            try:
                row |= measured(report, source, facts, most, mutate)
            except InputError as e:
                row["problem"] = str(e)
        yield row


def head_of(path: str) -> Row:
    """Which file it is, and of which text."""
    at = Path(path).resolve()
    name = str(at.relative_to(ROOT)) if at.is_relative_to(ROOT) else path
    return {"file": name, "text": hashlib.sha256(at.read_bytes()).hexdigest()}


def limited(head: Row, limit: float, make: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    """The rows of a file; the last says so where time ran out or the file is no input."""
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        for row in make():
            yield head | row
    except OutOfTimeError:
        yield head | {"problem": f"not done after {limit:g} s"}
    except InputError as e:
        yield head | {"verdict": "input error", "reason": e.message}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def line(row: Row) -> str:
    """A row as one line of text."""
    out = f"{row['file']:60} {row.get('kind', row.get('verdict', '')):8}"
    for key in ("check_s", "write_s", "recheck_s"):
        out += f"  {key[:-2]} {row[key]:6.2f} s" if key in row else ""
    out += f"  {row['bytes']} bytes" if "bytes" in row else ""
    out += f"  {'by the checker' if row['by_checker'] else 'judged apart'}" if "by_checker" in row else ""
    out += f"  {row['changes']} changes, accepted: {row['accepted'] or 'none'}" if "changes" in row else ""
    return out + (f"  {row['problem']}" if "problem" in row else "")


def summary(found: list[Row]) -> Row:
    """Totals of all rows."""
    held = [r for r in found if "kind" in r]
    return {
        "files": len({r["file"] for r in found}),
        "verdicts": dict(Counter(r["verdict"] for r in found if "verdict" in r)),
        "certificates that hold": dict(Counter(r["kind"] for r in held)),
        "judged apart": sum(not r["by_checker"] for r in held),
        "by the checker": sum(r["by_checker"] for r in held),
        "changes": sum(r.get("changes", 0) for r in found),
        "changes accepted": sum(len(r.get("accepted", ())) for r in found),
        "problems": {r["file"]: r["problem"] for r in found if "problem" in r},
        "check_s": round(sum(r["check_s"] for r in held), 1),
        "recheck_s": round(sum(r["recheck_s"] for r in held), 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--changes", action="store_true", help="try changes of the leaves as well")
    parser.add_argument("--most", type=int, help="about this many changes of each, spread evenly")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of CPU for a file")
    parser.add_argument("--exact", action="store_true", help="proofs for the defaults")
    parser.add_argument("--json", type=Path, help="keep the rows here")
    parser.add_argument("--note", default="", help="how the rows were measured, for the file")
    given = parser.parse_args()
    old = json.loads(given.json.read_text()) if given.json and given.json.exists() else {}
    found: list[Row] = old.get("rows", [])
    done = {(r["file"], r["text"]) for r in found}
    scope = ScopeKind.EXACT if given.exact else ScopeKind.ALL
    for path in given.files:
        head = head_of(path)
        if (head["file"], head["text"]) in done:
            continue
        for row in limited(head, given.limit, partial(rows, path, given.most, given.changes, scope)):
            found.append(row)
            print(line(row), flush=True)
            if given.json:
                told = {"note": given.note or old.get("note", "")}
                given.json.write_text(json.dumps(summary(found) | told | {"rows": found}, indent=1) + "\n")
    print(json.dumps(summary(found), indent=2))
    return 1 if any("problem" in r or r.get("accepted") for r in found) else 0


if __name__ == "__main__":
    sys.exit(main())
