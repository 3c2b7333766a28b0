"""Certificates: what was proved of kernels, validated without a search. See ``docs/certificates.md``."""

from syncverify.base.certificate_data import RejectedError
from syncverify.driver.certificates.issue import Rechecked, certify, dumps, recheck
from syncverify.driver.certificates.reseal import resealed

__all__ = ["Rechecked", "RejectedError", "certify", "dumps", "recheck", "resealed"]
