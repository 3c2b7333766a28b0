"""Who waits for whom by atomics: locks, and loops that repeat a compare-and-swap."""
