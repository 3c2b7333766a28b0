"""Kernels of a front end, unrolled for one launch into straight-line IR for the simulator to step through."""

from syncverify.unrolled.find import Unrolled, unroll
from syncverify.unrolled.places import Places, Unfit

__all__ = ["Places", "Unfit", "Unrolled", "unroll"]
