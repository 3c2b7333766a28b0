"""Passes from kernels to kernels: what they insert (waits, fences, rings) the checker proves afterwards."""
