"""Single fields of certificates are changed: which changes `recheck` accepts, by kind of field.

    python -m benchmarks.checker.certificate_edits CASE... --edits 40 --seed 7 --jobs 14 --until 200 --out F

A case is ``exact:LABEL`` or ``all:LABEL``, a kernel of the real cache at exact sizes or at every size; or
``ir:NAME``, one of ``KERNELS``. ``all:LABEL/wrong`` and ``ir:NAME/wrong`` hand the certificate in for kernels
with mistakes, at times with a change: of these nothing may be accepted. Of a right kernel a change may be
accepted, where what is claimed then holds as well: the kinds of these are listed, to be argued one by one.

Kinds of fields are drawn evenly, then a field of that kind, then a change of it. Digests are made again.
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from syncverify.base.certificate_data import RejectedError, write
from syncverify.base.diagnostics import ScopeKind
from syncverify.driver.acceptance import asked
from syncverify.driver.certificates import dumps
from syncverify.driver.certificates.reseal import resealed
from syncverify.driver.files import SourceFile, certificates, check_source, read_text, recheck
from syncverify.driver.reports.outcomes import text_hash
from syncverify.frontends.launch_facts import NO_FACTS, LaunchFacts, read_facts
from syncverify.ir.text.printer import print_kernel
from tests.checker.induction import advanced, in_turn, pingpong_mutants
from tests.checker.induction.bases import IR, products
from tests.checker.induction.test_read import MISTAKES, RING
from tests.system.real.cache import kernels

#: Kernels of the IR, and their texts with mistakes.
KERNELS: dict[str, Callable[[], tuple[str, list[str]]]] = {
    "ring": lambda: (RING, [RING.replace(*x) for x in MISTAKES.values()]),
    "groups in turn": lambda: (in_turn.IN_TURN, list(in_turn.MISTAKES.values())),
    "groups in turn, one step ahead": lambda: (in_turn.AHEAD, list(in_turn.MISTAKES_AHEAD.values())),
    "groups that meet in turn": lambda: (in_turn.MEETINGS, list(in_turn.MISTAKES_OF_MEETINGS.values())),
    "rings in advance": lambda: (advanced.ADVANCED, []),
    **{x: (lambda b=b: (b.text, [])) for x, b in IR.items()},  # type: ignore[misc]
    **{f"product {x}": (lambda x=x: (products()[x].text, [])) for x in products()},  # type: ignore[misc]
}
#: Path to a field, and how the change is named.
Path_ = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A kernel's text with its launch, and texts with mistakes."""

    name: str
    source: SourceFile
    facts: LaunchFacts
    scope: ScopeKind
    wrong: tuple[SourceFile, ...] = ()


def case(name: str) -> Case:
    """The case of that name."""
    kind, _, label = name.removesuffix("/wrong").partition(":")
    if kind == "ir":
        text, wrong = KERNELS[label]()
        made = tuple(read_text(x, "case", "syncir") for x in wrong)
        return Case(name, read_text(text, "case", "syncir"), NO_FACTS, ScopeKind.ALL, made)
    (k,) = (x for x in kernels() if x.label == label)
    text = k.ptx.read_text()
    edits = pingpong_mutants.WRONG.values() if label == "cutlass/pingpong" else ()
    made = tuple(read_text(pingpong_mutants.changed(text, e), "case", "ptx") for e in edits)
    scope = ScopeKind.ALL if kind == "all" else ScopeKind.EXACT
    return Case(name, read_text(text, "case", "ptx"), read_facts(k.facts(kind)), scope, made)


#: A case, its certificate, and the paths to the fields of that, by kind.
Prepared = tuple[Case, Any, dict[str, list[Path_]]]


def certificate(c: Case) -> Any:
    """The certificate of the right kernel."""
    reports = check_source(c.source, facts=c.facts, scope=c.scope, repairs=False)
    told = asked(c.source, c.facts, {}, reports)
    return json.loads(dumps(certificates(c.source, c.facts, {}, told)))


# -------------------------------------------------------------------- changes


