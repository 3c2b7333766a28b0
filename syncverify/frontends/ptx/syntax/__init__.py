"""The language's syntax: text to nodes, and back."""
