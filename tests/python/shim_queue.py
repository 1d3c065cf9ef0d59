# SPDX-License-Identifier: MIT
"""Tensors through a queue of torch.multiprocessing, on a simulated machine with a name: started by shim_test.py. Nothing fills them but ctypes."""
import ctypes
import gc
import os
import sys

import torch
import torch.multiprocessing
import weir.torch

POLICY = "weir: 1\ndefaults: { pool: tensors }\npools: { tensors: { backing: arena }, native: {} }\n"
SIZES = [512, 70000, 3 << 20, 4096, 9 << 20]


def enable():
    weir.torch.enable(policy_text=POLICY, shim=True, gpu="sim")
    torch.cuda.init()


def make(size, byte):
    tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
    ctypes.memset(tensor.data_ptr(), byte, size)
    return tensor


def is_all(tensor, byte):
    return ctypes.string_at(tensor.data_ptr(), tensor.numel()) == bytes([byte]) * tensor.numel()


def census():
    gc.collect()
    torch.cuda.ipc_collect()
    return torch.cuda.memory_allocated(), len(os.listdir("/proc/self/fd"))


def receive(tensors, answers, count):
    enable()
    for round_ in range(2):
        for number in range(count):
            tensor = tensors.get(timeout=60)
            assert tensor.numel() == SIZES[number % len(SIZES)] and is_all(tensor, number % 251), number
            del tensor
        answers.put(census())
    whole, part, again = tensors.get(timeout=60)
    assert part.data_ptr() == whole.data_ptr() + 100 and again.data_ptr() == whole.data_ptr()
    ctypes.memset(part.data_ptr(), 9, part.numel())
    try:
        whole.untyped_storage()._share_cuda_()
        answers.put("sent on")
    except RuntimeError as error:
        answers.put(str(error))
    del whole, part, again
    gc.collect()
    answers.put(census())


def main(count):
    enable()
    context = torch.multiprocessing.get_context("spawn")
    tensors, answers = context.Queue(8), context.Queue()
    process = context.Process(target=receive, args=(tensors, answers, count), daemon=True)
    process.start()
    for round_ in range(2):
        for number in range(count):
            tensors.put(make(SIZES[number % len(SIZES)], number % 251))
        there, here = answers.get(timeout=60), census()
        assert there[0] == here[0] == 0, (there, here)
        if round_ == 0:
            first = there, here
    assert (there, here) == first, (there, here, first)
    whole = make(1000, 7)
    tensors.put((whole, whole[100:200], whole))
    assert "received from another process" in answers.get(timeout=60)
    answers.get(timeout=60)
    process.join(60)
    assert process.exitcode == 0
    assert is_all(whole[100:200], 9) and is_all(whole[200:], 7)
    with weir.torch.pool("native"):
        tensor = make(1000, 1)
    try:
        tensor.untyped_storage()._share_cuda_()
    except RuntimeError as error:
        assert "of pool 'native' cannot be sent" in str(error), error
    else:
        raise AssertionError("memory of a pool of CUDA's was sent")
    print("good")


if __name__ == "__main__":
    main(int(sys.argv[1]))
