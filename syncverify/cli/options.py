"""Options that several commands take, and what they give."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from syncverify.base.deadline import PROOF_SECONDS
from syncverify.base.diagnostics import Policy
from syncverify.base.source import InputError

if TYPE_CHECKING:
    from syncverify.frontends.cuda.options import CudaOptions

F = TypeVar("F", bound=Callable[..., Any])

launch = click.option(
    "--launch", metavar="FILE", help="Launch facts (TOML); else <input>.launch.toml if it exists."
)
params = click.option(
    "--param", "params", multiple=True, metavar="NAME=VALUE", help="Value of a kernel parameter."
)
kernel = click.option("--kernel", metavar="NAME", help="Only kernels of this name (* and ? match).")
policy = click.option(
    "--policy",
    type=click.Choice([str(p) for p in Policy]),
    default=str(Policy.PRACTICAL),
    show_default=True,
    help="How contested points are decided.",
)
proof_seconds = click.option(
    "--proof-seconds", type=click.FloatRange(0, min_open=True), default=PROOF_SECONDS, show_default=True,
    help="Processor time that each proof may take.",
)  # fmt: skip
color = click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True,
    help="Colours in text; NO_COLOR and FORCE_COLOR count for auto.",
)  # fmt: skip
print_after = click.option(
    "--print-after", "passes", multiple=True, metavar="PASS", help="Print the kernel after a pass."
)


def cuda(command: F) -> F:
    """How CUDA sources are compiled: ``include``, ``define``, ``std`` and ``prelude``."""
    for option in (
        click.option("--prelude", metavar="NAME", help="(.cu) Device functions of a generator: nvfuser."),
        click.option("--std", default="c++17", show_default=True, help="(.cu) The C++ standard."),
        click.option("-D", "define", multiple=True, metavar="NAME[=VALUE]", help="(.cu) Defines a macro."),
        click.option("-I", "include", multiple=True, metavar="DIR", help="(.cu) Where to look for headers."),
    ):
        command = option(command)
    return command


def cuda_options(
    files: Iterable[str], include: tuple[str, ...], define: tuple[str, ...], std: str, prelude: str | None
) -> CudaOptions | None:
    """How to compile the CUDA sources among the files; None if there is none."""
    if not any(Path(f).suffix == ".cu" for f in files):
        return None
    from syncverify.frontends.cuda.options import CudaOptions

    return CudaOptions(include, define, std, prelude)


def no_kernel(wanted: str | None, names: Iterable[str]) -> InputError:
    """The error for a ``--kernel`` that selects nothing."""
    return InputError(f"no kernel matches --kernel {wanted} (found: {', '.join(sorted(names))})")


def no_pass(name: str, ran: Iterable[str]) -> InputError:
    """The error for a ``--print-after`` that names no pass which ran."""
    return InputError(f"--print-after {name}: no such pass (ran: {', '.join(ran)})")
