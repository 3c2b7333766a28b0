"""Names of kernels out of mangled ones."""

from __future__ import annotations

import pytest

from syncverify.base.kernel_names import base_name, matches


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("ring", "ring"),
        ("_Z4ringiPf", "ring"),
        ("_Z4ringILi3EEvPf", "ring"),
        ("_ZN3lib6detail4ringEi", "ring"),
        ("_ZN3libL4ringEi", "ring"),
        ("_ZN12_GLOBAL__N_14ringEv", "ring"),
        ("_ZN3lib4ringIfLi2EEEvT_", "ring"),
        ("_Z9nvfuser_k6TensorIfLi2ELi2EE9TensorMapS0_", "nvfuser_k"),
        ("_Z99short", "_Z99short"),
        ("_ZZ6kernelvE4tile", "tile"),
        ("_ZZ6kernelILi12EEvvE4tile_0", "tile"),
        ("_ZZ6kernelv", "_ZZ6kernelv"),
    ],
)
def test_base_name(entry: str, name: str) -> None:
    assert base_name(entry) == name


@pytest.mark.parametrize("pattern", ["_Z4ringiPf", "ring", "ri*", "_Z4*"])
def test_a_pattern_means_either_name(pattern: str) -> None:
    assert matches("_Z4ringiPf", pattern)
    assert not matches("_Z5chainiPf", pattern)
