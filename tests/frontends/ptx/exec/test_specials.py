"""What special registers hold in a launch."""

from __future__ import annotations

import pytest

from syncverify.frontends.ptx.exec.concrete_launch import Launch
from syncverify.frontends.ptx.exec.specials import Specials
from syncverify.frontends.ptx.values.register_values import Unknown
from syncverify.model.elected_lane import LOWEST


@pytest.mark.parametrize(("ctas", "known"), [(1, False), (2, True)])
def test_a_cluster_of_one_may_be_asked_for_or_not(ctas: int, known: bool) -> None:
    launch = Launch((32, 1, 1), (ctas, 1, 1), (ctas, 1, 1), None, None, lambda name, offset, type_: None)
    found = Specials(launch, 0, LOWEST).of("%is_explicit_cluster", 0, 0)
    assert found == 1 if known else isinstance(found, Unknown)
