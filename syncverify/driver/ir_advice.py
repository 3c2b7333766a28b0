"""Advice on proved kernels: what could be cheaper (SV601 to SV606). It never changes a verdict.

Advice is tried out: the kernel is changed, checked again, and the advice given only if the changed kernel is
proved without a finding that the original lacks. The changes are kept, so that all advice holds together; and
it holds for the launch values of the check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from syncverify.base.diagnostics import Diagnostic, KernelReport, Severity, Verdict
from syncverify.ir import nodes as n
from syncverify.ir.expr import LANE_BUILTINS, Int, names
from syncverify.ir.text.printed_expressions import print_expr
from syncverify.ir.text.printer import print_stmt
from syncverify.passes.rewrite import Body, flat_map, walk

#: Events that the checks of all changed kernels together may take; a count, so that two runs agree.
MAX_EVENTS = 100_000

_REMOVABLE = (n.BarrierSync, n.WarpSync, n.FenceProxyAsync, n.Fence, n.WgmmaFence)
_FENCES = (n.FenceProxyAsync, n.Fence)
_COLLECTIVE = (
    n.Elect, n.SetMaxNReg, n.WgmmaFence, n.Wgmma, n.WgmmaCommit, n.WgmmaWait, n.LdMatrix, n.StMatrix,
    n.Shuffle,
)  # fmt: skip
#: Operations through which blocks or grids meet: what they need of a synchronization is not all tracked.
_GLOBAL = (
    n.AtomGlobal, n.SpinGlobal, n.Multimem, n.GridDepWait, n.GridDepLaunch,
    n.TensormapReplace, n.TensormapCpFence, n.FenceProxyTensormap,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A change to one statement, what takes its place, and what to say if the changed kernel is proved."""

    rule: str
    at: n.Stmt
    new: tuple[n.Stmt, ...]
    body: Body
    message: str
    fix: str


def advise(
    kernel: n.Kernel, report: KernelReport, check: Callable[[n.Kernel], KernelReport]
) -> tuple[Diagnostic, ...]:
    """Notes on what a proved kernel could do without; ``check`` checks a changed kernel the same way."""
    if report.verdict is not Verdict.PROVED:
        return ()
    found = list(_hidden_uniformity(kernel.body))
    if exchanges_globally(kernel):
        return tuple(found)
    affordable = MAX_EVENTS // max(int(report.stats.get("events", 0)), 1)
    known = {(d.rule, d.span) for d in report.diagnostics}
    answered: list[tuple[n.Stmt, str]] = []
    while (attempt := _next(kernel, answered)) is not None:
        answered.append((attempt.at, attempt.fix))
        affordable -= 1
        if affordable < 0:
            break
        changed = check(replace(kernel, body=attempt.body))
        if changed.verdict is Verdict.PROVED and {(d.rule, d.span) for d in changed.diagnostics} <= known:
            kernel = replace(kernel, body=attempt.body)
            answered += [(s, "") for s in attempt.new]
            message = attempt.message + _proviso(report)
            found.append(Diagnostic(attempt.rule, Severity.NOTE, message, attempt.at.span, attempt.fix))
    return tuple(found)


def _next(kernel: n.Kernel, answered: list[tuple[n.Stmt, str]]) -> _Attempt | None:
    """The first change not tried yet; a statement that came out of a change is left alone."""
    for attempt in _attempts(kernel):
        if not any(attempt.at is s and fix in ("", attempt.fix) for s, fix in answered):
            return attempt
    return None


def _proviso(report: KernelReport) -> str:
    values = ", ".join(f"{name} = {value}" for name, value in report.scope.values.items())
    return f" (for {values})" if values else ""


def exchanges_globally(kernel: n.Kernel) -> bool:
    """Whether threads may exchange data through global memory, which the checker does not track."""
    read: set[str] = set()
    written: set[str] = set()
    maps = {m.name: m.tensor for m in kernel.maps}
    for s in walk(kernel.body):
        match s:
            case n.StGlobal(dst=g) | n.BulkStore(dst=g):
                written.add(g.tensor)
            case n.LdGlobal(src=g) | n.BulkLoad(src=g) | n.CpAsync(src=g) | n.LoadIndex(source=g):
                read.add(g.tensor)
            case n.TmaStore(map=m):
                written.add(maps[m])
            case n.TmaLoad(map=m):
                read.add(maps[m])
        if isinstance(s, _GLOBAL):
            return True
    return bool(read & written)


