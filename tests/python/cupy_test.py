# SPDX-License-Identifier: MIT
"""cupy_test.py - weir.cupy, with a stand-in for CuPy, on the simulator. Speaks TAP."""

import ctypes
import gc
import os
import threading
from types import SimpleNamespace

import cupy
import weir
import weir.cupy
from weir import _library

import tap
from tap import MIB, fact, has, raises

os.environ["WEIR_SIM"] = "devices=2,memory=4GiB"
BAD = tap.write("bad.yaml", "weir: 1\npools:\n  work: { size: 3 }\n")


@fact
def bad_policy_is_refused():
    error = raises(weir.WeirError, weir.cupy.allocator, BAD, gpu="sim")
    assert error.status == weir.Status.BAD_POLICY
    has(str(error), BAD + ":3:11")


class Program:
    """Streams that somebody else makes and destroys, of whom the weirs of arrays know nothing."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.weir_stream_handle.restype = ctypes.c_void_p
        options = _library.Options(size=ctypes.sizeof(_library.Options), policy_text=b"weir: 1\npools: { other: {} }\n")
        self.weir = ctypes.c_void_p()
        assert self.c.weir_open(ctypes.byref(options), None, ctypes.byref(self.weir)) == 0
        self.streams = {}

    def make(self):
        stream = ctypes.c_void_p()
        assert self.c.weir_stream_create(self.weir, 0, None, None, ctypes.byref(stream)) == 0
        handle = self.c.weir_stream_handle(stream)
        self.streams[handle] = stream
        return handle

    def destroy(self, handle):
        self.c.weir_stream_close(self.streams.pop(handle))


def on(stream):
    """A block that was allocated on that stream of CuPy's."""
    cupy.stream = stream
    pointer = allocate(MIB)
    cupy.stream = cupy.Stream(0)
    return pointer


def held():
    """What arrays have, and what of theirs has not gone back."""
    stats = library.stats(0)
    return stats.allocated, stats.active


@fact
def allocator_is_made_without_a_cuda_call():
    global allocate, library, program
    allocate = weir.cupy.allocator(policy_text="weir: 1\npools:\n  work: { max_size: 1GiB, small_below: 0 }\n", gpu="sim")
    library = _library.load()
    assert library.stats(0).memory == 0
    program = Program(library.path)


@fact
def array_has_memory_of_the_current_device():
    pointer = allocate(3 * MIB)
    assert pointer.ptr and pointer.mem.ptr == pointer.ptr and pointer.mem.size == 3 * MIB
    assert pointer.mem.device_id == 0 and held() == (3 * MIB, 3 * MIB)


@fact
def memory_goes_back_with_the_last_that_has_it():
    pointer = allocate(MIB)
    other = cupy.cuda.MemoryPointer(pointer.mem, 512)
    del pointer
    assert held() == (MIB, MIB)
    del other
    assert held() == (0, 0)


@fact
def memory_that_went_back_is_served_again():
    first = allocate(MIB).ptr
    assert allocate(MIB).ptr == first


@fact
def memory_of_the_default_stream_is_cached():
    hits = library.stats(0).cache_hits
    allocate(512)
    allocate(512)
    assert library.stats(0).cache_hits > hits


@fact
def other_device_is_served_by_its_own_pools():
    cupy.device = 1
    pointer = allocate(MIB)
    cupy.device = 0
    assert library.stats(1).allocated == MIB and pointer.mem.device_id == 1


def cupys(device_id=0):
    """A new stream of CuPy's."""
    return cupy.Stream(program.make(), program.destroy, device_id)


@fact
def memory_of_a_stream_of_cupys_is_cached():
    stream = cupys()
    on(stream)
    hits = library.stats(0).cache_hits
    for _ in range(10):
        on(stream)
    assert library.stats(0).cache_hits == hits + 10 and held() == (0, 0)


