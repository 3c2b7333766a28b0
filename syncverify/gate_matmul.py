"""The public import path of products, ``syncverify.gate_matmul``: what ``syncverify.gate.matmul`` holds.

Programs import products from here; it stays, as the names of the command line do.
"""

from syncverify.gate.matmul import CompiledMatmul, Matmul

__all__ = ["CompiledMatmul", "Matmul"]
