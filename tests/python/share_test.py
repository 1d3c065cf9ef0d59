# SPDX-License-Identifier: MIT
"""share_test.py - weir.share, on the simulator. Speaks TAP."""

import asyncio
import copy
import gc
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import warnings

os.environ["WEIR_GPU"] = "sim"
os.environ["WEIR_SIM"] = "name=share-python-%d" % os.getpid()

import weir
import weir.share
from weir.share import _layout

import tap
from share_consumer import Consumed
from share_host import POLICY, Host
from tap import fact, has, raises

os.chmod(tap.FOLDER.name, 0o700)
os.environ["XDG_RUNTIME_DIR"] = tap.FOLDER.name
try:
    import numpy
except ImportError:
    numpy = None
NEW = {"max_version": (1, 0)}
READ_ONLY, IS_COPIED = 1, 2


class Scene:
    """An exporter in a process of its own, and an importer with a reader here."""

    def __enter__(self):
        self.host = Host()
        self.importer = weir.share.Importer("frames", timeout=60.0)
        self.reader = self.importer.reader("camera", 3)
        return self

    def next(self, number, **arguments):
        self.host.run("push(%d, **%r)" % (number, arguments))
        return self.reader.next(60.0)

    def leases_are(self, count):
        self.host.until("e.info()['leases']", count)

    def __exit__(self, *error):
        self.reader.close()
        self.importer.close()
        if self.host.process.poll() is None:
            self.host.end()


# Frames -----------------------------------------------------------------------------------------------------------------