def fields(data: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Every value in some data that is no digest."""
    keys = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in keys:
        if key != "digest":
            yield (*path, key)
            yield from fields(data[key], (*path, key))


#: What stands where in a claim of an agent and in a header (docs/proof_format.md).
_CLAIM = ("steps", "tiles", "headers", "words", "versions")
_HEADER = ("place", "tiles", "outer", "late", "forms", "others", "begins", "ahead", "trip", "first", "stride")


def kind(data: Any, path: Path_) -> str:
    """A field's kind: its path without numbers, and what it is."""
    words: list[str] = []
    at = data
    for k, step in enumerate(path):
        if k > 3 and path[k - 2] == "claims":
            words.append(_CLAIM[step])
        elif k > 5 and path[k - 4] == "claims" and path[k - 2] == 2:
            words.append(_HEADER[step])
        elif isinstance(step, str):
            words.append(step if step.isidentifier() and len(words) < 8 else "*")
        elif isinstance(at, list) and step and isinstance(at[0], str):
            words.append(f"{at[0]}[{step}]")
        at = at[step]
    return f"{'.'.join([x for x in words[2:] if x != '*'][:5])} {type(at).__name__}"


def value(data: Any, path: Path_) -> Any:
    for step in path:
        data = data[step]
    return data


def changed(rnd: random.Random, data: Any, paths: list[Path_]) -> tuple[Any, str]:
    """The data with a change of one of these fields, and what was done."""
    path = rnd.choice(paths)
    out = copy.deepcopy(data)
    where, key = value(out, path[:-1]), path[-1]
    old = where[key]
    if isinstance(old, bool):
        where[key] = not old
    elif isinstance(old, int):
        more = old + rnd.randint(2, 7)
        where[key] = rnd.choice([old + 1, old - 1, -old or 2, old * 2 or 3, 0 if old else 1, more])
    elif isinstance(old, str):
        others = [x for p in paths if isinstance(x := value(data, p), str) and x != old]
        where[key] = rnd.choice(others) if others and rnd.random() < 0.7 else _other(rnd, old)
    elif old is None:
        where[key] = rnd.choice([[], 0, ""])
    else:
        _of_entries(rnd, where, key, [value(data, p) for p in paths if p != path])
    new = where[key] if key in (where if isinstance(where, dict) else range(len(where))) else "nothing"
    return out, f"{'.'.join(map(str, path))}: {json.dumps(old)[:80]} -> {json.dumps(new)[:80]}"


def _other(rnd: random.Random, text: str) -> str:
    """A text in which one letter is another one."""
    if not text:
        return "x"
    at = rnd.randrange(len(text))
    return text[:at] + rnd.choice([x for x in "0123456789abcdef" if x != text[at]]) + text[at + 1 :]


def _of_entries(rnd: random.Random, where: Any, key: Any, others: list[Any]) -> None:
    """An entry is left out, is there twice, is exchanged with the next, or is another one of its kind."""
    ways = ["out", "other"] if isinstance(where, dict) else ["out", "twice", "next", "other"]
    match rnd.choice(ways):
        case "twice":
            where.insert(key, copy.deepcopy(where[key]))
        case "next" if key + 1 < len(where):
            where[key], where[key + 1] = where[key + 1], where[key]
        case "other" if others:
            where[key] = copy.deepcopy(rnd.choice(others))
        case _:
            del where[key]


# -------------------------------------------------------------------- asking


def follows(data: Any, c: Case, source: SourceFile) -> str:
    """What `recheck` says of a certificate: accepted, or why not."""
    try:
        done = recheck(write(resealed(data)), "case.json", source, c.facts)
    except RejectedError as e:
        return f"rejected: {e}"[:160]
    except Exception as e:  # an internal fault is no acceptance, and to be mended
        return f"FAULT: {type(e).__name__}: {e}"[:160]
    return "accepted" if all(d.judged for d in done) else f"not judged: {done[0].met.reasons[:1]}"[:160]


def of_other(data: Any, source: SourceFile) -> Any:
    """The certificate, said to be of another text."""
    out = copy.deepcopy(data)
    said = source.hash if source.module is not None else text_hash(print_kernel(source.kernels[0]))
    for entry in out["kernels"]:
        entry["text"] = said
    return out


def one(c: Case, data: Any, kinds: dict[str, list[Path_]], rnd: random.Random) -> dict[str, Any]:
    """One attempt."""
    wrong = c.name.endswith("/wrong")
    which = rnd.choice(sorted(kinds))
    made, what = changed(rnd, data, kinds[which])
    source = c.source
    if wrong:
        number = rnd.randrange(len(c.wrong))
        source = c.wrong[number]
        if rnd.random() < 0.3:
            made, which, what = data, "none", ""
        made, what = of_other(made, source), f"mistake {number}; {what}"
    if made == data:
        return {"case": c.name, "kind": which, "what": what, "said": "nothing changed"}
    begun = time.process_time()
    said = follows(made, c, source)
    return {
        "case": c.name, "kind": which, "what": what, "said": said,
        "seconds": round(time.process_time() - begun, 2),
    }  # fmt: skip


def _fork(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


def worker(numbers: Any, todo: list[tuple[str, int]], made: dict[str, Prepared], args: Any) -> None:
    """Attempts until the time is over; each is drawn from its case and number alone."""
    with args.out.open("a") as f:
        while time.monotonic() < args.end:
            with numbers.get_lock():
                k = numbers.value
                numbers.value += 1
            if k >= len(todo):
                return
            name, number = todo[k]
            c, data, kinds = made[name]
            row = one(c, data, kinds, random.Random(f"{args.seed} {name} {number}"))
            f.write(json.dumps(row) + "\n")
            f.flush()


def kept_at(name: str, kept: Path) -> Path:
    """Where the certificate of a case is kept."""
    return kept / (re.sub(r"\W", "_", name.removesuffix("/wrong")) + ".json")


def make(name: str, kept: Path) -> None:
    """Makes the certificate of a case, which has to hold as it is."""
    c, file = case(name), kept_at(name, kept)
    data = json.loads(file.read_text()) if file.exists() else certificate(c)
    said = follows(data, c, c.source)
    if said == "accepted":
        file.write_text(json.dumps(data))
    else:
        sys.stderr.write(f"{name}: the certificate as it is: {said}\n")
        file.unlink(missing_ok=True)


def prepared(name: str, kept: Path) -> Prepared:
    """A case, its certificate, and the fields of that by kind."""
    c, data = case(name), json.loads(kept_at(name, kept).read_text())
    kinds: dict[str, list[Path_]] = {}
    for i in range(len(data["kernels"])):
        start: Path_ = ("kernels", i, "proof")
        for path in fields(value(data, start), start):
            kinds.setdefault(kind(data, path), []).append(path)
    return c, data, kinds


def table(rows: list[dict[str, Any]]) -> str:
    """By case what was said; then what was accepted, by kind."""
    lines = ["| case | tried | rejected | accepted | not judged | faults |", "|---|---|---|---|---|---|"]
    for name in dict.fromkeys(r["case"] for r in rows):
        some = [r["said"] for r in rows if r["case"] == name and r["said"] != "nothing changed"]
        by = Counter(x.split(":")[0] for x in some)
        counts = " | ".join(str(by[x]) for x in ("rejected", "accepted", "not judged", "FAULT"))
        lines.append(f"| {name} | {len(some)} | {counts} |")
    lines.append("")
    for r in sorted(rows, key=lambda r: (r["case"], r["kind"])):
        if r["said"].startswith(("accepted", "FAULT", "not judged")):
            lines.append(f"{r['case']} | {r['kind']} | {r['what']} | {r['said']}")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--edits", type=int, default=40, help="for each case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--until", type=float, default=600, help="seconds after which no attempt begins")
    parser.add_argument("--kept", type=Path, help="a folder of certificates, kept for another run")
    parser.add_argument("--out", type=Path, required=True, help="a file of JSON lines")
    args = parser.parse_args()
    args.end = time.monotonic() + args.until
    with tempfile.TemporaryDirectory() as folder:
        kept = args.kept or Path(folder)
        bases = dict.fromkeys(x.removesuffix("/wrong") for x in args.cases)
        for child in [_fork(lambda x=x: make(x, kept)) for x in bases]:  # type: ignore[misc]
            os.waitpid(child, 0)
        made = {x: prepared(x, kept) for x in args.cases if kept_at(x, kept).exists()}
    todo = [(name, n) for n in range(args.edits) for name in made]
    numbers = multiprocessing.get_context("fork").Value("i", 0)
    for child in [_fork(lambda: worker(numbers, todo, made, args)) for _ in range(args.jobs)]:
        os.waitpid(child, 0)
    rows = [json.loads(x) for x in args.out.read_text().splitlines()] if args.out.exists() else []
    sys.stdout.write(table(rows))
    return 1 if any(r["case"].endswith("/wrong") and r["said"] == "accepted" for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
