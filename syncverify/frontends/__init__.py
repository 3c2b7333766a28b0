"""Front ends: other people's kernels into systems of agents and their events."""
