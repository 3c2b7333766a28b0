"""Something to do once a module is imported, or at once if it is.

A finder in front of all others lets them find the module, and puts a loader around theirs. So a compiler that
a program never imports costs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

Action = Callable[[ModuleType], None]


class _After(Loader):
    """A loader that does something after another one."""

    def __init__(self, loader: Loader, action: Action) -> None:
        self.loader, self.action = loader, action

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.action(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self.loader, name)  # resources, sources: whatever the other one offers


class _Finder(MetaPathFinder):
    def __init__(self, name: str, action: Action) -> None:
        self.name, self.action = name, action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _After(spec.loader, self.action)
        return spec


def when_imported(name: str, action: Action) -> Callable[[], None]:
    """Does ``action`` with the module of that name as soon as it is there. Returns what takes it back."""
    module = sys.modules.get(name)
    if module is not None:
        action(module)
        return lambda: None
    finder = _Finder(name, action)
    sys.meta_path.insert(0, finder)

    def forget() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)

    return forget
