"""A function as Python code, one function for each stretch between two events."""
