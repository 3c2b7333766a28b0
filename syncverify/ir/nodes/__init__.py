"""The kernel IR: one frozen dataclass per construct. ``docs/syncir.md`` shows the text of each.

Operations carry the names of the PTX ISA. Every statement has a ``span`` (not part of equality).
Semantics live in ``syncverify.model``; these modules only say what can be written.
"""

from syncverify.ir.nodes.base import *  # noqa: F403
from syncverify.ir.nodes.control import *  # noqa: F403
from syncverify.ir.nodes.copies import *  # noqa: F403
from syncverify.ir.nodes.declarations import *  # noqa: F403
from syncverify.ir.nodes.fences import *  # noqa: F403
from syncverify.ir.nodes.mbarriers import *  # noqa: F403
from syncverify.ir.nodes.memory import *  # noqa: F403
from syncverify.ir.nodes.tensor_core import *  # noqa: F403
