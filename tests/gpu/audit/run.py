#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`weir record --any` on a GPU: programs by each way to the driver, and those of CuPy, JAX and PyTorch where they are there.

run.py BUNDLE: facts as TAP, after what calls cost, recorded and not: the median of 7 rounds in turn, and the range.
"""

import glob
import importlib.util
import os
import subprocess
import sys
import tempfile

BUNDLE = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.getcwd()
sys.path[:0] = [os.path.join(BUNDLE, "tests", folder) for folder in ("python", "tools")]
from tap import fact, main  # noqa: E402
from weirtrace import Trace  # noqa: E402

WEIR = os.path.join(BUNDLE, "tools", "weir")
WORKLOAD = os.path.join(BUNDLE, "tests", "gpu", "audit", "workload")
ENVIRONMENT = dict(os.environ, WEIR_AUDIT_LIBRARY=os.path.join(BUNDLE, "audit", "libweir-audit.so"))
COUNT = 500


def run(*command, record=True, options=()):
    """What the command prints, and its trace."""
    with tempfile.TemporaryDirectory() as folder:
        before = [WEIR, "record", "--any", "-o", folder + "/%p.weir", *options, "--"] if record else []
        done = subprocess.run([*before, *command], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 0, done.stderr.decode()
        traces = [Trace(path) for path in glob.glob(folder + "/*.weir")]
        assert len(traces) == record, done.stderr.decode()
        return done.stdout.decode(), traces[0] if traces else None, done.stderr.decode()


def of_kind(trace, *kinds):
    return [event for event in trace.events if event["kind"] in kinds]


def runtime():
    """A libcudart.so that some package of this Python has, or the system."""
    found = [path for folder in sys.path for path in glob.glob(folder + "/nvidia/*/lib/libcudart.so.*")]
    found += glob.glob("/usr/local/cuda/lib64/libcudart.so.*")
    return found[0] if found else None


def counts(way):
    out, trace, _ = run(WORKLOAD, way, "counts", str(COUNT))
    mallocs, frees, size = map(int, out.split())
    taken = of_kind(trace, "malloc")
    told = (len(taken), len(of_kind(trace, "free")), sum(event["size"] for event in taken))
    assert told == (mallocs, frees, size), (told, out)
    assert trace.end == 0


@fact
def totals_of_a_static_runtime_are_the_programs_own():
    counts("static")


@fact
def totals_of_the_driver_are_the_programs_own():
    counts("driver")


@fact
def totals_of_a_shared_runtime_are_the_programs_own():
    path = runtime()
    if path is None:
        print("# SKIP: no libcudart.so is there")
        return
    counts(path)


@fact
def waits_behind_kernels_are_the_programs_own_to_2_per_cent():
    out, trace, _ = run(WORKLOAD, "static", "waits", "200", options=["--stacks"])
    held = [event for event in of_kind(trace, "held") if event["a"] == 1]
    assert len(held) == 200, len(held)
    assert abs(sum(event["b"] for event in held) / int(out) - 1) < 0.02, (sum(event["b"] for event in held), out)


@fact
def frees_behind_nothing_are_no_waits():
    # Whatever else the machine does may hold a call up, but not in each of several runs.
    held = [len(of_kind(run(WORKLOAD, "static", "counts", str(COUNT))[1], "held")) for _ in range(5)]
    assert min(held) <= COUNT // 50, held


def python_fact(module, program, check):
    if importlib.util.find_spec(module) is None:
        print("# SKIP: no %s" % module)
        return
    check(*run(sys.executable, "-c", program))


@fact
def blocks_of_cupy_are_seen():
    def check(out, trace, _):
        assert sum(event["size"] for event in of_kind(trace, "malloc")) == int(out), out

    python_fact("cupy", "import cupy\npool = cupy.cuda.MemoryPool(); cupy.cuda.set_allocator(pool.malloc)\n"
                "blocks = [cupy.cuda.alloc(n << 20) for n in range(1, 9)]\nprint(pool.total_bytes())", check)  # fmt: skip


@fact
def memory_of_jax_is_seen():
    def check(_out, trace, _err):
        assert max(event["size"] for event in of_kind(trace, "malloc")) >= 64 << 20

    python_fact("jax", "import jax.numpy as n\nn.ones((64 << 20,), n.uint8).block_until_ready()", check)


@fact
def segments_of_torch_are_seen_and_the_better_ways_named():
    def check(out, trace, err):
        reserved = sum(event["size"] for event in of_kind(trace, "malloc") if event["pool"]["name"] == "cudaMalloc")
        assert reserved == int(out), (reserved, out)
        assert "weir run" in err and "weir.trace import" in err, err

    python_fact("torch", "import torch\nblocks = [torch.empty(n << 20, dtype=torch.uint8, device='cuda') for n in (1, 3, 70, 200)]\n"
                "print(torch.cuda.memory_reserved())", check)  # fmt: skip


@fact
def profiler_of_torch_beside_it_sees_its_kernels():
    def check(out, _trace, _err):
        assert int(out) >= 20, out

    python_fact("torch", "import torch\nfrom torch.profiler import profile, ProfilerActivity\na = torch.ones(64, device='cuda')\n"
                "with profile(activities=[ProfilerActivity.CUDA]) as seen:\n    for _ in range(20): a = a + 1\n    torch.cuda.synchronize()\n"
                "print(sum(e.count for e in seen.key_averages() if e.device_type == torch.autograd.DeviceType.CUDA))", check)  # fmt: skip


def say_costs():
    kinds = {"without stacks": (), "with stacks": ("--stacks",)}
    costs = {kind: [] for kind in ("not recorded", *kinds)}
    for _ in range(7):
        for kind, rows in costs.items():
            rows.append([int(word) for word in run(WORKLOAD, "static", "costs", record=kind in kinds, options=kinds.get(kind, ()))[0].split()])
    for kind, rows in costs.items():
        ranges = ["%d (%d to %d) ns" % (sorted(column)[3], min(column), max(column)) for column in zip(*rows)]
        print("# %s: pair of cudaMallocAsync %s, of cudaMalloc %s, launch %s" % (kind, *ranges))


say_costs()
main()
