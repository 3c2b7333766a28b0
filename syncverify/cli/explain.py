"""``syncverify explain``: what a rule means, why it matters, a bad and a good kernel, and the fix."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from syncverify.base.contested import CONTESTED, Contested
from syncverify.base.explanations import Explanation, explanation
from syncverify.cli.common import Exit

_WIDTH = 96


@click.command()
@click.argument("rule", metavar="RULE")
def explain(rule: str) -> int:
    """Explain a rule, by id (SV101) or name (missing-proxy-fence), or a contested point (K1)."""
    point = CONTESTED.get(rule.strip().upper())
    click.echo("\n".join(_lines(explanation(rule)) if point is None else _point(point)))
    return Exit.OK


def _point(c: Contested) -> Iterator[str]:
    yield f"{c.id} {c.question}"
    yield ""
    yield "NVIDIA's own sources disagree on this point."
    for policy, answer in (("practical", c.practical), ("strict", c.strict)):
        yield from _paragraph(f"Policy {policy}", answer)


def _lines(e: Explanation) -> Iterator[str]:
    yield f"{e.rule.id} {e.rule.name}"
    for title, text in (("What", f"{e.rule.summary}."), ("Why", e.why)):
        yield from _paragraph(title, text)
    for title, kernel in (("Bad", e.bad), ("Good", e.good)):
        if kernel is not None:
            yield ""
            yield f"{title}:"
            yield from (f"    {line}" for line in kernel.splitlines())
    yield from _paragraph("Fix", e.fix)


def _paragraph(title: str, text: str) -> Iterator[str]:
    yield ""
    yield f"{title}:"
    yield from textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")
