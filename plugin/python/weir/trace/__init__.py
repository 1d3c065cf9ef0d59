# SPDX-License-Identifier: MIT
"""
Recorded traces in Python.

    import weir.trace
    trace = weir.trace.read("train.weir")
    pandas.DataFrame(trace.blocks)           # or polars.DataFrame

read() needs NumPy; Trace.to_perfetto() and Trace.plot() name what they need. `python -m weir.trace import` makes traces of torch's memory
snapshots and of RMM's logs, and needs nothing but this package.
"""

from weir.trace._read import Trace, read

__all__ = ["Trace", "read"]
