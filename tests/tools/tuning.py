#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""doc/tuning.md: what stands behind each $ in it is run on the trace that is shipped, and prints what the page has.

    tuning.py SOURCE BUILD            compares, as a test
    tuning.py SOURCE BUILD --write    writes the page anew with what is printed now
"""
import os
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD = sys.argv[1:3]
WRITES = "--write" in sys.argv


def blocks(page):
    """Command and output of each console block."""
    inside, command, output = False, "", ""
    for line in page:
        if line.startswith("```"):
            if inside:
                yield command, output
            inside, command, output = line.startswith("```console"), "", ""
        elif inside and line.startswith("$ "):
            command = line[2:].strip()
        elif inside:
            output += line


def main():
    folder = tempfile.mkdtemp()
    shutil.copy(f"{SOURCE}/examples/traces/generation.weir", folder)
    shutil.copy(f"{SOURCE}/config/costs/nvidia-h200.yaml", folder)
    left = ("WEIR_CONF", "WEIR_POLICY", "WEIR_SIM", "WEIR_GPU")
    env = {key: value for key, value in os.environ.items() if key not in left}
    env.update(TZ="UTC", LC_ALL="C.UTF-8", COLUMNS="80", XDG_CACHE_HOME=f"{folder}/cache", WEIR_COSTS_DIR=f"{folder}/none")
    weir = os.path.abspath(f"{BUILD}/tools/weir")
    count = 0
    page = f"{SOURCE}/doc/tuning.md"
    with open(page, encoding="utf-8") as lines:
        text = lines.read()
    with open(page, encoding="utf-8") as lines:
        for count, (command, output) in enumerate(blocks(lines), 1):
            assert command.startswith("weir "), command
            done = subprocess.run(f"'{weir}' {command[5:]}", shell=True, cwd=folder, env=env, capture_output=True, text=True)
            text = text.replace(f"$ {command}\n{output}", f"$ {command}\n{done.stdout}")
            good = done.stdout == output and not done.stderr and done.returncode == 0
            print(f"{'ok' if good else 'not ok'} {count} - {command}")
            if not good:
                print("\n".join(f"# {line}" for line in (done.stdout + done.stderr).splitlines()))
    print(f"1..{count}")
    if WRITES:
        with open(page, "w", encoding="utf-8") as out:
            out.write(text)
    shutil.rmtree(folder)


main()
