# SPDX-License-Identifier: MIT
"""
wheel.py - `make wheel`: Weir in one file that pip installs, without a compiler and without root.

    wheel.py archives FOLDER CC LIBRARY...   the static archives of the libraries (-lNAME, -LFOLDER), as far as there are any; empty ones
                                             of those in --without
    wheel.py pack ...                        the wheel, of what was linked against these

What is packed needs no library but those that every Linux of its tag has. The tag is the lowest that the programs' own
needs allow: of each versioned symbol that they use, the release of glibc (PEP 600) that has it. Nothing is packed that
the build made for itself: no links, no times, and always in the same order, so that the same programs make the same file.
"""

import argparse
import base64
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from typing import Dict, Iterable, List, NoReturn, Optional, Tuple

# What every Linux has that pip would install a manylinux wheel on (PEP 600).
SYSTEM = re.compile(r"(lib(c|m|dl|rt|pthread|util)\.so\.\d+|lib(gcc_s\.so\.1|stdc\+\+\.so\.6)|ld-linux[^/]*\.so\.\d+|ld64\.so\.\d+)$")
# Where each shell looks, below share/.
COMPLETIONS = {
    "bash-completion": "bash-completion/completions/",
    "zsh-completion": "zsh/site-functions/",
    "fish-completion": "fish/vendor_completions.d/",
}
# Of other libraries than glibc: the first minor release of glibc whose distributions have the version, as auditwheel counts.
OTHERS = {
    "GLIBCXX_3.4": [(19, 17), (22, 24), (24, 26), (28, 31), (29, 34), (30, 35), (32, 38), (33, 39)],
    "CXXABI_1.3": [(7, 17), (10, 24), (11, 26), (12, 31), (13, 34), (14, 38), (15, 39)],
    "GCC_": [(4, 17), (7, 26), (12, 35), (13, 38), (14, 39)],
}


def fail(text: str) -> NoReturn:
    print("make wheel: " + text, file=sys.stderr)
    sys.exit(1)


# Archives -------------------------------------------------------------------------------------------------------------


def collect_archives(folder: str, compiler: str, words: Iterable[str], without: Iterable[str]) -> None:
    """
    Copies of the archives into a folder of their own: the linker takes one where it finds no shared library beside it. What the wheel does
    without is still named by libtool, and so has an empty archive.
    """
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    words = list(words)
    folders = [word[2:] for word in words if word.startswith("-L")]
    empty = {"lib%s.a" % word[2:] for word in without if word.startswith("-l")}
    for name in sorted({"lib%s.a" % word[2:] for word in words if word.startswith("-l")}):
        if name in empty:
            with open(os.path.join(folder, name), "wb") as archive:
                archive.write(b"!<arch>\n")
            continue
        # Of glibc, which is never linked so.
        if re.match(r"lib(c|m|dl|rt|pthread)\.a$", name):
            continue
        found = next((path for path in (os.path.join(place, name) for place in folders) if os.path.exists(path)), None)
        if found is None:
            command = compiler.split() + ["-print-file-name=" + name]
            found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        if os.path.isabs(found):
            shutil.copyfile(found, os.path.join(folder, name))
            with open(os.path.join(folder, name + ".from"), "w", encoding="utf-8") as origin:
                origin.write(os.path.realpath(found) + "\n")


def licence_of(archive: str) -> Optional[str]:
    """The text under which the package that brought the archive may be handed on; None: it is not known here."""
    try:
        said = subprocess.run(["dpkg-query", "-S", archive], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    except OSError:
        return None
    package = said.stdout.split(":", maxsplit=1)[0]
    path = os.path.join("/usr/share/doc", package, "copyright")
    if not package or not os.path.exists(path):
        return None
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


# What programs need -----------------------------------------------------------------------------------------------------


def glibc_of(version: str) -> int:
    """The minor release of glibc 2 that has a symbol of that version."""
    if version.startswith("GLIBC_2."):
        return int(version.split(".")[1])
    if version == "GLIBC_ABI_DT_RELR":
        return 36
    for prefix, table in OTHERS.items():
        if version.startswith(prefix):
            rest = version[len(prefix) :].lstrip(".").split(".")[0]
            number = int(rest) if rest.isdigit() else 0
            for last, minor in table:
                if number <= last:
                    return minor
            fail(f"there is no tag known for {version}: compile with an older compiler")
    return 0


def said_of(objdump: str, path: str) -> str:
    """What objdump prints of its head."""
    command = objdump.split() + ["-p", path]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "LC_ALL": "C"}).stdout


