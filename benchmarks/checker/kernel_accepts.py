"""Which kernels the trusted kernel accepts, and what stands in the way of the others, with counts.

    python -m benchmarks.checker.kernel_accepts menu-ir [menu-ptx fusion-ir fusion-ptx corpus real exact] \
        [--every 1] [--match TEXT] [--shard 0/2] [--seconds 60] [--out FILE]
    python -m benchmarks.checker.kernel_accepts menu-ir real:80 --jobs 16 --until 240 --seed 7   # what fits
    python -m benchmarks.checker.kernel_accepts --table [--out FILE]     # the table of what was measured

``menu``: products that ``matmul.choose`` may take; one form of each kind unless ``--whole``. ``fusion``:
every kernel of the cases of ``fusion_more.py``. ``corpus``: its good files, launches by their certificates.
``real``: kernels of the real cache that are proved for every size; ``exact``: at their exact sizes.

``real:80``: so many of a group, drawn at random by weight. Each is read and proved in a fork that may take so
many seconds of processor time. With ``--jobs`` all groups are asked at once in random order, each group's
share growing alike; ``--until`` says after how many seconds nothing new begins. What was begun is a random
part of each group then; the others have the answer "not asked", which no share counts. A fork that dies has
its signal and what it said as the reason. Nothing is said of what the search says, but of ``corpus`` and
``exact``, which go through it.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import multiprocessing
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.checker import matmul_every_size as sizes
from benchmarks.compiler import sync_counts
from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.nvrtc import compile_kernel
from syncverify.base.source import InputError
from syncverify.checker.prover.parametric.concrete_checks import Problem
from syncverify.checker.prover.parametric.result import ParametricResult
from syncverify.checker.prover.parametric.strategy import problem_of
from syncverify.checker.prover.protocols import prove
from syncverify.checker.prover.rings.by_induction import NotFoundError, NotReadError, protocols
from syncverify.codegen.cache import Cache
from syncverify.codegen.cuda import emit
from syncverify.codegen.names import entry_name
from syncverify.driver.acceptance import asked
from syncverify.driver.files import check_source, read_source
from syncverify.driver.ptx.check import Checker, check_module, kernel_task, reports_of
from syncverify.driver.verdicts import run_system
from syncverify.frontends.launch_facts import NO_FACTS, LaunchFacts, read_facts
from syncverify.frontends.ptx.syntax.parser import parse
from syncverify.gate.matmul import CompiledMatmul
from syncverify.gate.ptx_check import launch_facts
from syncverify.ir.nodes import Kernel
from syncverify.matmul import product
from tests.system.real.cache import Kernel as RealKernel
from tests.system.real.cache import kernels as real_kernels

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "kernel_accepts.json"
#: What may be asked about, in the order of the table.
GROUPS = ("menu-ir", "menu-ptx", "fusion-ir", "fusion-ptx", "corpus", "real", "exact")
SECONDS = 60
#: The answer for an item that no time was left for.
NOT_ASKED = "not asked"
#: Bytes of address space that a fork may have.
MEMORY = 6 << 30
#: Characters that are kept of what a fork said before it died.
WORDS = 600
Row = dict[str, Any]


@dataclass(frozen=True)
class Item:
    """Something to ask about: ``rows`` are made in a fork. ``weight``: how many forms it is one of."""

    label: str
    rows: Callable[[], list[Row]]
    weight: int = 1


class _PosedError(Exception):
    """Carries a problem out of the check that poses it."""


# -------------------------------------------------------------------- problems


def of_ptx(text: str, facts: LaunchFacts, name: str) -> Problem | None:
    """The problem of an entry of PTX for every size, if it has one."""
    found: list[Problem] = []

    def posed(sizes: Any, given: Any, systems: Any, exact: Any, *rest: Any) -> Any:
        found.append(Problem(sizes, given, systems, exact, modular_systems=rest[-1]))
        raise _PosedError

    try:
        check_module(
            parse(text, f"{name}.ptx"), facts, Policy.PRACTICAL, Checker(run_system, posed),
            kernel=name, values=None, source_hash="", scope=ScopeKind.ALL, infer=False,
        )  # fmt: skip
    except _PosedError:
        pass
    return found[0] if found else None


@contextmanager
def any_memory() -> Iterator[None]:
    """Where compilers run, which reserve more address space than they use, and keep it.

    The limit counts what they reserved from then on: on 64 processors that alone is more than ``MEMORY``.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = address_space()
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    yield
    more = address_space() - before
    resource.setrlimit(resource.RLIMIT_AS, (soft if soft == resource.RLIM_INFINITY else soft + more, hard))


