# SPDX-License-Identifier: MIT
"""wheel_test.py - the wheel that `make wheel` makes of this build, and what pip makes of it. Started by wheel.sh. Speaks TAP."""

import base64
import contextlib
import glob
import hashlib
import io
import os
import platform
import re
import stat
import subprocess
import sys
import zipfile

import wheel
from weir.torch import _build

from tap import fact, has, main

SOURCE, BUILD, FOLDER = os.environ["top_srcdir"], os.environ["top_builddir"], os.environ["WHEEL_TEST_DIR"]
DIST = "weir_gpu-%s.dist-info/"
ENVIRONMENT = os.path.join(FOLDER, "environment")
# What a user's shell has, and not what finds this build.
LEFT_OUT = ("PYTHONPATH", "WEIR_PYTHON_DIR", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")
CLEAN = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
CLEAN.update(PIP_CONFIG_FILE=os.devnull, PIP_DISABLE_PIP_VERSION_CHECK="1", HOME=FOLDER)


def run(*command, status=0, **variables):
    """What the command prints, which has to end with that status."""
    done = subprocess.run(
        command, env={**CLEAN, **variables}, cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == status, (command, done.returncode, done.stdout)
    return done.stdout.strip()


# In the place of a C++ compiler: what it makes of any source enables nothing, and says it did.
COMPILER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
echo 'int weir_torch_shim_enable(void) { return 0; } void weir_torch_shim_region(int begins) { }' | %s -shared -fPIC -x c - -o "$2"
""" % os.environ.get("CC", "cc")


def environment_with_torch():
    """The folder of one whose torch is a stand-in, and what compiles a shim for it."""
    folder = os.path.join(FOLDER, "with_torch")
    fake = os.path.join(SOURCE, "tests", "python", "fake")
    # make has a CXX of its own for what it starts.
    variables = "CXX=%s/bin/c++ CUDA_HOME=%s PYTHONPATH=$PYTHONPATH:%s" % (folder, folder, fake)
    programs = {"bin/python": '#!/bin/sh\n%s exec %s "$@"\n' % (variables, sys.executable), "bin/c++": COMPILER}
    for name, text in {**programs, "include/cuda_runtime_api.h": "", "include/crt/host_defines.h": ""}.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
    return folder


def make(*words):
    return run(os.environ["MAKE"], "-s", "-C", BUILD, "wheel", "PYTHON3=" + sys.executable, *words)


def configured(name):
    """What the Makefile of the build has in that variable."""
    with open(os.path.join(BUILD, "Makefile"), encoding="utf-8") as file:
        return re.search("^%s = *(.*)$" % name, file.read(), re.M).group(1)


def forget_objects_of_the_wheel():
    for path in glob.glob(os.path.join(glob.escape(BUILD), "t*", "**", "plugin_python_wheel_*o"), recursive=True):
        os.remove(path)


def made():
    (name,) = [name for name in os.listdir(FOLDER) if name.endswith(".whl")]
    return os.path.join(FOLDER, name)


def in_bin(name):
    return os.path.join(ENVIRONMENT, "bin", name)


@fact
def make_wheel_makes_one_file_and_says_why_it_has_that_tag():
    lines = make("WHEEL_DIR=" + FOLDER, "TORCH=" + environment_with_torch()).splitlines()
    has([line for line in lines if line.startswith(FOLDER)][0], made() + ": ", " MiB; manylinux_2_")
    without = configured("WHEEL_WITHOUT")
    wanted = ["make wheel: without %s, which cannot be linked statically here: config.log says why" % without] if without else []
    assert [line for line in lines if line.startswith("make wheel: without ")] == wanted, lines


@fact
def its_name_has_version_and_tag():
    version = re.search(r"AC_INIT\(\[weir\], \[(.*)\]\)", open(os.path.join(SOURCE, "configure.ac"), encoding="utf-8").read()).group(1)
    assert re.match(r"weir_gpu-%s-py3-none-manylinux_2_[0-9]+_[a-z0-9_]+\.whl$" % re.escape(version), os.path.basename(made())), made()
    tag = made().rsplit("-", 3)[1:]
    with zipfile.ZipFile(made()) as archive:
        has(archive.read(DIST % version + "WHEEL").decode(), "Tag: " + "-".join(tag)[: -len(".whl")], "Root-Is-Purelib: false")
        has(archive.read(DIST % version + "METADATA").decode(), "Name: weir-gpu\n", "Version: %s\n" % version, "Requires-Python: >=3.9\n")


@fact
def it_has_all_that_is_asked_of_it_and_nothing_of_the_build():
    with zipfile.ZipFile(made()) as archive:
        names = set(archive.namelist())
    wanted = "bin/weir lib/libweir-audit.so lib/libweir-torch.so lib/libweir-trace.so.0 lib/libweir.so lib/libweir.so.0 py.typed".split()
    wanted += ["include/weir.h", "include/weir_sleep.h", "include/weir_reserve.h", "include/weir.hpp", "include/weir_torch.h", "include/weir_trace.h"]
    for folder, place, ending in [
        ("plugin/python/weir", "", ".py"),
        ("plugin/python/weir/share", "share/", ".py"),
        ("plugin/python/weir/torch", "torch/", ""),
        ("plugin/python/weir/trace", "trace/", ".py"),
        ("config", "share/weir/", ".yaml"),
        ("config/costs", "share/weir/costs/", ".yaml"),
    ]:
        whole = os.path.join(SOURCE, folder)
        wanted += [place + name for name in os.listdir(whole) if name.endswith(ending) and not os.path.isdir(os.path.join(whole, name))]
    wanted += ["share/weir/weir.schema.json", "share/weir/grafana.json", "share/weir/python/run/sitecustomize.py"]
    wanted += ["torch/shims/torch-2.11.0-cxx11-%s.%s.so" % (platform.machine(), _build._digest())]
    found = {name[len("weir/") :] for name in names if name.startswith("weir/")}
    assert found == set(wanted), found ^ set(wanted)
    others = {name for name in names if not name.startswith("weir/")}
    for page in ["man1/weir.1", "man3/libweir.3", "man5/weir-policy.5", "man7/weir-share.7"]:
        assert any(name.endswith(".data/data/share/man/" + page) for name in others), others
    for name in ["bash-completion/completions/weir", "zsh/site-functions/_weir", "fish/vendor_completions.d/weir.fish"]:
        assert any(other.endswith(".data/data/share/" + name) for other in others), others
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in others), others


@fact
def its_files_are_real_and_their_digests_are_right():
    with zipfile.ZipFile(made()) as archive:
        (record,) = [name for name in archive.namelist() if name.endswith("/RECORD")]
        rows = dict(line.split(",", 1) for line in archive.read(record).decode().splitlines())
        assert set(rows) == set(archive.namelist())
        for entry in archive.infolist():
            mode = entry.external_attr >> 16
            assert stat.S_ISREG(mode), (entry.filename, mode)
            is_code = entry.filename.startswith(("weir/bin/", "weir/lib/", "weir/torch/shims/"))
            assert bool(mode & 0o111) == is_code or entry.file_size < 100, entry
            data = archive.read(entry)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert entry.filename == record or rows[entry.filename] == "sha256=%s,%d" % (digest, len(data)), entry.filename


@fact
def it_is_installed_without_an_index_and_without_what_it_depends_on():
    # A pip of its own is most of an environment: that of this Python can do without, if it is new enough.
    pip = [sys.executable, "-m", "pip", "--python", sys.executable]
    if subprocess.run([*pip, "--version"], env=CLEAN, capture_output=True, check=False).returncode == 0:
        run(sys.executable, "-m", "venv", "--without-pip", ENVIRONMENT)
        pip[-1] = in_bin("python")
    else:
        run(sys.executable, "-m", "venv", ENVIRONMENT)
        pip = [in_bin("python"), "-m", "pip"]
    run(*pip, "install", "-q", "--no-index", "--no-deps", made())


@fact
def the_command_runs_a_policy():
    has(run(in_bin("weir"), "try", "-s", "1"), "Result: everything was served")
    has(run(in_bin("weir"), "--version"), "weir ")
    run(in_bin("weir"), "nonsense", status=2)


@fact
def the_package_finds_its_own_library():
    script = "import weir, weir.torch; from weir import _library; assert weir.version(); print(_library.load().path)"
    path = run(in_bin("python"), "-c", script)
    assert path.startswith(ENVIRONMENT) and path.endswith("/weir/lib/libweir-torch.so"), path


@fact
def a_library_that_is_named_comes_first():
    code = "import weir\ntry: weir.version()\nexcept weir.WeirError as e: print(e.status.name, e)"
    has(run(in_bin("python"), "-c", code, WEIR_TORCH_LIBRARY="/nonexistent/it"), "NOT_FOUND cannot load /nonexistent/it", "wheel")


ENABLED = """
import torch, weir.torch
print(weir.torch.state().shim, weir.torch.state().library, weir.torch.state().policy, weir.__file__)
"""


def enabled_by(python):
    """What ENABLED prints under `weir run` of the wheel, with a stand-in for torch."""
    policy = os.path.join(os.path.dirname(os.path.dirname(library())), "share", "weir", "pytorch.yaml")
    fake = os.path.join(SOURCE, "tests", "python", "fake")
    said = run(
        in_bin("weir"), "run", "--gpu=sim", "-p", policy, "--", python, "-c", ENABLED, PYTHONPATH=fake, WEIR_RUN_TOLD="1", PYTHONDONTWRITEBYTECODE="1"
    )
    assert said == "True %s %s %s" % (library(), policy, os.path.join(os.path.dirname(os.path.dirname(library())), "__init__.py")), said


def fact_on_the_simulator(function):
    """A fact that a library without the simulator cannot show."""
    with open(os.path.join(BUILD, "config.h"), encoding="utf-8") as file:
        return fact(function) if "#define HAVE_SIMULATOR 1" in file.read() else function


def library():
    return run(in_bin("python"), "-c", "from weir import _library; print(_library.find())")


@fact_on_the_simulator
def weir_run_takes_the_package_and_the_library_of_the_wheel():
    enabled_by(in_bin("python"))


@fact_on_the_simulator
def weir_run_serves_a_python_that_the_wheel_is_not_installed_for():
    enabled_by(sys.executable)


@fact
def the_folder_of_the_package_may_be_moved():
    moved = os.path.join(FOLDER, "moved")
    os.rename(os.path.dirname(os.path.dirname(library())), moved)
    try:
        has(run(os.path.join(moved, "bin", "weir"), "run", "--gpu=sim", "env"), "PYTHONPATH=%s/share/weir/python/run:" % moved)
    finally:
        os.rename(moved, run(in_bin("python"), "-c", "import sysconfig; print(sysconfig.get_paths()['platlib'] + '/weir')"))


@fact
def its_programs_show_nothing_of_what_was_linked_into_them():
    folder = os.path.dirname(library())
    for name in ["libweir-torch.so", "libweir-trace.so.0", "libweir.so.0"]:
        table = run("readelf", "--dyn-syms", "-W", os.path.join(folder, name))
        shown = [line.split()[7] for line in table.splitlines() if re.match(r"\s*\d+:", line) and line.split()[6] not in ("UND", "ABS")]
        assert shown and all(symbol.startswith("weir_") for symbol in shown), shown


@fact
def it_reads_other_programs_files():
    log = os.path.join(FOLDER, "rmm.csv")
    with open(log, "w", encoding="utf-8") as file:
        file.write("7,11:52:08.5,allocate,0x7f10,1048576,0x10\n7,11:52:09.5,free,0x7f10,1048576,0x10\n")
    run(in_bin("python"), "-m", "weir.trace", "import", log, "-o", os.path.join(FOLDER, "rmm.weir"))
    has(run(in_bin("weir"), "trace", os.path.join(FOLDER, "rmm.weir")), "1 malloc, 1 free")
    has(run(in_bin("weir"), "trace", log), "1 malloc, 1 free")


@fact
def a_program_for_c_links_with_it():
    folder = os.path.dirname(os.path.dirname(library()))
    with open(os.path.join(FOLDER, "program.c"), "w", encoding="utf-8") as file:
        file.write("#include <stdio.h>\n#include <weir.h>\nint main(void) { puts(weir_version()); return 0; }\n")
    lib = os.path.join(folder, "lib")
    command = "%s program.c -o program -I%s/include -L%s -lweir -Wl,-rpath,%s" % (os.environ.get("CC", "cc"), folder, lib, lib)
    run("sh", "-c", command)
    assert run("./program") == run(in_bin("python"), "-c", "import weir; print(weir.version())")


@fact
def each_version_of_a_symbol_has_its_release_of_glibc():
    wanted = {"GLIBC_2.2.5": 2, "GLIBC_2.34": 34, "GLIBC_ABI_DT_RELR": 36, "GLIBCXX_3.4": 17, "GLIBCXX_3.4.30": 35}
    wanted.update({"GCC_3.0": 17, "CXXABI_1.3.9": 24})
    wanted["WEIR_1"] = 0
    assert {version: wheel.glibc_of(version) for version in wanted} == wanted


def refused(function, *arguments):
    """What it says as it ends the process."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            function(*arguments)
        except SystemExit as end:
            assert end.code == 1, end.code
            return said.getvalue()
    raise AssertionError("it returned")


@fact
def what_cannot_be_linked_statically_is_left_out_and_said():
    folder = os.path.join(FOLDER, "without")
    os.mkdir(folder)
    forget_objects_of_the_wheel()
    # As configure sets these where the archives do not link.
    flags = "CPPFLAGS=-DWHEEL_WITHOUT_LIBDW"
    said = make("WHEEL_DIR=" + folder, "WHEEL_WITHOUT=names (libdw)", "WHEEL_STUBS=-ldw -lelf", flags)
    forget_objects_of_the_wheel()
    has(said, "make wheel: without names (libdw), which cannot be linked statically here")
    (name,) = os.listdir(folder)
    with zipfile.ZipFile(os.path.join(folder, name)) as archive:
        program = archive.extract("weir/bin/weir", folder)
    os.chmod(program, 0o755)
    libraries, _ = wheel.needs_of("objdump", program)
    assert all(wheel.SYSTEM.match(library) for library in libraries), libraries
    with open(program, "rb") as file:
        assert b"dwfl_begin" not in file.read()


@fact
def environment_without_a_python_or_a_torch_is_refused_by_name():
    has(refused(wheel.compile_shim, "/nonexistent", FOLDER, FOLDER), "TORCH=/nonexistent: ", "/nonexistent/bin/python")
    said = refused(wheel.compile_shim, ENVIRONMENT, os.path.join(SOURCE, "plugin", "python"), FOLDER)
    has(said, "TORCH=%s: its shim cannot be made" % ENVIRONMENT, "No module named 'torch'")


@fact
def what_needs_a_library_that_others_may_lack_is_refused_by_name():
    program = os.path.join(BUILD, "plugin", "torch", ".libs", "libweir-torch.so")
    libraries, _ = wheel.needs_of("objdump", program)
    if any(name.startswith("libyaml") for name in libraries):
        has(refused(wheel.find_tag, "objdump", {"weir/lib/libweir-torch.so": program}, "x86_64"), "libweir-torch.so needs lib", "--help")
    has(refused(wheel.glibc_of, "GLIBCXX_3.4.99"), "GLIBCXX_3.4.99", "older compiler")


main()
