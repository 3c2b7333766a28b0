"""Certificates that the kernel accepts alone: claims about registers, and proofs of the protocols they give.

The reader (``checker/induction``) and the kernel are all that decides. Nothing is searched and no search is
loaded: import-linter and a test hold this module to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from syncverify.base.certificate_data import RejectedError, listed, number, take
from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.reason import Cause, caused
from syncverify.base.source import InputError
from syncverify.checker.induction import claims_text
from syncverify.checker.induction.program import parameters, protocol_by
from syncverify.checker.induction.quotients import Product, Quotient, with_size
from syncverify.checker.induction.stepping import NotReadError
from syncverify.checker.kernel.accept import Rejected, accept
from syncverify.checker.kernel.proof import FORMAT, VERSION, UnreadableError, read
from syncverify.checker.open_launches import OpenLaunches, starts, symbols
from syncverify.checker.outcome import Outcome
from syncverify.driver.posed import Found, Posed
from syncverify.driver.rechecked import INDUCTION, Met, Rechecked, entries, given_values
from syncverify.driver.shared_lists import expanded
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.model.events import System
from syncverify.symbolic.context import NotConcrete, SymbolicContext
from syncverify.symbolic.inequalities import negated
from syncverify.symbolic.path_condition import PathCondition

#: What a claim that means nothing may lead to.
_MALFORMED = (
    KeyError, IndexError, TypeError, ValueError, AttributeError, AssertionError, RecursionError,
)  # fmt: skip


def recheck(text: str, file: str, source: Any, facts: LaunchFacts, doubts: Any = None) -> list[Rechecked]:
    """Validates a file of such certificates against the kernels of a source (``files.SourceFile``).

    ``doubts``: who looks at what proofs of PTX take for granted (``certificates.doubts``); None where a check
    has done so.
    Raises RejectedError where one proves nothing, InputError for a file that is none.
    """
    of = _of_ir if source.module is None else _of_ptx
    done = [of(entry, f"kernels[{i}]", source, facts, doubts) for i, entry in enumerate(entries(text, file))]
    if len({r.kernel for r in done}) != len(done):
        raise RejectedError("kernels", "a kernel is there twice")
    return done


@dataclass(frozen=True, slots=True)
class CertifiedKernel:
    """What a certificate says of one kernel."""

    name: str
    text: str
    policy: Policy
    given: dict[str, int]
    proof: Any
    where: str


def _head(entry: Any, where: str) -> CertifiedKernel:
    name, text, policy, values, proof = take(entry, where, "kernel", "text", "policy", "values", "proof")
    if policy not in [str(p) for p in Policy]:
        raise RejectedError(f"{where}.policy", f"{policy!r} is no policy")
    given = given_values(values, f"{where}.values")
    return CertifiedKernel(name, text, Policy(policy), given, proof, f"{where}.proof")


def _of_ir(entry: Any, where: str, source: Any, facts: LaunchFacts, _: Any) -> Rechecked:
    from syncverify.driver.reports.outcomes import text_hash
    from syncverify.ir.check.well_formed import verify
    from syncverify.ir.text.printer import print_kernel

    e = _head(entry, where)
    kernel = next((facts.apply(k)[0] for k in source.kernels if k.name == e.name), None)
    if kernel is None:
        raise RejectedError(f"{where}.kernel", f"there is no kernel {e.name!r}")
    verify(kernel)
    if e.text != text_hash(print_kernel(kernel)):
        raise RejectedError(f"{where}.text", "the certificate is of another text")
    met = of_kernel(kernel, e.given, e.policy, e.proof, e.where)
    scope = ScopeKind.PARTIAL if e.given else ScopeKind.ALL
    return Rechecked(e.name, e.policy, scope, e.given, INDUCTION, met)


def of_kernel(kernel: Any, given: Mapping[str, int], policy: Policy, proof: Any, where: str) -> Met:
    """Follows a proof of a kernel of the IR."""
    from syncverify.frontends.ir.open_kernel import open_kernel

    if unknown := set(given) - {p.name for p in kernel.params}:
        raise RejectedError(where, f"there is no parameter {min(unknown)!r}")
    follower = Follower(proof, policy, where)
    try:
        follower.problem(open_kernel(kernel, given))
    except InputError as e:
        raise RejectedError(where, e.message) from None
    return follower.end()


def _of_ptx(entry: Any, where: str, source: Any, facts: LaunchFacts, doubts: Any) -> Rechecked:
    e = _head(entry, where)
    if e.name not in [f.name for f in source.module.entries]:
        raise RejectedError(f"{where}.kernel", f"there is no kernel {e.name!r}")
    if e.text != source.hash:
        raise RejectedError(f"{where}.text", "the certificate is of another text")
    return of_entry(source.module, facts, e, doubts)


def of_entry(module: Any, facts: LaunchFacts, e: CertifiedKernel, doubts: Any) -> Rechecked:
    """Follows a proof of an entry of a PTX module, as the front end's check poses it."""
    from syncverify.driver.ptx.check import check_module as check
    from syncverify.driver.ptx.task import Checker
    from syncverify.ir.consistency import NoLaunchError

    follower = Follower(e.proof, e.policy, e.where)
    by = Checker(_undecided, follower.posed, again=doubts is not None and doubts.judge)
    try:
        (report,) = check(module, facts, e.policy, by, kernel=e.name, values=e.given, scope=ScopeKind.ALL)
        report = report if doubts is None else doubts.asked(report, module)
    except NoLaunchError:  # the launch file is wrong, not the certificate
        raise
    except InputError as wrong:
        raise RejectedError(e.where, wrong.message) from None
    if report.verdict is not Verdict.PROVED or report.scope.kind is ScopeKind.EXACT:
        raise RejectedError(e.where, f"it does not follow: {report.reason or report.verdict}")
    met, scope = follower.end(), report.scope
    rests_on = (*scope.assume, *report.assumptions, *met.assumed)
    return Rechecked(e.name, e.policy, scope.kind, scope.values, INDUCTION, met, rests_on)


