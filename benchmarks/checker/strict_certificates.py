"""Certificates of strict mode, true and forged: is one accepted of a kernel that strict mode refutes?

    python -m benchmarks.checker.strict_certificates --seed 29 --seconds 300 --jobs 14 --out FILE

Programs are drawn rings of PTX and mutants of rings of the IR, in families. Each is given the certificates
of strict mode of its family, those of practical mode said to be of strict mode, and both with fields changed.
The kernel is asked as if it judged strict mode. Who is right says the search in strict mode: it shares
neither the certificate nor the kernel. ``--without observed``: the obligation of strict mode is left out, a
planted mistake that has to be found.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.checker.certificate_edits import changed, fields, kind, of_other
from syncverify.base.certificate_data import RejectedError, write
from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind, Verdict
from syncverify.base.source import InputError
from syncverify.checker.kernel import accept as kernel
from syncverify.checker.prover.rings.by_induction import InductionProof
from syncverify.driver import acceptance
from syncverify.driver.certificates import dumps
from syncverify.driver.certificates.reseal import resealed
from syncverify.driver.files import SourceFile, certificates, check_source, read_text, recheck
from syncverify.driver.ptx.check import kernel_task
from syncverify.driver.ptx.task import Checker
from syncverify.driver.verdicts import run_system
from syncverify.frontends.launch_facts import NO_FACTS, LaunchFacts
from tests.checker.induction import bases
from tests.checker.induction.mutants import mutant
from tests.checker.induction.sweep import LateError, limited
from tests.driver.drawn_rings import FURTHER, GIVE, Ring, ring

#: Seconds for one search or one certificate.
LIMIT = 40
#: Changed certificates for each program.
EDITS = 12


@dataclass(frozen=True)
class Program:
    """A kernel's text with its launch."""

    name: str
    text: str
    syntax: str
    facts: LaunchFacts

    @property
    def source(self) -> SourceFile:
        return read_text(self.text, "case", self.syntax)


def family(seed: int) -> list[Program]:
    """Programs of which one has certificates for the others."""
    rnd = random.Random(seed)
    return _rings(seed, rnd) if seed % 3 else _of_ir(rnd)


def _rings(seed: int, rnd: random.Random) -> list[Program]:
    first = ring(seed)
    others = [
        replace(first, further=rnd.choice(list(FURTHER))),
        replace(first, give=rnd.choice(list(GIVE))),
        replace(first, further=rnd.choice(list(FURTHER)), give=rnd.choice(list(GIVE))),
    ]
    return [_ring(f"ring {seed}.{i}", x) for i, x in enumerate([first, *others])]


def _ring(name: str, x: Ring) -> Program:
    return Program(name, x.text(), "ptx", LaunchFacts({"*": x.facts()["kernel"]["k"]}))


def _of_ir(rnd: random.Random) -> list[Program]:
    name, base = rnd.choice(list(bases.IR.items()))
    texts = [base.text, *(x for _ in range(3) if (x := mutant(base.text, rnd)) is not None)]
    return [Program(f"{name}.{i}", x, "syncir", NO_FACTS) for i, x in enumerate(texts)]


def proofs(p: Program, policy: Policy) -> Any:
    """The certificate of what the kernel alone accepts in a mode; None if it has no proof."""
    source = p.source
    report = _by_ptx(source, p.facts, policy) if source.module is not None else _by_ir(source, policy)
    if report is None:
        return None
    return json.loads(dumps(certificates(source, p.facts, {}, [report])))


def _by_ptx(source: SourceFile, facts: LaunchFacts, policy: Policy) -> KernelReport | None:
    assert source.module is not None
    (f,) = source.module.entries
    task = kernel_task(source.module, f, facts, policy, Checker(run_system), {}, source.hash, True)
    found = acceptance.by_events(task)
    if found.report.verdict is not Verdict.PROVED or not any(found.shown):
        return None
    return replace(found.report, protocol=InductionProof(found.shown))


def _by_ir(source: SourceFile, policy: Policy) -> KernelReport | None:
    reports = check_source(source, policy=policy, facts=NO_FACTS, scope=ScopeKind.ALL, repairs=False)
    found = acceptance._by_protocol(source.kernels[0], next(iter(reports)))
    return found if found is not None and found.acceptance.kernel else None


