"""The closed list of reasons for which a statement stays although a proof does without it."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why it stays; ``text`` says so in a sentence."""

    CONTESTED = "contested"
    GLOBAL = "global"
    POLICY = "policy"
    SIZES = "sizes"
    CONVERGENCE = "convergence"
    ASSEMBLER = "assembler"

    @property
    def text(self) -> str:
        """The reason in words."""
        return _TEXTS[self]


_TEXTS = {
    Reason.CONTESTED: "without it the check warns of a point on which NVIDIA's sources disagree",
    Reason.GLOBAL: "the kernel exchanges data through global memory, whose order a proof does not cover",
    Reason.POLICY: "the other policy needs it",
    Reason.SIZES: "without it the kernel is proved for one launch, but not for all that are asked for",
    Reason.CONVERGENCE: "it joins lanes of a warp that parted, in front of an operation of the whole warp",
    Reason.ASSEMBLER: "without it ptxas puts one there by itself (C7519): the machine code is the same",
}
