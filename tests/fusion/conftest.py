"""What tests of fusions share."""

from __future__ import annotations

import pytest

from syncverify import gate


@pytest.fixture
def unproved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are lowered and simulated, not proved: proofs have their own tests."""
    monkeypatch.setattr(gate.Program, "proofs", property(lambda self: {}))
    monkeypatch.setattr(gate.Program, "require_proof", lambda self, values: None)
