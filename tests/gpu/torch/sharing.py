#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sharing.py - weir.share on a GPU: torch to torch, and CuPy where it is there. Speaks TAP. Run by run.sh share-python."""

import gc
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))

import tap  # noqa: E402
from share_host import POLICY, Host  # noqa: E402
from tap import fact, raises  # noqa: E402

os.chmod(tap.FOLDER.name, 0o700)
os.environ["XDG_RUNTIME_DIR"] = tap.FOLDER.name
try:
    import torch

    if not torch.cuda.is_available():
        raise ImportError("torch finds no GPU")
except ImportError as error:
    print("1..0 # SKIP %s" % error)
    sys.exit(0)
try:
    import cupy
except ImportError:
    cupy = None

import weir  # noqa: E402
import weir.share  # noqa: E402

SHAPE = (256, 512)
EXPORT = """
import torch, weir.share
e = weir.share.Exporter("frames", policy_text=%r)
ring = e.ring("camera", 256 * 512 * 4, 4)
side = torch.cuda.Stream()
def push(number, busy=False):
    with torch.cuda.stream(side), ring.take(60, stream=side) as slot:
        tensor = torch.from_dlpack(slot.array(%r, "float32"))
        tensor.fill_(-1)
        if busy:
            torch.cuda._sleep(200000000)
        tensor.fill_(number)
""" % (POLICY, SHAPE)


class Scene:
    def __init__(self, **options):
        self.options = options

    def __enter__(self):
        self.host = Host(EXPORT)
        self.importer = weir.share.Importer("frames", timeout=60.0, **self.options)
        self.reader = self.importer.reader("camera", 3)
        return self

    def __exit__(self, *error):
        self.reader.close()
        self.importer.close()
        if self.host.process.poll() is None:
            self.host.end()


def tensor_of(frame):
    return torch.from_dlpack(frame.array(writable=True))


@fact
def torch_sees_what_torch_wrote_on_another_stream():
    with Scene() as scene:
        for number in range(1, 101):
            scene.host.tell("push(%d, %r)" % (number, number % 10 == 0))
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream), scene.reader.next(60, stream=stream if number % 2 else None) as frame:
                tensor = tensor_of(frame)
                assert tensor.is_cuda and tensor.shape == SHAPE and bool((tensor == number).all()), number
                del tensor
            stream.synchronize()
            scene.host.hear()
        gc.collect()
        scene.host.until("e.info()['leases']", 0)


@fact
def slot_is_not_written_again_before_its_readers_are_done():
    with Scene() as scene:
        copies = []
        scene.host.tell("for n in range(1, 21): push(n)")
        for _ in range(20):
            with scene.reader.next(60) as frame:
                tensor = tensor_of(frame)
                torch.cuda._sleep(20000000)
                copies.append(tensor.clone())
                del tensor
        scene.host.hear()
        assert [float(copy.min()) for copy in copies] == [float(copy.max()) for copy in copies] == list(range(1, 21))


@fact
def plain_from_dlpack_takes_a_frame_where_torch_speaks_dlpack_1():
    with Scene() as scene:
        scene.host.run("push(3)")
        with scene.reader.next(60) as frame:
            try:
                assert bool((torch.from_dlpack(frame) == 3).all())
            except BufferError as error:
                tap.has(str(error), "writable=True")


@fact
def array_interface_is_taken_by_torch_and_cupy():
    with Scene() as scene:
        scene.host.run("push(5)")
        with scene.reader.next(60) as frame:
            view = frame.array(writable=True)
            assert bool((torch.as_tensor(view, device="cuda") == 5).all())
            if cupy is not None:
                assert bool((cupy.asarray(view) == 5).all())
                assert bool((cupy.from_dlpack(view) == 5).all())
            torch.cuda.synchronize()
            del view


@fact
def tensor_keeps_lease_mapping_and_import():
    with Scene() as scene:
        scene.host.run("push(7)")
        with scene.reader.next(60) as frame:
            tensor = tensor_of(frame)
        scene.reader.close()
        scene.importer.close()
        del frame
        gc.collect()
        assert bool((tensor == 7).all())
        assert scene.host.value("(e.info()['leases'], e.info()['importers'])") == (1, 1)
        del tensor
        scene.host.until("(e.info()['leases'], e.info()['importers'])", (0, 0))


@fact
def copies_and_other_devices_are_refused_with_the_remedy():
    with Scene() as scene:
        scene.host.run("push(7)")
        with scene.reader.next(60) as frame:
            tap.has(str(raises(BufferError, frame.__dlpack__, copy=True, stream=1, max_version=(1, 0))), "clone()")
            raises(BufferError, frame.__dlpack__, dl_device=(1, 0), stream=1, max_version=(1, 0))
            raises(BufferError, frame.__dlpack__, stream=0, max_version=(1, 0))


@fact
def tensors_survive_the_exporters_death():
    with Scene(host_waits=True) as scene:
        scene.host.run("push(9)")
        with scene.reader.next(60) as frame:
            tensor = tensor_of(frame)
        scene.host.kill()
        assert bool((tensor == 9).all())
        assert raises(weir.WeirError, scene.reader.next, 60.0).status == weir.Status.GONE
        assert bool((tensor == 9).all())
        del tensor, frame
        torch.cuda.synchronize()


@fact
def ten_thousand_leases_are_all_given_back_and_leave_nothing():
    with Scene() as scene:
        scene.host.tell("for n in range(11000): push(n)")
        wrong = torch.zeros((), dtype=torch.int64, device="cuda")
        before = 0
        for number in range(11000):
            with scene.reader.next(60) as frame:
                tensor = tensor_of(frame)
                wrong += tensor[3, 3] != number
                del tensor
            if number == 1000:
                torch.cuda.synchronize()
                before = torch.cuda.mem_get_info()[0]
        scene.host.hear()
        assert int(wrong) == 0
        gc.collect()
        scene.host.until("e.info()['leases']", 0)
        assert scene.host.value("e.info()['dropped']") == 0
        assert before - torch.cuda.mem_get_info()[0] < 64 * tap.MIB


@fact
def eviction_ends_the_reader_and_leaves_its_tensors():
    with Scene() as scene:
        scene.host.run("push(4)")
        with scene.reader.next(60) as frame:
            tensor = tensor_of(frame)
        scene.host.run("e.evict(%d)" % os.getpid())
        raises(weir.WeirError, scene.reader.next, 60.0)
        assert bool((tensor == 4).all())
        del tensor, frame


tap.main()
