# SPDX-License-Identifier: MIT
"""enable_test.py - weir.torch.enable(), with a stand-in for torch. Each fact is a process of its own. Speaks TAP."""

import textwrap

import tap
from tap import fact, has

POLICY = tap.write("policy.yaml", "weir: 1\npools:\n  work: { small_below: 0 }\n")
OTHER = tap.write("other.yaml", "weir: 1\n")
BAD = tap.write("bad.yaml", "weir: 1\npools:\n  work: { size: 3 }\n")

# What comes before the code of each fact. tell() prints the text of the error that a call raises.
BEFORE = """
import warnings, torch, weir.torch
from weir import _library
POLICY, OTHER, BAD = %r, %r, %r
memory = torch.cuda.memory
def tell(function, *arguments, **keywords):
    try:
        print("returned", function(*arguments, **keywords))
    except Exception as error:
        print(type(error).__name__, getattr(error, "status", None) and error.status.name, error)
""" % (
    POLICY,
    OTHER,
    BAD,
)


def torch(code, **variables):
    return tap.python(BEFORE + textwrap.dedent(code), **variables)


def prints(wanted, code, **variables):
    printed = torch(code, **variables)
    assert printed == wanted, printed


@fact
def allocator_has_the_entry_points_of_the_library():
    prints(
        "weir_torch_malloc weir_torch_free True",
        """
        weir.torch.enable(POLICY, shim=False)
        print(memory.current.malloc, memory.current.free, weir.torch.state().library == _library.load().path)
        """,
    )


@fact
def all_hooks_are_set():
    prints(
        "True",
        """
        weir.torch.enable(POLICY, shim=False)
        address = _library.load().address
        print(memory.current.hooks == {
            "set_init_fn": address("weir_torch_init"),
            "set_reset_fn": address("weir_torch_reset"),
            "set_memory_fraction_fn": address("weir_torch_memory_fraction"),
            "set_record_stream_fn": address("weir_torch_record_stream"),
            "set_begin_allocate_to_pool": address("weir_torch_begin_allocate_to_pool"),
            "set_end_allocate_to_pool_fn": address("weir_torch_end_allocate_to_pool"),
            "set_release_pool": address("weir_torch_release_pool"),
        })
        """,
    )


@fact
def enabling_makes_no_cuda_call():
    prints(
        "False 0",
        """
        weir.torch.enable(POLICY, patch=True, shim=False)
        print(torch.cuda.is_initialized(), weir.torch.memory_allocated())
        """,
    )


@fact
def state_says_what_was_done():
    prints(
        "None %s False False False" % POLICY,
        """
        before = weir.torch.state()
        state = weir.torch.enable(POLICY, shim=False)
        print(before, state.policy, state.shim, state.patched, weir.torch.state() is not state)
        """,
    )


@fact
def policy_may_be_a_text():
    prints(
        "None",
        """
        print(weir.torch.enable(policy_text="weir: 1\\npools: { work: {} }", shim=False).policy)
        """,
    )


@fact
def without_the_shim_what_is_unavailable_is_warned_of_once():
    warned = torch(
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            weir.torch.enable(POLICY)
            weir.torch.enable(POLICY)
        print(len(caught), caught[0].category.__name__, caught[0].message)
        """
    )
    has(
        warned,
        "1 RuntimeWarning",
        "python -m weir.torch build",
        "torch.OutOfMemoryError",
        "cudnn.benchmark",
        "enable(patch=True)",
    )


@fact
def without_the_shim_as_asked_nothing_is_warned_of():
    prints(
        "0 True",
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            state = weir.torch.enable(POLICY, shim=False)
        print(len(caught), any("cudnn" in text for text in state.unavailable))
        """,
    )


@fact
def shim_that_is_required_and_not_built_is_an_error_with_the_remedy():
    has(torch("tell(weir.torch.enable, POLICY, shim=True)"), "WeirError NOT_FOUND", "python -m weir.torch build")


@fact
def headers_are_looked_for_in_triton_last():
    found = torch("from weir.torch import _build; print(list(_build._cuda_folders())[-1])")
    has(found, "/tests/python/fake/triton/backends/nvidia/include")


@fact
def cache_that_cannot_be_written_to_is_named_with_the_remedy():
    has(
        torch("from weir.torch import _build; tell(_build.build)", XDG_CACHE_HOME="/dev/null"),
        "WeirError UNREADABLE",
        "/dev/null/weir/torch-",
        "Set XDG_CACHE_HOME",
    )


