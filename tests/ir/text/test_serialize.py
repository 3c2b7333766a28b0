"""Kernels as JSON come back as they were."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from syncverify.base.diagnostics import Policy
from syncverify.base.source import Span
from syncverify.examples import fusions, norms, rows
from syncverify.fusion.plan import plan_of
from syncverify.ir import nodes as n
from syncverify.ir.text.parser import parse
from syncverify.ir.text.printer import print_kernel
from syncverify.ir.text.serialize import _CLASSES, dumped, restored

ROOT = Path(__file__).resolve().parents[3]
TEXTS = sorted([*ROOT.glob("corpus/**/*.syncir"), *ROOT.glob("syncverify/examples/**/*.syncir")])


def spans(x: Any) -> Iterator[Span]:
    if isinstance(x, Span):
        yield x
    for y in x if isinstance(x, tuple) else ():
        yield from spans(y)
    if dataclasses.is_dataclass(x):
        for f in dataclasses.fields(x):
            yield from spans(getattr(x, f.name))


def same(kernel: n.Kernel) -> bool:
    again = restored(dumped(kernel))
    assert again is not None
    alike = again == kernel and print_kernel(again) == print_kernel(kernel)
    return alike and list(spans(again)) == list(spans(kernel))


def test_kernels_of_texts_come_back() -> None:
    kernels = [k for path in TEXTS[::12] for k in parse(path.read_text("utf-8"), path.name)]
    assert len(kernels) > 40 and all(map(same, kernels))


@pytest.mark.parametrize(
    "f", [fusions.mul, fusions.transposed, fusions.rotary_halves, rows.layer_norm, norms.instance_norm]
)
def test_kernels_of_fusions_come_back(f: Any) -> None:
    plan = plan_of(f)
    assert same(plan.build(plan.main, Policy.PRACTICAL))


def test_spans_are_all_that_is_given_by_name() -> None:
    for name, made in _CLASSES.items():
        named = [f.name for f in dataclasses.fields(made) if f.kw_only]
        assert named in ([], ["span"]), name


@pytest.mark.parametrize("data", [b"", b"{", b"[0]", b'["Kernel"]', b'["Nothing",1]', b'["Int",3]', b"\xff"])
def test_what_is_no_kernel_is_none(data: bytes) -> None:
    assert restored(data) is None
