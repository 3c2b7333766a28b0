"""``python -m syncverify``."""

from syncverify.cli.entry import main

if __name__ == "__main__":  # processes that are spawned import this module again
    main()