def _undecided(_: System, __: Policy) -> Outcome:
    """No launch of numbers is judged here."""
    return Outcome(Verdict.UNKNOWN, (), None, caused("sizes are open", Cause.UNSUPPORTED), {})


@dataclass(slots=True)
class Follower:
    """Follows the problems of a proof in their order."""

    proof: Any
    policy: Policy
    where: str
    met: Met = field(default_factory=Met)
    taken: int = 0
    problems: list[Any] = field(default_factory=list)
    terms: list[Any] = field(default_factory=list)  # of all cases

    def __post_init__(self) -> None:
        kind, shared, *parts = take(self.proof, self.where, "kind", "shared", "terms", "problems")
        if kind != INDUCTION:
            raise RejectedError(f"{self.where}.kind", f"{kind!r} is no proof for the kernel alone")
        terms, problems = expanded(listed(shared, f"{self.where}.shared"), parts, self.where)
        self.terms = listed(terms, f"{self.where}.terms")
        self.problems = listed(problems, f"{self.where}.problems")

    def posed(self, sizes: Any, facts: Any, systems: Any, exact: Any, *_: Any) -> Any:
        """What the check of a PTX entry asks for. A problem that the proof leaves undecided is one for which
        the check has to have another.
        """
        if self.taken < len(self.problems) and self.problems[self.taken] is None:
            self.taken += 1
            return Found(Verdict.UNKNOWN, reason="its proof leaves this undecided")
        self.problem(Posed(sizes, facts, systems))
        return Found()

    def problem(self, launches: OpenLaunches) -> None:
        at = f"{self.where}.problems[{self.taken}]"
        if self.taken >= len(self.problems):
            raise RejectedError(self.where, "some sizes are left out")
        cases = listed(self.problems[self.taken], at)
        self.taken += 1
        space = SymbolicContext(may_havoc=False)
        try:
            every = [
                (path, system)
                for path, systems in starts(launches, space, symbols(launches, space))
                for system in systems
            ]
        except NotConcrete as e:
            raise RejectedError(at, str(e)) from None
        if len(every) != len(cases) or not every:
            raise RejectedError(at, f"{len(cases)} systems, and the launch has {len(every)}")
        for i, ((path, system), case) in enumerate(zip(every, cases, strict=True)):
            self.case(_One(space, system, f"{at}[{i}]"), path, case)
            self.met.add("systems")

    def case(self, one: _One, path: PathCondition, data: Any) -> None:
        """One case of the sizes of a system, and those inside it."""
        match data:
            case None if path.dead:
                return
            case ["parted", [c, *parts], yes, no]:
                for side, part in zip(one.sides(path, c, parts), (yes, no), strict=True):
                    self.case(one, side, part)
            case ["quotient", [c, *parts], divisor, inner] if not path.dead:
                self.case(one, one.with_size(path, one.quotient(c, parts, divisor)), inner)
            case ["product", str(x), str(y), inner] if not path.dead:
                self.case(one, one.with_size(path, Product((x, y))), inner)
            case ["proof", claimed, proof] if not path.dead:
                self.leaf(one, path, claimed, proof)
            case _:
                raise RejectedError(one.where, "no proof of a case of the sizes, or one that no launch is of")

    def leaf(self, one: _One, path: PathCondition, claimed: Any, proof: Any) -> None:
        def refused(why: object) -> NoReturn:
            raise RejectedError(one.where, str(why)) from None

        one.space.path = path
        try:
            given = self.whole(proof, one.where)
            claims = claims_text.read(claimed)
            protocol = protocol_by(one.space, path.fork(), one.system, claims, self.policy)
            answer = accept(protocol, read(given), self.policy)
        except (NotReadError, NotConcrete) as e:
            refused(f"it is not read as a protocol with these claims: {e}")
        except (claims_text.MalformedClaimError, UnreadableError) as e:
            refused(e)
        except _MALFORMED as e:
            refused(f"malformed claims: {e!r}")
        if isinstance(answer, Rejected):
            refused(answer)
        self.met.add("obligations", answer.obligations)

    def whole(self, proof: Any, where: str) -> dict[str, Any]:
        """A proof as the kernel reads it, from one with terms and lists that all cases share."""
        shift, end, rank, trees = take(proof, where, "shift", "end", "rank", "trees")
        if type(trees) is not dict:
            raise RejectedError(where, "no proof with trees")
        rest = {"shift": shift, "end": end, "rank": rank, "trees": _apart(trees, where)}
        return {"format": FORMAT, "version": VERSION, "terms": self.terms, **rest}

    def end(self) -> Met:
        """What was met, once all problems were followed."""
        if self.taken != len(self.problems):
            raise RejectedError(f"{self.where}.problems", "more than the launch has")
        return self.met


