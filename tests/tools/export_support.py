# SPDX-License-Identifier: MIT
"""export_support.py - what the tests of exports share: traces, and what the exporters make of them."""
import importlib.util
import os
import random
import subprocess
import sys

import tap
from trace_file import ARENA, HOST, PRIVATE, Trace

BUILD = os.path.abspath(sys.argv[1])
WEIR = os.path.join(BUILD, "tools", "weir")
PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "plugin", "python")
HAS_PERFETTO = importlib.util.find_spec("perfetto") is not None
numbers = iter(range(1 << 30))


def path(trace):
    """The trace as a file."""
    return trace.write(os.path.join(tap.FOLDER.name, "%d.weir" % next(numbers)))


def weir(*arguments, status=0, stdout=subprocess.PIPE):
    """Runs the command; what it prints on both of its outputs."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WEIR_")}
    done = subprocess.run([WEIR, *arguments], stdout=stdout, stderr=subprocess.PIPE, timeout=120, check=False,
                          env=dict(environment, WEIR_GPU="sim"))
    assert done.returncode == status, (done.returncode, done.stderr)
    return done.stdout, done.stderr.decode()


def weir_trace(*arguments, status=0):
    """Runs python -m weir.trace; what it says on standard error."""
    environment = dict(os.environ, PYTHONPATH=PACKAGE, WEIR_TRACE_LIBRARY=os.path.join(BUILD, "trace", ".libs", "libweir-trace.so.0"))
    done = subprocess.run([sys.executable, "-m", "weir.trace", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
                          check=False, env=environment)
    assert done.returncode == status and not done.stdout, (done.returncode, done.stderr)
    return done.stderr.decode()


def export(form, *traces):
    """What is written of the traces."""
    file = os.path.join(tap.FOLDER.name, "export")
    weir_trace("export", "--%s=%s" % (form, file), *[trace if isinstance(trace, str) else path(trace) for trace in traces])
    with open(file, "rb") as written:
        return written.read()


def life(**pairs):
    """A trace with all that exporters know of."""
    trace = Trace(**pairs)
    trace.pool(1, "main")
    trace.pool(2, "arena", flags=ARENA)
    trace.pool(3, "graph", flags=PRIVATE)
    trace.pool(4, "pinned", flags=HOST)
    trace.pool(5, "second", device=1)
    trace.tag(1, "weights")
    trace.tag(2, b"not \xff utf-8")
    for number in (1, 2):
        trace.name(number, "step %d" % number)
    trace.module(1, 0x7F0000000000, 0x10000, "/usr/lib/libexample.so.1")
    trace.line(7, 42, "forward", "/home/me/model.py")
    trace.stack(1, [0x7F0000001234, 7, 0x7E0000000010])
    trace.event("live", stream=0xA0, pool=1, address=0x10000, size=1000, given=1024)
    trace.event("cached", stream=0xA0, pool=1, address=0x20000, given=2048)
    trace.event("mark", a=1)
    trace.event("malloc", stream=0xA0, pool=1, address=0x30000, size=5000, given=8192, tag=1, stack=1)
    trace.event("figures", pool=1, a=11264, b=65536)
    trace.event("serve", stream=0xA0, pool=1, address=0x20000, size=1500, given=2048, tag=2)
    trace.event("map", pool=2, a=2 << 20, b=300)
    trace.event("malloc", thread=200, stream=0xB0, pool=2, address=0x500000, size=700, given=1024)
    trace.event("malloc", thread=200, stream=0xB0, pool=2, address=0x500400, size=600, given=1024)
    trace.event("malloc", stream=0xB0, pool=3, address=0x700000, size=1 << 21)
    trace.event("malloc", stream=0xB0, pool=4, address=0x800000, size=4096)
    trace.event("malloc", stream=0xC0, pool=5, address=0x930000, size=333, given=512)
    trace.event("mark", a=2)
    trace.event("keep", stream=0xB0, pool=1, address=0x30000, size=5000, given=8192)
    trace.event("serve", stream=0xB0, pool=1, address=0x30000, size=8000, given=8192)
    trace.event("wait", pool=1, a=400, b=1 << 30)
    trace.event("trim", thread=200, pool=1, a=4096, b=200)
    trace.event("rung", thread=200, pool=1, a=2, b=900)
    trace.event("out of memory", thread=200, stream=0xA0, pool=1, a=1 << 30, b=1)
    trace.event("synchronise", stream=0xA0, pool=1, a=100)
    trace.event("free", stream=0xA0, pool=1, address=0x10000, size=1000, given=1024)
    trace.event("keep", stream=0xA0, pool=1, address=0x20000, size=1500, given=2048)
    trace.event("return", stream=0xA0, pool=1, address=0x20000, given=2048)
    trace.event("free", thread=200, stream=0xB0, pool=2, address=0x500400, size=600, given=1024)
    trace.event("unmap", pool=2, a=1 << 20, b=100)
    return trace


def chance(seed, count, lossy=False):
    """A trace of random calls: of these some are not in it if it is lossy. Also what the program has at its end, by address."""
    draw = random.Random(seed)
    trace, live, cached = Trace(), {}, {}
    for pool in range(1, 4):
        trace.pool(pool, "pool %d" % pool, flags=ARENA if pool == 2 else 0)
        trace.tag(pool, "tag %d" % pool)
    for _ in range(count):
        trace.time += draw.choice((0, 10, 100000))
        place = dict(thread=draw.randrange(100, 104), lost=lossy and draw.random() < 0.1)
        kind = draw.choice(("malloc", "malloc", "free", "keep", "serve", "return", "mark", "rung", "out of memory"))
        if kind == "malloc":
            address = 0x1000 * draw.randrange(1, 200)
            pool, given = draw.randrange(1, 4), 512 * draw.randrange(1, 9)
            if address in live or address in cached:
                continue
            live[address] = dict(pool=pool, given=given, stream=draw.randrange(3), size=given - draw.randrange(512), tag=draw.randrange(4))
            trace.event("malloc", address=address, **live[address], **place)
        elif kind in ("free", "keep") and live:
            address = draw.choice(sorted(live))
            block = live.pop(address)
            trace.event(kind, address=address, **block, **place)
            if kind == "keep":
                cached[address] = block
        elif kind in ("serve", "return") and cached:
            address = draw.choice(sorted(cached))
            block = cached.pop(address)
            if kind == "serve":
                block = live[address] = dict(block, size=block["given"] - draw.randrange(512))
            trace.event(kind, address=address, **dict(block, size=block["size"] if kind == "serve" else 0), **place)
        elif kind == "rung":
            trace.event(kind, pool=1, a=draw.randrange(5), b=draw.randrange(2000), **place)
        elif kind == "mark":
            trace.event(kind, a=draw.randrange(3), **place)
        elif kind == "out of memory":
            trace.event(kind, pool=1, a=1 << 30, b=0, stream=1, **place)
    return trace, live, cached
