"""What executions on the second reader say of a verdict."""
