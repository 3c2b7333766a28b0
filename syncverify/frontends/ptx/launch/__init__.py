"""Launch facts, and what follows from them."""