@fact
def frame_has_the_type_the_shape_and_the_bytes_that_its_producer_gave_it():
    with Scene() as scene:
        for number, (dtype, kind) in enumerate([("float32", (2, 32, 1)), ("bfloat16", (4, 16, 1)), ("bool", (6, 8, 1))], 1):
            with scene.next(number, shape=(2, 5, 3), dtype=dtype, metadata=b"t=1") as frame:
                tensor = Consumed(frame, **NEW)
                assert (tensor.shape, tensor.strides, tensor.kind) == ((2, 5, 3), (15, 3, 1), kind)
                assert tensor.bytes(30) == bytes([number]) * 30
                assert tensor.device == (1, 0) == frame.__dlpack_device__()
                assert (frame.sequence, frame.metadata, frame.size) == (number, b"t=1", 30 * kind[1] // 8)


@fact
def frame_of_another_producer_is_bytes_and_what_the_consumer_says():
    with Scene() as scene, scene.next(7, metadata=b"\0raw", raw=True) as frame:
        assert frame.metadata == b"\0raw"
        assert Consumed(frame, **NEW).shape == (4096,) == (frame.size,)
        view = frame.array((4, 4), "int32", strides=(8, 1), offset=2)
        tensor = Consumed(view, **NEW)
        assert tensor.strides == (8, 1) and tensor.data == frame._ptr + 8
        raises(weir.WeirError, frame.array, (frame.size + 1,), "uint8")
        raises(weir.WeirError, frame.array, None, "uint8")


@fact
def metadata_that_cannot_be_true_are_refused_and_a_view_still_works():
    wrong = [b"weir/1 float64 99999999999x99999999999\n", b"weir/1 float64 9999999999999999999\n", b"weir/1 float99 2\n"]
    with Scene() as scene:
        for text in wrong:
            with scene.next(1, metadata=text, raw=True) as frame:
                error = raises(weir.WeirError, frame.__dlpack__, **NEW)
                assert error.status == weir.Status.PROTOCOL, error
                assert Consumed(frame.array((4,), "uint8"), **NEW).bytes(4) == b"\1\1\1\1"
        for text in [b"weir/1 float64 -1\n", b"weir/2 float64 1\n", b"weir/1 float64 1", b"weir/1  uint8 1\n", b"weir/1 uint8 1x\n"]:
            assert _layout.read_metadata(8, text) == (None, text)


@fact
def layouts_are_checked_to_the_last_byte():
    assert _layout.layout(24, (2, 3), "float32").strides == (3, 1)
    assert _layout.layout(8, (), "float64").shape == ()
    assert _layout.layout(0, (0, 2**62, 2**62), "float64").shape[0] == 0
    for size, shape, dtype, strides, offset in [
        (23, (2, 3), "float32", None, 0),
        (24, (2, 3), "float32", None, 1),
        (24, (2, 3), "float32", (4, 1), 0),
        (24, (2, -3), "float32", None, 0),
        (24, (2**63,), "uint8", None, 0),
        (24, (2**62, 8), "uint8", (0, 2**62), 0),
        (24, (1,) * 33, "uint8", None, 0),
        (24, (2,), "uint8", (1, 1), 0),
        (24, (2,), "uint8", (-1,), 4),
        (24, (2,), "object", None, 0),
    ]:
        error = raises(weir.WeirError, _layout.layout, size, shape, dtype, strides, offset)
        assert error.status == weir.Status.INVALID, error


@fact
def block_is_found_by_its_name():
    with Scene() as scene:
        scene.host.run("with e.block('weights', (3, 4), 'int64') as b: ctypes.memset(b._ptr, 5, 96)")
        with scene.importer.acquire("weights", 60.0) as lease:
            assert Consumed(lease, **NEW).bytes(96) == bytes([5]) * 96
        error = raises(weir.WeirError, scene.importer.acquire, "other")
        assert error.status == weir.Status.NOT_FOUND


@fact
def slot_that_ends_in_an_exception_is_no_frame():
    with Scene() as scene:
        scene.host.run("try:\n  with ring.take() as slot: raise KeyError\nexcept KeyError: pass")
        scene.host.run("ring.take()")  # of nobody
        assert scene.next(3).sequence == 1
        has(str(raises(AssertionError, scene.host.run, "slot.push()")), "pushed or dropped already")


@fact
def timeouts_are_seconds_of_any_size():
    with Scene() as scene:
        scene.host.run("push(1)")
        assert scene.reader.next(float("inf")).sequence == 1
        for timeout in (-1, float("-inf"), float("nan")):
            assert raises(weir.WeirError, scene.reader.next, timeout).status == weir.Status.INVALID


@fact
def slot_shows_the_array_that_it_was_last_given():
    with Scene() as scene:
        scene.host.run("slot = ring.take()")
        assert scene.host.value("slot.__array_interface__['shape']") == (4096,)
        scene.host.run("slot.array((2, 3), 'float32')")
        assert scene.host.value("slot.__array_interface__['shape']") == (2, 3)
        scene.host.run("slot.push()")
        assert scene.host.value("slot.__array_interface__['shape']") == (2, 3)
        assert Consumed(scene.reader.next(60.0), **NEW).shape == (2, 3)


# What keeps what --------------------------------------------------------------------------------------------------------


@fact
def tensor_keeps_lease_mapping_and_import():
    with Scene() as scene:
        with scene.next(9) as frame:
            tensor, another = Consumed(frame, **NEW), Consumed(frame, **NEW)
        raises(weir.WeirError, frame.array)
        scene.reader.close()
        scene.importer.close()
        del frame
        gc.collect()
        assert scene.host.value("(e.info()['leases'], e.info()['importers'])") == (1, 1)
        tensor.delete()
        assert another.bytes(256) == bytes([9]) * 256
        scene.leases_are(1)
        another.delete()
        scene.host.until("(e.info()['leases'], e.info()['importers'], e.info()['mappings'])", (0, 0, 0))


@fact
def capsule_that_nobody_consumes_gives_back_what_it_has():
    with Scene() as scene:
        for arguments in (NEW, {}):
            with scene.next(1) as frame:
                capsule = frame.array(writable=True).__dlpack__(**arguments)
            scene.leases_are(1)
            del capsule
            scene.leases_are(0)


@fact
def capsule_is_consumed_once():
    with Scene() as scene, scene.next(1) as frame:
        capsule = frame.__dlpack__(**NEW)
        tensor = Consumed(None, capsule)
        raises(ValueError, Consumed, None, capsule)
        del capsule
        assert tensor.bytes(3) == b"\1\1\1"


@fact
def frames_are_only_to_be_read_unless_one_says_otherwise():
    with Scene() as scene, scene.next(1) as frame:
        assert Consumed(frame, **NEW).flags == READ_ONLY
        has(str(raises(BufferError, frame.__dlpack__)), "array(writable=True)")
        assert Consumed(frame.array(writable=True)).flags is None
        assert Consumed(frame.array(writable=True), **NEW).flags == 0


@fact
def copy_is_the_consumers_own():
    with Scene() as scene:
        with scene.next(8) as frame:
            tensor, old = Consumed(frame, copy=True, **NEW), Consumed(frame, copy=True)
            assert tensor.flags == IS_COPIED and tensor.data != frame._ptr
        scene.leases_are(0)
        for _ in range(8):
            scene.next(1).release()
        assert tensor.bytes(256) == old.bytes(256) == bytes([8]) * 256


@fact
def streams_and_devices_that_are_not_there_are_refused():
    with Scene() as scene, scene.next(1) as frame:
        for arguments in ({"stream": 1}, {"dl_device": (2, 0)}, {"dl_device": (1, 1)}):
            raises(BufferError, frame.__dlpack__, **NEW, **arguments)
        Consumed(frame, dl_device=(1, 0), stream=None, copy=False, **NEW)
        assert not hasattr(frame, "__cuda_array_interface__")


@fact
def what_is_shared_is_neither_copied_nor_pickled():
    with Scene() as scene, scene.next(1) as frame:
        for thing in (frame, frame.array()):
            for copies in (copy.deepcopy, pickle.dumps):
                raises(TypeError, copies, thing)
        gc.collect()
        scene.leases_are(1)
        assert Consumed(frame, **NEW).bytes(2) == b"\1\1"


@fact
def array_interface_keeps_the_memory_as_long_as_somebody_has_the_object():
    with Scene() as scene:
        with scene.next(1, shape=(4, 4), dtype="int32") as frame:
            interface = frame.__array_interface__
            assert interface["typestr"] == "<i4" and interface["strides"] == (16, 4) and interface["data"] == (frame._ptr, True)
        scene.leases_are(1)
        del frame
        scene.leases_are(0)


@fact
def tensors_go_in_any_thread():
    with Scene() as scene:
        for number in range(1, 40):
            frame = scene.next(number)
            tensors = [Consumed(frame, **NEW) for _ in range(8)]
            frame.release()
            threads = [threading.Thread(target=tensor.delete) for tensor in tensors]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            scene.leases_are(0)


@fact
def reader_that_is_closed_under_a_thread_that_waits_is_closed_behind_it():
    with Scene() as scene:
        got = []
        alone = sys.getrefcount(scene.reader._hold)
        thread = threading.Thread(target=lambda: got.append(scene.reader.next(60.0)))
        thread.start()
        while sys.getrefcount(scene.reader._hold) == alone:
            pass
        scene.reader.close()
        scene.importer.close()
        raises(weir.WeirError, scene.reader.next, 0)
        scene.host.run("push(6)")
        thread.join()
        assert Consumed(got[0], **NEW).bytes(1) == b"\6"
        got.clear()
        scene.host.until("e.info()['importers']", 0)


@fact
def lease_that_is_released_while_its_array_is_made_is_whole_or_refused():
    def release(frame, event, argument):
        lines.append(frame)
        if len(lines) == when:
            lease.release()
        return release

    with Scene() as scene:
        for when in range(1, 40):
            lease, lines = scene.next(when), []
            try:
                sys.settrace(release)  # at every line in turn, as another thread may
                array = lease.array((256,), "uint8")
            except weir.WeirError as error:
                has(str(error), "given back already")
            else:
                assert Consumed(array, **NEW).bytes(256) == bytes([when]) * 256
                del array
            finally:
                sys.settrace(None)
                del lease


@fact
def importer_is_closed_while_others_open_readers():
    def open_one(frame, event, argument):
        if len(opened) < 24:
            opened.append(scene.importer.reader("camera", 1))
        return open_one

    with Scene() as scene:
        opened = [scene.reader]
        sys.settrace(open_one)  # at every line, as another thread may
        scene.importer.close()
        sys.settrace(None)
        raises(weir.WeirError, scene.reader.next, 0)
        while opened:
            opened.pop().close()
        scene.host.until("e.info()['importers']", 0)


class Interrupted(Exception):
    pass


def interrupt(signum, frame):
    raise Interrupted


def is_within(frame, code):
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def interrupted(waits, comes, *arguments):
    """Calls `waits`, which a signal interrupts by an exception. What it waits for comes as well."""

    def send():
        # No thread gives way but in a call of C: this one runs while the other waits in there.
        while not is_within(sys._current_frames()[waiter], waits.__func__.__code__):
            os.sched_yield()
            if is_over:
                return
        signal.pthread_kill(waiter, signal.SIGUSR1)
        comes()

    is_over = []
    waiter, thread = threading.get_ident(), threading.Thread(target=send)
    former, interval = signal.signal(signal.SIGUSR1, interrupt), sys.getswitchinterval()
    sys.setswitchinterval(3600)
    try:
        thread.start()
        raises(Interrupted, waits, *arguments)
    finally:
        is_over.append(True)
        sys.setswitchinterval(interval)
        thread.join()
        signal.signal(signal.SIGUSR1, former)


@fact
def wait_for_an_exporter_hears_of_signals():
    """The signal comes while C waits: nothing else ends that wait within an hour."""
    former = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        raises(Interrupted, weir.share.Importer, "nobody-exports-this", wait=3600.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    assert raises(weir.WeirError, weir.share.Importer, "nobody-exports-this", wait=0.3).status == weir.Status.GONE


@fact
def names_with_a_zero_byte_are_refused_and_not_cut():
    for call in (
        lambda: weir.share.Importer("frames\0x"),
        lambda: weir.share.Exporter("frames\0x"),
        lambda: weir.share.Importer("frames", policy_text="weir: 1\n\0"),
    ):
        has(str(raises(ValueError, call)), "has a zero byte")


@fact
def lease_that_comes_along_with_a_signal_is_given_back():
    with Scene() as scene:
        for number in range(4):
            interrupted(scene.reader.next, lambda: scene.host.run("push(%d)" % number), 60.0)
            # On a busy machine the frame may come only after the exception: the next call would have it without any wait.
            try:
                scene.reader.next(0)
            except weir.WeirError as error:
                assert error.status == weir.Status.TIMEOUT, error
        scene.leases_are(0)


@fact
def who_waits_for_a_frame_that_never_comes_is_interrupted():
    with Scene() as scene:
        interrupted(scene.reader.next, lambda: None, None)
        assert scene.next(1).sequence == 1


@fact
def who_waits_for_a_slot_or_a_block_that_never_comes_is_interrupted():
    host = Host()
    with weir.share.Importer("frames", timeout=60.0) as importer:
        interrupted(importer.acquire, lambda: None, "nothing", None)
    host.end()
    with weir.share.Exporter("frames", policy_text=POLICY) as exporter, exporter.ring("camera", 64, 2) as ring:
        reader = Host("import weir.share\nr = weir.share.Importer('frames', timeout=60.0).reader('camera', 1)")
        for _ in range(2):
            ring.take(60.0).push()
        interrupted(ring.take, lambda: None, None)
        assert exporter.info()["hung"] == 0
        reader.end()


@fact
def producer_that_has_all_slots_itself_is_told_so_at_once():
    with weir.share.Exporter("frames", policy_text=POLICY) as exporter, exporter.ring("camera", 64, 2) as ring:
        slots = [ring.take(), ring.take()]
        for timeout in (None, 60.0, 0):
            error = raises(weir.WeirError, ring.take, timeout)
            assert error.status == weir.Status.BUSY, error
            has(str(error), "push or drop one")
            del error  # its traceback has what the call had
        for slot in slots:
            slot.drop()
        ring.take(0).push()


# Frames that are empty, and rings that come again ---------------------------------------------------------------------


@fact
def frame_without_elements_is_empty():
    with Scene() as scene:
        assert scene.next(9, shape=(64,)).size == 64
        empty = scene.next(9, shape=(0, 4), dtype="float32")
        assert (empty.size, empty.array().shape, empty.array().nbytes) == (0, (0, 4), 0)
        scene.host.run("ring.take(20.0).push(size=0)")
        assert scene.reader.next(60.0).size == 0
        scene.host.run("ring.take(20.0).push()")
        assert scene.reader.next(60.0).size == 4096
        has(raises(AssertionError, scene.host.run, "ring.take(20.0).push(size=-1)").args[0], "size is -1")


def next_of_another(reader, generation):
    """The first frame of another ring, and what was said before."""
    said = []
    while True:
        try:
            with reader.next(60.0) as frame:
                if frame.generation != generation:
                    return frame, said
        except weir.WeirError as error:
            said.append(error.status)
            assert error.status in (weir.Status.ENDED, weir.Status.GONE, weir.Status.NOT_FOUND), error


@fact
def reader_follows_its_ring_through_restarts_of_either_kind():
    with Scene() as scene:
        generation = scene.next(0).generation
        for number, (is_clean, first) in enumerate([(True, "ENDED"), (False, "GONE"), (True, "ENDED")]):
            if is_clean:
                scene.host.run("ring.close(); e.close()")
                scene.host.end()
            else:
                scene.host.kill()
            assert raises(weir.WeirError, scene.reader.next, 60.0).status.name == first
            assert raises(weir.WeirError, scene.reader.next, 60.0).status.name == first
            scene.host = Host()
            scene.host.tell("while not ring.readers: pass\npush(%d)" % number)
            frame, _ = next_of_another(scene.reader, generation)
            scene.host.hear()
            assert frame.sequence == 1
            generation = frame.generation


@fact
def end_is_told_before_frames_of_another_ring_though_that_is_there_already():
    with Scene() as scene:
        generation = scene.next(0).generation
        scene.host.kill()
        scene.host = Host()
        assert raises(weir.WeirError, scene.reader.next, 60.0).status == weir.Status.GONE
        scene.host.tell("while not ring.readers: pass\npush(1)")
        frame, said = next_of_another(scene.reader, generation)
        scene.host.hear()
        assert (frame.sequence, said) == (1, [])
        scene.host.run("ring.close()\nring = e.ring('camera', 4096, 4)")
        assert raises(weir.WeirError, scene.reader.next, 60.0).status == weir.Status.ENDED
        scene.host.tell("while not ring.readers: pass\npush(2)")
        frame, said = next_of_another(scene.reader, frame.generation)
        scene.host.hear()
        assert (frame.sequence, said) == (1, [])


@fact
def loop_that_follows_goes_on_with_the_next_ring():
    with Scene() as scene, scene.importer.reader("camera", 1, follow=True) as reader:
        scene.host.run("push(1)")
        got = []
        for frame in reader:
            with frame:
                got.append(Consumed(frame, **NEW).bytes(1)[0])
            if len(got) == 3:
                break
            if len(got) == 1:
                scene.host.run("ring.close(); e.close()")
                scene.host.end()
            else:
                scene.host.kill()
            scene.host = Host()
            scene.host.tell("while not ring.readers: pass\npush(%d)" % (len(got) + 1))
        assert got == [1, 2, 3]
        scene.host.hear()


@fact
def reader_that_comes_late_has_the_newest_frame_where_the_ring_says_so():
    with weir.share.Exporter("frames", policy_text=POLICY) as exporter:
        rows = [("drop_oldest", None, 3), ("drop_oldest", "next", 4), ("block", None, 4), ("block", "newest", 3), ("fail", "newest", 3)]
        host = Host("import weir.share\ni = weir.share.Importer('frames', timeout=60.0)")
        for overflow, late, first in rows:
            with exporter.ring("map", 64, 3, overflow, late=late) as ring:
                for _ in range(3):
                    ring.take(60.0).push()
                host.run("r = i.reader('map', 1)")
                ring.take(60.0).push()
                for sequence in range(first, 5):
                    assert host.value("(lambda f: (f.sequence, f.release()))(r.next(60.0))") == (sequence, None), (overflow, late)
                host.run("r.close()")
        has(str(raises(weir.WeirError, exporter.ring, "map", 64, late="never")), "'newest', 'next' or None")
        host.end()


@fact
def who_leaves_with_arrays_of_a_ring_is_told_that_it_goes_on():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "unclosed file")  # of objects that the collector finds meanwhile
        with weir.share.Exporter("frames", policy_text=POLICY) as exporter, exporter.ring("camera", 64, 2) as ring:
            with ring.take(60.0) as slot:
                array = slot.array((64,))
        texts = [str(warning.message) for warning in said]
        assert len(texts) == 2, texts
        has(texts[0], "ring 'camera' is not closed yet")
        has(texts[1], "the exporter is not closed yet")
        assert {warning.filename for warning in said} == {__file__}, [warning.filename for warning in said]
        del slot, array
        with weir.share.Exporter("frames", policy_text=POLICY) as exporter, exporter.ring("camera", 64, 2) as ring:
            with ring.take(60.0) as slot:
                slot.array((64,))
        assert len(said) == 2, [str(warning.message) for warning in said]


@fact
def end_of_a_sub_interpreter_leaves_the_leases_of_others_alone():
    code = """import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import weir.share
reader = weir.share.Importer("frames").reader("camera", 2)
try:
    other = interpreters.create("legacy" if hasattr(interpreters, "get_config") else False)
except TypeError:
    other = interpreters.create(isolated=False)
said = interpreters.run_string(other, "import weir.share._native; weir.share._native.load()")
assert said is None, said
interpreters.destroy(other)
print("here", flush=True)
for number in range(20):
    reader.next(60).release()
print("read", flush=True)
"""
    try:
        __import__("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    except ImportError:
        return
    host = Host()
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "here\n"
    host.tell("for n in range(20): push(n)")
    assert other.communicate()[0] == "read\n"
    host.hear()
    host.end()


# Ends -------------------------------------------------------------------------------------------------------------------


@fact
def tensors_survive_the_exporters_death_and_eviction():
    with Scene() as scene:
        tensor = Consumed(scene.next(4), **NEW)
        scene.host.kill()
        assert tensor.bytes(256) == bytes([4]) * 256
        assert raises(weir.WeirError, scene.reader.next, 60.0).status == weir.Status.GONE
        assert tensor.bytes(256) == bytes([4]) * 256
        tensor.delete()
    code = """import os, sys, weir
from share_consumer import Consumed
import weir.share
i = weir.share.Importer("frames")
r = i.reader("camera")
print("here", flush=True)
t = Consumed(r.next(60), max_version=(1, 0))
print("got", flush=True)
sys.stdin.readline()
try: r.next(60)
except weir.WeirError as error: print(error.status.name, t.bytes(2))
t.delete()
"""
    host = Host()
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "here\n"
    host.run("push(3)")
    assert other.stdout.readline() == "got\n"
    host.run("e.evict(%d)" % other.pid)
    said, _ = other.communicate("\n")
    assert other.returncode == 0
    has(said, r"b'\x03\x03'")
    host.until("e.info()['leases']", 0)
    host.end()


@fact
def process_that_ends_with_tensors_ends_well():
    host = Host()
    code = """import atexit, sys, weir.share
from share_consumer import Consumed
i = weir.share.Importer("frames")
r = i.reader("camera")
print("here", flush=True)
f = r.next(60)
keep = Consumed(f, max_version=(1, 0))
cycle = [Consumed(f, max_version=(1, 0)), f.__dlpack__(max_version=(1, 0))]
cycle.append(cycle)
sys.modules["keep"] = Consumed(f, max_version=(1, 0))
atexit.register(keep.delete)
"""
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "here\n"
    host.run("push(3)")
    _, said = other.communicate()
    assert (other.returncode, said) == (0, "")
    host.until("(e.info()['leases'], e.info()['importers'])", (0, 0))
    host.end()


@fact
def exporter_is_closed_by_what_runs_at_exit():
    host = Host("""import atexit, weir.share
from share_host import POLICY
atexit.register(lambda: (ring.close(), e.close()))
e = weir.share.Exporter("frames", policy_text=POLICY, close_timeout=60.0)
ring = e.ring("camera", 4096, 4)
""")
    with weir.share.Importer("frames", timeout=60.0) as importer, importer.reader("camera", 1) as reader:
        host.run("for n in range(3): ring.take().push()")
        host.process.stdin.close()
        frames = []
        for frame in reader:
            frames.append(frame.sequence)
            frame.release()
        assert frames == [1, 2, 3]
    host.process.wait()


@fact
def forked_child_takes_nothing_from_its_parent():
    with Scene() as scene:
        frame = scene.next(5)
        tensor = Consumed(frame, **NEW)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                tensor.delete()
                frame.release()
                status = raises(weir.WeirError, scene.reader.next, 0).status
                scene.reader.close()
                scene.importer.close()
                code = 0 if status == weir.Status.FORKED else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        scene.leases_are(1)
        assert tensor.bytes(256) == bytes([5]) * 256
        tensor.delete()
        frame.release()
        scene.leases_are(0)
        assert scene.next(6).sequence == 2


# Loops ------------------------------------------------------------------------------------------------------------------


@fact
def loop_ends_with_the_ring():
    with Scene() as scene:
        scene.host.tell("for n in range(20): push(n)\nring.close()")
        got = [Consumed(frame, **NEW).bytes(1)[0] for frame in scene.reader]
        assert got == list(range(20))
        scene.host.hear()


@fact
def loop_ends_with_the_ring_whatever_failed_in_this_thread_before():
    raises(weir.WeirError, weir.share.Importer, "nobody")
    raises(weir.WeirError, weir.share.Exporter, "frames", policy_text="weir: 1\npools: { other: {} }\n")
    with Scene() as scene:
        scene.host.run("ring.close()")
        assert list(scene.reader) == []


@fact
def descriptor_is_readable_while_there_is_a_frame():
    with Scene() as scene:
        assert select.select([scene.reader], [], [], 0)[0] == []
        scene.host.run("push(1)")
        assert select.select([scene.reader], [], [], 60)[0]
        scene.reader.next(0).release()
        assert select.select([scene.reader], [], [], 0)[0] == []


@fact
def tasks_wait_for_frames_and_others_run_meanwhile():
    async def consume(scene, got):
        async for frame in scene.reader:
            with frame:
                got.append(Consumed(frame, **NEW).bytes(1)[0])
            await asyncio.sleep(0)

    async def run(scene):
        got, ticks = [], 0
        task = asyncio.ensure_future(consume(scene, got))
        while not ticks:
            await asyncio.sleep(0)
            ticks += 1
        scene.host.tell("for n in range(100): push(n)\nring.close()")
        await task
        assert got == list(range(100)), got
        scene.host.hear()

    with Scene() as scene:
        asyncio.run(run(scene))


@fact
def loops_keep_no_frame_that_their_body_has_let_go_of():
    async def consume(reader, got):
        async for frame in reader:
            got.append(frame.sequence)
            del frame

    with Scene() as scene:
        got = []
        with scene.importer.reader("camera", 1) as reader:
            scene.reader.close()
            scene.host.tell("for n in range(3): push(n)\nring.close()")
            asyncio.run(consume(reader, got))
            scene.host.hear()
        assert got == [1, 2, 3]


@fact
def task_that_is_cancelled_loses_no_frame():
    async def run(scene):
        for number in range(1, 11):
            task = asyncio.ensure_future(scene.reader.next_async())
            await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
            scene.host.run("push(%d)" % number)
            with await scene.reader.next_async() as frame:
                assert frame.sequence == number

    with Scene() as scene:
        asyncio.run(run(scene))


@fact
def tasks_are_told_of_the_exporters_death():
    async def run(scene):
        task = asyncio.ensure_future(scene.reader.next_async())
        await asyncio.sleep(0)
        scene.host.kill()
        try:
            await task
        except weir.WeirError as error:
            assert error.status == weir.Status.GONE
            return
        raise AssertionError("it goes on")

    with Scene() as scene:
        asyncio.run(run(scene))


@fact
def tasks_are_told_that_their_reader_is_closed():
    async def run(scene):
        task = asyncio.ensure_future(scene.reader.next_async())
        await asyncio.sleep(0)
        fd = scene.reader.fileno()
        scene.reader.close()
        # A descriptor that has its number now is another one, and stays in the loop.
        other = os.dup(1)
        assert other != fd
        os.close(other)
        has(str((await asyncio.gather(task, return_exceptions=True))[0]), "the reader of ring 'camera' is closed")
        with scene.importer.reader("camera") as another:
            scene.host.run("push(1)")
            assert (await another.next_async()).sequence == 1

    with Scene() as scene:
        asyncio.run(run(scene))


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@fact
def thousands_of_leases_are_all_given_back_and_leave_nothing():
    with Scene() as scene:
        count = 11000 if os.environ.get("WEIR_TEST_NIGHTLY") else 2000
        scene.host.tell("for n in range(%d): push(n)" % count)
        before = ()
        for number in range(count):
            frame = scene.reader.next(60.0)
            if numpy is None:
                assert Consumed(frame, **NEW).bytes(1)[0] == number % 256
            else:
                assert numpy.from_dlpack(frame)[3, 3] == number % 256
            if number == 1000:
                gc.collect()
                before = resident(), len(os.listdir("/proc/self/fd"))
        del frame
        scene.host.hear()
        gc.collect()
        scene.leases_are(0)
        assert scene.host.value("e.info()['dropped']") == 0
        assert len(os.listdir("/proc/self/fd")) == before[1]
        assert resident() - before[0] < 2 << 20, (resident(), before)


if numpy is not None:

    @fact
    def numpy_takes_frames_as_they_are():
        with Scene() as scene:
            with scene.next(2, shape=(3, 4), dtype="int16") as frame:
                array = numpy.from_dlpack(frame)
                assert array.shape == (3, 4) and (array == 0x0202).all() and not array.flags.writeable
                alike = numpy.asarray(frame.array((12,), "int16"))
            scene.reader.close()
            scene.importer.close()
            assert (alike == 0x0202).all() and not alike.flags.writeable
            part = array[1:, ::2]
            del array, alike, frame
            assert (part == 0x0202).all()
            scene.leases_are(1)
            del part
            scene.leases_are(0)


tap.main()