# A stand-in for the extension, and for what says where it is.
SHIM = """
import torch.cuda.memory
def allocator(path):
    return torch.cuda.memory.Raw("shim of " + path, None)
"""
HAS_SHIM = """
import weir.torch._build
weir.torch._build.path = lambda: %r
"""


@fact
def shim_that_was_built_is_used():
    prints(
        "True True True",
        HAS_SHIM % tap.write("weir_torch_shim.py", SHIM)
        + """
state = weir.torch.enable(POLICY)
print(state.shim, not any("cudnn" in text for text in state.unavailable), end=" ")
print(memory.current.malloc == "shim of " + state.library)
""",
    )


@fact
def shim_is_not_used_where_that_was_asked():
    prints(
        "False weir_torch_malloc",
        HAS_SHIM % tap.write("weir_torch_shim.py", SHIM)
        + """
print(weir.torch.enable(POLICY, shim=False).shim, memory.current.malloc)
""",
    )


@fact
def shim_that_does_not_load_is_done_without_and_warned_of():
    broken = tap.write("broken/weir_torch_shim.py", "raise ImportError('undefined symbol')")
    warned = torch(
        HAS_SHIM % broken
        + """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    state = weir.torch.enable(POLICY)
print(state.shim, memory.current.malloc, caught[0].message)
"""
    )
    has(warned, "False weir_torch_malloc", broken, "undefined symbol", "python -m weir.torch build")


@fact
def shim_that_is_required_and_does_not_load_is_an_error():
    broken = tap.write("broken/weir_torch_shim.py", "raise ImportError('undefined symbol')")
    has(
        torch(HAS_SHIM % broken + "tell(weir.torch.enable, POLICY, shim=True)"),
        "NOT_SUPPORTED",
        broken,
        "undefined symbol",
    )


@fact
def second_call_with_the_same_policy_or_none_changes_nothing():
    prints(
        "True True",
        """
        state = weir.torch.enable(POLICY, shim=False)
        allocator = memory.current
        again = [weir.torch.enable(POLICY), weir.torch.enable(), weir.torch.enable(POLICY, shim=False)]
        print(again == [state] * 3, memory.current is allocator)
        """,
    )


@fact
def second_call_after_the_first_cuda_call_is_fine():
    prints(
        "True",
        """
        state = weir.torch.enable(POLICY, shim=False)
        torch.cuda.init()
        print(weir.torch.enable(POLICY) == state)
        """,
    )


@fact
def second_call_with_another_policy_is_an_error():
    has(torch("weir.torch.enable(POLICY, shim=False); tell(weir.torch.enable, OTHER)"), "WeirError BUSY", POLICY, OTHER)


@fact
def second_call_can_add_the_patch():
    prints(
        "False True True",
        """
        state = weir.torch.enable(POLICY, shim=False)
        again = weir.torch.enable(patch=True)
        print(state.patched, again.patched, torch.cuda.memory_stats is weir.torch.memory_stats)
        """,
    )


@fact
def call_after_the_first_cuda_call_is_an_error():
    has(torch("torch.cuda.init(); tell(weir.torch.enable, POLICY)"), "WeirError BUSY", "before the first CUDA call")


@fact
def allocator_that_was_used_is_an_error():
    has(torch("memory.is_used = True; tell(weir.torch.enable, POLICY, shim=False)"), "WeirError BUSY", "Can't swap")


@fact
def torch_without_cuda_is_an_error():
    has(
        torch("torch.version.cuda = None; tell(weir.torch.enable, POLICY)"),
        "WeirError NOT_SUPPORTED",
        "built without CUDA",
    )


@fact
def torch_without_the_hooks_is_an_error():
    has(
        torch("memory.HOOKS = memory.HOOKS[:3]; tell(weir.torch.enable, POLICY, shim=False)"),
        "WeirError NOT_SUPPORTED",
        "torch 2.11.0 is too old",
    )


@fact
def bad_policy_is_an_error_with_file_line_and_column():
    has(torch("tell(weir.torch.enable, BAD)"), "WeirError BAD_POLICY", BAD + ":3:11: pools.work.size: ")


@fact
def bad_policy_leaves_torch_as_it_was():
    prints(
        "None None True",
        """
        stream, stats = torch.cuda.Stream.__new__, torch.cuda.memory_stats
        try:
            weir.torch.enable(BAD, patch=True)
        except weir.WeirError:
            pass
        is_same = torch.cuda.Stream.__new__ is stream and torch.cuda.memory_stats is stats
        print(memory.current, weir.torch.state(), is_same)
        """,
    )


