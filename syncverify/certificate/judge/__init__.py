"""The judge of certificates, which shares no code with the checker."""

from syncverify.certificate.judge.beside import Beside
from syncverify.certificate.judge.forms import forget, form
from syncverify.certificate.judge.hazards import NotJudgedError
from syncverify.certificate.judge.run import Follower

__all__ = ["Beside", "Follower", "NotJudgedError", "forget", "form"]
