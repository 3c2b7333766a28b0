"""What registers hold, and the arithmetic on it."""
