"""Which synchronization of a proved kernel the checker does not need, and the kernel without it."""

from syncverify.minimize.kernels import Kept, Minimized, Removal, minimize
from syncverify.minimize.reasons import Reason

__all__ = ["Kept", "Minimized", "Reason", "Removal", "minimize"]
