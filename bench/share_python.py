#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
share_python.py - what weir.share costs the host for each frame, beyond the calls of C: with torch on a GPU, or with NumPy and WEIR_GPU=sim.

    share_python.py [--rounds N] [--json FILE]

A producer and a consumer, each in its process, take turns: the one pushes a batch, and then the other one reads it, so
that neither waits while its time is taken, which is the time of its CPU. Each batch goes once through weir.share, with a tensor of each slot and of
each frame, and once through the functions of C alone. Those are called by ctypes, whose own time for empty calls is taken off.
The figure is the difference of the medians for a frame, of both sides together.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import weir.share
from weir._library import Error
from weir.share import _native

BATCH, SIZE = 64, 65536
POLICY = "weir: 1\ndefaults: { pool: work }\npools: { work: {}, frames: { devices: [0], ipc: posix_fd, share: { socket: bench } } }\n"
SIMULATED = os.environ.get("WEIR_GPU") == "sim"
if SIMULATED:
    import numpy as library
else:
    import torch as library


def timed(function):
    begin = time.thread_time_ns()
    for _ in range(BATCH):
        function()
    return (time.thread_time_ns() - begin) / BATCH / 1000


def functions():
    """Those of C that are timed alone."""
    c, word, error = _native.load(), ctypes.c_void_p, ctypes.POINTER(Error)
    c.weir_ring_take.argtypes = [word, ctypes.c_uint, word, error, ctypes.POINTER(word)]
    c.weir_ring_push.argtypes = [word, word, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, word, error]
    c.weir_reader_next.argtypes = [word, ctypes.c_uint, word, error, ctypes.POINTER(word)]
    c.weir_lease_release.argtypes = [word, word, error]
    return c


def empty_call(c):
    """Microseconds of a call by ctypes that does nothing."""
    return statistics.median(timed(lambda: c.weir_torch_hold_drop(None)) for _ in range(20))


class Producer:
    def __init__(self):
        self.exporter = weir.share.Exporter("frames", policy_text=POLICY)
        self.ring = self.exporter.ring("frames", SIZE, 2 * BATCH)
        self.c, self.error, self.ptr = functions(), Error(), ctypes.c_void_p()
        self.metadata = b"weir/1 float32 128x128\n"

    def through_python(self):
        with self.ring.take(60) as slot:
            library.from_dlpack(slot.array((128, 128), "float32"))

    def through_c(self):
        ring, c = self.ring._hold.thing, self.c
        c.weir_ring_take(ring, 60000, None, ctypes.byref(self.error), ctypes.byref(self.ptr))
        c.weir_ring_push(ring, self.ptr, SIZE, self.metadata, len(self.metadata), None, ctypes.byref(self.error))

    def serve(self):
        print("ready", empty_call(self.c), flush=True)
        for line in sys.stdin:
            print(timed(self.through_python if line == "python\n" else self.through_c), flush=True)


class Consumer:
    def __init__(self):
        self.importer = weir.share.Importer("bench", wait=60)
        self.reader = self.importer.reader("frames", BATCH)
        self.c, self.error, self.lease = functions(), Error(), ctypes.c_void_p()

    def through_python(self):
        with self.reader.next(60) as frame:
            library.from_dlpack(frame)

    def through_c(self):
        c = self.c
        c.weir_reader_next(self.reader._hold.thing, 60000, None, ctypes.byref(self.error), ctypes.byref(self.lease))
        c.weir_lease_release(self.lease, None, ctypes.byref(self.error))


def main():
    parser = argparse.ArgumentParser(description="Times frames through weir.share.")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--json")
    parser.add_argument("--produce", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.produce:
        Producer().serve()
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        if SIMULATED:
            os.environ["WEIR_SIM"] = "name=bench-%d" % os.getpid()
        command = [sys.executable, os.path.abspath(__file__), "--produce"]
        producer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        producer_empty = float(producer.stdout.readline().split()[1])
        consumer = Consumer()
        consumer_empty = empty_call(consumer.c)
        times = {"python": [[], []], "c": [[], []]}
        for number in range(arguments.rounds + 10):
            for way, function in (("python", consumer.through_python), ("c", consumer.through_c)):
                producer.stdin.write(way + "\n")
                producer.stdin.flush()
                pushed = float(producer.stdout.readline())
                read = timed(function)
                if number >= 10:  # the first ones map the slots
                    times[way][0].append(pushed)
                    times[way][1].append(read)
        producer.stdin.close()
        producer.wait()
        consumer.importer.close()
    result = {"library": library.__name__ + " " + library.__version__, "frames": arguments.rounds * BATCH}
    for side, index, empty in (("push", 0, producer_empty), ("read", 1, consumer_empty)):
        result[side + "_python_us"] = statistics.median(times["python"][index])
        result[side + "_c_us"] = statistics.median(times["c"][index]) - 2 * empty
    result["beyond_c_us"] = sum(result[side + "_python_us"] - result[side + "_c_us"] for side in ("push", "read"))
    for name, value in result.items():
        print(f"{name:16} {value:.2f}" if isinstance(value, float) else f"{name:16} {value}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
