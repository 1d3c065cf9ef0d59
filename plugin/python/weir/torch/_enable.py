# SPDX-License-Identifier: MIT
"""Putting Weir into torch."""

import contextlib
import ctypes
import functools
import os
import threading
import warnings
from typing import Any, List, NamedTuple, Optional, Tuple, Union

from weir import _library
from weir._errors import Status, WeirError
from weir._library import Library
from weir.torch import _build, _conf, _marks, _memory, _streams, _summary

# What torch's allocator calls besides malloc and free: the method that sets it, and the function.
HOOKS = {
    "set_init_fn": "weir_torch_init",
    "set_reset_fn": "weir_torch_reset",
    "set_memory_fraction_fn": "weir_torch_memory_fraction",
    "set_record_stream_fn": "weir_torch_record_stream",
    "set_begin_allocate_to_pool": "weir_torch_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "weir_torch_end_allocate_to_pool",
    "set_release_pool": "weir_torch_release_pool",
}

# The functions of torch.cuda, and as far as it has them torch.accelerator, that enable(patch=True) replaces where there is no shim.
PATCHES = {name: getattr(_memory, name) for name in _memory.__all__ if name not in ("mem_get_info", "report", "stats")}
PATCHES["memory_summary"] = _summary.memory_summary

# What raises without the shim.
_MISSING = (
    "sharing CUDA tensors through torch.multiprocessing raises",
    'torch.compile(mode="reduce-overhead") and torch.cuda.MemPool() raise',
    "torch.cuda.memory._record_memory_history() raises",
    "an out-of-memory is a RuntimeError (std::bad_alloc) instead of torch.OutOfMemoryError",
    "torch.backends.cudnn.benchmark raises",
)
_MISSING_UNPATCHED = "torch.cuda.memory_stats() and its like raise; those of weir.torch, or enable(patch=True), do not"


class State(NamedTuple):
    """What enable() did."""

    library: str  # the path of libweir-torch.so
    policy: Optional[str]  # the path of the policy; None: a text, or that of the usual search
    shim: bool  # whether the shim is in use
    patched: bool  # whether torch.cuda has Weir's functions; with the shim, which answers torch's own, never
    unavailable: Tuple[str, ...]  # what does not work as with torch's own allocator


_lock = threading.Lock()
_state: Optional[State] = None


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


# Another thread than the one that forks may be in enable(), which is not there in the child to let go.
os.register_at_fork(after_in_child=_renew_lock)

# Of all MemPools: torch keeps pointers to it, and does not own it.
_pool_allocator: Optional[Any] = None


def state() -> Optional[State]:
    """What enable() did; None: it was not called yet."""
    return _state


def _late(said: str) -> WeirError:
    return WeirError(
        Status.BUSY,
        f"torch does not take another allocator any more: {said}. Call weir.torch.enable() before the first CUDA call",
    )


def _try_shim(path: str, library: Library) -> Optional[str]:
    """Has the shim make Weir torch's allocator. Why it cannot; None: it did."""
    try:
        enable_by_shim = ctypes.CDLL(path).weir_torch_shim_enable
    except (AttributeError, OSError) as error:
        return str(error)
    enable_by_shim.restype = ctypes.c_int
    enable_by_shim.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    text = ctypes.create_string_buffer(4096)
    status = enable_by_shim(os.fsencode(library.path), text, len(text))
    if status == 0:
        _marks.follow_by(path)
    said = text.value.decode(errors="replace")
    if status == 2:
        raise _late(said)
    return said if status else None


def _use_shim(library: Library, required: bool) -> Optional[str]:
    """Has the shim, which is compiled if there is none, make Weir torch's allocator. Why not, if it is not required; None: it did."""
    try:
        path = _build.build(says=True, again=required)
    except (WeirError, ImportError) as error:
        if required:
            status = error.status if isinstance(error, WeirError) else Status.NOT_SUPPORTED
            raise WeirError(status, f"there is no shim for this torch, which `{_build.COMMAND}` makes: {error}") from error
        # Of a compiler that failed the command comes first, which is long.
        return str(error).replace("\n", " ", 1).split("\n", maxsplit=1)[0][-300:].rstrip(":")
    why = _try_shim(path, library)
    if why is None:
        return None
    text = f"the shim {path} cannot be used: {why}. Make it again with `{_build.COMMAND} --force`"
    if required:
        raise WeirError(Status.NOT_SUPPORTED, text)
    return text


