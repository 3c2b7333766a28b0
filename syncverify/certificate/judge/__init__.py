"""The judge of exact certificates, which shares no code with the checker."""

from syncverify.certificate.judge.run import Follower
from syncverify.certificate.judge.state import NotJudgedError

__all__ = ["Follower", "NotJudgedError"]