@fact
def stream_of_cupys_that_is_opened_lives_until_the_process_ends():
    before = len(program.streams)
    pointer = on(cupys())
    del pointer
    gc.collect()
    assert len(program.streams) == before + 1


@fact
def stream_of_another_device_is_not_opened():
    before = len(program.streams)
    pointer = on(cupys(device_id=1))
    assert held() == (MIB, MIB)
    del pointer
    assert len(program.streams) == before and held() == (0, 0)


@fact
def threads_that_use_new_streams_at_once_are_all_served():
    streams = [cupys() for _ in range(8)]

    def work(stream):
        for _ in range(50):
            assert weir.cupy._is_opened(library, stream, 0)

    threads = [threading.Thread(target=work, args=[stream]) for stream in streams * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(weir.cupy._opened[0]) == 10


@fact
def only_so_many_streams_of_cupys_are_opened():
    global kept
    for _ in range(100):
        on(cupys())
    assert len(program.streams) == weir.cupy._OPENED_MOST and held() == (0, 0)
    kept = len(program.streams)


@fact
def memory_of_a_stream_of_cupys_goes_back_at_once():
    pointer = on(cupys())
    del pointer
    assert held() == (0, 0)


@fact
def stream_of_cupys_stays_while_it_is_needed():
    pointer = on(cupys())
    assert len(program.streams) == kept + 1
    del pointer
    assert len(program.streams) == kept


@fact
def stream_of_cupys_outlives_its_array_in_collected_garbage():
    garbage = SimpleNamespace(stream=cupys())
    garbage.array = on(garbage.stream)
    garbage.cycle = garbage
    del garbage
    gc.collect()
    assert held() == (0, 0) and len(program.streams) == kept


@fact
def stream_that_its_owner_destroyed_is_not_touched():
    handle = program.make()
    pointer = on(cupy.ExternalStream(handle))
    program.destroy(handle)
    del pointer
    assert held() == (0, MIB)


@fact
def memory_of_a_stream_that_its_owner_destroyed_serves_again_where_it_is_needed():
    handle = program.make()
    cupy.stream = cupy.ExternalStream(handle)
    pointer = allocate(600 * MIB)
    cupy.stream = cupy.Stream(0)
    program.destroy(handle)
    del pointer
    pointer = allocate(600 * MIB)
    assert held() == (600 * MIB, 600 * MIB)


@fact
def memory_of_a_stream_of_others_goes_back_when_it_is_used_again():
    handle = program.make()
    del_first = on(cupy.ExternalStream(handle))
    del del_first
    assert held() == (0, MIB)
    pointer = on(cupy.ExternalStream(handle))
    assert held() == (MIB, MIB)
    del pointer
    library.reset()
    program.destroy(handle)
    assert held() == (0, 0)


@fact
def memory_of_a_per_thread_stream_goes_back_behind_those_of_all_threads():
    pointer = on(cupy.Stream(2))
    thread = threading.Thread(target=lambda box: box.pop(), args=([pointer],))
    del pointer
    thread.start()
    thread.join()
    del thread
    assert held() == (0, 0)


@fact
def streams_that_are_opened_live_beyond_the_arrays_of_the_interpreter():
    code = """
import cupy, weir.cupy
from weir import _library
allocate = weir.cupy.allocator(policy_text="weir: 1\\npools: { work: {} }", gpu="sim")
library = _library.load()
library.stream_lives = lambda device, stream: None
cupy.stream = cupy.Stream(0x1000, lambda handle: print("destroyed"))
assert weir.cupy._is_opened(library, cupy.stream, 0)
del cupy.stream
"""
    assert tap.python(code) == ""


@fact
def arrays_that_live_at_the_end_of_the_process_are_no_trouble():
    code = """
import weir.cupy
allocate = weir.cupy.allocator(policy_text="weir: 1\\npools: { work: {} }", gpu="sim")
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
    assert held() == (0, 0)


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
