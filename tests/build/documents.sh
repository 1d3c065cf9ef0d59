#!/bin/sh
# SPDX-License-Identifier: MIT
# Documents: that every link of theirs leads somewhere, in the source and where they are installed, and that their figures agree.
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"

# links FILE: the target of each link of a document to another file, without its anchor.
links() {
    sed 's/`[^`]*`//g' "$1" | grep -o ']([^)]*)' | sed -e 's/^](//' -e 's/)$//' -e 's/#.*//' | grep -v -e '^https\{0,1\}:' -e '^$'
}

# leads ROOT FILE…: every link of the files leads to a file; those that begin with a slash are looked for below the root.
leads() {
    root=$1
    shift
    for document; do
        for link in $(links "$document"); do
            case $link in
            /*) target=$root$link ;;
            *) target=${document%/*}/$link ;;
            esac
            [ -e "$target" ] || echo "$document: $link"
        done
    done | grep . && return 1
    return 0
}

printf '[a](b.md#c) and [d](/e/f), `[g](h)`, [i](https://j)\n![k](l.svg)\n' >"$tap_dir/sample"
found() {
    [ "$(links "$tap_dir/sample" | tr '\n' ' ')" = "b.md /e/f l.svg " ]
}
check "links_are_found" found
dead() {
    mkdir "$tap_dir/e" && touch "$tap_dir/b.md" "$tap_dir/e/f" && ! leads "$tap_dir" "$tap_dir/sample" >"$tap_dir/said" &&
        [ "$(cat "$tap_dir/said")" = "$tap_dir/sample: l.svg" ]
}
check "dead_link_is_named" dead

if [ -e "$top_srcdir/.git" ]; then
    check "links_of_the_source_lead_somewhere" leads '' "$top_srcdir"/*.md "$top_srcdir"/doc/*.md
else
    skip "links_of_the_source_lead_somewhere" "this is no clone: not all that is linked to is in a tarball"
fi

stage=$tap_dir/stage
installed() {
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$top_builddir" install-data DESTDIR="$stage" >"$tap_dir/make" 2>&1 || {
        cat "$tap_dir/make"
        return 1
    }
}
check "documents_are_installed" installed
docs=$(find "$stage" -name README.md -exec dirname {} \;)
for name in README.md NEWS.md CONTRIBUTING.md LICENSE doc/architecture.md doc/cuda.md doc/performance.md doc/policy.md doc/protocol.md \
    doc/pytorch.md doc/several-processes.md doc/simulator.md doc/thread-safety.md examples/embed.c; do
    check "installed_$name" test -s "$docs/$name"
done
check "links_of_installed_documents_lead_somewhere" leads "$stage" "$docs"/*.md "$docs"/doc/*.md
check "installed_readme_links_to_policies" grep -q '](/.*/default\.yaml)' "$docs/README.md"
readme_is_short() {
    words=$(wc -w <"$top_srcdir/README.md")
    echo "README.md has $words words"
    [ "$words" -le 1000 ]
}
check "readme_has_at_most_1000_words" readme_is_short

# agree SHORT LONG: each row with a target in the short document has a row in the long one with the same first cell and all its other texts.
agree() {
    awk -F ' *[|] *' '
        FILENAME == ARGV[1] { if (NF > 3) long[$2] = $0; next }
        /^[|] .*[|] target [|]/ { inside = 1; next }
        !/^[|]/ { inside = 0 }
        !inside || /^[|]-/ { next }
        { count++ }
        !($2 in long) { print "not in " ARGV[1] ": " $2; wrong = 1; next }
        { for (i = 3; i < NF; i++) if (!index(long[$2], $i)) { print $2 ": " $i ", but in " ARGV[1] ": " long[$2]; wrong = 1 } }
        END { if (!count) print "no row with a target"; exit wrong || !count }' "$2" "$1"
}
printf '| x | target | measured |\n|---|---|---|\n| a | 1 | 2 |\n| b | 1 | 3 |\n| c | 1 | 2 |\n' >"$tap_dir/short"
printf '| a | 2 | 1 | **missed** |\n| b | 1 | 2 |\n' >"$tap_dir/long"
other_figures() {
    ! agree "$tap_dir/short" "$tap_dir/long" >"$tap_dir/said" && cat "$tap_dir/said" &&
        [ "$(grep -c -e '^b: 3, but' -e '^not in .*: c$' "$tap_dir/said")" = 2 ] && [ "$(wc -l <"$tap_dir/said")" = 2 ]
}
check "other_figures_are_found" other_figures
check "figures_of_the_readme_are_those_of_performance_md" agree "$top_srcdir/README.md" "$top_srcdir/doc/performance.md"
done_testing
