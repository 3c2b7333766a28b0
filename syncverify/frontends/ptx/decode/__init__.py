"""Which events an instruction is."""