def needs_of(objdump: str, path: str) -> Tuple[List[str], Dict[str, str]]:
    """The libraries that the file needs, and the version of each symbol that it takes of them."""
    said = said_of(objdump, path)
    libraries = re.findall(r"^\s+NEEDED\s+(\S+)", said, re.M)
    references = said.partition("Version References:")[2]
    versions: Dict[str, str] = {}
    library = ""
    for line in references.splitlines():
        start = re.match(r"\s+required from (\S+):", line)
        entry = re.match(r"\s+0x[0-9a-f]+ 0x[0-9a-f]+ \d+ (\S+)", line)
        if start:
            library = start.group(1)
        elif entry:
            versions[entry.group(1)] = library
    return libraries, versions


def find_tag(objdump: str, programs: Dict[str, str], machine: str) -> Tuple[str, str]:
    """The tag of the wheel, and what made it that."""
    best, reason = 17, "as low as there are tags"
    for name, path in programs.items():
        libraries, versions = needs_of(objdump, path)
        for library in libraries:
            # Of torch's, which has loaded them already.
            if name.startswith("weir/torch/shims/") and re.match(r"lib(c10|c10_cuda|torch\w*)\.so$", library):
                continue
            if not SYSTEM.match(library):
                fail(
                    f"{os.path.basename(name)} needs {library}, which not every machine has, and its static archive was not found: install "
                    "that (Debian has it in the -dev package), or configure without the library, as ./configure --help says"
                )
        for version, library in versions.items():
            minor = glibc_of(version)
            if minor > best:
                best, reason = minor, f"{os.path.basename(name)} uses {version} of {library}"
    return f"manylinux_2_{best}_{machine}", reason


# The file ----------------------------------------------------------------------------------------------------------------


class Wheel:
    """Its files in memory, until all is known that its name says."""

    def __init__(self) -> None:
        self.files: Dict[str, Tuple[bytes, bool]] = {}

    def add(self, name: str, data: bytes, is_program: bool = False) -> None:
        self.files[name] = (data, is_program)

    def copy(self, name: str, path: str, is_program: bool = False) -> None:
        with open(path, "rb") as file:
            self.add(name, file.read(), is_program)

    def write(self, path: str, record: str) -> None:
        """Atomically, so that nobody installs half of one."""
        lines = []
        for name, (data, _) in sorted(self.files.items()):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}\n")
        self.add(record, ("".join(lines) + record + ",,\n").encode())
        partial = f"{path}.{os.getpid()}"
        try:
            with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
                for name, (data, is_program) in sorted(self.files.items()):
                    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    entry.external_attr = (0o100755 if is_program else 0o100644) << 16
                    archive.writestr(entry, data)
            os.replace(partial, path)
        finally:
            if os.path.exists(partial):
                os.remove(partial)


def one(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.M)
    if found is None:
        fail(f"nothing is there like {pattern}")
    return found.group(1)


def strip(tool: str, source: str, folder: str) -> str:
    """A copy without what only debuggers read. Names of functions stay, for stacks."""
    target = os.path.join(folder, os.path.basename(source))
    shutil.copyfile(source, target)
    subprocess.run([tool, "--strip-debug", target], check=True)
    return target


