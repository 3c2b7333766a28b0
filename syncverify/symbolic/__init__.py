"""Integers without a number: symbols, affine terms, path conditions, products, quotients, havoc."""
