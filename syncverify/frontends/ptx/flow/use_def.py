"""What a value is computed of: the closure of its use-def chains.

An example: in ``ld.global.u32 %r1, [%rd1]; add.u32 %r2, %r1, 4; @%p1 mov.u32 %r2, 0;`` the last version of
``%r2`` is computed of the one before, which its guard may leave, of ``%r1``, of ``%p1`` and of ``%rd1``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from syncverify.frontends.ptx.flow.control_flow import Flow
from syncverify.frontends.ptx.syntax.nodes import Instr
from syncverify.frontends.ptx.syntax.operands import sources


def behind(
    flow: Flow, first: Iterable[int], names: Callable[[Instr], Iterable[str]] = sources
) -> Iterator[int]:
    """Versions and all that they are computed of, by whatever path and guard, each once. ``names``: the
    registers of an instruction that count as its operands."""
    versions, seen, work = flow.versions, set[int](), list(first)
    while work:
        v = work.pop()
        if v in seen:
            continue
        seen.add(v)
        yield v
        k = versions.writer[v]
        if k < 0:
            work += [x for _, x in versions.merged(v)]
            continue
        i = flow.body[k]
        kept = () if i.guard is None else (versions.name[v],)
        work += [versions.read(name, k) for name in (*kept, *names(i))]


__all__ = ["behind"]
