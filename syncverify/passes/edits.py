"""Statements by their place in a kernel, and edits at such places, all made at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from syncverify.ir.nodes import For, If, Role, Stmt
from syncverify.passes.rewrite import Body, bodies

#: Index in a body, then (0: body or then, 1: else) and the index in that body, and so on.
Path = tuple[int, ...]


def numbered(body: Iterable[Stmt], at: Path = ()) -> Iterator[tuple[Path, Stmt]]:
    """Every statement with its place, parents first, in text order."""
    for k, stmt in enumerate(body):
        here = (*at, k)
        yield here, stmt
        for branch, inner in enumerate(bodies(stmt)):
            yield from numbered(inner, (*here, branch))


def statement(body: Body, path: Path) -> Stmt:
    """The statement at a place."""
    found = body[path[0]]
    for branch, k in zip(path[1::2], path[2::2], strict=True):
        found = bodies(found)[branch][k]
    return found


def body_at(body: Body, at: Path) -> Body:
    """The body that a place is in, named by the place without its last index."""
    for k, branch in zip(at[::2], at[1::2], strict=True):
        body = bodies(body[k])[branch]
    return body


def enclosing(path: Path) -> Iterator[Path]:
    """The places of the statements around one, outermost first, and its own."""
    for n in range(1, len(path) + 1, 2):
        yield path[:n]


def common_body(a: Path, b: Path) -> Path:
    """The innermost body that holds both: the place of its statement and the branch; () is the kernel's."""
    n = 0
    while n + 2 < min(len(a), len(b)) and a[: n + 2] == b[: n + 2]:
        n += 2
    return a[:n]


@dataclass
class Edits:
    """What to put before and after statements, and what to take out."""

    before: dict[Path, list[Stmt]] = field(default_factory=dict)
    after: dict[Path, list[Stmt]] = field(default_factory=dict)

    def put_before(self, path: Path, *stmts: Stmt) -> None:
        self.before.setdefault(path, []).extend(stmts)

    def put_after(self, path: Path, *stmts: Stmt) -> None:
        self.after.setdefault(path, []).extend(stmts)

    def apply(self, body: Body) -> Body:
        """The body with all of it in place; of several insertions at one place the first stands first."""
        return self._apply(body, ())

    def _apply(self, body: Body, at: Path) -> Body:
        result: list[Stmt] = []
        for k, stmt in enumerate(body):
            here = (*at, k)
            result += self.before.get(here, ())
            result.append(_rebuilt(stmt, [self._apply(b, (*here, i)) for i, b in enumerate(bodies(stmt))]))
            result += self.after.get(here, ())
        return tuple(result)


def without(body: Body, gone: Collection[Path], at: Path = ()) -> Body:
    """The body without the statements at the given places, and without blocks that become empty by that."""
    result: list[Stmt] = []
    for k, stmt in enumerate(body):
        here = (*at, k)
        if here in gone:
            continue
        inner = bodies(stmt)
        left = [without(b, gone, (*here, i)) for i, b in enumerate(inner)]
        if any(inner) and not any(left):
            continue
        result.append(_rebuilt(stmt, left))
    return tuple(result)


def replaced_at(body: Body, new: Mapping[Path, Stmt], at: Path = ()) -> Body:
    """The body with other statements at the given places."""
    result: list[Stmt] = []
    for k, stmt in enumerate(body):
        here = (*at, k)
        if here in new:
            result.append(new[here])
        else:
            left = [replaced_at(b, new, (*here, i)) for i, b in enumerate(bodies(stmt))]
            result.append(_rebuilt(stmt, left))
    return tuple(result)


def _rebuilt(stmt: Stmt, inner: list[Body]) -> Stmt:
    match stmt:
        case For() | Role():
            return stmt if stmt.body == inner[0] else replace(stmt, body=inner[0])
        case If():
            return replace(stmt, then=inner[0], orelse=inner[1] if len(inner) > 1 else ())
    return stmt
