"""Findings in an editor: ``findings`` makes marks of reports, ``server`` speaks the protocol."""
