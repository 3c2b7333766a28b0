"""Tensor maps that a kernel edits: harm where a copy may still read the map."""

from __future__ import annotations

import numpy as np
import pytest

from syncverify.simulate.ptx import Buffer, Kind, TensorMap, buffer
from tests.simulate.ptx.support import execute

COPY = """
    mov.u32 %r4, tile;
    cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {{0}}], [%r4];
    cp.async.bulk.commit_group;
    {wait}
    tensormap.replace.tile.box_dim.global.b1024.b32 [{edited}], 0, 8;
    cp.async.bulk.wait_group 0;
"""
READ = "cp.async.bulk.wait_group.read 0;"


@pytest.mark.parametrize(
    ("wait", "edited", "harm"),
    [
        ("", "%rd1", Kind.RACE),
        (READ, "%rd1", None),
        ("cp.async.bulk.wait_group 0;", "%rd1", None),
        ("cp.async.bulk.wait_group.read 1;", "%rd1", Kind.RACE),
        ("", "%rd1+128", None),  # another map
    ],
)
def test_a_copy_has_read_its_map_before_an_edit(wait: str, edited: str, harm: Kind | None) -> None:
    tensor = TensorMap(buffer(np.zeros(64, np.float32)), (64,), (), (16,))
    maps = Buffer(np.zeros(64, np.uint32), places={0: tensor, 128: tensor})
    body = COPY.format(wait=wait, edited=edited)
    found = execute(body, maps, block=1, before=".shared .align 128 .b8 tile[64];\n").harm
    assert (found and found.kind) == harm, found
