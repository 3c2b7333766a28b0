"""A witness replayed by the simulator, whatever its kernel is written in."""

from __future__ import annotations

from dataclasses import replace

from syncverify.base.diagnostics import Witness
from syncverify.base.source import InputError, Span
from syncverify.driver.files import SourceFile
from syncverify.frontends.launch_facts import LaunchFacts, relaunch
from syncverify.ir.nodes import Kernel
from syncverify.simulate.ir.replay import ReplayResult
from syncverify.simulate.ir.replay import replay as simulate_replay


def replayed(source: SourceFile, witness: Witness, facts: LaunchFacts, where: str) -> ReplayResult:
    """Whether the claim of a witness comes true, in the source's own words and lines.

    ``where``: the witness's file. Raises InputError where the source has changed since, or where the kernel
    does what cannot be stepped through.
    """
    unchanged(source, witness, where)
    if source.module is None:
        return simulate_replay(witness, witnessed(source, witness))
    from syncverify.ptx_replay import unroll

    u = unroll(source.module, facts, witness)
    result = simulate_replay(u.witness, u.kernel)
    if u.left_out and not result.reproduced:
        raise InputError(f"{witness.kernel} cannot be stepped through: {u.left_out}", Span(source.path))
    return replace(
        result,
        reason=u.places.text(result.reason),
        trace=tuple(map(u.places.step, result.trace)),
        blocked=tuple(map(u.places.blocked, result.blocked)),
    )


def unchanged(source: SourceFile, witness: Witness, where: str) -> None:
    """InputError if the text of a witness's kernel has changed since it was written."""
    if source.hash != witness.source_hash:
        raise InputError(
            f"{source.path} has changed since the witness was written (hash {source.hash[:12]}, the witness "
            f"has {witness.source_hash[:12]}): check it again",
            Span(where),
        )


def witnessed(source: SourceFile, witness: Witness) -> Kernel:
    """The kernel of the IR that a witness is of, as it was launched."""
    for kernel in source.kernels:
        if kernel.name == witness.kernel:
            return relaunch(kernel, witness.grid, witness.registers)
    raise InputError(f"{source.path} has no kernel {witness.kernel}", Span(source.path))


__all__ = ["replayed", "unchanged", "witnessed"]
