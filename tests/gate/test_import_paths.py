"""Import paths that programs rely on."""

from __future__ import annotations

import syncverify.gate.matmul as home
from syncverify import gate_matmul


def test_products_have_their_public_path() -> None:
    assert all(getattr(gate_matmul, name) is getattr(home, name) for name in gate_matmul.__all__)
