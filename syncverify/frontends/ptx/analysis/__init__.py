"""What the text of a function tells before it runs."""