def _apart(trees: dict[str, Any], where: str) -> dict[str, Any]:
    """Trees by whole names, from those by all but the last word: last words in texts, and their trees."""
    out: dict[str, Any] = {}
    for first, pair in trees.items():
        words, some = listed(pair, where)
        for last, tree in zip(" ".join(words).split(" "), some, strict=True):
            name = f"{first} {last}" if first else last
            if name in out:
                raise RejectedError(where, f"{name} is there twice")
            out[name] = tree
    return out


@dataclass(frozen=True, slots=True)
class _One:
    """A system, and where its proof stands in the certificate."""

    space: SymbolicContext
    system: Any
    where: str

    def quotient(self, c: Any, parts: list[Any], divisor: Any) -> Quotient:
        """A quotient of sizes, as a certificate says it."""
        named = [listed(part, self.where) for part in parts]
        total = (number(c, self.where), tuple((str(x), number(k, self.where)) for x, k in named))
        return Quotient(total, number(divisor, self.where))

    def with_size(self, path: PathCondition, size: Quotient | Product) -> PathCondition:
        """The path with a name for a quotient or product of sizes."""
        names = parameters(self.space, path)
        try:
            return with_size(self.space, path, names, size)
        except NotReadError as e:
            raise RejectedError(self.where, str(e)) from None

    def sides(self, path: PathCondition, c: Any, parts: list[Any]) -> list[PathCondition]:
        """The paths on which a sum over sizes is at least 0, and below."""
        self.space.path = path
        atoms = {name: a for a, name in parameters(self.space, path).items()}
        total: Any = number(c, self.where)
        for part in parts:
            name, k = listed(part, self.where)
            if name not in atoms:
                raise RejectedError(self.where, f"{name!r} is no size")
            total = total + self.space.term(0, ((atoms[name], 1),)) * number(k, self.where)
        out = []
        const, terms = self.space.of(total)
        for sum_ in ((const, terms), (-const - 1, negated(terms))):
            side = path.fork()
            self.space.path = side
            side.assume_branch(*sum_)
            out.append(side)
        return out


__all__ = ["of_entry", "of_kernel", "recheck"]
