"""Certificates of kernels whose block nothing gives: a proof for each block with which they were proved."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from syncverify.base.diagnostics import KernelReport, ScopeKind
from syncverify.base.source import InputError
from syncverify.driver import files
from syncverify.driver.acceptance import asked
from syncverify.driver.certificates import RejectedError, dumps, resealed
from syncverify.frontends.launch_facts import NO_FACTS, LaunchFacts
from tests.driver.ptx.test_block_shapes import TILE
from tests.frontends.ptx.execute_helpers import module_text

SHAPE = "block = 16 x 16: nothing gives it"


@cache
def kernel(wait: str = "bar.sync 0;") -> files.SourceFile:
    """A tile of 16 x 16 words in a block of 256 threads of any shape."""
    body = TILE.replace("WAIT", wait).replace("STEP", "256").replace("BYTES", "1024").replace("ROW", "6")
    text = module_text(body, ".param .u64 k_out")
    bound = text.replace("(.param .u64 k_out)", "(.param .u64 k_out)\n.maxntid 256, 1, 1")
    return files.read_text(bound, "k", "ptx")


@cache
def proved() -> KernelReport:
    (report,) = files.check_source(kernel(), scope=ScopeKind.ALL, repairs=False)
    (report,) = asked(kernel(), NO_FACTS, {}, [report])
    return report


@cache
def certificate() -> str:
    return dumps(files.certificates(kernel(), NO_FACTS, {}, [proved()]))


def answer(data: Any, source: files.SourceFile, facts: LaunchFacts = NO_FACTS) -> str | None:
    """Why a certificate is rejected; None if it is not."""
    try:
        files.recheck(json.dumps(resealed(data)), "c.json", source, facts)
    except (RejectedError, InputError) as e:
        return str(e)
    return None


def test_the_kernel_accepts_it_and_says_with_which_blocks() -> None:
    assert proved().accepted_by == "kernel"
    (done,) = files.recheck(certificate(), "c.json", kernel(), NO_FACTS)
    assert done.judged and SHAPE in done.assumptions


def edit(change: Callable[[list[Any]], object]) -> Any:
    data = json.loads(certificate())
    change(data["kernels"][0]["proof"]["parts"])
    return data


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda parts: parts.clear(), "nothing is proved"),
        (lambda parts: parts.append(parts[0]), "is there twice"),
        (lambda parts: parts[0].update(block=[32, 8, 1]), "is not shown"),  # its rows leave the tile
        (lambda parts: parts[0].update(block=[16, 16]), "is no block"),
        (lambda parts: parts[0].update(block=[16, 16, True]), "can stand here"),
        (lambda parts: parts[0].update(block=[512, 1, 1]), "256"),
        (lambda parts: parts[0].pop("block"), "missing"),
        (lambda parts: parts[0]["proof"].update(kind="blocks"), "no proof of PTX"),
    ],
)
def test_other_blocks_are_rejected(change: Callable[[list[Any]], object], why: str) -> None:
    assert why in str(answer(edit(change), kernel()))


def test_a_launch_with_a_block_has_another_certificate() -> None:
    facts = LaunchFacts.of({"block": [16, 16]})
    assert "the launch has a block" in str(answer(json.loads(certificate()), kernel(), facts))


def test_it_is_no_certificate_of_a_kernel_without_the_barrier() -> None:
    wrong = kernel("")
    data = json.loads(certificate())
    data["kernels"][0]["text"] = wrong.hash
    assert answer(data, wrong) is not None
