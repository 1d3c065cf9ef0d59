# SPDX-License-Identifier: MIT
"""Memory that Weir maps itself: graphs that use it, and NCCL, which registers it."""

import ctypes
from typing import Any

import torch
from allocators import loaded_library
from harness import MIB, SHIM, Run, case, note

POLICY = "weir: 1\npools: { tensors: { %s, release_threshold: all, peer_access: all } }\n"


@case(modes=(SHIM,), starts_itself=True)
def graph_replays_on_memory_of_an_arena(run: Run) -> None:
    """The tensors were made before the capture, so they are the arena's; the arena grows and shrinks between replays."""
    run.start(POLICY % "backing: arena")
    source = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
    total = torch.zeros_like(source)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total.add_(source)
    for times in range(1, 9):
        graph.replay()
        other = torch.full((64 * MIB,), times, device="cuda", dtype=torch.uint8)
        assert int(other[-1]) == times
        del other
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        assert torch.equal(total, source * times), f"replay {times}"


class Nccl:
    """The library that torch has loaded, with a communicator for each of two devices of this process."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(loaded_library("libnccl.so"))
        self.communicators = (ctypes.c_void_p * 2)()
        self.check(self.library.ncclCommInitAll(self.communicators, 2, None))

    def check(self, code: int) -> None:
        """Raises for any answer but success."""
        self.library.ncclGetErrorString.restype = ctypes.c_char_p
        assert code == 0, self.library.ncclGetErrorString(code).decode()

    def register(self, tensor: torch.Tensor) -> int:
        """NCCL's answer; a registration ends at once."""
        communicator = ctypes.c_void_p(self.communicators[0])
        handle = ctypes.c_void_p()
        size = ctypes.c_size_t(tensor.numel() * tensor.element_size())
        code = int(
            self.library.ncclCommRegister(
                communicator, ctypes.c_void_p(tensor.data_ptr()), size, ctypes.byref(handle)
            )
        )
        if code == 0:
            self.check(self.library.ncclCommDeregister(communicator, handle))
        return code


def retained(tensor: torch.Tensor) -> int:
    """What the driver answers to the question that NCCL's user buffers begin with: whose page this is."""
    driver: Any = ctypes.CDLL("libcuda.so.1")
    page = ctypes.c_ulonglong()
    code = int(driver.cuMemRetainAllocationHandle(ctypes.byref(page), ctypes.c_void_p(tensor.data_ptr())))
    if code == 0:
        driver.cuMemRelease(page)
    return code


@case(modes=(SHIM,), starts_itself=True)
def a_page_of_an_arena_has_a_handle(run: Run) -> None:
    run.start(POLICY % "backing: arena")
    assert retained(torch.zeros(16 * MIB, device="cuda", dtype=torch.uint8)) == 0


@case(modes=(SHIM,), starts_itself=True)
def memory_of_a_pool_has_no_handle(run: Run) -> None:
    run.start(POLICY % "backing: new")
    assert retained(torch.zeros(16 * MIB, device="cuda", dtype=torch.uint8)) != 0


@case(modes=(SHIM,), gpus=2, starts_itself=True)
def a_block_of_an_arena_registers_with_nccl(run: Run) -> None:
    run.start(POLICY % "backing: arena")
    nccl = Nccl()
    nccl.check(nccl.register(torch.zeros(16 * MIB, device="cuda:0", dtype=torch.uint8)))


@case(modes=(SHIM,), gpus=2, starts_itself=True)
def nccl_says_whether_it_registers_a_block_of_a_pool(run: Run) -> None:
    """Versions differ: some refuse, some go on without registering."""
    run.start(POLICY % "backing: new")
    note(f"ncclCommRegister: {Nccl().register(torch.zeros(16 * MIB, device='cuda:0', dtype=torch.uint8))}")
