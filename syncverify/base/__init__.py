"""The ground: what every other package may import, and what imports nothing but the standard library."""
