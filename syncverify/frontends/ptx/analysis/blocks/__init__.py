"""Places in global memory that blocks of a grid share."""
