"""The text that the second reader executes. What a policy accepts beyond the memory model is no race in it.

In practical mode the first guess of a loop that repeats a ``cas`` may be a plain load (K28). It is executed
as a strong one.
"""

from __future__ import annotations

from dataclasses import replace

from syncverify.base.diagnostics import Policy
from syncverify.frontends.ptx.analysis.handover.first_guesses import with_first_guesses
from syncverify.frontends.ptx.syntax.nodes import Module


def executed(module: Module, kernel: str, policy: Policy) -> Module:
    """The module with an entry as it is executed to judge a verdict by."""
    if policy is Policy.STRICT:
        return module
    of = {f.name: with_first_guesses(f)[0] for f in module.functions if f.entry and f.name == kernel}
    return replace(module, functions=tuple(of.get(f.name, f) for f in module.functions))


__all__ = ["executed"]
