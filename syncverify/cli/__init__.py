"""The command line: ``check``, ``compile``, ``run``, ``explain`` and ``replay`` (docs/cli.md)."""
