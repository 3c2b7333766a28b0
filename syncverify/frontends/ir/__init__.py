"""The interpreter of the IR: kernels and launch values into systems of agents and their events."""
