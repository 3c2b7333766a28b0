"""Kernels that other compilers make in a process: caught as they are compiled, and checked without a GPU.

``caught`` is what is known of one; ``triton_kernels``, ``cute_kernels``, ``tilelang_kernels`` and
``nvrtc_programs`` catch those of one compiler each; ``session`` checks them, ``folder`` writes them down.
"""
