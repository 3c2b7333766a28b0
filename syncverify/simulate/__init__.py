"""The simulator: an oracle that shares nothing with the checker but the syntax of the IR."""

from syncverify.simulate.explore import Exploration, Harm, explore, sample
from syncverify.simulate.replay import ReplayResult, replay

__all__ = ["Exploration", "Harm", "ReplayResult", "explore", "replay", "sample"]
