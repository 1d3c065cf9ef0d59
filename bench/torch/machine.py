# SPDX-License-Identifier: MIT
"""What a machine has for compare.py: its GPU, packages, Weir, RMM and what is compiled where torch is; and why not the rest."""

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Dict, Optional, Sequence

import allocators
import bench
from results import Machine
from rows import MICRO, SECTION, work_of

ROOT = os.path.dirname(os.path.dirname(bench.HERE))  # of a source tree or a GPU bundle


def last_line(text: str) -> str:
    """What a program said last."""
    return next((line.strip()[-300:] for line in reversed(text.splitlines()) if line.strip()), "it said nothing")


def gpu_of_driver() -> Machine:
    """The first GPU and the driver, by the driver's own program. {}: it is not there."""
    try:
        made = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
        )
        name, driver = made.stdout.splitlines()[0].split(", ")
    except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
        return {}
    return {"gpu": name, "driver": driver}


class Here:
    """What this machine has, and why not the rest."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.weir_bench = os.path.abspath(arguments.weir_bench)
        self.policy = os.path.abspath(arguments.policy)
        self.lacks: Dict[str, str] = {}
        self.counts = True
        for name in ("torch", "transformers", "peft", "cupy"):
            if importlib.util.find_spec(name) is None:
                self.lacks[name] = f"{sys.executable} has no {name}"
        self.find_torch()
        self.find_weir()
        if not os.access(self.weir_bench, os.X_OK):
            self.lacks[SECTION] = f"{self.weir_bench} is no program: make bench/weir-bench, or name it with --weir-bench"
        library = os.environ.get("WEIR_TORCH_LIBRARY", "")
        self.machine.update(build=build_of([self.weir_bench, library, self.policy]), steps="few" if arguments.quick else "all")

    def build(self, arguments: argparse.Namespace, scratch: str) -> None:
        """What has to be compiled where torch and RMM are."""
        self.build_shim()
        self.build_rmm(arguments.rmm, scratch)
        self.build_counter(arguments.out)

    def find_torch(self) -> None:
        """Asks other processes, so that this one takes no memory of the GPU."""
        self.machine: Machine = gpu_of_driver()
        script = f"import sys; sys.path.insert(0, {bench.HERE!r}); import bench, json; print(json.dumps([bench.unavailable(), bench.machine()]))"
        made = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if made.returncode != 0:
            self.lacks.setdefault("torch", f"torch cannot be imported: {last_line(made.stderr)}")
            return
        reason, machine = json.loads(last_line(made.stdout))
        self.machine.update(machine)
        if reason:
            self.lacks["torch"] = reason
        for name in ("transformers", "peft", "cupy-cuda13x", "cupy-cuda12x"):
            try:
                self.machine[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                pass

    def find_weir(self) -> None:
        """Weir for Python: where the environment says, or in this tree."""
        package = os.path.join(ROOT, "plugin", "python")
        if importlib.util.find_spec("weir") is None and os.path.isdir(package):
            sys.path.append(package)
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), package)))
        library = os.path.join(ROOT, "plugin", "torch", "libweir-torch.so")
        if os.path.exists(library):
            os.environ.setdefault("WEIR_TORCH_LIBRARY", library)

    def build_shim(self) -> None:
        """Weir's for this torch, before anything is measured."""
        if "torch" in self.lacks:
            return
        made = subprocess.run([sys.executable, "-m", "weir.torch", "build"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if made.returncode != 0:
            self.lacks["weir"] = f"weir.torch cannot be built: {last_line(made.stdout)}"

    def build_rmm(self, path: Optional[str], scratch: str) -> None:
        """The library of RMM's resources: as given, or built of the wheels in that folder."""
        if not path:
            self.lacks["rmm"] = "no RMM: name the folder of its wheels with --rmm (bench/rmm/build.sh says which)"
            return
        library = os.path.abspath(path)
        if os.path.isdir(path):
            library = os.path.join(scratch, "libweir-rmm.so")
            build = os.path.join(ROOT, "bench", "rmm", "build.sh")
            made = subprocess.run([build, path, library], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if made.returncode != 0:
                self.lacks["rmm"] = f"RMM's resources cannot be built: {last_line(made.stdout)}"
        os.environ["WEIR_BENCH_RMM"] = library

    def build_counter(self, out: str) -> None:
        """The counter of the allocator's time, built once for a torch. Without it steps and memory are measured all the same."""
        if "torch" in self.lacks:
            return
        with open(os.path.join(bench.HERE, "counter.cpp"), "rb") as file:
            version = hashlib.sha256(file.read() + f"{self.machine.get('torch')} {sys.version}".encode()).hexdigest()[:12]
        folder = os.path.join(out, f"counter-{version}")
        try:
            if not os.path.isdir(folder):
                made = tempfile.mkdtemp(dir=out)
                try:
                    allocators.build_counter(made)
                    os.rename(made, folder)
                finally:
                    shutil.rmtree(made, ignore_errors=True)
        except (allocators.Missing, ImportError, OSError) as error:
            print(f"compare: no time in the allocator is measured: {error}", file=sys.stderr)
            self.counts = False
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))

    def reason(self, row: str, contender: str) -> str:
        """Why it cannot be measured here; "" if it can."""
        if contender == SECTION:
            return self.lacks.get(SECTION, "")
        work = work_of(row)
        assert work is not None
        needed = ["torch", *work.modules]
        if contender in allocators.RMM:
            needed.append("rmm")
        elif contender not in ("native", "expandable", "async", "plain"):
            needed.append("weir")
        if row in MICRO and row != "full" and not self.counts:
            return "it needs the counter, which cannot be compiled here"
        return next((self.lacks[name] for name in needed if name in self.lacks), "")


def build_of(files: Sequence[str]) -> str:
    """A word for what is measured: another build has another one."""
    digest = hashlib.sha256()
    for path in files:
        try:
            with open(path, "rb") as file:
                digest.update(hashlib.sha256(file.read()).digest())
        except OSError:
            digest.update(b"none")
    return digest.hexdigest()[:12]
