"""The suffixes of kernel files."""

#: Those that a folder is searched for.
SUFFIXES = (".syncir", ".ptx", ".cu")

__all__ = ["SUFFIXES"]
