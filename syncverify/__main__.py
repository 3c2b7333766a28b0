"""``python -m syncverify``."""

from syncverify.cli.main import main

main()