def address_space() -> int:
    """The bytes of addresses that this process has reserved."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def of_kernel(kernel: Kernel, stage: str, ptx: Callable[[], str]) -> list[Row]:
    if stage == "ir":
        return [answer(problem_of(kernel, {}, lambda _: Verdict.UNKNOWN))]
    with any_memory():
        text = ptx()
    facts = launch_facts(kernel)
    problem = of_ptx(text, facts, entry_name(kernel.name))
    if problem is not None:
        return [answer(problem)]
    with tempfile.TemporaryDirectory() as folder:  # nothing of it depends on an open size
        path = Path(folder) / "kernel.ptx"
        path.write_text(text)
        return of_check(path, facts, ScopeKind.ALL)


def of_menu(name: str, stage: str) -> Problem | None:
    """The problem of a product of the menu for every size, as IR or as PTX."""
    with tempfile.TemporaryDirectory() as folder:
        schedule = (sizes.SCHEDULES | sizes.of_menu())[name]
        made = CompiledMatmul(product(), schedule, cache=Cache(Path(folder))).program()
        if stage == "ir":
            return problem_of(made.kernel, {}, lambda _: Verdict.UNKNOWN)
        with any_memory():
            text = made.ptx
        return of_ptx(text, launch_facts(made.kernel), entry_name(made.kernel.name))


def of_real(kernel: RealKernel) -> list[Row]:
    """A real kernel for every size, as ``check --require kernel`` asks about it: one without an accepted
    protocol is asked about along its certificate.

    A check may pose several problems, each weaker than the one before: it ends at the first that is accepted.
    """
    source, facts = read_source(kernel.ptx), read_facts(kernel.facts("all"))
    found: list[Row] = []

    def prove_it(sizes: Any, given: Any, systems: Any, exact: Any, *rest: Any) -> ParametricResult:
        row = answer(Problem(sizes, given, systems, exact, modular_systems=rest[-1]))
        found.append(row)
        if row["answer"] == "accepted":
            return ParametricResult(Verdict.PROVED)
        # said at once, for what comes next may take too long
        sys.stderr.write(f"as a protocol {row['answer']}: {row['why']}\n")
        sys.stderr.flush()
        return ParametricResult(Verdict.UNKNOWN, reason=row["why"])

    assert source.module is not None
    (entry,) = source.module.entries
    checker = Checker(run_system, prove_it)
    task = kernel_task(source.module, entry, facts, Policy.PRACTICAL, checker, {}, source.hash, True)
    report = list(reports_of(task, ScopeKind.ALL))[-1]
    accepted = [row for row in found if row["answer"] == "accepted"]
    if accepted and report.verdict is Verdict.PROVED and report.scope.kind is ScopeKind.ALL:
        took = {k: round(sum(r.get(k, 0) for r in found), 2) for k in ("reading", "seconds")}
        return [accepted[-1] | took]
    return of_check(kernel.ptx, facts, ScopeKind.ALL)


def of_check(path: Path, facts: LaunchFacts, scope: ScopeKind) -> list[Row]:
    """What `check --require kernel` says of each kernel of a file."""
    source = read_source(path)
    out: list[Row] = []
    reports = check_source(source, facts=facts, scope=scope, replay=False)
    for r in reports:
        begun = time.process_time()
        if r.verdict is not Verdict.PROVED:
            out.append({"answer": f"not proved: {r.verdict.value}", "why": r.reason or ""})
            continue
        (told,) = asked(source, facts, {}, [r])
        seconds = round(time.process_time() - begun, 2)
        good = told.acceptance.kernel
        reason = "" if good else told.acceptance.reason or ""
        out.append({"answer": "accepted" if good else "not accepted", "why": reason, "seconds": seconds})
    return out


def answer(problem: Problem | None) -> Row:
    """Whether the kernel accepts proofs of all protocols of a problem; where it took how long."""
    if problem is None:
        return {"answer": "no problem", "why": "no problem for every size is posed"}
    begun = read = time.process_time()
    row: Row
    try:
        found = protocols(problem)
        read = time.process_time()
        proofs = [prove(p, Policy.PRACTICAL) for p in found]
        row = {"answer": "accepted", "obligations": sum(x.accepted.obligations for x in proofs)}
    except NotReadError as e:
        row = {"answer": "not read", "why": str(e)}
    except NotFoundError as e:
        row = {"answer": "no proof", "why": str(e)}
    end = time.process_time()
    return row | {"reading": round(read - begun, 2), "seconds": round(end - begun, 2)}


# -------------------------------------------------------------------- what is asked about


def menu(stage: str, whole: bool) -> Iterator[Item]:
    """One form of each kind, from the middle of those that are alike; or all forms."""
    kinds: dict[Any, list[str]] = {}
    for name, s in sizes.of_menu().items():
        key = (s.persistent, s.pingpong, s.cluster, s.split_k, s.store, s.pending, s.dependent, s.shares)
        kinds.setdefault(name if whole else key, []).append(name)
    for names in kinds.values():
        one = names[len(names) // 2]
        yield Item(one, lambda n=one: [answer(of_menu(n, stage))], len(names))  # type: ignore[misc]


def fusions(stage: str) -> Iterator[Item]:
    for name, make in sync_counts.compiled():
        kernel = make()

        def rows(k: Kernel = kernel) -> list[Row]:
            return of_kernel(k, stage, lambda: compile_kernel(emit(k), k.name)[0])

        yield Item(name, rows)


def corpus() -> Iterator[Item]:
    """Good files; launches with their launch files, kernels with open sizes for every size."""
    for path in sorted((ROOT / "corpus").rglob("*.good.*")):
        if path.suffix not in (".syncir", ".ptx"):
            continue
        facts = path.with_name(path.name + ".launch.toml")

        def rows(p: Path = path, f: Path = facts) -> list[Row]:
            return of_check(p, read_facts(f) if f.exists() else NO_FACTS, ScopeKind.ALL)

        yield Item(str(path.relative_to(ROOT / "corpus")), rows)


def real(scope: str) -> Iterator[Item]:
    kept = json.loads((ROOT / "benchmarks" / "results" / "real.json").read_text())
    for k in real_kernels():
        row = kept.get(k.label, {}).get(scope, {})
        if row.get("verdict") != "proved" or row.get("scope") != scope:
            continue
        if scope == "all":
            yield Item(k.label, lambda k=k: of_real(k))  # type: ignore[misc]
        else:
            yield Item(
                k.label,
                lambda k=k: of_check(k.ptx, read_facts(k.facts("exact")), ScopeKind.EXACT),  # type: ignore[misc]
            )


def items(group: str, whole: bool) -> Iterator[Item]:
    what, _, stage = group.partition("-")
    match what:
        case "menu":
            yield from menu(stage, whole)
        case "fusion":
            yield from fusions(stage)
        case "corpus":
            yield from corpus()
        case "real":
            yield from real("all")
        case _:
            yield from real("exact")


def drawn(some: list[Item], many: int, seed: int) -> list[Item]:
    """So many different items, the likelier the more forms they stand for."""
    rnd = random.Random(seed)
    order = sorted(some, key=lambda x: rnd.random() ** (1 / x.weight), reverse=True)
    return [x for x in some if x in order[:many]]


# -------------------------------------------------------------------- asking


def forked(item: Item, seconds: int) -> list[Row]:
    """The rows, made in a fork that may take so long."""
    read, write = os.pipe()
    with tempfile.TemporaryFile() as words:
        child = os.fork()
        if child == 0:
            os.close(read)
            _answer_in_fork(item, seconds, write, words.fileno())
        os.close(write)
        with os.fdopen(read) as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        if said:
            return list(json.loads(said))
        words.seek(0)
        return [died(status, words.read().decode(errors="replace"), seconds)]


def _answer_in_fork(item: Item, seconds: int, write: int, words: int) -> None:
    """Writes the rows of an item and ends the process. ``words``: where a death is described."""
    os.nice(5)
    os.dup2(words, 2)
    faulthandler.enable(words)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    try:
        rows = item.rows()
    except Exception as e:
        why = e.message if isinstance(e, InputError) else f"{type(e).__name__}: {e}"
        rows = [{"answer": "error", "why": why}]
    with os.fdopen(write, "w") as pipe:
        json.dump(rows, pipe)
    os._exit(0)


def died(status: int, words: str, seconds: int) -> Row:
    """What is said of a fork that gave no answer: its time was over, or how it ended and what it said."""
    code = os.waitstatus_to_exitcode(status)
    said = words.strip()[:WORDS]
    if -code == signal.SIGXCPU:
        return {"answer": "limit", "why": f"more than {seconds} s" + (said and f"; {said}")}
    how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    return {"answer": "died", "why": f"{how}: {said}"}


def commit() -> str:
    if at := os.environ.get("SYNCVERIFY_COMMIT"):  # a tree without its history
        return at
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return git.stdout.strip()


def shuffled(groups: dict[str, list[Item]], seed: int) -> list[tuple[str, Item]]:
    """All items in random order, so that each beginning holds about the same share of every group."""
    rnd = random.Random(seed)
    placed = []
    for group, some in groups.items():
        order = rnd.sample(some, len(some))
        placed += [((k + rnd.random()) / len(order), group, x) for k, x in enumerate(order)]
    return [(group, x) for _, group, x in sorted(placed, key=lambda p: p[0])]


def first(order: list[tuple[str, Item]], pattern: str) -> list[tuple[str, Item]]:
    """The items whose ``GROUP LABEL`` matches come first, for what takes long has to begin early."""
    return sorted(order, key=lambda x: not (pattern and re.search(pattern, f"{x[0]} {x[1].label}")))


def worker(order: list[tuple[str, Item]], taken: Any, until: float, seconds: int, out: Path) -> None:
    """Asks about the next item again and again until the time is over."""
    while time.monotonic() < until:
        with taken.get_lock():
            k = taken.value
            taken.value += 1
        if k >= len(order):
            return
        group, item = order[k]
        rows = forked(item, seconds)
        with out.open("a") as f:
            f.write(json.dumps([group, item.label, item.weight, rows]) + "\n")


def at_once(groups: dict[str, list[Item]], args: Any) -> dict[str, dict[str, Any]]:
    """What so many workers find out, by group and label."""
    fork = multiprocessing.get_context("fork")
    taken, until = fork.Value("i", 0), time.monotonic() + args.until
    order = first(shuffled(groups, args.seed), args.first)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{k}.jsonl" for k in range(args.jobs)]
        workers = [fork.Process(target=worker, args=(order, taken, until, args.seconds, f)) for f in files]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        kept: dict[str, dict[str, Any]] = {}
        for group, item in order:
            unasked = {"weight": item.weight, "at": commit(), "rows": [{"answer": NOT_ASKED}]}
            kept.setdefault(group, {})[item.label] = unasked
        for f in (f for f in files if f.exists()):
            for group, label, weight, rows in (json.loads(line) for line in f.read_text().splitlines()):
                kept.setdefault(group, {})[label] = {"weight": weight, "at": commit(), "rows": rows}
    return kept


# -------------------------------------------------------------------- the table


def cause(row: Row) -> str:
    """Why, so that equal causes group: without numbers and names."""
    text = re.sub(r"'[^']*'|`[^`]*`|%\w+", "..", str(row.get("why", "")))
    text = re.sub(r"^(?:\S+ )?\S*[\w.+-]+:\d+: ", "", text)
    return re.sub(r"-?\b(?:0x)?\d+\w*", "#", text)[:140]


def table(kept: dict[str, dict[str, Any]]) -> str:
    """Shares by group, then causes with counts."""
    lines = [
        "| group | items asked | accepted | of | median s | most s | at |",
        "|---|---|---|---|---|---|---|",
    ]
    causes: list[str] = []
    for group in (g for g in GROUPS if g in kept):
        entries = [e for e in kept[group].values() if e["rows"] != [{"answer": NOT_ASKED}]]
        found = [(r, e["weight"]) for e in entries for r in e["rows"]]
        total = sum(w for _, w in found)
        good = sum(w for r, w in found if r["answer"] == "accepted")
        took = sorted(r["seconds"] for r, _ in found if r["answer"] == "accepted" and "seconds" in r)
        said = (f"{took[len(took) // 2]:.1f}", f"{took[-1]:.1f}") if took else ("", "")
        at = Counter(e["at"] for e in kept[group].values()).most_common(1)[0][0]
        asked_of = f"{len(entries)} of {len(kept[group])}"
        lines.append(f"| {group} | {asked_of} | {good} | {total} | {said[0]} | {said[1]} | {at} |")
        counts: Counter[str] = Counter()
        for r, w in found:
            if r["answer"] != "accepted":
                counts[f"{r['answer']}: {cause(r)}"] += w
        causes += [f"| {group} | {n} | {what} |".replace("\n", " ") for what, n in counts.most_common()]
    return "\n".join([*lines, "", "| group | kernels | cause |", "|---|---|---|", *causes]) + "\n"


def load(path: Path) -> dict[str, dict[str, Any]]:
    return json.loads(path.read_text()) if path.exists() else {}


def group_and_number(text: str) -> tuple[str, int | None]:
    """A group, and how many of it are drawn: all, if no number is given."""
    group, colon, many = text.partition(":")
    if group not in GROUPS or (colon and not many.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no GROUP or GROUP:NUMBER, of {', '.join(GROUPS)}")
    return group, int(many) if colon else None


def some_of(group: str, many: int | None, args: Any) -> list[Item]:
    """What is asked about in a group."""
    some = [x for x in items(group, args.whole) if args.match in x.label]
    return some if many is None else drawn(some, many, args.seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("groups", nargs="*", type=group_and_number, metavar="GROUP[:NUMBER]")
    parser.add_argument("--every", type=int, default=1, help="every so many of a group")
    parser.add_argument("--draw", type=int, help="so many of a group, drawn at random by weight")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    parser.add_argument("--match", default="")
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--whole", action="store_true", help="all forms of the menu")
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--jobs", type=int, default=0, help="ask about so many at once")
    parser.add_argument("--until", type=int, default=1 << 30, help="seconds after which nothing new begins")
    parser.add_argument("--first", default="", help="with --jobs: begin with items whose GROUP LABEL matches")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        sys.stdout.write(table(load(args.out)))
        return 0
    if args.jobs:
        kept = load(args.out)
        asked_of = {g: some_of(g, many, args) for g, many in args.groups}
        for group, found in at_once(asked_of, args).items():
            kept.setdefault(group, {}).update(found)
        args.out.write_text(json.dumps(kept, indent=1) + "\n")
        sys.stdout.write(table(kept))
        return 0
    this, shards = (int(x) for x in args.shard.split("/"))
    for group, many in args.groups:
        for k, item in enumerate(some_of(group, many or args.draw, args)):
            if k % args.every or k // args.every % shards != this:
                continue
            rows = forked(item, args.seconds)
            sys.stdout.write(f"{group} {item.label} ({item.weight}): {rows}\n")
            sys.stdout.flush()
            kept = load(args.out)  # another shard may have added to it
            kept.setdefault(group, {})[item.label] = {"weight": item.weight, "at": commit(), "rows": rows}
            args.out.write_text(json.dumps(kept, indent=1) + "\n")
    sys.stdout.write(table(load(args.out)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
