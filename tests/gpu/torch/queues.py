#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""queues.py - CUDA tensors through a queue of torch.multiprocessing, with Weir and with torch's own allocator.

    queues.py [--count N] [--mode MODE]... [--device N] [--limit SECONDS] [--json FILE]

For each mode (an allocator; native and shim unless named) a process sends N tensors (10,000) to another one that was
spawned, which looks at every byte of them. Then some are sent one at a time, for what a tensor costs the host. Fails if
a byte is wrong, or if memory or, beyond what torch's own allocator leaves, descriptors are left behind. The last line
is a JSON object. Weir is found on PYTHONPATH and by $WEIR_TORCH_LIBRARY, as by run.py.
"""

import argparse
import gc
import json
import os
import pickle
import signal
import statistics
import subprocess
import sys
import time
from multiprocessing.reduction import ForkingPickler

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "bench", "torch"))

import allocators  # noqa: E402
import torch  # noqa: E402
import torch.multiprocessing  # noqa: E402

MIB = 1 << 20
SIZES = (512, 4096, 100_000, MIB, 3 * MIB, 512, 70_000, 20 * MIB, 8192)
WARM = 300  # tensors after which nothing more may be left behind
TIMED = 500
TIMED_SIZES = (4096, 3 * MIB, 64 * MIB)
DEPTH = 32  # of the queue
SLACK = 8  # descriptors more than torch's own allocator leaves
POLICY = allocators.POLICY


def make(number: int, size: int) -> torch.Tensor:
    return torch.full((size,), number % 251, dtype=torch.uint8, device="cuda")


def is_right(tensor: torch.Tensor, number: int) -> bool:
    return bool((tensor == number % 251).all())


def expect(condition: bool, words: str) -> None:
    if not condition:
        raise AssertionError(words)


def census() -> dict:
    """What this process has: bytes of tensors, and descriptors."""
    gc.collect()
    torch.cuda.ipc_collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return {"bytes": torch.cuda.memory_allocated(), "fds": len(os.listdir("/proc/self/fd"))}


def take_many(tensors, first: int, count: int) -> None:
    for number in range(first, first + count):
        tensor = tensors.get(timeout=60)
        expect(tensor.numel() == SIZES[number % len(SIZES)], f"tensor {number} has {tensor.numel()} bytes")
        expect(is_right(tensor, number), f"tensor {number} has wrong bytes")
        del tensor


def take_timed(orders, count: int) -> dict:
    """The host's time of tensors that come one by one: to receive each, and to drop it."""
    received, dropped = [], []
    for number in range(count):
        data = orders.recv_bytes()
        begun = time.perf_counter_ns()
        tensor = pickle.loads(data)
        seen = time.perf_counter_ns()
        expect(is_right(tensor, number), f"timed tensor {number} has wrong bytes")
        torch.cuda.synchronize()
        last = time.perf_counter_ns()
        del tensor
        dropped.append(time.perf_counter_ns() - last)
        received.append(seen - begun)
        orders.send(None)
    return {"receive_us": statistics.median(received) / 1000, "drop_us": statistics.median(dropped) / 1000}


def take_shapes(tensors) -> None:
    """Views, one tensor twice, and one that is larger than any page."""
    whole, part, again = tensors.get(timeout=60)
    expect(whole.data_ptr() + MIB == part.data_ptr() and whole.data_ptr() == again.data_ptr(), "views do not lie in their tensor")
    expect(is_right(whole, 7) and is_right(part, 7) and part.numel() == 1000, "a view has wrong bytes")
    part.fill_(9)
    torch.cuda.synchronize()
    large = tensors.get(timeout=60)
    expect(is_right(large, 5) and large.numel() == 700 * MIB, "the large tensor has wrong bytes")


def obey(order: str, words: list, tensors, orders):
    if order == "many":
        return take_many(tensors, *words)
    if order == "timed":
        return take_timed(orders, *words)
    if order == "shapes":
        return take_shapes(tensors)
    return census()


def receive(mode: str, device: int, tensors, orders) -> None:
    """The process that receives."""
    signal.alarm(100)
    allocators.use(mode, POLICY)
    torch.cuda.set_device(device)
    torch.zeros(1, device="cuda")
    while True:
        order, *words = orders.recv()
        if order == "end":
            return
        try:
            answer = obey(order, words, tensors, orders)
        except BaseException as error:  # the other side reports it
            orders.send({"error": f"{type(error).__name__}: {error}"})
            raise
        orders.send(answer)


def send_and_wait(mode: str, device: int, tensors, said) -> None:
    """A process that sends one tensor, and is killed."""
    signal.alarm(100)
    allocators.use(mode, POLICY)
    torch.cuda.set_device(device)
    kept = make(77, 50 * MIB)
    torch.cuda.synchronize()
    tensors.put(kept)
    said.recv()


class Receiver:
    def __init__(self, mode: str, device: int) -> None:
        context = torch.multiprocessing.get_context("spawn")
        self.orders, theirs = context.Pipe()
        self.tensors = context.Queue(DEPTH)
        self.process = context.Process(target=receive, args=(mode, device, self.tensors, theirs), daemon=True)
        self.process.start()

    def tell(self, *order) -> None:
        self.orders.send(order)

    def answer(self):
        expect(self.orders.poll(90), "the receiver says nothing")
        answer = self.orders.recv()
        expect(not (isinstance(answer, dict) and "error" in answer), str(answer))
        return answer

    def ask(self, *order):
        self.tell(*order)
        return self.answer()


