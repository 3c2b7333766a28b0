"""Kernels of a front end, unrolled for one launch into straight-line IR for the simulator to step through."""

from syncverify.ptx_replay.find import Unrolled, unroll
from syncverify.ptx_replay.places import Places, Unfit

__all__ = ["Places", "Unfit", "Unrolled", "unroll"]
