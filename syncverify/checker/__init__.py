"""The checker, from events to verdicts. Only the prover of stages and sizes reads the IR."""
