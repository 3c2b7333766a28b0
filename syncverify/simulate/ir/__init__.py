"""The simulator: an oracle that shares nothing with the checker but the syntax of the IR."""

from syncverify.simulate.ir.explore import explore, sample
from syncverify.simulate.ir.harms import Exploration, Harm
from syncverify.simulate.ir.numeric import HangError, run
from syncverify.simulate.ir.replay import ReplayResult, replay

__all__ = ["Exploration", "HangError", "Harm", "ReplayResult", "explore", "replay", "run", "sample"]