def follows(data: Any, p: Program) -> str:
    """What the kernel says of a certificate, strict mode or not."""
    try:
        with limited(LIMIT):
            done = recheck(write(resealed(data)), "case.json", p.source, p.facts)
    except RejectedError:
        return "rejected"
    except LateError:
        return "over"
    except InputError:
        return "rejected"
    except Exception as e:  # no acceptance, and to be mended
        return f"FAULT {type(e).__name__}: {e}"[:100]
    if any(d.policy is not Policy.STRICT for d in done):
        return "of practical mode"
    return "not judged" if any(d.met.reasons for d in done) else "accepted"


def truth(p: Program) -> str:
    """What the search says in strict mode."""
    try:
        with limited(LIMIT):
            found = check_source(
                p.source, policy=Policy.STRICT, facts=p.facts, scope=ScopeKind.ALL, repairs=False
            )
            return str(next(iter(found)).verdict)
    except (LateError, InputError) as e:
        return type(e).__name__


def strictly(data: Any) -> Any:
    """The certificate, said to be of strict mode."""
    out = json.loads(json.dumps(data))
    for entry in out["kernels"]:
        entry["policy"] = str(Policy.STRICT)
    return out


def handed_in(programs: list[Program], rnd: random.Random) -> Iterator[tuple[Program, str, Any]]:
    """Certificates for each program: how they were made, and what they hold."""
    made: list[tuple[int, str, Any]] = []
    for i, p in enumerate(programs):
        for policy in Policy:
            try:
                with limited(LIMIT):
                    data = proofs(p, policy)
            except (LateError, InputError, RejectedError):
                continue
            if data is not None:
                made.append((i, str(policy), strictly(data)))
    for i, p in enumerate(programs):
        for j, policy, data in made:
            said = data if i == j else of_other(data, p.source)
            yield p, f"{policy} of {'its own' if i == j else 'another'}", said
        for _ in range(EDITS if made else 0):
            _, policy, data = rnd.choice(made)
            by_kind: dict[str, list[Any]] = {}
            for path in fields(data):
                if len(path) > 2 and path[2] not in ("policy", "text"):
                    by_kind.setdefault(kind(data, path), []).append(path)
            edited, what = changed(rnd, data, by_kind[rnd.choice(sorted(by_kind))])
            yield p, f"{policy} changed: {what}", of_other(edited, p.source)


def judged(seed: int) -> list[dict[str, str]]:
    """One row for each certificate that was handed in."""
    rnd, out, known = random.Random(seed), list[dict[str, str]](), dict[str, str]()
    for p, how, data in handed_in(family(seed), rnd):
        said = follows(data, p)
        if said == "accepted" and p.name not in known:
            known[p.name] = truth(p)
        of = known.get(p.name, "")
        out.append({"seed": str(seed), "program": p.name, "how": how, "said": said, "search": of})
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--jobs", type=int, default=14)
    parser.add_argument("--families", type=int, default=100_000)
    parser.add_argument("--without", choices=("observed",))
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    if asked.without:
        kernel.observed = lambda _: iter(())
    until, rows = time.time() + asked.seconds, list[dict[str, str]]()
    seeds = range(asked.seed * 100_000, asked.seed * 100_000 + asked.families)
    with multiprocessing.get_context("fork").Pool(asked.jobs) as pool, asked.out.open("w") as file:
        for found in pool.imap_unordered(judged, seeds):
            rows += found
            file.writelines(json.dumps(row) + "\n" for row in found)
            if time.time() > until:
                pool.terminate()
                break
    programs = len({row["program"] + row["seed"] for row in rows})
    counts = Counter((row["how"].split(":")[0], row["said"], row["search"]) for row in rows)
    for key, n in sorted(counts.items()):
        sys.stdout.write(f"{n:7,}  {' | '.join(key)}\n")
    wrong = [row for row in rows if row["said"] == "accepted" and row["search"] == "refuted"]
    faults = sum(row["said"].startswith("FAULT") for row in rows)
    sys.stdout.write(f"{programs} programs, {len(rows)} certificates, {len(wrong)} wrong, {faults} faults\n")
    for row in wrong[:20]:
        sys.stdout.write(f"WRONG {json.dumps(row)}\n")


if __name__ == "__main__":
    main()
