# SPDX-License-Identifier: MIT
"""frames_test.py - Python's frames in stacks that the recorder writes down. Speaks TAP."""

import collections
import importlib.util
import json
import os
import pickle
import re
import subprocess
import sys

import tap
from tap import fact

BUILD = os.environ["top_builddir"]
HOST = os.path.join(BUILD, "tests", "python", ".libs", "libhost.so")
WEIR = os.path.join(BUILD, "tools", "weir")


def program(name, text):
    """A file with that program, behind the common beginning."""
    return tap.write(name, "from frames_host import *\n" + text)


def run(name, text, timeout=60, **variables):
    """Runs the program, which has to end well, and gives its trace's path."""
    path, trace = program(name + ".py", text), os.path.join(tap.FOLDER.name, name + ".weir")
    if os.path.exists(trace):
        os.remove(trace)
    environment = {**os.environ, "HOST": HOST, "TRACE": trace, "WEIR_GPU": "sim", "WEIR_SIM": "memory=8GiB", **variables}
    environment.pop("WEIR_POLICY", None)
    done = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    assert not done.stderr, done.stderr
    return trace


def ask(view, trace, *options):
    done = subprocess.run([WEIR, "trace", view, "--json", *options, trace], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["files"][0]


def stacks_of(trace):
    file = ask("stacks", trace, "--limit=1000")
    assert file["lost"]["events"] == 0, file["lost"]
    return file["stacks"]


def line_of(text, words):
    """The line of a program that has these words, as Python counts: behind the common beginning."""
    (line,) = [number for number, line in enumerate(text.splitlines(), 2) if words in line]
    return line


KNOWN = """
class Layer:
    def forward(self, size):
        return take(size)  # here

def step(size):
    return Layer().forward(size)  # there

kept = step(4000)
"""


@fact
def a_stack_has_the_functions_files_and_lines_of_python():
    (found,) = stacks_of(run("known", KNOWN))
    forward = "Layer.forward" if sys.version_info >= (3, 11) else "forward"
    wanted = [
        "%s (known.py:%d)" % (forward, line_of(KNOWN, "# here")),
        "step (known.py:%d)" % line_of(KNOWN, "# there"),
        "<module> (known.py:%d)" % line_of(KNOWN, "kept = "),
    ]
    assert found["stack"][-3:] == wanted, found
    assert found["live"] == 4000, found


@fact
def the_end_of_a_sub_interpreter_ends_no_stacks():
    text = """
import sys
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
# One that may load ctypes.
inner = interpreters.create("legacy") if sys.version_info >= (3, 13) else interpreters.create(isolated=False)
said = interpreters.run_string(inner, "import sys; sys.path[:0] = %r; from weir import _library; _library.load()" % sys.path)
assert said is None, said
interpreters.destroy(inner)
kept = take(4000)  # here
"""
    (found,) = stacks_of(run("inner", text))
    assert found["stack"][-1] == "<module> (inner.py:%d)" % line_of(text, "# here"), found


@fact
def native_frames_are_those_of_what_python_called():
    (found,) = stacks_of(run("known", KNOWN))
    names = [re.sub(r" \(.*", "", frame) for frame in found["stack"]]
    python = names.index("take")
    assert any("ctypes" in frame or "ffi" in frame for frame in found["stack"][:python]), found
    assert not [name for name in names if name.startswith(("_PyEval", "Py_", "main", "_start", "pymain"))], found
    assert all(".py:" in frame for frame in found["stack"][python:]), found


@fact
def leaks_and_peak_and_exports_have_them():
    trace = run("known", KNOWN)
    for view in ["leaks", "peak"]:
        assert "step (known.py:" in json.dumps(ask(view, trace)), view
    if importlib.util.find_spec("numpy") is None:
        return
    out = os.path.join(tap.FOLDER.name, "known.pickle")
    export = [sys.executable, "-m", "weir.trace", "export", "--memory-viz=" + out, trace]
    done = subprocess.run(export, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    with open(out, "rb") as file:
        snapshot = pickle.load(file)
    (frames,) = [event["frames"] for event in snapshot["device_traces"][0] if event["action"] == "alloc"]
    step = {"filename": os.path.join(tap.FOLDER.name, "known.py"), "line": line_of(KNOWN, "# there"), "name": "step"}
    assert step in frames, frames


@fact
def the_trace_of_a_process_that_ended_is_whole():
    lost = ask("stacks", run("known", KNOWN))["lost"]
    assert lost["is_closed"] and lost["events"] == 0, lost


@fact
def a_thread_that_holds_the_gil_has_them_too():
    (found,) = stacks_of(run("held", "def holds():\n    return with_gil(4000, 0, None)\n\nholds()\n"))
    assert found["stack"][-2:] == ["holds (held.py:3)", "<module> (held.py:5)"], found


@fact
def a_thread_that_python_never_saw_has_native_frames_alone():
    (found,) = stacks_of(run("unseen", "assert host.host_run(ctypes.byref(work(4000, 10)), 1) == 0\n"))
    assert found["stack"] and found["allocations"] == 10, found
    assert not [frame for frame in found["stack"] if ".py:" in frame], found


@fact
def an_exception_that_is_handled_meanwhile_stays():
    text = "try:\n    raise ValueError('x')\nexcept ValueError as error:\n    take(4000)  # here\n    assert str(error) == 'x'\n"
    (found,) = stacks_of(run("raised", text))
    assert found["stack"][-1] == "<module> (raised.py:%d)" % line_of(text, "# here"), found


@fact
def generators_and_calls_back_from_native_code_stand_in_one_order():
    text = """
def inner():
    yield take(4000)

def outer():
    yield from inner()

class Key:
    def __lt__(self, other):
        self.kept = list(outer())
        return False

def compare():
    sorted([Key(), Key()])

compare()
"""
    (found,) = stacks_of(run("mixed", text))
    names = [re.sub(r" \(.*", "", frame).split(".")[-1] for frame in found["stack"]]
    assert names[names.index("take"):] == ["take", "inner", "outer", "__lt__", "compare", "<module>"], found


@fact
def code_that_was_freed_is_not_taken_for_other_code_at_its_address():
    text = """
import gc
for number in range(300):
    space = {"take": take}
    exec(compile("def f%d():\\n    return take(4000)\\n" % number, "made%d.py" % number, "exec"), space)
    kept = space["f%d" % number]()
    del space
    gc.collect(0)
"""
    found = collections.Counter()
    for stack in stacks_of(run("freed", text)):
        (one,) = [frame for frame in stack["stack"] if re.match(r"f\d+ ", frame)]
        found[one] += stack["allocations"]
    assert found == {"f%d (made%d.py:2)" % (number, number): 1 for number in range(300)}, found


MANY = """
import threading
def run(number):
    space = {"take": take, "give": give}
    exec("def worker%d():\\n    for i in range(500):\\n        give(take(1000), 1000)\\n" % number, space)
    space["worker%d" % number]()

threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
def beside():
    assert host.host_run(ctypes.byref(work(3000, 500)), 4) == 0
threads.append(threading.Thread(target=beside))
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@fact
def many_threads_have_each_their_own():
    found = collections.Counter()
    for stack in stacks_of(run("many", MANY, timeout=120)):
        workers = [frame for frame in stack["stack"] if frame.startswith("worker")]
        found[re.sub(r" \(.*", "", workers[0]) if workers else "unseen"] += stack["allocations"]
        assert len(workers) <= 1, stack
    assert found == {**{"worker%d" % number: 500 for number in range(8)}, "unseen": 2000}, found


ENDS = """
import threading
def forever():
    while True:
        try:
            give(take(1000), 1000)
        except Exception:
            return
for _ in range(3):
    threading.Thread(target=forever, daemon=True).start()
    threading.Thread(target=lambda: host.host_here(ctypes.byref(work(1000, 0))), daemon=True).start()
assert host.host_start(ctypes.byref(work(1000, 0)), 3) == 0
while library.stats(0).mallocs < 200:
    pass
"""


@fact
def python_ends_while_other_threads_allocate():
    for _ in range(8):
        run("ends", ENDS)


@fact
def a_child_of_a_fork_ends_while_threads_of_its_parent_were_asking():
    text = ENDS + """
import warnings
warnings.simplefilter("ignore")
for _ in range(10):
    child = os.fork()
    if child == 0:
        raise SystemExit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
    run("forks", text)


@fact
def a_process_without_stacks_never_asks_python():
    trace = run("none", "def step():\n    return take(4000)\nstep()\n", WEIR_CONF="record.stacks=false")
    assert b"none.py" not in open(trace, "rb").read()


tap.main()