def send_many(receiver: Receiver, first: int, count: int) -> float:
    receiver.tell("many", first, count)
    begun = time.perf_counter()
    for number in range(first, first + count):
        tensor = make(number, SIZES[number % len(SIZES)])
        while True:
            try:
                receiver.tensors.put(tensor, timeout=1)
                break
            except Exception as error:  # the queue is full: is its reader there?
                if receiver.orders.poll(0) or not receiver.process.is_alive():
                    receiver.answer()
                    raise AssertionError("the receiver has ended") from error
        del tensor
    receiver.answer()
    return time.perf_counter() - begun


def send_timed(receiver: Receiver, size: int, count: int) -> dict:
    """One by one; each is dropped here before the next is made."""
    shared = []
    receiver.tell("timed", count)
    for number in range(count):
        tensor = make(number, size)
        begun = time.perf_counter_ns()
        data = bytes(ForkingPickler.dumps(tensor))
        shared.append(time.perf_counter_ns() - begun)
        receiver.orders.send_bytes(data)
        receiver.answer()
        del tensor
        torch.cuda.ipc_collect()
    return {"size": size, "share_us": statistics.median(shared) / 1000, **receiver.answer()}


def send_shapes(receiver: Receiver) -> None:
    whole = make(7, 2 * MIB)
    large = make(5, 700 * MIB)
    receiver.tell("shapes")
    receiver.tensors.put((whole, whole[MIB : MIB + 1000], whole))
    receiver.tensors.put(large)
    receiver.answer()
    expect(int(whole[MIB]) == 9 and int(whole[0]) == 7, "what the receiver wrote is not here")


def survive(mode: str, device: int) -> None:
    """The tensor of a killed process can be read on."""
    context = torch.multiprocessing.get_context("spawn")
    tensors, (said, theirs) = context.Queue(), context.Pipe()
    sender = context.Process(target=send_and_wait, args=(mode, device, tensors, theirs), daemon=True)
    sender.start()
    tensor = tensors.get(timeout=60)
    expect(is_right(tensor, 77), "a tensor of another process has wrong bytes")
    os.kill(sender.pid, signal.SIGKILL)
    sender.join()
    expect(is_right(tensor, 77), "the tensor of a killed process has wrong bytes")
    said.close()


def run(mode: str, count: int, device: int) -> dict:
    allocators.use(mode, POLICY)
    torch.cuda.set_device(device)
    torch.zeros(1, device="cuda")
    receiver = Receiver(mode, device)
    send_many(receiver, 0, WARM)
    send_shapes(receiver)
    here, there, free = census(), receiver.ask("census"), torch.cuda.mem_get_info()[0]
    seconds = send_many(receiver, WARM, count)
    after, there_after, free_after = census(), receiver.ask("census"), torch.cuda.mem_get_info()[0]
    timed = [send_timed(receiver, size, TIMED) for size in TIMED_SIZES]
    left = {
        "bytes": after["bytes"] - here["bytes"],
        "bytes_there": there_after["bytes"] - there["bytes"],
        "device": free - free_after,
        "fds": after["fds"] - here["fds"],
        "fds_there": there_after["fds"] - there["fds"],
    }
    receiver.tell("end")
    receiver.process.join(30)
    expect(receiver.process.exitcode == 0, f"the receiver ended with {receiver.process.exitcode}")
    if mode == allocators.SHIM:
        survive(mode, device)
    expect(left["bytes"] <= 0 and left["bytes_there"] <= 0, f"bytes are left: {left}")
    expect(left["device"] < 64 * MIB, f"memory of the device is left: {left}")
    return {"mode": mode, "count": count, "us": seconds / count * 1e6, "left": left, "timed": timed}


def run_apart(mode: str, options: argparse.Namespace, limit: float) -> dict:
    command = [sys.executable, os.path.abspath(__file__), "--one", mode, "--count", str(options.count), "--device", str(options.device)]
    made = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=limit, env=allocators.environment(mode), check=False
    )
    lines = made.stdout.splitlines()
    if made.returncode != 0 or not lines:
        print(made.stdout, flush=True)
        raise AssertionError(f"{mode}: exit status {made.returncode}")
    return json.loads(lines[-1])


def table(results: list) -> None:
    print(f"{'mode':12} {'tensors':>8} {'us each':>9}   share / receive / drop in us, by size" + " " * 26 + "fds left")
    for result in results:
        parts = "   ".join(
            f"{one['size'] // 1024:6} KiB {one['share_us']:5.0f} /{one['receive_us']:6.0f} /{one['drop_us']:5.0f}"
            for one in result["timed"]
        )
        left = result["left"]
        print(f"{result['mode']:12} {result['count']:8} {result['us']:9.0f}   {parts}   {left['fds']} + {left['fds_there']}")


def judge(results: list) -> bool:
    """Weir's descriptors beside those that torch leaves by itself."""
    by_mode = {result["mode"]: result["left"] for result in results}
    allowed = by_mode.get(allocators.NATIVE, {"fds": 0, "fds_there": 0})
    good = True
    for mode, left in by_mode.items():
        for key in ("fds", "fds_there"):
            if mode != allocators.NATIVE and left[key] > max(0, allowed[key]) + SLACK:
                print(f"{mode} leaves {left[key]} descriptors ({key}), native {allowed[key]}")
                good = False
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--mode", action="append")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--json")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        signal.alarm(int(options.limit))
        print(json.dumps(run(options.one, options.count, options.device)))
        return 0
    if not torch.cuda.is_available():
        print("SKIP: torch finds no GPU")
        return 77
    deadline = time.monotonic() + options.limit
    results, good = [], True
    for mode in options.mode or (allocators.NATIVE, allocators.SHIM):
        try:
            results.append(run_apart(mode, options, max(1.0, deadline - time.monotonic())))
        except (AssertionError, subprocess.TimeoutExpired) as error:
            print(f"{mode}: {error}", flush=True)
            good = False
    table(results)
    good = judge(results) and good
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file)
    print(json.dumps({"good": good, "results": results}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
