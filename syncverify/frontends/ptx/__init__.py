"""PTX: text to modules (``parse``), modules to systems of agents (``systems``)."""
