"""Certificates: what was proved of kernels, validated without a search. See ``docs/certificates.md``."""

from syncverify.certificate.data import RejectedError
from syncverify.certificate.make import Rechecked, certify, dumps, recheck, resealed

__all__ = ["Rechecked", "RejectedError", "certify", "dumps", "recheck", "resealed"]
