"""Block groups: clusters that are proved alone, and their composition."""