@fact
def good_policy_is_taken_after_a_bad_one():
    prints(
        POLICY,
        """
        try:
            weir.torch.enable(BAD)
        except weir.WeirError:
            print(weir.torch.enable(POLICY, shim=False).policy)
        """,
    )


# Streams that Weir was told of.
WATCHED = """
weir.torch.enable(POLICY, shim=False)
told = []
_library.load().stream_lives = lambda device, handle: told.append((device, handle))
"""


@fact
def streams_of_torchs_own_are_told_to_weir():
    prints(
        "True",
        WATCHED
        + """
streams = [torch.cuda.Stream(), torch.cuda.Stream(priority=-1)]
streams.append(torch.cuda.Stream(stream_id=99, device_index=1, device_type=1))
print(told == [(stream.device_index, stream.cuda_stream) for stream in streams])
""",
    )


@fact
def stream_is_told_once():
    prints(
        "1",
        WATCHED
        + """
for _ in range(3):
    torch.cuda.Stream(stream_id=99, device_index=0, device_type=1)
print(len(told))
""",
    )


@fact
def external_and_default_streams_are_never_told():
    prints(
        "[]",
        WATCHED
        + """
torch.cuda.ExternalStream(0x7000)
torch.cuda.ExternalStream(1)  # cudaStreamLegacy
torch.cuda.Stream(stream_id=0, device_index=0, device_type=1)
print(told)
""",
    )


@fact
def streams_are_what_they_were():
    prints(
        "Stream 3 ExternalStream 28672",
        WATCHED
        + """
own, external = torch.cuda.Stream(), torch.cuda.ExternalStream(0x7000)
print(type(own).__name__, own.stream_id, type(external).__name__, external.cuda_stream)
""",
    )


@fact
def patch_routes_torchs_functions_to_weir():
    prints(
        "[]",
        """
        weir.torch.enable(POLICY, patch=True, shim=False)
        names = [name for name in weir.torch.__all__ if "memory" in name or name == "empty_cache"]
        modules = (torch.cuda, memory)
        print([(m.__name__, n) for m in modules for n in names if getattr(m, n) is not getattr(weir.torch, n)])
        """,
    )


@fact
def patch_replaces_all_that_a_pluggable_allocator_lacks():
    prints(
        "list_gpu_processes",
        """
        weir.torch.enable(POLICY, patch=True, shim=False)
        torch.cuda.init()
        for name in memory.__all__[1:]:
            try:
                getattr(torch.cuda, name)()
            except RuntimeError:
                print(name)
        """,
        PYTHONWARNINGS="ignore",
    )


@fact
def patch_routes_what_torch_accelerator_has_of_them():
    prints(
        "True True False",
        """
        import types
        torch.accelerator = types.SimpleNamespace(memory_stats=None, memory=types.SimpleNamespace(memory_stats=None))
        weir.torch.enable(POLICY, patch=True, shim=False)
        for module in (torch.accelerator, torch.accelerator.memory):
            print(module.memory_stats is weir.torch.memory_stats, end=" ")
        print(hasattr(torch.accelerator, "memory_summary"))
        """,
    )


@fact
def without_patch_torchs_functions_stay():
    has(
        torch("weir.torch.enable(POLICY, shim=False); tell(torch.cuda.memory_stats)"),
        "RuntimeError",
        "does not yet support",
    )


@fact
def figures_of_a_host_are_seen_through_torch():
    prints(
        "1048576 0",
        """
        import tap
        weir.torch.enable(POLICY, patch=True, shim=False)
        torch.cuda.init()
        host = tap.Host(_library.load().path)
        ptr = host.malloc(1 << 20)
        before = torch.cuda.memory_allocated()
        host.free(ptr, 1 << 20)
        print(before, torch.cuda.memory.memory_allocated("cuda:0"))
        """,
    )


@fact
def allocator_for_mem_pools_returns_null_instead_of_throwing():
    prints(
        "weir_torch_pool_malloc weir_torch_free None",
        """
        allocator = weir.torch.mem_pool_allocator(POLICY)
        print(allocator.malloc, allocator.free, memory.current)
        """,
    )


@fact
def allocator_for_mem_pools_is_one_that_lives_for_ever():
    prints("True", "print(weir.torch.mem_pool_allocator(POLICY) is weir.torch.mem_pool_allocator())")


@fact
def bad_policy_for_mem_pools_is_an_error():
    has(torch("tell(weir.torch.mem_pool_allocator, BAD)"), "WeirError BAD_POLICY", BAD + ":3:11")


tap.main()
