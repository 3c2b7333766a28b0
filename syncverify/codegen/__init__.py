"""From kernels of the IR to CUDA source, cubins and launches."""
