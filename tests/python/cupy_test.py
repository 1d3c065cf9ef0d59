# SPDX-License-Identifier: MIT
"""cupy_test.py - weir.cupy, with a stand-in for CuPy, on the simulator. Speaks TAP."""

import os
import weakref

import cupy
import weir
import weir.cupy
from weir import _library

import tap
from tap import MIB, fact, has, raises

os.environ["WEIR_SIM"] = "devices=2,memory=4GiB"
BAD = tap.write("bad.yaml", "weir: 1\npools:\n  work: { size: 3 }\n")
calls = []


@fact
def bad_policy_is_refused():
    error = raises(weir.WeirError, weir.cupy.allocator, BAD)
    assert error.status == weir.Status.BAD_POLICY
    has(str(error), BAD + ":3:11")


@fact
def allocator_is_made_without_a_cuda_call():
    global allocate, library
    allocate = weir.cupy.allocator(policy_text="weir: 1\npools:\n  work: { max_size: 1GiB, small_below: 0 }\n")
    library = _library.load()
    real_malloc, real_free = library.malloc, library.free

    def malloc(weir_, size, device, stream):
        calls.append(("malloc", size, device, stream))
        return real_malloc(weir_, size, device, stream)

    def free(weir_, ptr, stream):
        calls.append(("free", ptr, stream))
        return real_free(weir_, ptr, stream)

    library.malloc, library.free = malloc, free


@fact
def array_has_memory_of_the_current_device_and_stream():
    pointer = allocate(3 * MIB)
    assert pointer.ptr and pointer.mem.ptr == pointer.ptr and pointer.mem.size == 3 * MIB
    assert (calls[-1], pointer.mem.device_id) == (("malloc", 3 * MIB, 0, 0), 0)


@fact
def memory_goes_back_with_the_last_that_has_it():
    pointer = allocate(MIB)
    ptr = pointer.ptr
    other = cupy.cuda.MemoryPointer(pointer.mem, 512)
    del pointer
    assert calls[-1] == ("malloc", MIB, 0, 0)
    del other
    assert calls[-1] == ("free", ptr, 0)


@fact
def memory_that_went_back_is_served_again():
    first = allocate(MIB).ptr
    assert allocate(MIB).ptr == first


@fact
def other_device_is_served_by_its_own_pools():
    cupy.device = 1
    pointer = allocate(MIB)
    cupy.device = 0
    assert calls[-1] == ("malloc", MIB, 1, 0) and pointer.mem.device_id == 1


@fact
def memory_goes_back_on_the_stream_it_came_from():
    cupy.stream = cupy.Stream(7)
    library.malloc, real = lambda *_: 4096, library.malloc
    pointer = allocate(MIB)
    cupy.stream, library.malloc = cupy.Stream(0), real
    del pointer
    assert calls[-1] == ("free", 4096, 7)


@fact
def stream_stays_while_it_is_needed():
    cupy.stream = cupy.Stream(7)
    library.malloc, real = lambda *_: 4096, library.malloc
    pointer = allocate(MIB)
    stream = weakref.ref(cupy.stream)
    cupy.stream, library.malloc = cupy.Stream(0), real
    assert stream()
    del pointer
    assert not stream()


@fact
def memory_of_a_per_thread_stream_goes_back_behind_those_of_all_threads():
    cupy.stream = cupy.Stream(2)
    library.malloc, real = lambda *_: 4096, library.malloc
    pointer = allocate(MIB)
    cupy.stream, library.malloc = cupy.Stream(0), real
    del pointer
    assert calls[-1] == ("free", 4096, 0)


@fact
def free_that_a_capture_forbids_is_done_with_the_next_allocation_after_it():
    pointer = allocate(MIB)
    ptr = pointer.ptr
    library.free, real = lambda *_: weir.Status.CAPTURING, library.free
    del pointer
    others = [allocate(512)]
    library.free = real
    assert ("free", ptr, 0) not in calls[-2:]
    others.append(allocate(512))
    assert ("free", ptr, 0) in calls[-2:]
    calls.clear()
    others.append(allocate(512))
    assert calls == [("malloc", 512, 0, 0)]


@fact
def arrays_that_live_at_the_end_of_the_process_are_no_trouble():
    code = """
import weir.cupy
allocate = weir.cupy.allocator(policy_text="weir: 1\\npools: { work: {} }")
array = [allocate(512)]
array.append(array)  # which only the collector of garbage takes apart
weir.array = allocate(512)
"""
    assert tap.python(code) == ""


@fact
def size_0_is_no_memory():
    pointer = allocate(0)
    assert pointer.ptr == 0
    del pointer
    assert calls[-1][0] == "malloc"


@fact
def out_of_memory_is_that_of_cupy():
    error = raises(cupy.cuda.memory.OutOfMemoryError, allocate, 2 << 30)
    has(str(error), "Out of memory allocating %d bytes" % (2 << 30))


@fact
def out_of_memory_has_the_report_as_its_cause():
    cause = raises(cupy.cuda.memory.OutOfMemoryError, allocate, 2 << 30).__cause__
    assert cause.status == weir.Status.OUT_OF_MEMORY
    has(str(cause), "work")


@fact
def other_errors_are_weirs():
    cupy.device = 7
    error = raises(weir.WeirError, allocate, MIB)
    cupy.device = 0
    assert error.status == weir.Status.NOT_FOUND


tap.main()
