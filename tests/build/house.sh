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

# The lines of code of the files, each behind its place. Comments may name a function; text in quotes may too.
code_of() {
    awk 'FNR == 1 { inside = 0 }
        { gsub(/"[^"]*"/, ""); sub(/\/\*.*\*\//, "") }
        inside { inside = !/\*\//; next }
        /^ *\/\*/ { inside = 1; next }
        { sub(/\/\/.*/, ""); print FILENAME ":" FNR ": " $0 }' "$@"
}

# calls_nothing PATTERN FILES…: no line of code has the pattern.
calls_nothing() {
    pattern=$1
    shift
    code_of "$@" | grep -E "^[^:]*:[0-9]*: .*($pattern)" >"$tap_dir/found"
    is_empty "$tap_dir/found"
}

has_license() {
    { git ls-files 2>/dev/null ||
        find . '(' -name _build -o -path './build*' ')' -prune -o '(' -name '*.[ch]' -o -name '*.[ch]pp' -o -name '*.mk' ')' -print; } |
        grep -E '\.(c|cc|cpp|h|hpp|mk|m4|sh|py|ac|am|map)$' | while read -r file; do [ ! -f "$file" ] || echo "$file"; done |
        xargs awk 'BEGIN { for (i = 1; i < ARGC; i++) lacks[ARGV[i]] = 1 }
            FNR <= 2 && /SPDX-License-Identifier: MIT/ { delete lacks[FILENAME] }
            FNR == 2 { nextfile }
            END { for (file in lacks) print file }' >"$tap_dir/found"
    is_empty "$tap_dir/found"
}

# The public headers are as long as what they have to say.
is_short() {
    { find policy lib tools bench -name '*.[ch]' -exec awk 'FNR == 501 { print FILENAME ": above 500 lines" }' {} +
      find share plugin examples tests -name '*.[ch]' -exec awk 'FNR == 1001 { print FILENAME ": above 1,000 lines" }' {} + ; } >"$tap_dir/found"
    is_empty "$tap_dir/found"
}

# locks_are_listed: each lock that a struct or a file has is in a row of doc/thread-safety.md with its name and its file.
locks_are_listed() {
    grep -rE --include='*.[ch]' '^ *(static )?(pthread_(mutex|rwlock)_t|weir__spin) [a-z_]+( =[^(]*)?;' lib share audit plugin/torch |
        grep -v -E '^lib/gpu' | sed -E -e 's,^plugin/,,' -e 's,^(lib|share|audit)/([^:]*/)?,,' | while IFS=: read -r file rest; do
        name=$(echo "$rest" | sed -e 's/ *[=;].*//' -e 's/.* //')
        grep -F "| \`$file\` |" doc/thread-safety.md | grep -q "[\`.]$name\`" || echo "$file: $name"
    done >"$tap_dir/found"
    is_empty "$tap_dir/found"
}

# headers_include_one_way FILES...: each header can be put behind all that it includes.
headers_include_one_way() {
    grep '^#include "' "$@" /dev/null | sed -e 's/^\([^:]*\):#include "\([^"]*\)".*/\2 \1/' | tsort 2>"$tap_dir/found" >/dev/null
    is_empty "$tap_dir/found"
}

policy_files=$(find policy -name '*.[ch]')
gpu_files=$(find lib/gpu -name '*.[ch]')
lib_files=$(find lib -maxdepth 1 -name '*.[ch]')
base='config\.h"|include/weir(_sleep)?\.h|lib/gpu/gpu\.h|lib/gpu/clock\.h|policy/|lib/base/'
share_base='share/base/|include/weir[a-z_]*\.h|lib/|policy/|config\.h"'
# What may not call CUDA: all but lib/gpu/cuda* and the programs that show or measure it.
cuda_free=$(find include policy lib share trace audit plugin/torch tools -name '*.[ch]' ! -path 'lib/gpu/cuda*')
# The simulator dies where CUDA does, and says why.
library_files=$(find policy lib share trace audit plugin/torch -name '*.c' ! -path 'lib/gpu/sim*')
above_share='share/|include/weir\.h|lib/|policy/|trace/|config\.h"'
tools_files=$(find tools -name '*.[ch]')
plugin_files=$(find plugin/torch -name '*.[ch]' -o -name '*.cc')

# The lists are words without spaces, by the naming of the tree.
# shellcheck disable=SC2046,SC2086
{
    check "policy_includes_only_policy" includes_only 'policy/|config\.h"' $policy_files
    check "gpu_includes_only_gpu" includes_only 'lib/gpu/|config\.h"' $gpu_files
    check "base_includes_only_base" includes_only "$base" lib/base/*.[ch]
    check "fence_includes_only_what_is_below_it" includes_only "$base|lib/fence/" lib/fence/*.[ch]
    check "record_includes_only_what_is_below_it" includes_only "$base|lib/record/" lib/record/*.[ch]
    check "arena_includes_only_arena_and_its_tree" includes_only 'lib/backing/arena/|lib/base/treap\.h"|config\.h"' lib/backing/arena/*.[ch]
    check "backing_includes_only_what_is_below_it" includes_only "$base|lib/fence/|lib/record/|lib/backing/" lib/backing/*.[ch]
    below="$base|lib/fence/|lib/record/|lib/backing/|lib/pool/"
    check "pool_includes_only_what_is_below_it" includes_only "$below" lib/pool/*.[ch]
    check "alloc_includes_only_what_is_below_it" includes_only "$below|lib/alloc/" lib/alloc/*.[ch]
    check "recover_includes_only_what_is_below_it" includes_only "$below|lib/alloc/|lib/recover/" lib/recover/*.[ch]
    check "release_includes_only_what_is_below_it" includes_only "$below|lib/alloc/|lib/release/" lib/release/*.[ch]
    check "trace_includes_only_what_is_below_it" includes_only "$base|lib/record/|lib/pool/|lib/trace/" lib/trace/*.[ch]
    check "lib_includes_only_what_is_below_it" includes_only 'include/weir(_sleep)?\.h|lib/|policy/|config\.h"' $lib_files
    check "share_base_includes_only_base" includes_only "$share_base" share/base/*.[ch]
    for room in wire export import control; do
        check "share_${room}_includes_only_what_is_below_it" includes_only "$share_base|share/wire/|share/$room/" share/$room/*.[ch]
    done
    check "share_ties_its_rooms_together" includes_only "$share_base|share/(control|wire)/|share/(open|window)\.h" share/*.[ch]
    # weir_torch.h is installed beside weir.h.
    check "plugin_includes_only_what_is_below_it" includes_only 'plugin/torch/|lib/|share/(open|window|base/order)\.h|config\.h"|weir\.h"' $plugin_files
    check "reader_of_traces_includes_only_what_is_below_it" includes_only 'trace/|lib/trace/|config\.h"' trace/*.[ch]
    check "audit_includes_only_what_is_below_it" \
        includes_only 'audit/|lib/base/|lib/record/|lib/trace/(head|place|writer)\.h"|lib/gpu/(gpu|clock)\.h"|policy/(environment|keys)\.h"|config\.h"' \
        $(find audit -name '*.[ch]')
    check "what_commands_share_includes_no_command" includes_only "tools/common/|$above_share" tools/common/*.[ch]
    check "commands_include_no_other_command" includes_only "tools/common/|$above_share" tools/*.[ch]
    for folder in calibrate doctor metrics trace try generator; do
        check "tools_${folder}_includes_no_other_command" includes_only "tools/common/|tools/$folder/|$above_share" tools/$folder/*.[ch]
    done
    check "tools_record_includes_no_other_command" includes_only "tools/common/|tools/record/|audit/report\.h|$above_share" tools/record/*.[ch]
    check "headers_include_each_other_one_way" headers_include_one_way $(find include policy lib share trace plugin/torch tools -name '*.h')
    check "public_header_includes_no_other_file_of_ours" includes_only '<' include/weir.h
    check "public_headers_beside_it_include_it_alone" includes_only 'weir\.h"' include/weir_*.h
    check "public_header_of_cxx_includes_those_of_c_alone" includes_only 'weir(_[a-z]+)?\.h"' include/weir.hpp
    check "only_the_waist_calls_cuda" calls_nothing '\<cuda[A-Z][A-Za-z]*\(|cuda_runtime|cuda\.h' $cuda_free
    check "library_never_prints_exits_or_aborts" \
        calls_nothing '\<(printf|puts|putchar|perror|fprintf|vfprintf|fputs|exit|_exit|_Exit|abort|assert) *\(' $library_files
    # What a set-user-ID program does is not for its caller's environment to say.
    check "the_environment_is_read_only_where_it_can_be_trusted" calls_nothing '(^|[^_])\<getenv *\(' $library_files $tools_files
    # Another thread may be changing it.
    check "the_library_reads_the_environment_in_one_place" calls_nothing '\<secure_getenv *\(|\<environ\>' \
        $(find policy lib share plugin/torch -name '*.[ch]' -o -name '*.cc' | grep -v -e '^policy/environment\.c$' -e '^lib/gpu/sim\.c$')
    check "variables_are_read_as_they_are_now_only_while_a_weir_is_opened" calls_nothing '\<policy_environment_now *\(' \
        $(find policy lib share plugin/torch -name '*.[ch]' -o -name '*.cc' | grep -v -e '^policy/environment\.[ch]$' -e '^lib/pool/quota\.c$')
}
check "every_source_names_its_license" has_license
check "every_lock_is_in_the_list_of_locks" locks_are_listed
check "no_source_is_too_long" is_short
done_testing
