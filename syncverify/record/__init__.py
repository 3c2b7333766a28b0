"""What a program launches, as inputs of ``check``: the PTX of its kernels, and launch files.

``cupti`` tells ``listen`` of each call of the driver; ``ptx_files`` finds the PTX that loaded code was made
of; ``text`` writes launch files. Only ``cupti`` and ``driver`` need a GPU.
"""

from syncverify.record.launches import Journal, Launch
from syncverify.record.recording import record

__all__ = ["Journal", "Launch", "record"]
