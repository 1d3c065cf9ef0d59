#!/bin/sh
# SPDX-License-Identifier: MIT
# The command line: help, version, and what is wrong with a call.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"

check "version_is_printed" exits 0 --version
check "version_is_that_of_the_library" says "$out" "weir $(sed -n 's/^PACKAGE_VERSION = //p' "$top_builddir/Makefile")"
check "help_is_printed" exits 0 --help
check "help_lists_all_subcommands_and_an_example" says "$out" "  check " "  show " "  doctor " "  try " "  run " "  ps " "  trim " "  sleep " "  wake " "  set " "  reload " \
    "  metrics " "  leases " "  evict " "  record " "  trace " "  help " "WEIR_GPU=sim weir try"

# groups of the help, and those of the manual page: each title in capitals, and its subcommands.
groups_of_help() {
    awk '/^Help$/ { exit } /^[A-Z]/ { head = toupper($1) } /^  [a-z]+  / { if (head) print head; head = ""; print toupper($1) }' "$out"
}
groups_of_page() {
    awk '/^\.Sh/ { head = $2 == "COMMON" ? "" : $2 } /^\.Ss weir/ { if (head) print head; head = ""; print toupper($3) }' "$top_srcdir/man/weir.1"
}
are_grouped_alike() {
    groups_of_help >"$tap_dir/help_groups" && groups_of_page >"$tap_dir/page_groups" && diff "$tap_dir/help_groups" "$tap_dir/page_groups" &&
        [ "$(wc -l <"$tap_dir/help_groups")" -gt 15 ]
}
check "manual_page_has_the_groups_of_the_help" are_grouped_alike

for name in check show doctor try run ps trim sleep wake set reload metrics leases evict record trace calibrate help; do
    check "help_of_${name}_is_printed" exits 0 "$name" --help
    check "help_of_${name}_shows_an_example" says "$out" "Usage: weir $name" "Example" "  weir $name"
    cp "$out" "$tap_dir/own"
    check "help_subcommand_knows_${name}" exits 0 help "$name"
    check "help_subcommand_prints_the_help_of_${name}" cmp "$tap_dir/own" "$out"
done
check "help_alone_is_the_whole_help" exits 0 help
# Each --option of an example, up to a pipe or another command, is one that the same help lists above.
examples_can_be_given() {
    exits 0 help "$1" && awk -v name="$1" '
        /^Example/ { inside = 1 }
        !inside { text = text $0 "\n" }
        inside && $1 == "weir" && $2 == name {
            sub(/ (\||--|&&|python3) .*/, "")
            for (i = 3; i <= NF; i++) {
                option = $i
                sub(/=.*/, "", option)
                if (option ~ /^--/ && text !~ option "[=, \n]") { print option; bad = 1 }
            }
            count++
        }
        END { exit bad || !count }' "$out"
}
for name in check show doctor try run ps top trim sleep wake set reload metrics leases evict record replay tune trace calibrate help; do
    check "examples_of_${name}_have_options_that_there_are" examples_can_be_given "$name"
done

# Each option of the help stands in the SYNOPSIS of the manual page, short or long.
synopsis_has_the_options() {
    exits 0 help "$1" && awk -v name="$1" '
        FNR == NR { inside = /^\.Sh/ ? $2 == "SYNOPSIS" : inside }
        FNR == NR && inside && $1 == ".Cm" { own = $2 == name }
        FNR == NR && inside && own && $1 != ".Cm" { for (i = 1; i < NF; i++) if ($i == "Fl") given["-" $(i + 1)] = 1; if ($1 == ".Fl") given["-" $2] = 1 }
        FNR == NR { next }
        match($0, /^ +(-[a-z], )?--[a-z-]+/) {
            count = split(substr($0, 1, RLENGTH), forms, /[ ,]+/)
            if (!((forms[count] in given) || (forms[count - 1] in given)) && forms[count] != "--help") { print forms[count]; bad = 1 }
            all++
        }
        END { exit bad || !all }' "$top_srcdir/man/weir.1" "$out"
}
for name in check show doctor try run ps top trim sleep wake set reload metrics leases evict record replay tune trace calibrate help; do
    check "synopsis_of_${name}_has_the_options_of_its_help" synopsis_has_the_options "$name"
done

# fits COLUMNS ARGUMENT…: no line of what the command prints is longer, with that value of the variable ("": without it).
fits() (
    unset COLUMNS
    [ -z "$1" ] || export COLUMNS="$1"
    columns=${1:-80}
    shift
    exits 0 "$@" && awk -v columns="$columns" 'length > columns { print; bad = 1 } END { exit bad }' "$out"
)
whole_help_fits() {
    for subcommand in '' check show doctor try run ps top trim sleep wake set reload metrics leases evict record trace calibrate help; do
        # shellcheck disable=SC2086 # none at all for the list
        fits "$1" help $subcommand || return 1
    done
}
check "help_fits_80_columns" whole_help_fits ''
check "help_fits_the_columns_that_there_are" whole_help_fits 76
check "help_is_as_wide_as_the_columns_that_there_are" fits 132 help try
check "wide_help_uses_its_columns" grep -q '.\{100\}' "$out"
check "strange_columns_are_80" fits '' help try
cp "$out" "$tap_dir/plain"
for strange in 0 -5 x 80x 99999999999999999999; do
    check "columns_${strange}_are_80" env COLUMNS="$strange" sh -c '"$1" help try | cmp - "$2"' sh "$weir" "$tap_dir/plain"
