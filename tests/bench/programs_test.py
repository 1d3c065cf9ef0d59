# SPDX-License-Identifier: MIT
"""The programs of bench/torch, small, on the processor: each does steps, and the same ones in each process. TAP."""

import importlib.util
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bench", "torch"), os.path.join(ROOT, "tests", "python")]

import models  # noqa: E402
import programs  # noqa: E402
import rows  # noqa: E402
import torch  # noqa: E402
import worker  # noqa: E402
from tap import fact, main  # noqa: E402


@fact
def every_row_has_its_work_and_all_work_a_row():
    wanted = {*rows.PROGRAMS, *rows.FURTHER, *rows.REQUESTS}
    measured_by_bench = {"tensors"}
    assert set(worker.WORKLOADS) - measured_by_bench == wanted, set(worker.WORKLOADS) ^ wanted


def sizes_of(step, count):
    """The sizes of all tensors that torch's functions returned, step by step."""
    found = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), keywords=None):
            result = function(*arguments, **(keywords or {}))
            if isinstance(result, torch.Tensor):
                found.append(result.numel())
            return result

    for _ in range(count):
        before = len(found)
        with Watch():
            step()
        found[before:] = [tuple(found[before:])]
    return found


@fact
def each_program_does_steps_whose_sizes_change_and_are_the_same_again():
    assert set(programs.SMALL) == set(programs.WORKLOADS)
    for name, make in programs.SMALL.items():
        if name != "data-parallel":  # of which a process has one
            first = sizes_of(make(), 6)
            assert len(set(first)) > 1 and first == sizes_of(make(), 6), name


@fact
def a_data_parallel_step_has_a_group():
    assert len(set(sizes_of(programs.SMALL["data-parallel"](), 6))) > 1
    assert torch.distributed.get_world_size() == 1


@fact
def a_join_has_each_pair_of_equal_keys():
    if importlib.util.find_spec("numpy") is None:
        return
    import numpy

    chosen = models.endlessly(range(1, 120))
    for _ in range(20):
        left, right = (numpy.random.randint(0, 30, next(chosen)) for _ in range(2))
        found = sorted(zip(*(rows.tolist() for rows in programs.joined(numpy, left, right))))
        assert found == sorted((i, j) for i, one in enumerate(left) for j, other in enumerate(right) if one == other)
    programs.tables_step(numpy, 50, 300)()


if __name__ == "__main__":
    main()
