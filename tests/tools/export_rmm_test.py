# SPDX-License-Identifier: MIT
"""export_rmm_test.py - logs of RMM: their rows, and what Weir reads back from them."""
import json
import os

import tap
from tap import fact
from export_support import chance, export, life, path, weir, weir_trace
from trace_file import Trace


def rows(*traces):
    lines = export("rmm", *traces).decode().splitlines()
    assert lines[0] == "Thread,Time,Action,Pointer,Size,Stream"
    return [line.split(",") for line in lines[1:]]


def check_pairs(found):
    """Each free has its allocation, of the same size, and none is over another. What is left."""
    live = {}
    for _, _, action, pointer, size, _ in found:
        address, size = int(pointer, 16), int(size)
        if action == "free":
            assert live.pop(address) == size
        elif action == "allocate":
            assert not any(start == address for start in live)
            live[address] = size
    return live


@fact
def rmm_has_what_the_program_allocated_and_freed():
    assert [(action, int(pointer, 16), int(size)) for _, _, action, pointer, size, _ in rows(life())] == [
        ("allocate", 0x10000, 1000), ("allocate", 0x30000, 5000), ("allocate", 0x20000, 1500), ("allocate", 0x500000, 700),
        ("allocate", 0x500400, 600), ("allocate", 0x700000, 1 << 21), ("allocate", 0x930000, 333), ("free", 0x30000, 5000),
        ("allocate", 0x30000, 8000), ("allocate failure", 0, 1 << 30), ("free", 0x10000, 1000), ("free", 0x20000, 1500),
        ("free", 0x500400, 600)]


@fact
def rmm_rows_have_thread_time_of_day_and_stream():
    trace = Trace(started_real=1700006399999999500)
    trace.pool(1, "main")
    trace.event("malloc", thread=77, stream=0xA0, pool=1, address=0x1000, size=512, time=400)
    trace.event("free", thread=78, stream=0, pool=1, address=0x1000, size=512, time=500)
    trace.event("malloc", thread=78, stream=2, pool=1, address=0x1000, size=512, time=86400 * 10**9 - 1700006399999999500 % (86400 * 10**9))
    assert rows(trace) == [["77", "23:59:59.999999", "allocate", "0x1000", "512", "0xa0"],
                           ["78", "00:00:00.000000", "free", "0x1000", "512", "0x0"],
                           ["78", "00:00:00.000000", "allocate", "0x1000", "512", "0x2"]]


def totals(file):
    """What `weir trace` says of all pools together."""
    found = json.loads(weir("trace", "summary", "--json", file)[0])["files"][0]
    sums = {key: sum(pool[key] for pool in found["pools"]) for key in ("allocations", "allocated", "live", "live_blocks")}
    return dict(sums, peak=found["live_peak"], failures=found["kinds"].get("out of memory", 0))


@fact
def rmm_log_that_is_read_back_has_the_same_totals():
    for seed in range(10):
        trace, live, _ = chance(seed, 400)
        whole, log = path(trace), os.path.join(tap.FOLDER.name, "log.csv")
        with open(log, "wb") as file:
            file.write(export("rmm", whole))
        again = os.path.join(tap.FOLDER.name, "again-%d.weir" % seed)
        weir_trace("import", "-q", log, "-o", again)
        assert totals(again) == totals(whole)
        assert check_pairs(rows(again)) == {address: block["size"] for address, block in live.items()}
        # The per-thread default stream is one of each thread there.
        assert [row[2:5] for row in rows(again)] == [row[2:5] for row in rows(whole)]


@fact
def rmm_frees_have_allocations_where_events_were_lost():
    for seed in range(100, 130):
        check_pairs(rows(chance(seed, 400, lossy=True)[0]))
