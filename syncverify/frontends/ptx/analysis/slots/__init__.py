"""Places of shared memory that atomics and ranks hand out, each to one thread."""
