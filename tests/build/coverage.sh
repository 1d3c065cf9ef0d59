#!/bin/sh
# SPDX-License-Identifier: MIT
# coverage.sh SRCDIR MINIMUM - line coverage of policy/, lib/, share/ and plugin/ from the .gcda files under the current folder; one line for each file, then
# the sum. Exits 1 if the sum is below MINIMUM per cent.
#
# Programs of the build (generate*.c) are left out. Files that only a GPU can run (lib/gpu/cuda*.c) are listed and not summed: without one no test can reach them.
set -eu
srcdir=$(cd "$1" && pwd -P)
minimum=$2
: "${GCOV:=gcov}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

find "$PWD/policy" "$PWD/lib" "$PWD/share" "$PWD/plugin" -name '*.gcno' | sort >"$work/notes"
[ -s "$work/notes" ] || {
    echo "coverage: no .gcno files here: configure with --enable-coverage" >&2
    exit 1
}
# libtool compiles a file twice where both kinds of library are built; the lines of both are merged by name and number.
while read -r note; do
    (cd "$work" && "$GCOV" --preserve-paths --stdout "$note" 2>/dev/null) || true
done <"$work/notes" >"$work/lines"

awk -F: -v root="$srcdir/" -v minimum="$minimum" '
    $3 == "Source" || ($2 + 0 == 0 && $3 == "Source") {
        file = $4
        sub("^(\\./)+", "", file)
        if (index(file, root) == 1) file = substr(file, length(root) + 1)
        else if (match(file, /\.\.\/(policy|lib|share|plugin)\//)) file = substr(file, RSTART + 3)
        mine = file ~ /^(policy|lib|share|plugin)\/.*\.[ch]$/ && file !~ /\/generate[^\/]*$/
        next
    }
    mine && $2 + 0 > 0 {
        count = $1; gsub(/[ *]/, "", count)
        if (count == "-") next
        line = file SUBSEP ($2 + 0)
        if (!(line in seen)) { seen[line] = 1; total[file]++ }
        if (count !~ /^[#=]/ && !(line in hit)) { hit[line] = 1; run[file]++ }
    }
    END {
        for (file in total) {
            note = file ~ /^lib\/gpu\/cuda/ ? "   (needs a GPU; not in the sum)" : ""
            printf "%5.1f %%  %4d of %4d lines  %s%s\n", 100 * run[file] / total[file], run[file], total[file], file, note | "sort -k5"
            if (note == "") { all += total[file]; good += run[file] }
        }
        close("sort -k5")
        if (!all) { print "coverage: no lines of policy/, lib/, share/ and plugin/ found"; exit 1 }
        printf "line coverage of policy/, lib/, share/ and plugin/: %.1f %% (%d of %d lines), wanted: %s %%\n", 100 * good / all, good, all, minimum
        exit (100 * good / all < minimum)
    }' "$work/lines"