done
narrow() {
    COLUMNS=20 exits 0 help ps && says "$out" '      --json' '          print one'
}
check "where_columns_are_few_the_text_stands_below_its_option" narrow

check "no_subcommand_exits_2" exits 2
check "no_subcommand_is_answered_with_the_way_on" says "$err" "weir --help"
check "misspelt_subcommand_exits_2" exits 2 chekc
check "misspelt_subcommand_gets_a_suggestion" says "$err" "there is no subcommand 'chekc'; did you mean 'check'?"
check "misspelt_help_topic_exits_2" exits 2 help tri
check "strange_subcommand_exits_2" exits 2 fhqwhgads
check "strange_subcommand_gets_no_suggestion" says_not "$err" "did you mean"
check "options_may_stand_behind_operands" exits 0 help try --color=always
check "option_behind_an_operand_is_heeded" says "$out" "$(printf 'Options\033[0m')"
check "misspelt_option_behind_an_operand_exits_2" exits 2 check file --jsno
check "misspelt_option_behind_an_operand_is_named" says "$err" "unknown option '--jsno'"
check "misspelt_option_exits_2" exits 2 check --jsno file
check "misspelt_option_gets_a_suggestion" says "$err" "unknown option '--jsno'; did you mean '--json'?"
check "beginning_of_several_options_exits_2" exits 2 try --se 1
check "beginning_of_several_options_is_answered_with_all_of_them" says "$err" "option '--se' could be --seconds or --seed: write more of it"
check "beginning_of_several_options_with_a_value_is_answered_so_too" exits 2 trim --p=1
check "beginning_of_options_that_are_told_apart_by_one_letter_is_answered_so_too" says "$err" "option '--p' could be --pid or --pool"
check "unknown_letter_exits_2" exits 2 try -s 1 -q
check "unknown_letter_is_named" says "$err" "unknown option '-q'"
check "unknown_letter_of_a_cluster_behind_an_operand_exits_2" exits 2 try policy.yaml -qs
check "its_cluster_is_named_and_not_the_operand" says "$err" "unknown option '-qs'"
check "unknown_option_before_the_subcommand_exits_2" exits 2 --json check
check "unknown_cluster_before_the_subcommand_exits_2" exits 2 -qx check
check "and_is_named" says "$err" "unknown option '-qx'"
check "missing_operand_exits_2" exits 2 check
check "missing_operand_is_named" says "$err" "it needs FILE..." "Usage: weir check"
check "operand_too_many_exits_2" exits 2 show one two
check "operand_too_many_is_named" says "$err" "'two'"
check "missing_argument_exits_2" exits 2 try --seed
check "missing_argument_is_named" says "$err" "option '--seed' needs an argument"
for wrong in --threads=0 --threads=65 --threads=-1 --threads=2x --seconds=0 --seconds=nan --seconds=1e9 --seed=1.5 --seed= --gpu=vulkan; do
    check "try_${wrong}_exits_2" exits 2 try "$wrong"
    check "try_${wrong}_is_answered_with_what_to_write" says "$err" "$wrong: write "
done
check "unknown_colour_mode_exits_2" exits 2 show --color=blue

# What is gone, and what says so has to name in its place; |: between the words of the command line and that.
while IFS='|' read -r line instead; do
    name=$(echo "$line" | tr -c 'a-z\n' '_' | tr -s _)
    # shellcheck disable=SC2086 # words
    check "${name}is_gone" exits 2 $line
    check "${name}is_told_what_replaces_it" says "$err" "any more; write: ${instead# }"
    check "${name}does_nothing_else" is_empty "$out"
done <<'GONE'
devices                              | weir doctor
devices --json                       | weir doctor
help devices                         | weir doctor
trace plot --svg=memory.svg run.weir | weir trace page TRACE -o page.html
trace export run.weir                | python3 -m weir.trace export --perfetto=FILE TRACE...
trace export --perfetto=x run.weir   | python3 -m weir.trace export --perfetto=FILE TRACE...
trace --memory-viz=x run.weir        | python3 -m weir.trace export --memory-viz=FILE TRACE...
trace run.weir --rmm x               | python3 -m weir.trace export --rmm=FILE TRACE
trace --svg run.weir                 | weir trace page TRACE -o page.html
replay run.weir --plot=curves.svg    | weir trace page TRACE --policy=FILE -o page.html
try --verbose                        | WEIR_LOG=info weir try
try -v policy.yaml                   | WEIR_LOG=info weir try
tune --plot front.svg run.weir       | weir tune --json TRACE >found.json && weir trace page TRACE --tune=found.json -o page.html
GONE
check "unique_beginning_of_an_option_is_enough" exits 0 show --js
done_testing
