"""The text of the IR: grammar, parser, printer."""