def compile_shim(environment: str, package: str, folder: str) -> str:
    """The shim for the torch of an environment of Python."""
    python = os.path.join(environment, "bin", "python")
    if not os.path.exists(python):
        fail(f"TORCH={environment}: there is no {python}: name the folder of an environment of Python that has a torch")
    code = "import sys; from weir.torch import _build; print(_build.compile_into(sys.argv[1]))"
    made = subprocess.run(
        [python, "-c", code, folder],
        env={**os.environ, "PYTHONPATH": package, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        fail(f"TORCH={environment}: its shim cannot be made:\n{made.stderr[-4000:]}")
    return made.stdout.splitlines()[-1]


def pack(arguments: argparse.Namespace) -> None:
    source = arguments.source
    package = os.path.join(source, "plugin", "python")
    with open(os.path.join(package, "pyproject.toml"), encoding="utf-8") as file:
        project = file.read()
    name = one(r'^name = "(.*)"', project)
    wheel = Wheel()

    def place(path: str) -> str:
        """Of a file of the build, or else of the source."""
        return path if os.path.exists(path) else os.path.join(source, path)

    scratch = os.path.join(arguments.built, "stripped")
    os.makedirs(scratch, exist_ok=True)
    built = os.path.join(arguments.built, ".libs")
    (library,) = glob.glob(os.path.join(glob.escape(built), "libweir.so.*.*.*"))
    soname = one(r"^\s+SONAME\s+(\S+)", said_of(arguments.objdump, library))
    program = os.path.join(built, "weir") if os.path.exists(os.path.join(built, "weir")) else os.path.join(arguments.built, "weir")
    programs = {
        "weir/bin/weir": strip(arguments.strip, program, scratch),
        "weir/lib/libweir-torch.so": strip(arguments.strip, os.path.join(built, "libweir-torch.so"), scratch),
        "weir/lib/" + soname: strip(arguments.strip, library, scratch),
        "weir/lib/libweir-trace.so.0": strip(arguments.strip, os.path.realpath(os.path.join(built, "libweir-trace.so.0")), scratch),
    }
    audit = os.path.join(built, "libweir-audit.so")
    if os.path.exists(audit):  # not of a build whose C library has no LD_AUDIT
        programs["weir/lib/libweir-audit.so"] = strip(arguments.strip, audit, scratch)
    for environment in arguments.torch:
        shim = compile_shim(environment, package, scratch)
        subprocess.run([arguments.strip, "--strip-unneeded", shim], check=True)
        programs["weir/torch/shims/" + os.path.basename(shim)] = shim
    tag, reason = find_tag(arguments.objdump, programs, arguments.machine)
    for path, file_path in programs.items():
        wheel.copy(path, file_path, True)

    for path in arguments.files:
        wheel.copy(os.path.relpath(path, "plugin/python"), place(path))
    wheel.copy("weir/share/weir/python/run/sitecustomize.py", os.path.join(package, "run", "sitecustomize.py"))
    # For C: a linker looks for this name, and a wheel has no links.
    wheel.add("weir/lib/libweir.so", f"INPUT ( {soname} )\n".encode())
    for path in ["include/weir.h", "include/weir_sleep.h", "include/weir_reserve.h", "include/weir.hpp", "plugin/torch/weir_torch.h", "trace/weir_trace.h"]:
        wheel.copy("weir/include/" + os.path.basename(path), os.path.join(source, path))
    for path in arguments.config:
        wheel.copy("weir/share/weir/" + os.path.relpath(path, "config"), place(path))

    data = f"{name.replace('-', '_')}-{arguments.version}.data/data/share/"
    for path in arguments.man:
        wheel.copy(f"{data}man/man{path[-1]}/{os.path.basename(path)}", place(path))
    for path in arguments.completion:
        wheel.copy(data + COMPLETIONS[os.path.basename(os.path.dirname(path))] + os.path.basename(path), place(path))

    info = f"{name.replace('-', '_')}-{arguments.version}.dist-info/"
    wheel.copy(info + "licenses/LICENSE", os.path.join(source, "LICENSE"))
    for origin in sorted(glob.glob(os.path.join(glob.escape(arguments.built), "archives", "*.from"))):
        with open(origin, encoding="utf-8") as file:
            archive = file.read().strip()
        text = licence_of(archive)
        if text is None:
            print(f"make wheel: the licence of {archive} is not known here: look for it before the wheel is handed on", file=sys.stderr)
        else:
            wheel.add(info + "licenses/" + os.path.basename(origin)[: -len(".a.from")] + ".txt", text.encode())
    classifiers = re.findall(r'^    "(.* :: .*)",', project, re.M)
    metadata = [
        "Metadata-Version: 2.1",
        "Name: " + name,
        "Version: " + arguments.version,
        "Summary: " + one(r'^description = "(.*)"', project),
        "Requires-Python: " + one(r'^requires-python = "(.*)"', project).replace(" ", ""),
        "License: MIT",
    ] + ["Classifier: " + classifier for classifier in classifiers]
    wheel.add(info + "METADATA", ("\n".join(metadata) + "\n").encode())
    wheel.add(info + "WHEEL", f"Wheel-Version: 1.0\nGenerator: weir\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n".encode())
    wheel.add(info + "entry_points.txt", b"[console_scripts]\nweir = weir._command:main\n")

    path = os.path.join(arguments.out, f"{name.replace('-', '_')}-{arguments.version}-py3-none-{tag}.whl")
    wheel.write(path, info + "RECORD")
    print(f"{path}: {os.path.getsize(path) / (1 << 20):.1f} MiB; {tag}, as {reason}; CUDA runtime: {arguments.cuda}")
    if arguments.without:
        print(f"make wheel: without {arguments.without}, which cannot be linked statically here: config.log says why", file=sys.stderr)
    with open("config.h", encoding="utf-8") as file:
        if "#define WEIR_DEBUG 1" in file.read():
            print("make wheel: this tree looks whether figures add up, and stops where not: configure without --enable-debug for others")


def main() -> None:
    parser = argparse.ArgumentParser(prog="wheel.py")
    commands = parser.add_subparsers(dest="command", required=True)
    archives = commands.add_parser("archives")
    archives.add_argument("--without", type=str.split, default=[])
    archives.add_argument("folder")
    archives.add_argument("compiler")
    archives.add_argument("words", nargs=argparse.REMAINDER)
    packer = commands.add_parser("pack")
    for option in "source built out version machine objdump strip cuda".split():
        packer.add_argument("--" + option, required=True)
    for option in "files config man completion".split():
        packer.add_argument("--" + option, nargs="+", required=True)
    packer.add_argument("--without", default="")
    packer.add_argument("--torch", nargs="*", default=[])
    arguments = parser.parse_args()
    if arguments.command == "archives":
        collect_archives(arguments.folder, arguments.compiler, arguments.words, arguments.without)
    else:
        pack(arguments)


if __name__ == "__main__":
    main()
