"""Words of shared memory that threads poll, and the signals behind them."""
