"""CUDA sources to PTX on the lines of their author."""
