# SPDX-License-Identifier: MIT
"""
What `weir run` has every Python process do at its start: once torch was imported, Weir becomes its allocator.

Python finds this file in place of a sitecustomize of the user's or the system's, so it runs that one too. All that it
prints is what does not work as it should, on stderr. `weir run` learns from the two bytes of the file $WEIR_RUN_REACHED
how far processes came: the first becomes P by Python, the second T by weir.torch.enable().
"""

import contextlib
import importlib.machinery
import importlib.util
import os
import sys
import warnings
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Iterable, Optional


def _tell(texts: Iterable[str]) -> None:
    """Once for a process and all that it starts, since those of torchrun would say the same."""
    from weir._errors import tell

    if not os.environ.get("WEIR_RUN_TOLD"):
        for text in texts:
            os.environ["WEIR_RUN_TOLD"] = "1"
            tell(f"weir run: {text}")


def _reached() -> None:
    """Without a word where the file cannot be written, as in a container that has another /tmp."""
    with contextlib.suppress(OSError, KeyError):
        file = os.open(os.environ["WEIR_RUN_REACHED"], os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.pwrite(file, b"P", 0)
        finally:
            os.close(file)


def _enable() -> None:
    torch = sys.modules["torch"]
    if torch.version.cuda is None:
        _tell([f"torch {torch.__version__} is built without CUDA, so there is nothing for Weir to allocate ({sys.executable})"])
        return
    import weir.torch

    policy = os.environ.get("WEIR_POLICY") or None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            weir.torch.enable(policy, patch=os.environ.get("WEIR_TORCH_PATCH") != "0", gpu=os.environ.get("WEIR_RUN_GPU") or None)
        except weir.WeirError as error:
            text = f"weir run: torch cannot use Weir with the policy {policy or 'of the usual search'}: {error.text}"
            raise weir.WeirError(error.status, text) from None
    _tell(str(warning.message) for warning in caught if issubclass(warning.category, RuntimeWarning))


class _Package(MetaPathFinder):
    """
    Finds the package `weir` that this file came in: that of a wheel is in a folder among other packages, which need not be
    on the path of every Python that the command runs.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Any = None, target: Optional[ModuleType] = None) -> Optional[ModuleSpec]:
        if name != "weir":
            return None
        return importlib.util.spec_from_file_location(
            name, os.path.join(self.folder, "__init__.py"), submodule_search_locations=[self.folder]
        )


def _find_package() -> None:
    """In a wheel this is weir/share/weir/python/run/sitecustomize.py; elsewhere the path has the package."""
    run = os.path.dirname(os.path.abspath(__file__))
    folder = os.path.normpath(os.path.join(run, "..", "..", "..", ".."))
    if not os.path.exists(os.path.join(run, "..", "weir")) and os.path.exists(os.path.join(folder, "_library.py")):
        sys.meta_path.insert(0, _Package(folder))


class _Hook(MetaPathFinder):
    """Lets the other finders find torch, and enables Weir behind its import. To find is not yet to import."""

    def __init__(self) -> None:
        self.torch: Optional[ModuleType] = None

    def find_spec(self, name: str, path: Any = None, target: Optional[ModuleType] = None) -> Optional[ModuleSpec]:
        if name != "torch":
            return None
        finders = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in finders)), None)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self.follow(spec.loader, name)
        return spec

    def follow(self, loader: Any, name: str) -> None:
        """Has the loader enable Weir once it has executed the module."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            # torch cannot be executed twice, should somebody import it again after a failure or Ctrl-C: then this one is that import.
            if self.torch is None:
                execute(module)
                self.torch = module
            sys.modules[name] = self.torch
            _enable()
            if self in sys.meta_path:
                sys.meta_path.remove(self)

        loader.exec_module = exec_module


def _run_next() -> None:
    """Runs the sitecustomize that Python would have found without this one, which takes this one's place."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = [entry for entry in sys.path if os.path.realpath(entry) != os.path.realpath(here)]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_reached()
_find_package()
if "torch" in sys.modules:
    _enable()
else:
    sys.meta_path.insert(0, _Hook())
_run_next()
