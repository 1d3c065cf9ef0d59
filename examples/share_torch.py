#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
share_torch.py - one process makes images on the GPU, and others infer on the same ones, where they are.

    python share_torch.py                       a producer and two consumers, which it starts itself
    WEIR_GPU=sim WEIR_SIM=name=demo python share_torch.py      without a GPU, and with NumPy in place of torch

Each image is written once, into a slot of the ring. The consumers take it as a tensor without copying it, apply a small
model, and let go of it; then the slot is free again. On the GPU nobody waits for the GPU: the consumers' streams wait
for the producer's, and the producer's for theirs.
"""

import argparse
import os
import subprocess
import sys
import time

import weir.share

SHAPE, SLOTS = (64, 64), 4
POLICY = """
weir: 1
defaults: { pool: work }
pools:
  work: {}
  images:
    devices: [0]      # a socket is for one pool, so the pool is for one device
    ipc: posix_fd
    max_size: 1GiB
    share: { socket: images }
"""
SIMULATED = os.environ.get("WEIR_GPU") == "sim"
if SIMULATED:
    import numpy as np
else:
    import torch


def stream():
    """The stream on which this process works; on the simulator there is none to choose."""
    return None if SIMULATED else torch.cuda.current_stream()


def paint(image, number):
    """Stands for a decoder."""
    image[:] = number % 256 if SIMULATED else torch.full(SHAPE, number % 256, dtype=torch.uint8, device="cuda")


def infer(image):
    """Stands for a model: how bright it is."""
    return float(image.mean() if SIMULATED else image.float().mean())


def as_tensor(array):
    # NumPy makes every array of DLPack read-only before 2.1, but not what it takes by __array_interface__.
    return np.asarray(array) if SIMULATED else torch.from_dlpack(array)


def produce(count, readers):
    with weir.share.Exporter("images", policy_text=POLICY, close_timeout=60) as exporter:
        with exporter.ring("camera", SHAPE[0] * SHAPE[1], SLOTS, stream=stream()) as ring:
            consumers = [subprocess.Popen([sys.executable, __file__, "--consume"]) for _ in range(readers)]
            # Readers get what is pushed once they are there.
            while ring.readers < readers:
                if any(consumer.poll() is not None for consumer in consumers):
                    sys.exit("share_torch: a consumer has ended before the first image")
                time.sleep(0.001)
            for number in range(count):
                with ring.take(60, stream=stream()) as slot:
                    paint(as_tensor(slot.array(SHAPE, "uint8")), number)
                    slot.metadata = b"%d" % number
        print(f"{count} images were produced")
    failed = [consumer for consumer in consumers if consumer.wait()]
    return 1 if failed else 0


def consume():
    wrong = count = 0
    with weir.share.Importer("images", wait=60) as importer, importer.reader("camera", stream=stream()) as reader:
        for frame in reader:
            # The frame goes back at the end of the block, once its tensor is gone, too: who wants to keep one, copies it.
            with frame:
                wrong += infer(as_tensor(frame.array(writable=not SIMULATED))) != int(frame.metadata) % 256
            count += 1
    print(f"{count} images were inferred on, {wrong} of them wrong")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description="Shares images between processes.")
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--readers", type=int, default=2)
    parser.add_argument("--consume", action="store_true", help="what the processes are told that it starts")
    arguments = parser.parse_args()
    return consume() if arguments.consume else produce(arguments.images, arguments.readers)


if __name__ == "__main__":
    sys.exit(main())
