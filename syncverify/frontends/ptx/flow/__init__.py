"""Control flow of a function: blocks, dominators, loops, spins, liveness."""
