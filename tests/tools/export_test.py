# SPDX-License-Identifier: MIT
"""export_test.py BUILD - traces in the formats of other tools, as these read them. Speaks TAP."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))
import tap  # noqa: E402
from tap import fact  # noqa: E402
import export_viz_test  # noqa: E402,F401
import export_rmm_test  # noqa: E402,F401
from export_support import BUILD, HAS_PERFETTO, PACKAGE, chance, export, life, path, weir_trace  # noqa: E402

if HAS_PERFETTO:
    import export_perfetto_test  # noqa: E402,F401

FORMS = ("memory-viz", "rmm") + (("perfetto",) if HAS_PERFETTO else ())


def output():
    """A path in the tests' folder where nothing is."""
    return path(life()) + ".out"


@fact
def export_writes_the_file_that_is_named_for_this_user_alone():
    for form in FORMS:
        trace, file = path(life()), output()
        assert weir_trace("export", "--%s" % form, file, trace) == ""
        with open(file, "rb") as written:
            assert written.read() == export(form, trace)
        assert os.stat(file).st_mode & 0o777 == 0o600


@fact
def export_takes_the_place_of_a_file_and_leaves_no_part_of_one():
    folder = path(life()) + ".d"
    os.mkdir(folder)
    file = os.path.join(folder, "out")
    for _ in range(2):
        weir_trace("export", "--rmm", file, path(life()))
    assert "export each trace" in weir_trace("export", "--rmm", file + "2", path(life()), path(life()), status=2)
    assert os.listdir(folder) == ["out"]


@fact
def export_replaces_no_link_no_pipe_and_none_of_the_traces():
    trace, link, pipe = path(life()), output(), output()
    with open(trace, "rb") as file:
        whole = file.read()
    for form in FORMS:
        assert "is one of the traces: name another file" in weir_trace("export", "--%s" % form, trace, trace, status=2)
    os.symlink("/nowhere/at/all", link)
    assert "is a link, which would be replaced by a file" in weir_trace("export", "--rmm", link, trace, status=2)
    assert os.readlink(link) == "/nowhere/at/all"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert weir_trace("export", "--rmm", pipe, trace) == ""
    assert os.read(reader, 1 << 20) == export("rmm", trace)
    os.close(reader)
    with open(trace, "rb") as file:
        assert file.read() == whole


@fact
def export_writes_to_standard_output():
    trace = path(life())
    environment = dict(os.environ, PYTHONPATH=PACKAGE, WEIR_TRACE_LIBRARY=os.path.join(BUILD, "trace", ".libs", "libweir-trace.so.0"))
    done = subprocess.run([sys.executable, "-m", "weir.trace", "export", "--rmm=-", trace], stdout=subprocess.PIPE, check=True, env=environment)
    assert done.stdout == export("rmm", trace) and not os.path.exists("-")


@fact
def export_says_what_cannot_be_read_or_written():
    said = weir_trace("export", "--rmm=/nowhere/at/all", path(life()), status=2)
    assert "/nowhere/at/all cannot be written: No such file" in said, said
    assert "/nowhere: it cannot be opened" in weir_trace("export", "--rmm=x", "/nowhere", status=2)


@fact
def export_says_what_is_lost_of_a_trace():
    trace = path(chance(1, 100)[0])
    with open(trace, "r+b") as file:
        file.truncate(os.path.getsize(trace) - 40)
    assert "the file ends within" in weir_trace("export", "--rmm", output(), trace)


@fact
def perfetto_that_is_missing_is_named():
    if not HAS_PERFETTO:
        assert "pip install perfetto" in weir_trace("export", "--perfetto", output(), path(life()), status=2)


tap.main()
