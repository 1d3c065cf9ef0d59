# SPDX-License-Identifier: MIT
"""package_test.py - the Python package and its library. Speaks TAP."""

import ctypes
import os
import re
import subprocess

import weir
from weir import _library
from weir.share import _native as share
from weir.torch import _build

import tap
from tap import fact, has, raises

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
GOOD = "weir: 1\npools:\n  work: { small_below: 0 }\n"
ASK = "import weir\ntry: weir.version()\nexcept weir.WeirError as e: print(e.status.name, e)"
BAD = "weir: 1\npools:\n  work: { size: 3 }\n"


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


@fact
def library_is_of_the_version_of_the_package():
    assert weir.version() == weir.__version__


@fact
def version_is_that_of_configure():
    assert "AC_INIT([weir], [%s])" % weir.__version__ in read(SOURCE, "configure.ac")


@fact
def library_of_another_version_is_refused():
    code = "import weir._library as l; l.VERSION = '9.8.7'\n" + ASK
    has(tap.python(code), "9.8.7", weir.__version__, "install both from the same release")


@fact
def shim_is_written_in_the_language_of_torchs_headers():
    versions = {"2.4.1": 17, "2.11.0+cu130": 17, "2.13.0": 17, "2.14.0a0+git1234": 20, "2.15.0": 20, "3.0.0": 20}
    assert {version: _build._standard(version) for version in versions} == versions


@fact
def structs_are_laid_out_as_in_c():
    shared = (share.RingOptions, share.ExportInfo, share.ImportOptions, share.LeaseInfo, share.Tensor, share.Capsules)
    structs = (_library.Error, _library.Options, _library.Stats, _library.Block, *shared)
    here = []
    for struct in structs:
        here.append("%s %d" % (struct.__name__, ctypes.sizeof(struct)))
        for name, _ in struct._fields_:
            field = getattr(struct, name)
            here.append("%s.%s %d %d" % (struct.__name__, name, field.offset, field.size))
    here += ["Held.%s %d" % (kind.name, kind) for kind in share.Held]
    there = subprocess.run(
        [os.path.join(BUILD, "tests", "python", "layout")], capture_output=True, text=True, check=True
    )
    assert here == there.stdout.splitlines(), "%s\n%s" % (here, there.stdout)


@fact
def statuses_are_those_of_the_header():
    listed = re.findall(r"X\(WEIR_(\w+), (\d+),", read(SOURCE, "include", "weir.h"))
    assert [(status.name, str(status.value)) for status in weir.Status] == listed


@fact
def all_that_the_package_calls_is_in_the_library():
    library = _library.load()
    for name in _library._PROTOTYPES:
        assert library.address(name)


@fact
def bad_policy_is_refused_with_file_line_column_and_remedy():
    path = tap.write("bad.yaml", BAD)
    error = raises(weir.WeirError, _library.configure, path, None, "sim")
    assert error.status == weir.Status.BAD_POLICY
    has(str(error), path + ":3:11: pools.work.size: ", "remove it")


@fact
def policy_that_is_not_there_is_refused_by_name():
    error = raises(weir.WeirError, _library.configure, "/nonexistent/policy.yaml", None, "sim")
    assert error.status == weir.Status.UNREADABLE
    has(str(error), "/nonexistent/policy.yaml")


@fact
def empty_path_is_refused():
    error = raises(weir.WeirError, _library.configure, "", None)
    assert error.status == weir.Status.INVALID
    has(str(error), "policy is ''", "None for the usual search")


@fact
def gpu_that_does_not_exist_is_refused_by_name():
    code = "import weir._library as l, weir\ntry: l.configure(None, None)\nexcept weir.WeirError as e: print(e.status.name, e)"
    has(tap.python(code, WEIR_GPU="cuad"), "INVALID ", "$WEIR_GPU is 'cuad': ", 'write "cuda"')


@fact
def file_and_text_both_are_refused():
    error = raises(weir.WeirError, _library.configure, "policy.yaml", GOOD)
    assert error.status == weir.Status.INVALID


