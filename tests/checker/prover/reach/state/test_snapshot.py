"""A copy of a run goes on as the run itself does, and neither changes the other."""

from __future__ import annotations

from syncverify.checker.happens_before.dispatch import HANDLERS
from syncverify.checker.happens_before.handlers.phases import complete_async
from syncverify.checker.happens_before.run import Run
from syncverify.checker.happens_before.vector_clocks import Columns
from syncverify.checker.prover.reach.state.canonical_state import canonicalize
from syncverify.checker.prover.reach.state.snapshot import FLAT, SHARED, TREATED, copy_run
from syncverify.frontends.ir.systems import IrSystem, systems
from syncverify.ir.nodes import Kernel
from tests.checker.prover.reach.kernels import ring


def started(kernel: Kernel | None = None, sizes: dict[str, int] | None = None) -> Run:
    """A run of a kernel that has done nothing yet: a ring of two slots, where none is given."""
    (system,) = systems(kernel or ring(2), {"B": 1, "N": 6} if sizes is None else sizes)
    assert isinstance(system, IrSystem)
    classes = len(system.info.classes)
    return Run(system, HANDLERS, complete_async, Columns(classes, 12 * classes + 64), 100_000)


def steps(run: Run, n: int) -> None:
    """Some steps of the fair schedule; stops where nobody can go on."""
    while run.ready and n:
        t = run.ready.popleft()
        while n and not t.done and not t.blocked:
            run.step(t)
            n -= 1
        if not t.done and not t.blocked:
            run.ready.appendleft(t)


def test_every_field_of_a_run_is_treated() -> None:
    assert sorted([*SHARED, *FLAT, *TREATED]) == sorted(vars(started()))


def test_copies_go_on_alike_and_apart() -> None:
    run = started()
    for n in (5, 17, 40, 90, 150):
        steps(run, n)
        before = canonicalize(run)
        copy = copy_run(run)
        assert canonicalize(copy) == before
        steps(copy, 25)
        assert canonicalize(run) == before
        steps(run, 25)
        assert canonicalize(run) == canonicalize(copy)
    run.run()
    assert not run.hung and not run.failures