def _plain_allocator(torch: Any, library: Library) -> Any:
    """torch's own pluggable allocator with all hooks."""
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        library.path, "weir_torch_malloc", "weir_torch_free"
    ).allocator()
    try:
        for setter, function in HOOKS.items():
            getattr(allocator, setter)(library.address(function))
    except AttributeError as error:
        raise WeirError(
            Status.NOT_SUPPORTED,
            f"torch {torch.__version__} is too old, its allocators lack a hook: {error}. Use torch 2.4 or later",
        ) from None
    return allocator


def _check(torch: Any) -> None:
    if torch.version.cuda is None:
        raise WeirError(
            Status.NOT_SUPPORTED, f"torch {torch.__version__} was built without CUDA: install a build with it"
        )
    if torch.cuda.is_initialized():
        raise WeirError(
            Status.BUSY,
            "torch has begun to use CUDA already: call weir.torch.enable() before the first CUDA call, best right "
            "after the imports",
        )


def _change_allocator(torch: Any, allocator: Any) -> None:
    try:
        torch.cuda.memory.change_current_allocator(torch.cuda.memory._CUDAAllocator(allocator))
    except RuntimeError as error:
        raise _late(str(error)) from error


def _keep(torch: Any) -> None:
    """Makes torch's refusal of another allocator name Weir."""
    original = torch._C._cuda_changeCurrentAllocator

    @functools.wraps(original)
    def change(allocator: Any) -> None:
        try:
            original(allocator)
        except RuntimeError as error:
            how = "`weir run`" if "WEIR_TORCH_PATCH" in os.environ else "weir.torch.enable()"
            raise RuntimeError(
                f"{error}: Weir is the allocator of torch in this process, by {how}. Do without that, or give the other allocator "
                "to a torch.cuda.MemPool"
            ) from error

    torch._C._cuda_changeCurrentAllocator = change


def _patch(torch: Any) -> None:
    modules = [torch.cuda, torch.cuda.memory]
    # Since 2.9 torch has some of them a second time.
    if hasattr(torch, "accelerator"):
        modules += [torch.accelerator, getattr(torch.accelerator, "memory", torch.accelerator)]
    for module in modules:
        for name, function in PATCHES.items():
            if hasattr(module, name):
                setattr(module, name, function)


def _tell_claims(torch: Any) -> None:
    """Under a claim of `weir run --reserve`, has torch.cuda.mem_get_info(), which asks CUDA and no allocator, tell of that."""
    if "WEIR_RESERVATION" in os.environ and hasattr(torch.cuda.memory, "mem_get_info"):
        _memory.native_mem_get_info = torch.cuda.memory.mem_get_info
        torch.cuda.mem_get_info = torch.cuda.memory.mem_get_info = _memory.mem_get_info


