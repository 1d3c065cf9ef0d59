# SPDX-License-Identifier: MIT
"""What tests in Python share: facts, each a line of TAP; and those of the Python package, the library's entry points for hosts."""

import ctypes
import os
import subprocess
import sys
import tempfile
import traceback

FACTS = []
FOLDER = tempfile.TemporaryDirectory(prefix="weir-python-")
MIB = 1 << 20


def fact(function):
    """A fact that holds if the function returns. Its name is the fact's."""
    FACTS.append(function)
    return function


def main():
    """Looks at all facts in the order in which they stand, prints one line for each, and ends the process."""
    print("1..%d" % len(FACTS))
    for number, function in enumerate(FACTS, 1):
        try:
            function()
            print("ok %d - %s" % (number, function.__name__), flush=True)
        except BaseException:
            print("not ok %d - %s" % (number, function.__name__))
            print("".join("# %s\n" % line for line in traceback.format_exc().splitlines()), end="", flush=True)
    FOLDER.cleanup()
    sys.exit(0)


def write(name, text):
    """A file with that text; its path."""
    path = os.path.join(FOLDER.name, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def python(code, **variables):
    """Runs the code in a process of its own, with these variables more, which has to succeed. What it printed."""
    environment = {**os.environ, "XDG_CONFIG_HOME": FOLDER.name, "XDG_CACHE_HOME": FOLDER.name, **variables}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=FOLDER.name
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr
    return done.stdout.strip()


def raises(kind, function, *arguments, **keywords):
    """The exception of that kind that the call raises."""
    try:
        result = function(*arguments, **keywords)
    except kind as error:
        return error
    raise AssertionError("it returns %r" % (result,))


def has(text, *parts):
    """The text has each of the parts."""
    for part in parts:
        assert part in text, "%r is not in %r" % (part, text)


class Host:
    """Calls the library as torch does, on the default stream of device 0."""

    def __init__(self, path):
        library = ctypes.CDLL(path)
        self.init_fn = library.weir_torch_init
        self.init_fn.restype = None
        self.init_fn.argtypes = [ctypes.c_int]
        self.malloc_fn = library.weir_torch_pool_malloc
        self.malloc_fn.restype = ctypes.c_void_p
        self.malloc_fn.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.free_fn = library.weir_torch_free
        self.free_fn.restype = None
        self.free_fn.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]

    def init(self, devices):
        """torch begins to use CUDA with so many devices."""
        self.init_fn(devices)

    def malloc(self, size):
        return self.malloc_fn(size, 0, None)

    def free(self, ptr, size):
        self.free_fn(ptr, size, 0, None)