def _attempts(kernel: n.Kernel) -> Iterator[_Attempt]:
    """Changes worth trying, the most rewarding of a statement first."""
    body = kernel.body
    for s in walk(body):
        text = print_stmt(s) if not isinstance(s, n.For | n.If | n.Role) else ""
        if isinstance(s, _REMOVABLE):
            message = f"`{text}` changes nothing: the kernel is proved without it"
            yield _Attempt("SV602", s, (), _edit(body, s, ()), message, "remove it")
        if isinstance(s, n.FenceProxyAsync) and s.space == "all" and s.half is None:
            narrow = replace(s, space="shared_cta")
            message = f"`{text}` covers every state space, but only the block's shared memory needs it"
            fix = f"use {print_stmt(narrow)}"
            yield _Attempt("SV601", s, (narrow,), _edit(body, s, (narrow,)), message, fix)
        if isinstance(s, n.For):
            yield from _hoists(body, s)
        lazier = _lazier(s)
        if lazier is not None:
            message = f"`{text}` waits for more than its consumers need"
            fix = f"use {print_stmt(lazier)}"
            yield _Attempt("SV606", s, (lazier,), _edit(body, s, (lazier,)), message, fix)


def _hoists(body: Body, loop: n.For) -> Iterator[_Attempt]:
    for s in loop.body:
        if isinstance(s, _FENCES):
            rest = replace(loop, body=tuple(x for x in loop.body if x is not s))
            for place, moved in (("in front of", (s, rest)), ("behind", (rest, s))):
                message = f"`{print_stmt(s)}` stands in the loop, but once {place} it is enough"
                fix = f"move it {place} the loop"
                yield _Attempt("SV603", s, (s,), _edit(body, loop, moved), message, fix)


def _lazier(s: n.Stmt) -> n.Stmt | None:
    """The same wait for less: sources only, or one group fewer."""
    match s:
        case n.BulkWait(read=False):
            return replace(s, read=True)
        case n.BulkWait(pending=Int(k)) | n.CpAsyncWait(pending=Int(k)) | n.WgmmaWait(pending=Int(k)):
            return replace(s, pending=Int(k + 1))
    return None


def _edit(body: Body, at: n.Stmt, new: tuple[n.Stmt, ...]) -> Body:
    """The body with one statement, this very object, replaced."""
    if isinstance(at, n.For):
        return _edit_block(body, at, new)
    return flat_map(body, lambda s: new if s is at else (s,))


def _edit_block(body: Body, at: n.For, new: tuple[n.Stmt, ...]) -> Body:
    """``_edit`` for a loop, which ``flat_map`` rebuilds: it is found before its inside is visited."""
    result: list[n.Stmt] = []
    for s in body:
        match s:
            case _ if s is at:
                result += new
            case n.For(body=b) | n.Role(body=b):
                result.append(replace(s, body=_edit_block(b, at, new)))
            case n.If(then=t, orelse=o):
                result.append(replace(s, then=_edit_block(t, at, new), orelse=_edit_block(o, at, new)))
            case _:
                result.append(s)
    return tuple(result)


# ---------------------------------------------------------------- predicates


def _hidden_uniformity(body: Iterable[n.Stmt]) -> Iterator[Diagnostic]:
    """Warp-collective operations under a guard over single threads (SV605)."""
    for s in walk(tuple(body)):
        match s:
            case n.If(cond=cond, then=inner) if names(cond) & LANE_BUILTINS:
                guard = print_expr(cond)
            case n.Role(unit="threads", name=name, body=inner):
                guard = f"role {name}"
            case _:
                continue
        for x in inner:
            if _collective(x):
                message = f"`{print_stmt(x)}` stands under `{guard}`: no compiler can see that lanes agree"
                fix = "write the guard over warp, wg or an elected lane"
                yield Diagnostic("SV605", Severity.NOTE, message, x.span, fix)


def _collective(s: n.Stmt) -> bool:
    return isinstance(s, _COLLECTIVE) or (isinstance(s, n.BarrierSync | n.BarrierArrive) and s.aligned)
