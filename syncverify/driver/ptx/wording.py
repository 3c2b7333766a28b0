"""The IR's short mnemonics, in which the checker speaks, as PTX spells them."""

from __future__ import annotations

import re

_SPELLED = {
    "bulk.commit": "cp.async.bulk.commit_group",
    "bulk.wait": "cp.async.bulk.wait_group",
    "bulk.wait.read": "cp.async.bulk.wait_group.read",
    "cluster.arrive": "barrier.cluster.arrive",
    "cluster.wait": "barrier.cluster.wait",
    "cp.async.commit": "cp.async.commit_group",
    "cp.async.wait": "cp.async.wait_group",
    "fence.mbarrier_init": "fence.mbarrier_init.release.cluster",
    "fence.proxy.async.shared_cluster": "fence.proxy.async.shared::cluster",
    "fence.proxy.async.shared_cta": "fence.proxy.async.shared::cta",
    "fence.proxy.tensormap.acquire": "fence.proxy.tensormap::generic.acquire",
    "griddep.wait": "griddepcontrol.wait",
    "wgmma.commit": "wgmma.commit_group",
    "wgmma.wait": "wgmma.wait_group",
}
_ANY = "|".join(sorted(map(re.escape, _SPELLED), reverse=True))
_SHORT = re.compile(rf"(?<![\w.:])(?:{_ANY})(?![\w.:]*\w)")


def as_ptx(text: str) -> str:
    """A text with the instructions that it names as PTX has them."""
    return _SHORT.sub(lambda m: _SPELLED[m[0]], text)