@fact
def nothing_that_was_refused_is_in_force():
    assert _library.policy_in_force() is None


@fact
def good_policy_is_taken():
    _library.configure(tap.write("good.yaml", GOOD), None, "sim")
    assert _library.policy_in_force().file == os.path.join(tap.FOLDER.name, "good.yaml")


@fact
def the_same_policy_is_taken_again_by_another_path():
    _library.configure(os.path.relpath(os.path.join(tap.FOLDER.name, "good.yaml")), None, "sim")


@fact
def no_policy_in_particular_is_the_one_in_force():
    _library.configure(None, None, "sim")


@fact
def another_policy_is_refused_and_both_are_named():
    error = raises(weir.WeirError, _library.configure, "other.yaml", None)
    assert error.status == weir.Status.BUSY
    has(str(error), "good.yaml", os.path.abspath("other.yaml"))


@fact
def policy_of_the_environment_is_the_same_as_that_file():
    path = tap.write("named.yaml", GOOD)
    code = (
        "import os, weir._library as l; l.configure(None, None, 'sim'); l.configure(%r, None, 'sim'); print(l.policy_in_force().file)"
        % path
    )
    assert tap.python(code, WEIR_POLICY="named.yaml") == path


@fact
def name_of_a_policy_stays_a_name_and_the_library_finds_it():
    path = tap.write("work.yaml", GOOD)
    tap.write("work", "weir: 2")
    code = "import weir._library as l; l.configure('work', None, 'sim'); l.configure('work', None, 'sim'); print(l.policy_in_force().file)"
    assert tap.python(code, WEIR_POLICY_DIR=os.path.dirname(path)) == "work"
    assert tap.python(code.replace("'work', None", "None, None"), WEIR_POLICY_DIR=os.path.dirname(path), WEIR_POLICY="work") == "work"
    code = "import pathlib, weir._library as l; print(l._place(pathlib.Path('work')))"
    has(tap.python(code), os.path.join("", "work"))


@fact
def library_that_is_not_there_is_named_with_the_remedy():
    has(
        tap.python(ASK, WEIR_TORCH_LIBRARY="/nonexistent/libweir-torch.so"),
        "NOT_FOUND ",
        "/nonexistent/",
        "set WEIR_TORCH_LIBRARY",
    )


@fact
def library_that_is_another_one_is_refused():
    has(tap.python(ASK, WEIR_TORCH_LIBRARY="libc.so.6"), "NOT_SUPPORTED libc.so.6")


@fact
def library_is_found_beside_an_installed_package():
    prefix = os.path.join(tap.FOLDER.name, "usr")
    python = os.path.join(prefix, "share", "weir", "python")
    os.makedirs(python)
    os.makedirs(os.path.join(prefix, "lib"))
    os.symlink(os.path.join(SOURCE, "plugin", "python", "weir"), os.path.join(python, "weir"))
    os.symlink(os.environ["WEIR_TORCH_LIBRARY"], os.path.join(prefix, "lib", "libweir-torch.so"))
    code = "import weir._library as l; print(l.load().path)"
    assert tap.python(code, PYTHONPATH=python, WEIR_TORCH_LIBRARY="") == os.path.join(prefix, "lib", "libweir-torch.so")


@fact
def library_that_the_loader_does_not_know_is_found_where_make_install_puts_it():
    code = "import weir._library as l; l.find = lambda: l.NAME; l.INSTALLED = %r; print(l.load().path)"
    path = os.environ["WEIR_TORCH_LIBRARY"]
    assert tap.python(code % os.path.dirname(path), LD_LIBRARY_PATH="") == path


@fact
def importing_the_package_loads_nothing():
    code = "import sys, weir, weir.torch, weir.cupy, weir._library\n"
    code += "print(weir._library._library, 'torch' in sys.modules, 'cupy' in sys.modules)"
    assert tap.python(code) == "None False False"


tap.main()
