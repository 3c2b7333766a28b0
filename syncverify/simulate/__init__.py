"""The simulator: an oracle that shares nothing with the checker but the syntax of the IR."""

from syncverify.simulate.explore import explore, sample
from syncverify.simulate.harms import Exploration, Harm
from syncverify.simulate.numeric import HangError, run
from syncverify.simulate.replay import ReplayResult, replay

__all__ = ["Exploration", "HangError", "Harm", "ReplayResult", "explore", "replay", "run", "sample"]
