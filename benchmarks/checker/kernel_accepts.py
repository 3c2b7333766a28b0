"""Which kernels the trusted kernel accepts for every size: of the product menu, and files of the corpus.

    python -m benchmarks.checker.kernel_accepts --menu [--of 1] [--stages ir,ptx] [--jobs 2] [--out FILE]
    python -m benchmarks.checker.kernel_accepts corpus/good/*.syncir [--jobs 2]

Each kernel is read and proved in a child process that may take so many seconds of processor time. A file is
asked about each kernel in it. Nothing is said of what the search says: only of the kernel.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.checker.prover.parametric.concrete_checks import Problem
from syncverify.checker.prover.parametric.strategy import problem_of
from syncverify.checker.prover.rings.by_induction import NotFoundError, NotReadError, by_induction


class _PosedError(Exception):
    """Carries a problem out of the check that poses it."""


def of_menu(name: str, stage: str) -> Problem:
    """The problem of a product for every size, as IR or as PTX."""
    from benchmarks.checker.matmul_every_size import SCHEDULES
    from benchmarks.checker.matmul_every_size import of_menu as menu
    from syncverify.codegen.cache import Cache
    from syncverify.codegen.names import entry_name
    from syncverify.driver.ptx_check import Checker, check_module
    from syncverify.driver.verdicts import merge, run_system
    from syncverify.frontends.ptx.syntax.parser import parse
    from syncverify.gate.matmul import CompiledMatmul
    from syncverify.gate.ptx_check import launch_facts
    from syncverify.matmul import product

    with tempfile.TemporaryDirectory() as folder:
        made = CompiledMatmul(product(), (SCHEDULES | menu())[name], cache=Cache(Path(folder))).program()
        if stage == "ir":
            return problem_of(made.kernel, {}, lambda _: Verdict.UNKNOWN)
        found: list[Problem] = []

        def posed(sizes: Any, facts: Any, systems: Any, exact: Any, *rest: Any) -> Any:
            found.append(Problem(sizes, facts, systems, exact, modular_systems=rest[-1]))
            raise _PosedError

        try:
            check_module(
                parse(made.ptx, "product.ptx"), launch_facts(made.kernel), Policy.PRACTICAL,
                Checker(run_system, merge, posed), kernel=entry_name(made.kernel.name), values=None,
                source_hash="", scope=ScopeKind.ALL, infer=False,
            )  # fmt: skip
        except _PosedError:
            pass
        return found[0]


def of_file(path: str) -> Iterator[tuple[str, Problem]]:
    """The problems of a file's kernels."""
    from syncverify.ir.text.parser import parse

    for k in parse(Path(path).read_text("utf-8"), path):
        yield k.name, problem_of(k, {}, lambda _: Verdict.UNKNOWN)


def answer(problem: Problem) -> dict[str, Any]:
    begun = time.process_time()
    try:
        found = by_induction(problem, Policy.PRACTICAL)
    except NotReadError as e:
        return {"answer": "not read", "why": str(e), "seconds": round(time.process_time() - begun, 2)}
    except NotFoundError as e:
        return {"answer": "no proof", "why": str(e), "seconds": round(time.process_time() - begun, 2)}
    owed = sum(s.accepted.obligations for s in found)
    return {"answer": "accepted", "obligations": owed, "seconds": round(time.process_time() - begun, 2)}


def child(what: list[str]) -> list[dict[str, Any]]:
    if what[0] == "menu":
        return [answer(of_menu(what[1], what[2]))]
    return [{"kernel": name, **answer(p)} for name, p in of_file(what[1])]


def limited(what: list[str], seconds: int) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.checker.kernel_accepts", "--child", *what],
        capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds)),
    )  # fmt: skip
    if done.returncode:
        error = done.stderr.strip().splitlines()[-1:] or ["?"]
        return [{"answer": "limit" if done.returncode < 0 else "error", "why": error[0][:200]}]
    return list(json.loads(done.stdout))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--menu", action="store_true")
    parser.add_argument("--only", default="", help="names of schedules, separated by semicolons")
    parser.add_argument("--of", type=int, default=1, help="every so many forms of the menu")
    parser.add_argument("--stages", default="ir")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", nargs="+")
    args = parser.parse_args()
    if args.child:
        sys.stdout.write(json.dumps(child(args.child)))
        return 0
    asked: list[list[str]] = [["file", f] for f in args.files]
    if args.menu or args.only:
        from benchmarks.checker.matmul_every_size import of_menu as menu

        names = args.only.split(";") if args.only else [*menu()][:: args.of]
        asked += [["menu", n, s] for n in names for s in args.stages.split(",")]
    rows: dict[str, list[dict[str, Any]]] = {}
    counts: Counter[str] = Counter()
    with ThreadPoolExecutor(args.jobs) as pool:
        for what, found in zip(asked, pool.map(lambda w: limited(w, args.seconds), asked), strict=True):
            rows[" ".join(what[1:])] = found
            counts.update(x["answer"] for x in found)
            sys.stdout.write(f"{' '.join(what[1:])}: {found}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{dict(counts)}\n")
    if args.out:
        args.out.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