def _tell_run() -> None:
    """Sets the second byte of the file by which a `weir run` around this process knows how far it came (sitecustomize.py)."""
    with contextlib.suppress(OSError, KeyError):
        file = os.open(os.environ["WEIR_RUN_REACHED"], os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.pwrite(file, b"T", 1)
        finally:
            os.close(file)


def _enable_first(torch: Any, library: Library, patch: bool, shim: Optional[bool]) -> Tuple[State, List[str]]:
    """What was done, and what is to be warned of."""
    why = "it is not wanted" if shim is False else _use_shim(library, shim is True)
    has_shim = why is None
    if not has_shim:
        _change_allocator(torch, _plain_allocator(torch, library))
        _streams.watch(torch, library)
    warned = [_conf.take_over(library, _conf.settings())]
    if not has_shim and _conf.UNCACHED in os.environ:
        warned.append(f"{_conf.UNCACHED} is set, and not in force: only Weir's shim looks at it")
    _conf.follow(torch, library)
    _keep(torch)
    _tell_claims(torch)
    missing: Tuple[str, ...] = () if has_shim else _MISSING if patch else _MISSING + (_MISSING_UNPATCHED,)
    if missing and shim is None:
        warned.append(f"Weir is enabled without its shim, which `{_build.COMMAND}` makes: " + "; ".join(missing) + f". Why: {why}")
    _tell_run()
    in_force = _library.policy_in_force()
    state = State(library.path, in_force and in_force.file, has_shim, False, missing)
    return state, [text for text in warned if text is not None]


def enable(
    policy: Union[str, "os.PathLike[str]", None] = None,
    *,
    policy_text: Optional[str] = None,
    patch: bool = False,
    shim: Optional[bool] = None,
    gpu: Optional[str] = None,
) -> State:
    """
    Makes Weir the allocator of torch, for the rest of the process. Call it before the first CUDA call; it makes none
    itself. A child that the process forks before its first CUDA call has Weir as well.

    Where there is no shim for this torch yet, it is compiled, once, which a line on stderr says.

    policy: the path of a policy file, or the name of an installed one as "pytorch"; None: $WEIR_POLICY, or as
    weir-policy(5) says under FILES. policy_text: the YAML itself, instead of a file. patch: without the shim,
    torch.cuda.memory_stats() and its like become those of weir.torch; with it they speak of Weir as they are, and none
    is replaced. shim: True requires the shim, False does without, None takes it if it can be had, and warns of what
    does not work if not. gpu: "sim" is for tests that run no kernel; None: a GPU, and $WEIR_GPU=sim is refused.

    A second call with the same policy, or none, does nothing but what patch adds. Raises weir.WeirError: a bad policy
    (its text has all errors with file, line and column), another policy than before, torch uses CUDA already, the
    library is not there. Warnings come last: where they are errors, Weir is enabled all the same.
    """
    global _state
    import torch

    warned: List[str] = []
    with _lock:
        if _state is None:
            _check(torch)
            is_first = _library.policy_in_force() is None
            library = _library.configure(policy, policy_text, gpu)
            try:
                _state, warned = _enable_first(torch, library, patch, shim)
            except BaseException:
                if is_first:
                    _library.forget_policy()
                raise
        else:
            _library.configure(policy, policy_text, gpu)
            if shim is not None and shim != _state.shim:
                raise WeirError(Status.BUSY, f"Weir is enabled already, with{'' if _state.shim else 'out'} the shim")
        if patch and not _state.patched and not _state.shim:
            _patch(torch)
            missing = tuple(text for text in _state.unavailable if text != _MISSING_UNPATCHED)
            _state = _state._replace(patched=True, unavailable=missing)
        state = _state
    for text in warned:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    return state


def mem_pool_allocator(
    policy: Union[str, "os.PathLike[str]", None] = None, *, policy_text: Optional[str] = None, gpu: Optional[str] = None
) -> Any:
    """
    The allocator for torch.cuda.MemPool: tensors made under torch.cuda.use_mem_pool() then come from Weir, all others
    from torch's own.

        pool = torch.cuda.MemPool(weir.torch.mem_pool_allocator("policy.yaml"))
        with torch.cuda.use_mem_pool(pool):
            tensor = torch.empty(1 << 30, device="cuda")

    torch keeps what is freed there in caches of its own, until the end of the pool. Arguments and errors as enable(),
    which is not needed for this, and is of no use together with it: then all tensors come from Weir.
    """
    global _pool_allocator
    import torch

    library = _library.configure(policy, policy_text, gpu)
    with _lock:
        if _state is not None and _state.shim:
            return torch._C._cuda_getAllocator()  # the only one that the shim takes
        if _pool_allocator is None:
            _pool_allocator = torch.cuda.memory.CUDAPluggableAllocator(
                library.path, "weir_torch_pool_malloc", "weir_torch_free"
            ).allocator()
        return _pool_allocator
