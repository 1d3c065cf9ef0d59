#!/bin/sh
# SPDX-License-Identifier: MIT
# The headers, the version maps and the built libraries name the same functions, and the versions agree everywhere.
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"

library=$top_builddir/lib/.libs/libweir.so
header=$top_srcdir/include/weir.h
headers="$header $top_srcdir/include/weir_sleep.h $top_srcdir/include/weir_reserve.h"
[ -e "$library" ] || skip_all "there is no shared libweir in this build"
command -v nm >/dev/null || skip_all "nm is missing: install binutils"

# Declarations may span lines, so the name is the first weir_word before a parenthesis after each WEIR_API.
declared() {
    cat "$@" | tr '\n' ' ' | grep -o 'WEIR_API [^;{]*' | sed -n 's/^[^(]*[ *]\(weir_[a-z0-9_]*\)(.*/\1/p' | sort
}

mapped() {
    sed -n 's/^ *\(weir_[a-z0-9_]*\);$/\1/p' "$1" | sort
}

exported() {
    nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort
}

# The simulator is in the libraries that are installed, unless configure was told otherwise: then nothing of it is.
has_simulator_as_configured() {
    grep -q '^#define HAVE_SIMULATOR 1' "$top_builddir/config.h" && wanted=yes || wanted=no
    nm "$1" | awk '$3 ~ /^(gpu_sim|sim_[a-z_]*)$/ { print $3 }' >"$tap_dir/simulated"
    [ -s "$tap_dir/simulated" ] && found=yes || found=no
    [ $found = $wanted ] || { head "$tap_dir/simulated" && return 1; }
}

declared "$top_srcdir"/include/weir*.h >"$tap_dir/header"
mapped "$top_srcdir/lib/libweir.map" >"$tap_dir/map"
exported "$library" >"$tap_dir/library"

check "header_declares_functions" test -s "$tap_dir/header"
check "map_lists_what_the_header_declares" diff "$tap_dir/header" "$tap_dir/map"
check "library_exports_exactly_the_map" diff "$tap_dir/map" "$tap_dir/library"
# name@@NODE for each function of a map, and of a library.
nodes() {
    awk '/^WEIR_[A-Z0-9._]* \{$/ { node = $1 } /^ *weir_[a-z0-9_]*;$/ { sub(/;/, "", $1); print $1 "@@" node }' "$1" | sort
}
nodes "$top_srcdir/lib/libweir.map" >"$tap_dir/nodes"
nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort >"$tap_dir/versioned"
check "each_function_has_the_version_of_its_node" diff "$tap_dir/nodes" "$tap_dir/versioned"
check "library_has_the_simulator_as_configured" has_simulator_as_configured "$library"
check "every_export_has_a_version" sh -c "! nm -D --defined-only '$library' | grep -v ' A ' | grep -v '@@WEIR_'"

# libweir-torch exports what libweir's headers have as well.
module=$top_builddir/plugin/torch/.libs/libweir-torch.so
if [ -e "$module" ]; then
    declared "$top_srcdir/plugin/torch/weir_torch.h" >"$tap_dir/torch_header"
    mapped "$top_srcdir/plugin/torch/libweir-torch.map" >"$tap_dir/torch_map"
    sort "$tap_dir/header" "$tap_dir/torch_header" >"$tap_dir/both"
    exported "$module" >"$tap_dir/module"
    check "torch_map_lists_what_its_header_declares" diff "$tap_dir/torch_header" "$tap_dir/torch_map"
    check "torch_module_exports_both_headers" diff "$tap_dir/both" "$tap_dir/module"
    check "torch_module_has_the_simulator_as_configured" has_simulator_as_configured "$module"
else
    skip "torch_map_lists_what_its_header_declares" "there is no libweir-torch in this build"
    skip "torch_module_exports_both_headers" "there is no libweir-torch in this build"
    skip "torch_module_has_the_simulator_as_configured" "there is no libweir-torch in this build"
fi

# libweir-trace exports its header alone, with a version.
trace=$top_builddir/trace/.libs/libweir-trace.so.0
sed 's/WEIR_TRACE_API/WEIR_API/' "$top_srcdir/trace/weir_trace.h" >"$tap_dir/weir_trace.h"
declared "$tap_dir/weir_trace.h" >"$tap_dir/trace_header"
mapped "$top_srcdir/trace/libweir-trace.map" >"$tap_dir/trace_map"
exported "$trace" >"$tap_dir/trace"
check "trace_header_declares_functions" test -s "$tap_dir/trace_header"
check "trace_map_lists_what_its_header_declares" diff "$tap_dir/trace_header" "$tap_dir/trace_map"
check "trace_library_exports_exactly_the_map" diff "$tap_dir/trace_map" "$tap_dir/trace"
check "every_export_of_trace_has_a_version" sh -c "! nm -D --defined-only '$trace' | grep -v ' A ' | grep -v '@@WEIR_TRACE_'"
needs_no_cuda() {
    ! nm -D --undefined-only "$trace" | grep -e ' cuda' -e ' cu[A-Z]' -e ' exit$' -e ' abort$' -e ' printf$'
}
check "trace_library_neither_calls_cuda_nor_ends_or_prints" needs_no_cuda

