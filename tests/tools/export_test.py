# SPDX-License-Identifier: MIT
"""export_test.py BUILD - traces in the formats of other tools, as these read them. Speaks TAP."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))
import tap  # noqa: E402
from tap import fact  # noqa: E402
import export_viz_test  # noqa: E402,F401
import export_perfetto_test  # noqa: E402,F401
import export_rmm_test  # noqa: E402,F401
from export_support import export, life, path, weir  # noqa: E402

FORMS = ("memory-viz", "perfetto", "rmm")


def output():
    """A path in the tests' folder where nothing is."""
    return path(life()) + ".out"


@fact
def export_writes_the_file_that_is_named():
    for form in FORMS:
        trace, file = path(life()), output()
        assert weir("trace", "export", "--%s" % form, file, trace) == (b"", "")
        with open(file, "rb") as written:
            assert written.read() == export(form, trace)
        assert os.stat(file).st_mode & 0o777 == 0o600


@fact
def export_as_json_says_what_is_lost():
    file = output()
    found = json.loads(weir("trace", "export", "--json", "--rmm", file, path(life()))[0])
    assert found["view"] == "export" and found["files"][0]["lost"]["events"] == 0 and os.path.getsize(file) > 100


@fact
def export_never_writes_over_a_trace():
    trace = path(life())
    with open(trace, "rb") as file:
        before = file.read()
    assert "is one of the traces" in weir("trace", "export", "--rmm", trace, trace, status=2)[1]
    with open(trace, "rb") as file:
        assert file.read() == before


@fact
def export_says_that_the_disk_is_full():
    for form in FORMS:
        said = weir("trace", "export", "--%s=/dev/full" % form, path(life()), status=2)[1]
        assert "/dev/full cannot be written: No space left on device" in said, said
        with open("/dev/full", "wb") as full:
            assert "No space left" in weir("trace", "export", "--%s=-" % form, path(life()), status=2, stdout=full)[1]


@fact
def export_leaves_no_part_of_a_file_behind():
    file = output()
    assert "export each trace" in weir("trace", "export", "--rmm", file, path(life()), path(life()), status=2)[1]
    assert not os.path.exists(file)


@fact
def export_wants_one_file_to_write():
    trace = path(life())
    for arguments, words in ((("export", trace), "export to what?"),
                             (("export", "--rmm=-", "--perfetto=-", trace), "--perfetto and --rmm are two files"),
                             (("export", "--json", "--rmm=-", trace), "both want standard output"),
                             (("export", "--rmm", "/nowhere/at/all", trace), "/nowhere/at/all cannot be written"),
                             (("peak", "--rmm=-", trace), "--rmm is of 'weir trace export'")):
        assert words in weir("trace", *arguments, status=2)[1], words


tap.main()
