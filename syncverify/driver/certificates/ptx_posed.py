"""The check of one PTX entry with a judge and a prover of the caller's."""

from __future__ import annotations

from collections.abc import Mapping

from syncverify.base.diagnostics import KernelReport, Policy, ScopeKind
from syncverify.base.source import InputError, Span
from syncverify.driver.ptx.check import check_module
from syncverify.driver.ptx.task import Checker
from syncverify.frontends.launch_facts import LaunchFacts
from syncverify.frontends.ptx.syntax.nodes import Module


def checked(
    module: Module,
    name: str,
    facts: LaunchFacts,
    values: Mapping[str, int],
    policy: Policy,
    checker: Checker,
) -> KernelReport:
    """The report of one entry, for every size that its launch leaves open."""
    reports = check_module(module, facts, policy, checker, kernel=name, values=values, scope=ScopeKind.ALL)
    found = [r for r in reports if r.name == name]
    if len(found) != 1 or len(reports) != 1:
        raise InputError(f"{len(reports)} kernels are named {name}", Span(module.path))
    return found[0]


__all__ = ["checked"]
