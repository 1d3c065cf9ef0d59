# SPDX-License-Identifier: MIT
"""enable_test.py - weir.torch.enable(), with a stand-in for torch. Each fact is a process of its own. Speaks TAP."""

import os
import re
import subprocess
import sys
import textwrap

import tap
from tap import fact, has

POLICY = tap.write("policy.yaml", "weir: 1\npools:\n  work: { small_below: 0 }\n")
OTHER = tap.write("other.yaml", "weir: 1\n")
ARENA = tap.write("arena.yaml", "weir: 1\npools:\n  work: { backing: arena }\n")
BAD = tap.write("bad.yaml", "weir: 1\npools:\n  work: { size: 3 }\n")

# What comes before the code of each fact. tell() prints the text of the error that a call raises.
BEFORE = """
import functools, warnings, torch, weir.torch
from weir import _library
# Nothing here runs a kernel.
enable_on_gpu, weir.torch.enable = weir.torch.enable, functools.partial(weir.torch.enable, gpu="sim")
mem_pool_allocator = functools.partial(weir.torch.mem_pool_allocator, gpu="sim")
POLICY, OTHER, ARENA, BAD = %r, %r, %r, %r
memory = torch.cuda.memory
def tell(function, *arguments, **keywords):
    try:
        print("returned", function(*arguments, **keywords))
    except Exception as error:
        print(type(error).__name__, getattr(error, "status", None) and error.status.name, error)
""" % (
    POLICY,
    OTHER,
    ARENA,
    BAD,
)


