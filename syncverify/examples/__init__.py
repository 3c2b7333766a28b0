"""Fusions and kernels to try the tool on."""
