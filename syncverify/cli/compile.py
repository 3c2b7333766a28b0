"""``syncverify compile`` and ``syncverify run``: fusions through the gate."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from syncverify.base.diagnostics import Policy, ScopeKind, Verdict
from syncverify.base.source import UNKNOWN_SPAN, InputError, Span, of_author
from syncverify.cli import options
from syncverify.cli.common import Exit, emit, write_bytes
from syncverify.fusion.column_schedule import ColumnSchedule
from syncverify.fusion.graph import Fusion
from syncverify.fusion.plan import with_settings
from syncverify.fusion.segments import whole
from syncverify.gate import STAGES, CompiledKernel, VerificationError
from syncverify.gate import compile as compile_fusion
from syncverify.gate import run as run_fusion
from syncverify.gate.sequence import CompiledSequence
from syncverify.ir.nodes import Kernel
from syncverify.ir.text.printer import print_kernel
from syncverify.report.base import Report, values_text
from syncverify.report.text import render

#: Sizes that ``run`` uses for dimensions without one: no multiple of any tile, small enough to simulate.
DEFAULT_OUTER, DEFAULT_INNER = 13, 1000

_fusion = click.argument("name", metavar="MODULE:FUSION")
_set = click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="A field of the schedule (run: or a size)."
)


@click.command("compile", epilog="Exit status: 0 compiled; 1 refuted; 2 bad usage or input; 3 unknown.")
@_fusion
@click.option(
    "--emit", "what", type=click.Choice(["cuda", "ptx", "cubin", "ir"]), default="cuda", show_default=True
)
@_set
@options.policy
@options.proof_seconds
@options.print_after
@click.option("-o", "--output", metavar="FILE", help="Write there instead of stdout.")
def compile_command(
    name: str, what: str, settings: tuple[str, ...], policy: str, proof_seconds: float,
    passes: tuple[str, ...], output: str | None,
) -> int:  # fmt: skip
    """Compile a fusion; nothing comes out unless the kernel is proved."""
    fusion = load_fusion(name)
    try:
        kernel = _compile(fusion, settings, Policy(policy), passes, proof_seconds)
    except VerificationError as e:
        return _refuse(e)
    if what == "cubin":
        if isinstance(kernel, CompiledSequence):
            raise InputError(f"{name} takes {len(kernel.kernels)} kernels; --emit cubin is for one")
        write_bytes(kernel.cubin, output)
    else:
        emit(_text(kernel, what), output)
    click.echo(_proofs(kernel), err=True)
    return Exit.OK


@click.command("run", epilog="Exit status: 0 equal; 1 refuted or not equal; 2 bad input; 3 unknown.")
@_fusion
@_set
@options.policy
@options.proof_seconds
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the random inputs.")
def run_command(name: str, settings: tuple[str, ...], policy: str, proof_seconds: float, seed: int) -> int:
    """Compile, verify and execute a fusion (GPU, else simulator); compare with its reference."""
    fusion = load_fusion(name)
    sizes, rest = _split_sizes(fusion, settings)
    try:
        kernel = _compile(fusion, rest, Policy(policy), (), proof_seconds)
        result = run_fusion(kernel, sizes, seed)
    except VerificationError as e:
        return _refuse(e)
    click.echo(_proofs(kernel))
    said = "equals the reference" if result.equal else "DIFFERS from the reference"
    click.echo(
        f"{fusion.name}: {values_text(sizes)} on the {result.backend}: {said} "
        f"(largest relative error {result.largest_error:.2g})"
    )
    return Exit.OK if result.equal else Exit.REFUTED


def load_fusion(name: str) -> Fusion:
    """The fusion ``MODULE:FUSION``; the working directory is searched first."""
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise InputError(f"{name!r}: write MODULE:FUSION, syncverify.examples.fusions:mul for example")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = import_module(module_name)
    except InputError:
        raise
    except SyntaxError as e:
        place = Span(e.filename or module_name, e.lineno or 0)
        raise InputError(f"cannot import {module_name}: {type(e).__name__}: {e.msg}", place) from e
    except Exception as e:  # whatever the user's module does while it is imported
        missing = isinstance(e, ModuleNotFoundError) and e.name == module_name
        place = UNKNOWN_SPAN if missing else of_author(e.__traceback__)
        raise InputError(f"cannot import {module_name}: {type(e).__name__}: {e}", place) from e
    found = getattr(module, attribute, None)
    if isinstance(found, Fusion):
        return found
    names = [n for n, v in vars(module).items() if isinstance(v, Fusion)]
    raise InputError(f"{module_name} has no fusion {attribute!r} (it has: {', '.join(names) or 'none'})")


def _compile(
    fusion: Fusion, settings: tuple[str, ...], policy: Policy, passes: tuple[str, ...], seconds: float
) -> CompiledKernel | CompiledSequence:
    # where there are several kernels, settings are for those that reduce over rows
    schedule = with_settings(fusion, settings) if whole(fusion) else ColumnSchedule().with_settings(settings)
    seen: list[str] = []

    def observe(name: str, kernel: Kernel) -> None:
        seen.append(name)
        if name in passes:
            click.echo(f"// after {name}\n{print_kernel(kernel)}", err=True)

    kernel = compile_fusion(fusion, schedule, policy, observe=observe, proof_seconds=seconds)
    for name in passes:
        if name not in seen:
            raise options.no_pass(name, dict.fromkeys(seen))
    return kernel


def _split_sizes(fusion: Fusion, settings: tuple[str, ...]) -> tuple[dict[str, int], tuple[str, ...]]:
    """``--set`` items that name a dimension of the fusion, over the default sizes, and the other items."""
    sizes = dict.fromkeys(fusion.dims, DEFAULT_OUTER)
    if fusion.dims:
        sizes[fusion.dims[-1]] = DEFAULT_INNER
    rest = []
    known = with_settings(fusion, ()) if whole(fusion) else ColumnSchedule()
    for item in settings:
        name, _, value = item.partition("=")
        if name not in sizes:
            if not hasattr(known, name):
                of = ", ".join(sizes)
                raise InputError(f"--set {item}: neither a size ({of}) nor a field of the schedule")
            rest.append(item)
            continue
        if not value.isdigit() or int(value) < 1:
            raise InputError(f"--set {item}: a size is a positive integer")
        sizes[name] = int(value)
    return sizes, tuple(rest)


def _refuse(e: VerificationError) -> int:
    click.echo(render(Report(e.report.policy, (e.report,))), nl=False, err=True)
    click.echo(f"error: {STAGES[e.stage]} not proved, so nothing was compiled or run", err=True)
    return Exit.REFUTED if e.report.verdict is Verdict.REFUTED else Exit.UNKNOWN


def _proofs(kernel: CompiledKernel | CompiledSequence) -> str:
    """One line for each stage of the gate."""
    lines = []
    kernels = kernel.kernels if isinstance(kernel, CompiledSequence) else (kernel,)
    for stage, report in ((s, r) for k in kernels for s, r in (("ir", k.report), ("ptx", k.ptx_report))):
        where = "every size"
        if report.scope.kind is not ScopeKind.ALL:
            where = f"{values_text(report.scope.values)}, each launch on its own"
        lines.append(f"{report.name}: {STAGES[stage]} {report.verdict} for {where} ({report.seconds:.2f} s)")
    return "\n".join(lines)


def _text(kernel: CompiledKernel | CompiledSequence, what: str) -> str:
    if what == "ir":
        kernels = kernel.kernels if isinstance(kernel, CompiledSequence) else (kernel,)
        return "\n".join(print_kernel(k.ir) for k in kernels)
    return kernel.ptx if what == "ptx" else kernel.source