# What programs that were built earlier rely on: the sizes of public structs and the values of names.
# rely_on HEADER
rely_on() {
    header=$top_srcdir/$1
    {
        printf '#include <stdio.h>\n#include "%s"\nint main(void)\n{\n' "$(cd "$top_srcdir" && pwd -P)/$1"
        sed -n 's/^} \(weir_[a-z_]*\);$/\1/p' "$header" | sed 's/.*/    printf("%s %zu bytes\\n", "&", sizeof(&));/'
        sed -n -e 's/^    \(WEIR_[A-Z0-9_]*\)\( = [^,]*\)\{0,1\},\{0,1\}\( .*\)\{0,1\}$/\1/p' -e 's/^    X(\(WEIR_[A-Z_]*\),.*/\1/p' "$header" |
            sed 's/.*/    printf("%s = %d\\n", "&", (int)&);/'
        printf '}\n'
    } >"$tap_dir/abi.c"
    ${CC:-cc} -o "$tap_dir/abi" "$tap_dir/abi.c" && "$tap_dir/abi" | LC_ALL=C sort
}
for name in include/weir.h include/weir_sleep.h trace/weir_trace.h; do
    list=$(basename "$name" .h)
    if [ "$(getconf LONG_BIT)" = 64 ] && rely_on "$name" >"$tap_dir/relied_on"; then
        check "abi_of_${list}_is_as_listed" diff "$top_srcdir/tests/build/$list.abi" "$tap_dir/relied_on"
    else
        skip "abi_of_${list}_is_as_listed" "the list is that of 64 bits, and a C compiler is needed"
    fi
done
header=$top_srcdir/include/weir.h

header_version=$(awk '/^#define WEIR_VERSION_(MAJOR|MINOR|PATCH) / { printf "%s%s", dot, $3; dot = "." }' "$header")
built_version=$(sed -n 's/^#define VERSION "\(.*\)"$/\1/p' "$top_builddir/config.h")
pc_version=$(sed -n 's/^Version: //p' "$top_builddir/weir.pc")
check "header_and_configure_agree_on_the_version" test "$header_version" = "$built_version"
check "pkg_config_file_has_the_same_version" test "$pc_version" = "$built_version"
news_version=$(sed -n 's/^## \([0-9][0-9.]*\).*/\1/p' "$top_srcdir/NEWS.md" | head -n 1)
python_version=$(sed -n 's/^VERSION = "\(.*\)"$/\1/p' "$top_srcdir/plugin/python/weir/_version.py")
check "news_begin_with_the_same_version" test "$news_version" = "$built_version"
check "python_package_has_the_same_version" test "$python_version" = "$built_version"
check "command_says_the_same_version" test "$("$top_builddir/tools/weir" --version | head -n 1)" = "weir $built_version"
number_is_comparable() {
    printf '#include "include/weir.h"\nWEIR_VERSION\n' | ${CC:-cc} -E -P -I"$top_srcdir" - | tail -n 1 >"$tap_dir/number"
    [ "$(($(cat "$tap_dir/number")))" = "$(echo "$built_version" | awk -F. '{ print $1 * 10000 + $2 * 100 + $3 }')" ]
}
if command -v "${CC:-cc}" >/dev/null; then
    check "header_has_the_version_as_one_number" number_is_comparable
else
    skip "header_has_the_version_as_one_number" "there is no C compiler"
fi
# Members, functions and options name the release that they came with, which has to be there.
since_is_no_later() {
    {
        # shellcheck disable=SC2086 # as above
        grep -h -o -i -E '(since|before) 0\.[0-9.]*[0-9]' $headers "$top_srcdir"/man/* "$top_srcdir"/doc/*.md
        sed -n 's/^WEIR_\([0-9.]*\) {$/since \1/p' "$top_srcdir/lib/libweir.map"
    } | sed 's/.* //' | sort -u -t. -k1n -k2n -k3n | tail -n 1 >"$tap_dir/order"
    [ -s "$tap_dir/order" ] && echo "$built_version" >>"$tap_dir/order" && sort -c -t. -k1n -k2n -k3n "$tap_dir/order"
}
check "nothing_is_since_a_later_version" since_is_no_later

# named_for_static_links: weir.pc names each library that libweir.so needs, itself or by the module of that name. glibc's parts and the
# compiler's come by themselves.
named_for_static_links() {
    sed -n -e 's/^Libs\.private: //p' -e 's/^Requires\.private: //p' "$top_builddir/weir.pc" | tr ' ,' '\n\n' >"$tap_dir/named"
    readelf -d "$library" | sed -n 's/.*(NEEDED).*\[lib\([a-z]*\).*/\1/p' >"$tap_dir/needed"
    while read -r name; do
        case $name in c | m | gcc | dl | rt | pthread) continue ;; esac
        grep -q -x -e "-l$name" -e "lib$name" -e "$name-.*" "$tap_dir/named" || { echo "weir.pc does not name $name" && return 1; }
    done <"$tap_dir/needed"
}
if command -v readelf >/dev/null; then
    check "pkg_config_file_names_what_static_links_need" named_for_static_links
else
    skip "pkg_config_file_names_what_static_links_need" "readelf is missing: install binutils"
fi
done_testing
