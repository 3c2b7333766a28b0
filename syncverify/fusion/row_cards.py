"""The cards that rows are chosen for: coefficients of the model of their time (``fusion.row_cost``).

Those of the H200 are fitted. An H100 has them with the bandwidth of its own memory and the size of its own
cache; what it is off by beside, the trees of ``fusion.row_estimate`` know from launches of both cards.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from syncverify.codegen import driver
from syncverify.fusion.row_cost import H200, Coefficients

#: A copy moves 3.0 TB/s instead of 4.25; L2 holds 50 MB instead of 60.
H100 = replace(H200, bandwidth=H200.bandwidth * 3.0 / 4.25, level2=H200.level2 * 50 / 60)
#: By a part of the device's name, as the driver gives it.
CARDS = {"H200": H200, "H100": H100}


def coefficients_of(name: str) -> Coefficients:
    """Those of the card of a device's name; an H200's for others."""
    return next((c for card, c in CARDS.items() if card in name), H200)


@lru_cache(maxsize=1)
def here() -> Coefficients:
    """Those of this machine's first device; an H200's where there is none."""
    return coefficients_of(driver.device_name(0)) if driver.available() else H200


__all__ = ["CARDS", "H100", "H200", "coefficients_of", "here"]
