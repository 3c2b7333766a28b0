"""Proofs for every number of stages: rings whose depth is a parameter. See ``docs/stages.md``."""

from syncverify.stages.decide import Stages, decide_stages, prove_stages
from syncverify.stages.validate import validate

__all__ = ["Stages", "decide_stages", "prove_stages", "validate"]
