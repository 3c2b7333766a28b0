"""The IR's Python builder."""
