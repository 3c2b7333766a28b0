"""What the recheck of a certificate met: see ``driver.rechecked``."""

from syncverify.driver.rechecked import Met, Rechecked

__all__ = ["Met", "Rechecked"]
