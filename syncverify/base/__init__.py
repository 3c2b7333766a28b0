"""What every part stands on: sources, findings, rules, the cache directory, workers, deadlines."""
