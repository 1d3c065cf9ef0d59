#!/bin/sh
# SPDX-License-Identifier: MIT
# The rules of the house that a compiler does not check: which folder may include which, and who may call CUDA.
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"
cd "$top_srcdir" || exit 1

# includes_only FOLDER ALLOWED FILES…: every #include "…" in the files names a path that begins with one of the allowed ones.
includes_only() {
    allowed=$1
    shift
    grep -n '^ *# *include *"' "$@" /dev/null | grep -v -E "\"($allowed)" >"$tap_dir/found"
    is_empty "$tap_dir/found"
}

# calls_nothing PATTERN FILES…: no line of code has the pattern. Comments may name a function; text in quotes may too.
calls_nothing() {
    pattern=$1
    shift
    for file in "$@"; do
        [ -f "$file" ] || continue
        sed -e 's,"[^"]*",,g' -e 's,/\*.*\*/,,' -e '/^ *\/\*/,/\*\//d' -e 's,//.*,,' "$file" | grep -n -E "$pattern" | sed "s|^|$file:|"
    done >"$tap_dir/found"
    is_empty "$tap_dir/found"
}

has_license() {
    for file in $(git ls-files 2>/dev/null || find . '(' -name _build -o -path './build*' ')' -prune -o '(' -name '*.[ch]' -o -name '*.mk' ')' -print); do
        case $file in
        *.c | *.h | *.mk | *.m4 | *.sh | *.py | *.ac | *.am | *.map)
            [ ! -f "$file" ] || head -n 2 "$file" | grep -q 'SPDX-License-Identifier: MIT' || echo "$file" ;;
        esac
    done >"$tap_dir/found"
    is_empty "$tap_dir/found"
}

is_short() {
    find policy lib share plugin tools examples bench tests -name '*.[ch]' -exec awk 'END { if (NR > 1000) print FILENAME ": " NR " lines" }' {} \; >"$tap_dir/found"
    is_empty "$tap_dir/found"
}

policy_files=$(find policy -name '*.[ch]')
gpu_files=$(find lib/gpu -name '*.[ch]')
lib_files=$(find lib -name '*.[ch]' ! -path 'lib/gpu/*')
share_files=$(find share -name '*.[ch]')
# What may not call CUDA: all but lib/gpu/cuda* and the programs that show or measure it.
cuda_free=$(find policy lib share plugin/torch tools -name '*.[ch]' ! -path 'lib/gpu/cuda*')
# generate*.c are programs of the build, not parts of the library.
# The simulator dies where CUDA does, and says why.
library_files=$(find policy lib share plugin/torch -name '*.c' ! -name 'generate*.c' ! -path 'lib/gpu/sim*')
plugin_files=$(find plugin/torch -name '*.[ch]' -o -name '*.cc')

# The lists are words without spaces, by the naming of the tree.
# shellcheck disable=SC2086
{
    check "policy_includes_only_policy" includes_only 'policy/|config\.h"' $policy_files
    check "gpu_includes_only_gpu" includes_only 'lib/gpu/|config\.h"' $gpu_files
    check "lib_includes_only_what_is_below_it" includes_only 'lib/|policy/|config\.h"' $lib_files
    check "share_includes_only_what_is_below_it" includes_only 'share/|lib/|policy/|config\.h"' $share_files
    # weir_torch.h is installed beside weir.h.
    check "plugin_includes_only_what_is_below_it" includes_only 'plugin/torch/|lib/|config\.h"|weir\.h"' $plugin_files
    check "public_header_includes_no_other_file_of_ours" includes_only '<' lib/weir.h
    check "only_the_waist_calls_cuda" calls_nothing '\<cuda[A-Z][A-Za-z]*\(|cuda_runtime|cuda\.h' $cuda_free
    check "library_never_prints_exits_or_aborts" \
        calls_nothing '\<(printf|puts|putchar|perror|fprintf|vfprintf|fputs|exit|_exit|_Exit|abort|assert) *\(' $library_files
    # What a set-user-ID program does is not for its caller's environment to say.
    check "library_reads_the_environment_only_where_it_can_be_trusted" calls_nothing '(^|[^_])\<getenv *\(' $library_files
}
check "every_source_names_its_license" has_license
check "no_source_is_longer_than_1000_lines" is_short
done_testing
