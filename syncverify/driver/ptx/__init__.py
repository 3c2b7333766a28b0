"""The check of a kernel of PTX: its launches, its blocks, its proof for every size."""
