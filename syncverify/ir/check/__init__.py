"""What is well formed, statement by statement and as a whole."""