def torch(code, **variables):
    # What these facts are not about shall not be compiled.
    variables = {"CXX": "/nonexistent/c++", **variables}
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
        print(torch._C.current.malloc, torch._C.current.free, weir.torch.state().library == _library.load().path)
        """,
    )


@fact
def all_hooks_are_set():
    prints(
        "True",
        """
        weir.torch.enable(POLICY, shim=False)
        address = _library.load().address
        print(torch._C.current.hooks == {
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


# A stand-in for the shim: it remembers what it was told, and ends as it was made to.
SHIM = """
#include <stdio.h>
static char told[4096];
int weir_torch_shim_enable(const char *path, char *text, size_t size)
{
    snprintf(told, sizeof told, "%s", path);
    snprintf(text, size, "why");
    return STATUS;
}
void weir_torch_shim_region(int begins)
{
    (void)begins;
}
const char *weir_torch_shim_told(void)
{
    return told;
}
"""


def shim(status):
    source = tap.write("shim%d.c" % status, SHIM)
    target = source[:-1] + "so"
    command = "%s -shared -fPIC -DSTATUS=%d %s -o %s" % (os.environ.get("CC", "cc"), status, source, target)
    subprocess.run(command, shell=True, check=True)
    return target


GOOD, UNFIT, LATE = shim(0), shim(1), shim(2)
BROKEN = tap.write("broken.so", "this is no library")
HAS_SHIM = """
import ctypes
from weir.torch import _build
_build.path = lambda: %r
"""
# One line for each time that it is compiled, in `count`.
COMPILED = """
import io, os, sys
from weir.torch import _build
sys.stderr = io.StringIO()
_build._command = lambda target: ["sh", "-c", %r, target]
"""
COMPILES = "echo . >>count && cp %s $0" % GOOD
FAILS = "echo . >>count && echo no such header && exit 3"
CACHES = 0


def cache():
    """A new folder for shims."""
    global CACHES
    CACHES += 1
    return os.path.join(tap.FOLDER.name, "cache%d" % CACHES)


def compiled():
    """How often, since it was asked last."""
    path = os.path.join(tap.FOLDER.name, "count")
    if not os.path.exists(path):
        return 0
    with open(path, encoding="utf-8") as file:
        count = len(file.readlines())
    os.remove(path)
    return count


def left_in(folder):
    """Names of the files below it, without digests."""
    return sorted({re.sub("[.][0-9a-f]{16}[.]", ".", name) for _, _, names in os.walk(folder) for name in names})


@fact
def shim_that_was_built_is_used():
    prints(
        "True True True None",
        HAS_SHIM % GOOD
        + """
state = weir.torch.enable(POLICY)
told = ctypes.CDLL(_build.path()).weir_torch_shim_told
told.restype = ctypes.c_char_p
print(state.shim, not any("cudnn" in text for text in state.unavailable), told().decode() == state.library, torch._C.current)
""",
    )


@fact
def nothing_of_torch_is_replaced_where_the_shim_answers():
    prints(
        "True False True True",
        HAS_SHIM % GOOD
        + """
before = dict(vars(torch.cuda)), dict(vars(memory)), torch.cuda.Stream.__new__
state = weir.torch.enable(POLICY, patch=True)
print(state.shim, state.patched, before[:2] == (vars(torch.cuda), vars(memory)), torch.cuda.Stream.__new__ is before[2])
""",
    )


@fact
def shim_is_not_used_where_that_was_asked():
    prints("False weir_torch_malloc", HAS_SHIM % GOOD + "print(weir.torch.enable(POLICY, shim=False).shim, torch._C.current.malloc)")


@fact
def shim_that_does_not_load_or_fit_is_done_without_and_warned_of():
    for path, why in [(BROKEN, BROKEN + ": "), (UNFIT, "cannot be used: why"), ("libc.so.6", "weir_torch_shim_enable")]:
        warned = torch(
            HAS_SHIM % path
            + """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    state = weir.torch.enable(POLICY)
print(state.shim, torch._C.current.malloc, len(caught), caught[0].message)
"""
        )
        has(warned, "False weir_torch_malloc 1 ", path, why, "python -m weir.torch build --force")


@fact
def shim_that_is_required_and_does_not_load_or_fit_is_an_error():
    for path, why in [(BROKEN, BROKEN + ": "), (UNFIT, "cannot be used: why")]:
        has(torch(HAS_SHIM % path + "tell(weir.torch.enable, POLICY, shim=True)"), "NOT_SUPPORTED", path, why)


@fact
def torch_that_takes_no_allocator_of_the_shim_any_more_is_an_error():
    for wanted in [True, None]:
        said = torch(HAS_SHIM % LATE + "tell(weir.torch.enable, POLICY, shim=%s)" % wanted)
        has(said, "WeirError BUSY torch does not take another allocator any more: why. Call ")


@fact
def shim_is_compiled_by_the_first_enable_which_says_so_in_one_line():
    folder = cache()
    for wanted in [True, None]:
        for said in ["weir.torch: compiling the shim for torch 2.11.0, once, into %s/weir/torch-2.11.0-" % folder, ""]:
            printed = torch(
                COMPILED % COMPILES + "print(weir.torch.enable(POLICY, shim=%s).shim, sys.stderr.getvalue())" % wanted,
                XDG_CACHE_HOME=folder,
            )
            assert printed.startswith("True " + said if said else "True") and printed.count("\n") == 0, printed
            assert bool(said) == ("compiling" in printed), printed
        assert compiled() == 1
        assert left_in(folder) == ["lock", "weir_torch_shim.so"], left_in(folder)
        folder = cache()


@fact
def ranks_that_start_at_once_compile_once():
    folder, started = cache(), os.path.join(tap.FOLDER.name, "started")
    os.makedirs(started)
    # The compiler is done when all ranks have begun: those that have not come to the lock come to what lies there.
    waits = "while [ $(ls started | wc -l) -lt 8 ]; do sleep 0.05; done; " + COMPILES
    code = COMPILED % waits + "open('started/%d' % os.getpid(), 'w').close()\nprint(weir.torch.enable(POLICY, shim=True).shim)"
    environment = {**os.environ, "XDG_CACHE_HOME": folder, "XDG_CONFIG_HOME": tap.FOLDER.name}
    ranks = [
        subprocess.Popen([sys.executable, "-c", BEFORE + code], env=environment, cwd=tap.FOLDER.name, stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    assert [rank.communicate(timeout=120)[0].strip() for rank in ranks] == ["True"] * 8
    assert compiled() == 1
    assert left_in(folder) == ["lock", "weir_torch_shim.so"], left_in(folder)


@fact
def compiler_that_fails_is_asked_once_and_again_where_the_shim_is_required():
    folder = cache()
    warned = """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    state = weir.torch.enable(POLICY)
print(state.shim, torch._C.current.malloc, len(caught), caught[0].message)
"""
    for count in [1, 0]:
        has(
            torch(COMPILED % FAILS + warned, XDG_CACHE_HOME=folder),
            "False weir_torch_malloc 1 Weir is enabled without its shim, which `python -m weir.torch build` makes: ",
            "failed with status 3",
        )
        assert compiled() == count
    assert left_in(folder) == ["lock", "weir_torch_shim.failed"], left_in(folder)
    said = torch(COMPILED % FAILS + "tell(weir.torch.enable, POLICY, shim=True)", XDG_CACHE_HOME=folder)
    has(said, "WeirError NOT_SUPPORTED", "no such header", "failed with status 3")
    assert compiled() == 1
    prints("True", COMPILED % COMPILES + "print(weir.torch.enable(POLICY, shim=True).shim)", XDG_CACHE_HOME=folder)
    assert compiled() == 1
    assert left_in(folder) == ["lock", "weir_torch_shim.so"], left_in(folder)


@fact
def ranks_that_wait_for_a_compiler_that_fails_ask_none_themselves():
    folder, started = cache(), os.path.join(tap.FOLDER.name, "waiting")
    os.makedirs(started)
    # As soon as all have looked whether there was a failure before.
    waits = "while [ $(ls waiting | wc -l) -lt 4 ]; do sleep 0.05; done; " + FAILS
    code = COMPILED % waits + """
failed_at = _build._failed_at
def looked():
    found = failed_at()
    open('waiting/%d' % os.getpid(), 'w').close()
    return found
_build._failed_at = looked
tell(weir.torch.enable, POLICY, shim=True)
"""
    environment = {**os.environ, "XDG_CACHE_HOME": folder, "XDG_CONFIG_HOME": tap.FOLDER.name}
    ranks = [
        subprocess.Popen([sys.executable, "-c", BEFORE + code], env=environment, cwd=tap.FOLDER.name, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for rank in ranks:
        has(rank.communicate(timeout=120)[0], "WeirError NOT_SUPPORTED", "no such header")
    assert compiled() == 1


@fact
def shim_that_a_wheel_brought_needs_neither_a_compiler_nor_a_folder_of_the_user():
    code = "from weir.torch import _build\n_build._brought = lambda: %r\n" % GOOD
    prints("True", code + "print(weir.torch.enable(POLICY, shim=True).shim)", XDG_CACHE_HOME="/dev/null", CXX="/nonexistent/c++")


@fact
def shims_of_other_torches_lie_elsewhere():
    code = """
    from weir.torch import _build
    print(len({_build.folder() for torch.__version__ in ["2.8.0+cu128", "2.11.0+cu130"]} | {_build._brought()}))
    """
    prints("3", code)


@fact
def without_a_compiler_what_lacks_is_said():
    has(
        torch("tell(weir.torch.enable, POLICY, shim=True)", CXX="/nonexistent/c++"),
        "WeirError NOT_FOUND there is no shim for this torch",
        "there is no C++ compiler /nonexistent/c++, which $CXX names",
    )


@fact
def second_call_with_the_same_policy_or_none_changes_nothing():
    prints(
        "True True",
        """
        state = weir.torch.enable(POLICY, shim=False)
        allocator = torch._C.current
        again = [weir.torch.enable(POLICY), weir.torch.enable(), weir.torch.enable(POLICY, shim=False)]
        print(again == [state] * 3, torch._C.current is allocator)
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
    has(torch("torch._C.is_used = True; tell(weir.torch.enable, POLICY, shim=False)"), "WeirError BUSY", "Can't swap")


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
        print(torch._C.current, weir.torch.state(), is_same)
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
def settings_of_torchs_own_allocator_are_taken_over_or_warned_of_once():
    printed = torch(
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                weir.torch.enable(POLICY, shim=False)
        print(*(one.message for one in caught))
        """,
        PYTORCH_ALLOC_CONF="max_split_size_mb:64,roundup_power2_divisions:[256:1,512:2],pinned_use_cuda_host_register:True",
        PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True",
    )
    assert printed.count("max_split_size_mb") == 1 and "small_below" in printed, printed
    assert "roundup_power2_divisions: Weir has nothing of the kind" in printed, printed
    assert "pinned" not in printed and "expandable" not in printed and "512" not in printed, printed


@fact
def memory_fraction_of_torchs_settings_is_a_limit_of_weir():
    code = """
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            weir.torch.enable(POLICY, shim=False)
        library = _library.load()
        block = library.malloc(1 << 20, 0, 0)
        stats = library.stats(0)
        print(stats.max_size * 4 == stats.memory)
        library.free(block, 1 << 20, 0, 0, True)
        """
    prints("True", code, PYTORCH_CUDA_ALLOC_CONF="per_process_memory_fraction:0.25")


@fact
def settings_that_are_set_while_the_program_runs_are_in_force_or_warned_of():
    prints(
        "True ['per_process_memory_fraction:0.5', 'expandable_segments:True'] 1 expandable_segments",
        """
        weir.torch.enable(POLICY, shim=False)
        library = _library.load()
        block = library.malloc(1 << 20, 0, 0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch._C._accelerator_setAllocatorSettings("per_process_memory_fraction:0.5")
            torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
        stats = library.stats(0)
        library.free(block, 1 << 20, 0, 0, True)
        print(stats.max_size * 2 == stats.memory, torch._C.told, len(caught), str(caught[0].message).split(": ")[1])
        """,
    )


@fact
def variable_that_turns_caching_off_is_warned_of_without_the_shim():
    code = """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            weir.torch.enable(POLICY, shim=False)
        print(*(one.message for one in caught))
        """
    has(torch(code, PYTORCH_NO_CUDA_MEMORY_CACHING="1"), "PYTORCH_NO_CUDA_MEMORY_CACHING is set, and not in force")


@fact
def enable_is_whole_where_its_warnings_are_errors():
    prints(
        "RuntimeWarning True True False",
        """
        warnings.simplefilter("error")
        try:
            weir.torch.enable(POLICY, patch=True)
        except RuntimeWarning as error:
            print(type(error).__name__, end=" ")
        state = weir.torch.state()
        print(state.patched, torch.cuda.memory_stats is weir.torch.memory_stats, weir.torch.enable(POLICY).shim)
        """,
    )


@fact
def torch_that_refuses_another_allocator_names_weir():
    for variables, name in [({}, "weir.torch.enable()"), ({"WEIR_TORCH_PATCH": "1"}, "`weir run`")]:
        said = torch(
            """
            weir.torch.enable(POLICY, shim=False)
            torch.cuda.init()
            tell(memory.change_current_allocator, memory.CUDAPluggableAllocator("other.so", "malloc", "free"))
            """,
            **variables,
        )
        has(said, "RuntimeError", "Can't swap an already initialized allocator: Weir is the allocator of torch", "by " + name, "MemPool")


@fact
def what_has_failed_leaves_no_policy_behind():
    said = torch("tell(weir.torch.enable, policy_text='weir: 1\\npools: { x: {} }', shim=True); tell(weir.torch.enable, POLICY, shim=False)")
    has(said, "WeirError NOT_FOUND there is no shim", "returned State", "policy='" + POLICY)


@fact
def child_that_is_forked_while_a_thread_enables_can_enable_too():
    prints(
        "False 0 False",
        """
        import os, signal, threading
        from weir.torch import _build
        is_in, may_go, parent = threading.Event(), threading.Event(), os.getpid()
        def build(**options):
            if os.getpid() == parent:
                is_in.set()
                may_go.wait()
            raise ImportError("none for this test")
        _build.build = build
        warnings.simplefilter("ignore")
        thread = threading.Thread(target=weir.torch.enable, args=(POLICY,))
        thread.start()
        is_in.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            print(weir.torch.enable(POLICY).shim, end=" ", flush=True)
            os._exit(0)
        print(os.waitpid(child, 0)[1], end=" ")
        may_go.set()
        thread.join()
        print(weir.torch.state().shim)
        """,
    )


@fact
def child_that_is_forked_while_a_shim_is_made_does_not_keep_others_from_it():
    prints(
        "made",
        """
        import fcntl, os, time
        from weir.torch import _build
        with _build._alone():
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
        with open(os.path.join(_build.folder(), "lock")) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("made")
        os.kill(child, 9)
        os.waitpid(child, 0)
        """,
        XDG_CACHE_HOME=os.path.join(os.path.dirname(POLICY), "cache-of-forks"),
    )


@fact
def simulator_of_the_environment_is_refused_by_its_variable():
    for call in ["enable_on_gpu, POLICY, shim=False", "weir.torch.mem_pool_allocator, POLICY"]:
        said = torch("tell(%s); print(torch._C.current, weir.torch.state())" % call, WEIR_GPU="sim")
        has(said, "WeirError INVALID WEIR_GPU=sim is set", "Unset WEIR_GPU", "None None")


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
def memory_of_the_device_is_told_through_weir_where_a_claim_was_inherited_and_only_there():
    code = """
        weir.torch.enable(POLICY, shim=False)
        for module in (torch.cuda, memory):
            print(module.mem_get_info is weir.torch.mem_get_info, end=" ")
        for function in (torch.cuda.mem_get_info, weir.torch.mem_get_info):
            print(function(), function("cuda:1"), end=" ")
        """
    told = "(700, 800) (700, 801) (700, 800) (700, 801)"
    for variables, wanted in [({}, "False False "), ({"WEIR_RESERVATION": "0123456789abcdef"}, "True True ")]:
        assert torch(code, PYTHONWARNINGS="ignore", **variables).strip() == wanted + told


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
        allocator = mem_pool_allocator(POLICY)
        print(allocator.malloc, allocator.free, torch._C.current)
        """,
    )


@fact
def allocator_for_mem_pools_is_one_that_lives_for_ever():
    prints("True", "print(mem_pool_allocator(POLICY) is mem_pool_allocator())")


@fact
def bad_policy_for_mem_pools_is_an_error():
    has(torch("tell(mem_pool_allocator, BAD)"), "WeirError BAD_POLICY", BAD + ":3:11")


YIELDED = """
    import json, tap
    weir.torch.enable(ARENA, shim=False)
    torch.cuda.init()
    library = _library.load()
    host = tap.Host(library.path)
    host.malloc(1 << 20)
    yielded = lambda: sum(pool["yielded"] for pool in json.loads(library.stats_json(0))["pools"])
    def body(**options):
        with weir.torch.yielded("work", **options):
            print(yielded() > 0, end=" ")
"""


@fact
def yield_that_is_refused_on_one_device_leaves_none_yielded():
    has(
        torch(
            YIELDED
            + """
    library.pool("work", 1)
    first = library.pool_yield
    def refuse_second(pool, flags):
        first(pool, flags)
        library.pool_yield = lambda pool, flags: library.pool("none", 1)
    library.pool_yield = refuse_second
    tell(body)
    print("then", yielded())
    """,
            WEIR_SIM="devices=2",
        ),
        "no pool 'none'",
        "then 0",
    )


@fact
def wake_that_fails_on_one_device_wakes_the_other():
    has(
        torch(
            YIELDED
            + """
    library.pool("work", 1)
    weir.torch._sleep._devices = lambda device: [0, 1]
    last = library.pool_wake
    failed = []
    def fail_first(pool, timeout):
        failed.append(pool)
        return last(pool, timeout) if len(failed) > 1 else library.pool("none", 1)
    library.pool_wake = fail_first
    tell(body)
    print("then", sum(pool["yielded"] for index in (0, 1) for pool in json.loads(library.stats_json(index))["pools"]))
    """,
            WEIR_SIM="devices=2",
        ),
        "no pool 'none'",
        "then 0",
    )


@fact
def yield_with_a_bad_timeout_is_refused_at_its_beginning():
    has(torch(YIELDED + "    tell(body, timeout=-1)\n    tell(body)\n"), "ValueError None timeout=-1: write seconds", "True returned None")
    assert "True ValueError" not in torch(YIELDED + "    tell(body, timeout=-1)\n")


tap.main()
