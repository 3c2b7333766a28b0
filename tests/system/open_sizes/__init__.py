"""Random kernels whose sizes are open: what is proved for every size holds at each number that is tried."""
