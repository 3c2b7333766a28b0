"""Proofs for every number of stages: rings whose depth is a parameter. See ``docs/stages.md``."""

from syncverify.checker.prover.rings.decide import Stages, decide_stages, prove_stages
from syncverify.checker.prover.rings.validate import validate

__all__ = ["Stages", "decide_stages", "prove_stages", "validate"]
