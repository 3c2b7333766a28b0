"""The judge of certificates, which shares no code with the checker."""

from syncverify.checker.kernel.exact.canonical_state import forget, form
from syncverify.checker.kernel.exact.hazards import NotJudgedError
from syncverify.checker.kernel.exact.lockstep import LockstepChecker
from syncverify.checker.kernel.exact.polls import Use, use_of
from syncverify.checker.kernel.exact.run import Follower

__all__ = ["Follower", "LockstepChecker", "NotJudgedError", "Use", "forget", "form", "use_of"]
