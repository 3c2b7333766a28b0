"""What registers hold: numbers, intervals, and what they vary with between threads."""
