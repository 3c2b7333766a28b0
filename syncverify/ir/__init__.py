"""The kernel IR: expressions, nodes, text form, builder, verifier, layout, execution into events."""
