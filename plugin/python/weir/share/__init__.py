# SPDX-License-Identifier: MIT
"""
GPU memory shared between processes, without copies.

    with weir.share.Exporter("frames", policy="share.yaml") as exporter, exporter.ring("camera", 480 * 640 * 3) as ring:
        with ring.take() as slot:                              # pushed at the end of the block
            torch.from_dlpack(slot.array((480, 640, 3), "uint8")).copy_(image)

    with weir.share.Importer("frames") as importer, importer.reader("camera") as reader:
        for frame in reader:                                   # in a coroutine: async for frame in reader
            with frame:
                infer(torch.from_dlpack(frame))

doc/python-sharing.md says which object keeps which memory, and what happens when a process dies. Importing this loads nothing.
"""

from weir.share._array import Array
from weir.share._export import Block, Exporter, Ring, Slot
from weir.share._import import Importer, Lease, Reader

__all__ = ["Array", "Block", "Exporter", "Importer", "Lease", "Reader", "Ring", "Slot"]
