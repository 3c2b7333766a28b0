"""Random programs at the level of PTX: the checker's verdicts beside the second reader's executions."""
