# SPDX-License-Identifier: MIT
"""doctor_test.py - `python -m weir.doctor` with packages and an environment of its own. Speaks TAP."""

import json
import os
import platform
import subprocess
import sys

import weir

import tap
from tap import fact, has, write

SOURCE = os.environ["top_srcdir"]
PACKAGE = os.path.join(SOURCE, "plugin", "python")
HIDDEN = ("WEIR_GPU", "WEIR_RUN_REACHED", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")


def run(*arguments, status=0, path=(), stdout=subprocess.PIPE, **variables):
    """What the doctor prints, where these folders are before the package on the path; it has to end with that status."""
    environment = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    environment.update(COLUMNS="10000", PYTHONPATH=os.pathsep.join([*path, PACKAGE]), HOME=tap.FOLDER.name, XDG_CACHE_HOME=tap.FOLDER.name)
    environment.update(variables)
    command = [sys.executable, "-m", "weir.doctor", *arguments]
    done = subprocess.run(command, env=environment, stdout=stdout, stderr=subprocess.PIPE, cwd=SOURCE, timeout=600, check=False)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    assert b"Traceback" not in done.stderr, done.stderr
    return (done.stdout or b"").decode() + done.stderr.decode()


def ask(status=0, **keywords):
    """The findings, by topic and what they are about."""
    document = json.loads(run("--json", status=status, **keywords))
    assert document["status"] == status
    assert document["repair"] == sum(finding["state"] == "bad" for finding in document["findings"])
    assert all(list(finding) == ["topic", "about", "state", "text", "remedy"] for finding in document["findings"])
    return {(finding["topic"], finding["about"]): finding for finding in document["findings"]}


def package(folder, name, file, text):
    """A package that would fail if anybody imported it; the folder that it is in, for the path."""
    write(os.path.join(folder, name, "__init__.py"), "raise SystemExit('imported')\n")
    path = write(os.path.join(folder, name, file), text)
    return os.path.dirname(os.path.dirname(path))


def torch(folder, version, cuda):
    text = "from typing import Optional\n__version__ = '%s'\ncuda: Optional[str] = %r\n" % (version, cuda)
    return package(folder, "torch", "version.py", text)


def torch_of(path, **keywords):
    """The finding of the torch in that folder."""
    return ask(path=[path], **keywords)["torch", os.path.join(os.path.realpath(path), "torch")]


@fact
def good_python_exits_0():
    has(run(), "good package", "good plug-in", "note torch: this Python has no PyTorch", "\nNothing to repair.\n", "weir doctor")


@fact
def findings_are_a_document():
    findings = ask()
    assert findings["plug-in", os.environ["WEIR_TORCH_LIBRARY"]]["text"].startswith(weir.__version__)
    assert findings["torch", None]["state"] == "note"


@fact
def library_that_is_missing_is_repaired():
    text = run(status=1, WEIR_TORCH_LIBRARY="/nonexistent/libweir-torch.so")
    has(text, "BAD  plug-in /nonexistent/libweir-torch.so: cannot load", "To do: correct or unset WEIR_TORCH_LIBRARY", "1 thing to repair.")
    assert ask(status=1, WEIR_TORCH_LIBRARY="/nonexistent/libweir-torch.so")["plug-in", "/nonexistent/libweir-torch.so"]["state"] == "bad"


@fact
def torch_without_a_shim_is_a_note_and_is_not_imported():
    found = torch_of(torch("plain", "2.9.1+cu128", "12.8"))
    assert found["state"] == "note" and found["remedy"].endswith("python -m weir.torch build"), found
    has(found["text"], "2.9.1+cu128 for CUDA 12.8, with no shim")


@fact
def shim_of_this_release_is_found():
    path, cache = torch("made", "2.9.1+cu128", "12.8"), os.path.join(tap.FOLDER.name, "cache")
    for release, state in (("0.0.1", "note"), (weir.__version__, "good")):
        made = "torch-2.9.1+cu128-cxx11-%s-weir-%s" % (platform.machine(), release)
        write(os.path.join("cache", "weir", made, "weir_torch_shim.0.so"), "")
        assert torch_of(path, XDG_CACHE_HOME=cache)["state"] == state


@fact
def shim_of_a_wheel_in_another_environment_is_found():
    library = os.path.join(tap.FOLDER.name, "wheel", "weir", "lib", "libweir-torch.so")
    os.makedirs(os.path.dirname(library))
    os.symlink(os.environ["WEIR_TORCH_LIBRARY"], library)
    write("wheel/weir/torch/shims/torch-2.9.1+cu128-cxx11-%s.0.so" % platform.machine(), "")
    assert torch_of(torch("apart", "2.9.1+cu128", "12.8"), WEIR_TORCH_LIBRARY=library)["state"] == "good"


@fact
def torch_without_cuda_is_a_note():
    found = torch_of(torch("host", "2.8.0", None))
    assert found["state"] == "note"
    has(found["text"], "2.8.0 is built without CUDA")


@fact
def version_that_cannot_be_read_is_repaired():
    for number, text in enumerate(("", "__version__ = 3", "version = '1'", "((((", "\0", "__version__ = '1'\n" * 9000 + "(")):
        found = torch_of(package("unread%d" % number, "torch", "version.py", text), status=1)
        assert found["state"] == "bad" and found["remedy"], found


@fact
def version_that_is_a_pipe_does_not_keep_it_waiting():
    path = torch("pipe", "2.9.1", "12.8")
    os.remove(os.path.join(path, "torch", "version.py"))
    os.mkfifo(os.path.join(path, "torch", "version.py"))
    assert torch_of(path, status=1)["state"] == "bad"


@fact
def version_that_is_a_pattern_finds_no_shim():
    path, cache = torch("pattern", "../../*", "12.8"), os.path.join(tap.FOLDER.name, "cache")
    assert torch_of(path, XDG_CACHE_HOME=cache)["state"] == "note"


@fact
def folder_without_a_package_is_no_torch():
    write("data/torch/weights.bin", "")
    assert ("torch", None) in ask(path=[os.path.join(tap.FOLDER.name, "data")])


@fact
def cupy_is_found():
    path = package("cupy-good", "cupy", "_version.py", "__version__ = '13.3.0'\n")
    assert ask(path=[path])["CuPy", os.path.join(os.path.realpath(path), "cupy")]["state"] == "good"
    path = package("cupy-bad", "cupy", "_version.py", "")
    assert ask(path=[path], status=1)["CuPy", os.path.join(os.path.realpath(path), "cupy")]["state"] == "bad"


@fact
def simulator_is_repaired():
    assert ask(status=1, WEIR_GPU="sim")["environment", "WEIR_GPU"]["remedy"] == "unset WEIR_GPU"
    assert ("environment", "WEIR_GPU") not in ask(WEIR_GPU="cuda")


@fact
def settings_of_torchs_own_allocator_are_explained():
    for value, state in (("max_split_size_mb:128", "note"), ("per_process_memory_fraction:0.5", "good")):
        found = ask(PYTORCH_ALLOC_CONF=value)["environment", "PYTORCH_ALLOC_CONF"]
        assert found["state"] == state and found["text"].startswith(value), found
    assert ask(PYTORCH_NO_CUDA_MEMORY_CACHING="1")["environment", "PYTORCH_NO_CUDA_MEMORY_CACHING"]["state"] == "note"


@fact
def weir_run_is_seen():
    assert ask(WEIR_RUN_REACHED="/nonexistent/reached")["environment", "weir run"]["state"] == "good"


@fact
def names_from_outside_give_the_terminal_no_orders():
    text = run(path=[torch("evil\x1b[31m\n\x9b", "2.9\x1b[31m", "1\n2")], PYTORCH_ALLOC_CONF="\x1b[31m:x")
    assert all(letter == "\n" or letter.isprintable() for letter in text), text


@fact
def long_values_are_cut():
    assert len(run(PYTORCH_ALLOC_CONF="x" * 100000 + ":1")) < 10000


@fact
def wrong_usage_exits_2():
    has(run("operand", status=2), "usage: python -m weir.doctor")
    has(run("--jsn", status=2), "unrecognized arguments: --jsn")


@fact
def output_that_cannot_be_written_exits_2():
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            has(run(status=2, stdout=full), "weir.doctor: cannot write the output: No space left on device")


@fact
def reader_that_went_away_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        assert run(stdout=closed) == ""


tap.main()
