"""Repairs as edits of the author's text: a line is changed, and the changed text is checked."""
