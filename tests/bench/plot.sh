#!/bin/sh
# SPDX-License-Identifier: MIT
# bench/plot.py on a sample of what weir-bench writes (threads.json; its machine and figures are made up).
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"

command -v python3 >/dev/null || skip_all "python3 is missing: install it"
plot=$top_srcdir/bench/plot.py
sample=$top_srcdir/tests/bench/threads.json
svg=$tap_dir/threads.svg
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE

refuses() {
    ! python3 "$plot" -o "$tap_dir/refused.svg" "$1" 2>"$tap_dir/refusal" && [ ! -e "$tap_dir/refused.svg" ] && grep -q "$2" "$tap_dir/refusal"
}

check "plots_the_sample" python3 "$plot" -o "$svg" "$sample"
check "svg_is_well_formed_xml" python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$svg"
check "background_is_white_on_any_page" grep -q '<rect width="[0-9]*" height="[0-9]*" fill="#ffffff"/>' "$svg"
for group in 'own streams, one pool' 'own streams, own pools' 'one stream'; do
    name=$(echo "$group" | tr -d , | tr ' ' _)
    check "raw_and_weir_of_${name}_are_named" sh -c "grep -q '>raw: $group<' '$svg' && grep -q '>weir: $group<' '$svg'"
done
check "each_of_the_six_lines_has_five_points" test "$(grep -c 'stroke-opacity="0.5"' "$svg")" = 30
python3 "$plot" "$sample" >"$tap_dir/again.svg"
check "same_figures_make_the_same_bytes" cmp "$svg" "$tap_dir/again.svg"

printf '{"machine": {}, "figures": []}\n' >"$tap_dir/other.json"
printf '{"figures": 1}\n' >"$tap_dir/wrong.json"
check "a_file_without_the_section_says_how_to_get_one" refuses "$tap_dir/other.json" 'weir-bench --json'
check "a_file_of_another_kind_is_refused_by_name" refuses "$tap_dir/wrong.json" 'wrong.json'
check "a_missing_file_is_refused_by_name" refuses "$tap_dir/missing.json" 'missing.json'
done_testing
