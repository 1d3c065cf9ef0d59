# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# tap.sh - what the shell tests share: one TAP line for each fact. Sourced with POSIX sh; call done_testing last.

tap_count=0
: "${top_srcdir:=.}" "${top_builddir:=.}"
# Neither autotools nor quickstart builds in a folder with a blank.
case ${TMPDIR-} in *[!A-Za-z0-9/._-]*) unset TMPDIR ;; esac
tap_dir=$(mktemp -d) || exit 1
trap 'rm -rf "$tap_dir"' EXIT

# check NAME COMMAND…: a fact that holds if the command succeeds. What it printed is shown if it does not.
check() {
    tap_name=$1
    shift
    tap_count=$((tap_count + 1))
    if "$@" >"$tap_dir/output" 2>&1; then
        echo "ok $tap_count - $tap_name"
    else
        echo "not ok $tap_count - $tap_name"
        sed 's/^/# /' "$tap_dir/output"
    fi
}

# skip NAME REASON: a fact that cannot be looked at here.
skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

# skip_all REASON: ends the test.
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

# has_simulator: whether what is installed has one to run on. The command, and programs that are linked with the objects of libweir, always do.
has_simulator() {
    grep -q '^#define HAVE_SIMULATOR 1' "$top_builddir/config.h"
}

# needs_simulator: ends the test where what is installed has none.
needs_simulator() {
    has_simulator || skip_all "libweir was built without the simulator"
}

# is_empty FILE: true if the file has no lines; else prints them.
is_empty() {
    ! grep '' "$1"
}

# find_python: sets $interpreter to the program that python3 is; fails, and leaves that empty, where none works. What is called python3 may be a
# script that takes longer to find the real one than a test to run: then a python3 of the test's own comes first in PATH. The real one's folder
# never does, as it may be /usr/bin, whose other tools would hide those that a test or its user has put first.
find_python() {
    interpreter=$(python3 -c 'import json, sys; print(sys.executable)' 2>/dev/null) || return
    case $(command -v python3) in
    "$interpreter" | "$tap_dir/python/python3") return ;;
    esac
    mkdir "$tap_dir/python" && printf '#!/bin/sh\nexec "%s" "$@"\n' "$interpreter" >"$tap_dir/python/python3" &&
        chmod +x "$tap_dir/python/python3" && PATH=$tap_dir/python:$PATH
}

done_testing() {
    echo "1..$tap_count"
}
