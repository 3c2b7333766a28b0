"""Reports of kernels: what they hold before and after a check, and where they are kept."""
