#!/bin/sh
# SPDX-License-Identifier: MIT
# The completion of bash: that it has all that the command has, and finds what only live processes know.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
command -v bash >/dev/null || skip_all "no bash"
completion=${weir%/tools/weir}/config/bash-completion/weir
pool=work-$$
export XDG_RUNTIME_DIR="$tap_dir/run" WEIR_CONTROL_DIR="$tap_dir"
export WEIR_SIM="name=completion-$$,memory=256MiB" WEIR_POLICY="$tap_dir/policy.yaml"
mkdir -m 700 "$XDG_RUNTIME_DIR"
policy policy.yaml <<YAML
weir: 1
control: true
defaults: { pool: $pool }
pools:
  $pool: {}
  frames: { devices: [0], ipc: posix_fd, max_size: 128MiB, share: { socket: frames } }
YAML
cd "$tap_dir" || exit 1

# completes LINE [WORDBREAKS]: what bash offers at the end of that line, one candidate in a line of $out. Nobody types here, so that processes
# may take their time to answer.
completes() {
    bash -c '. "$1" || exit
        weir() { "$weir" "${@/#--timeout=*/--timeout=60}"; }
        COMP_WORDBREAKS=$3 COMP_LINE=$2 COMP_POINT=${#2}
        _weir
        [ ${#COMPREPLY[@]} = 0 ] || printf "%s\n" "${COMPREPLY[@]}"' bash "$completion" "$1" "${2-" ='"}" >"$out" 2>"$err"
}
export weir

# offers LINE WORD…: exactly these words are offered, in whatever order, and nothing is said.
offers() {
    completes "$1" && is_empty "$err" || return
    shift
    sort "$out" >sorted
    [ $# = 0 ] || printf '%s\n' "$@" | sort >wanted
    [ $# != 0 ] || : >wanted
    diff wanted sorted
}

# has LINE WORD…: these words are among those offered.
has() {
    completes "$1" || return
    shift
    for word in "$@"; do
        grep -q -x -F -e "$word" "$out" || {
            echo "'$word' is not offered, but:"
            cat "$out"
            return 1
        }
    done
}

# lacks LINE WORD: this word is not offered.
lacks() {
    completes "$1" && ! grep -x -F -e "$2" "$out"
}

# is_same TEXT: that and nothing else was printed.
is_same() {
    echo "$1" | diff - "$out"
}

subcommands() {
    "$weir" --help | sed -n '/^Examples/q; s/^  \([a-z]*\)  .*/\1/p'
}

# Every option that the help of the subcommand has, as the completion writes it.
options_of() {
    "$weir" "$1" --help | sed -n '/^Options/,/^$/{
        s/^  -\([a-z]\), .*/-\1/p
    }'
    "$weir" "$1" --help | sed -n '/^Options/,/^$/s/^  .* *\(--[a-z-]*=\{0,1\}\).*/\1/p'
}

check "completion_is_registered_for_weir" bash -c ". '$completion' && complete -p weir | grep -q -e '-F _weir weir'"
registered_in_a_function() {
    bash -c "load() { . '$completion'; }; load; [ \"\${_weir_options[ps]}\" ]"
}
check "completion_can_be_loaded_by_a_function" registered_in_a_function
# shellcheck disable=SC2046 # words
check "every_subcommand_is_offered" offers "weir " $(subcommands) --color= --help --version
check "beginnings_are_completed" offers "weir che" check
# shellcheck disable=SC2046 # words
check "help_is_offered_every_subcommand" offers "weir help " $(subcommands)
for name in $(subcommands); do
    # shellcheck disable=SC2046 # words
    has_options() {
        completes "weir $name -"
        sort "$out" >sorted
        options_of "$name" | sort >wanted
        grep -q -x -e --help wanted && diff wanted sorted
    }
    check "every_option_of_${name}_is_offered" has_options
done
check "options_stand_behind_others" has "weir try -s 1 --gpu=sim --js" --json
check "option_before_the_subcommand_is_stepped_over" has "weir --color=never try --js" --json
check "choices_are_offered_behind_the_equals_sign" offers "weir try --gpu=" cuda sim
check "choices_are_offered_as_a_word_of_their_own" offers "weir try --gpu " cuda sim
check "choices_are_offered_before_the_subcommand" offers "weir --color=a" auto always
whole_word() {
    completes "weir try --gpu=c" " '" && grep -q -x -e --gpu=cuda "$out"
}
check "choice_comes_with_its_option_where_bash_does_not_split_there" whole_word
check "numbers_are_left_to_the_person" offers "weir try --seed="
export WEIR_POLICY_DIR
WEIR_POLICY_DIR=$tap_dir/policies
mkdir "$WEIR_POLICY_DIR" && touch "$WEIR_POLICY_DIR/default.yaml" "$WEIR_POLICY_DIR/training.yaml"
check "installed_policies_are_listed" exits 0 show --list
check "each_name_has_a_line" is_same "default
training"
check "list_goes_with_nothing_else" exits 2 show --list --json
check "policies_are_offered_by_name" offers "weir show tr" training
check "unknown_subcommand_has_nothing" offers "weir fhqwhgads "

mkdir folder && touch folder/one.yaml folder/two.yml folder/three.txt
check "check_is_offered_policies_and_folders" offers "weir check fo" folder
check "policies_are_offered_and_nothing_else" offers "weir check folder/" folder/one.yaml folder/two.yml
check "policies_are_offered_again_and_again" offers "weir check folder/one.yaml folder/t" folder/two.yml
check "show_takes_one_policy" offers "weir show folder/one.yaml folder/t"
check "option_that_names_a_file_takes_any" offers "weir metrics -o folder/t" folder/two.yml folder/three.txt

check "run_is_offered_policies_for_its_option" offers "weir run --policy=folder/o" folder/one.yaml
check "run_is_offered_commands" has "weir run b" bash
check "run_is_offered_commands_behind_the_dashes" has "weir run -p folder/one.yaml -- b" bash
check "record_is_offered_commands" has "weir record --stacks -- b" bash
check "record_is_offered_levels" offers "weir record --level=" pool all
check "trace_is_offered_views_and_files" has "weir trace " summary peak leaks live tags stacks waits plot events
check "trace_is_offered_files_behind_a_view" offers "weir trace peak folder/t" folder/two.yml folder/three.txt
check "command_of_run_is_offered_files" offers "weir run -- bash folder/t" folder/two.yml folder/three.txt
check "command_of_run_is_not_offered_options_of_weir" offers "weir run -- bash --pol"

actor=${weir%/tools/weir}/tests/tools/worker
check "worker_begins" begin one 3
one=$begun
for line in "ps" "set" "reload" "trim" "trim --pid"; do
    check "live_processes_are_offered_to_'$line'" offers "weir $line " "$one"
done
check "record_is_offered_live_processes_and_commands" has "weir record " "$one" bash
check "live_processes_are_offered_behind_the_equals_sign" offers "weir trim --pid=" "$one"
check "live_pools_are_offered" offers "weir trim --all --pool=" "$pool" frames
check "pools_and_keys_of_the_file_are_offered_to_set" offers "weir set $one " keeper= record.dump= record.level= record.stacks= "pools.$pool." pools.frames.
check "live_keys_of_a_pool_are_offered_to_set" has "weir set $one pools.$pool." "pools.$pool.release_threshold=" "pools.$pool.keep=" \
    "pools.$pool.cache.idle="
check "other_keys_are_not_offered_to_set" lacks "weir set $one pools.$pool." "pools.$pool.devices="
check "words_for_a_key_of_a_pool_are_offered" offers "weir set $one pools.$pool.release_threshold=" all none auto
check "words_for_a_key_of_the_file_are_offered" offers "weir set $one keeper=" true false
check "a_second_assignment_is_completed" offers "weir set $one keeper=true pools.$pool.reuse.opp" "pools.$pool.reuse.opportunistic="

check "list_of_pids_is_printed" exits 0 ps --timeout=60 --list pids
check "list_of_pids_has_each_on_a_line" is_same "$one"
check "list_of_pools_is_printed" exits 0 ps --timeout=60 --list pools "$one"
check "list_of_pools_has_each_on_a_line" is_same "$pool
frames"
check "list_of_anything_else_exits_2" exits 2 ps --list=devices

# Those of zsh and fish read the same table. The command that they find is the one that is tested.
PATH=${weir%/*}:$PATH
fish=${weir%/tools/weir}/config/fish-completion/weir.fish
zsh=${weir%/tools/weir}/config/zsh-completion/_weir
# has_all COMMAND…: with each subcommand behind it, it prints every option of that, among others.
has_all() {
    for name in $(subcommands); do
        "$@" "$name" >"$out" 2>"$err" && is_empty "$err" || return
        for option in $("$weir" "$name" --help | sed -n '/^Options/,/^$/s/^  .* *\(--[a-z-]*\).*/\1/p'); do
            grep -q -x -e "\([(]-[)]\)\{0,1\}$option\([^a-z-].*\)\{0,1\}" "$out" || { echo "$name $option is not there"; cat "$out"; return 1; }
        done
    done
}
# fish_offers LINE WORD…: what fish offers there, without what it says of each.
fish_offers() {
    fish --no-config -c "source '$fish'; complete -C '$1'" >"$out" 2>"$err" && is_empty "$err" || return
    shift
    sed 's/\t.*//' "$out" | sort -u >sorted
    printf '%s\n' "$@" | sort >wanted
    diff wanted sorted
}
# zsh_offers LINE WORD…: the same of zsh, on a terminal of its own, where compadd writes down what it would add, and -- that all is said.
cat >inner.zsh <<'ZSH'
PS1= fpath=($ZSH_COMPLETION $fpath)
autoload -Uz compinit && compinit -D -u
compadd() {
    local -a _offered
    if [[ ${@[1,(i)(-|--)]} != *-[OAD]\ * ]]; then
        builtin compadd -O _offered "$@"
        print -rl -- @$^_offered >>zsh-found
    fi
    builtin compadd "$@"
}
said() {
    _main_complete
    print -r -- -- >>zsh-found
}
zle -C said complete-word said
bindkey '^I' said
print -r -- ready >>zsh-found
ZSH
cat >outer.zsh <<'ZSH'
zmodload zsh/zpty
awaits() {
    for i in {1..1200}; do
        grep -q -x -e "$1" zsh-found 2>/dev/null && return
        sleep 0.05
        zpty -r -t z discarded
    done
}
zpty z zsh -f -i
zpty -w z 'source ./inner.zsh'
awaits ready
zpty -w -n z "$1"$'\t'
awaits --
zpty -d z
ZSH
zsh_offers() {
    rm -f zsh-found
    ZSH_COMPLETION=${zsh%/*} TERM=dumb zsh -f outer.zsh "$1" >"$out" 2>&1
    shift
    sed -n 's/^@//p' zsh-found | sed 's/=$//' | grep . | sort -u >sorted
    printf '%s\n' "$@" | sort >wanted
    diff wanted sorted || { cat zsh-found "$out"; return 1; }
}
if command -v fish >/dev/null; then
    check "fish_reads_it" fish -n "$fish"
    # shellcheck disable=SC2016 # for fish
    check "fish_has_every_option" has_all fish --no-config -c 'source $argv[1]; complete -C "weir $argv[2] --"' "$fish"
    # shellcheck disable=SC2046 # words
    check "fish_offers_subcommands" fish_offers "weir " $(subcommands)
    check "fish_offers_choices" fish_offers "weir try --gpu=" --gpu=cuda --gpu=sim
    check "fish_offers_views" fish_offers "weir trace pe" peak
    check "fish_offers_policies_by_name" fish_offers "weir show tr" training
    check "fish_steps_over_arguments_of_options" fish_offers "weir show --json tr" training
    check "fish_offers_processes" fish_offers "weir reload $one" "$one"
    check "fish_offers_keys" fish_offers "weir set $one keeper=" keeper= keeper=true keeper=false
    check "fish_offers_keys_of_pools" fish_offers "weir set $one pools.frames.cache.idl" pools.frames.cache.idle=
else
    skip "fish_reads_it" "no fish"
fi
if zsh -f -c 'zmodload zsh/zpty && zpty z : && zpty -d z' >/dev/null 2>&1; then
    check "zsh_reads_it" zsh -n "$zsh"
    # shellcheck disable=SC2016 # for zsh
    check "zsh_has_every_option" has_all zsh -f -c '
        _arguments() { [[ $1 == -C ]] && state=argument && return 1; print -rl -- "$@"; }
        words=($2)
        . "$1"' zsh "$zsh"
    # shellcheck disable=SC2046 # words
    check "zsh_offers_subcommands" zsh_offers "weir " $(subcommands)
    check "zsh_offers_choices" zsh_offers "weir try --gpu=s" sim
    check "zsh_offers_policies_by_name" zsh_offers "weir show tr" training
    check "zsh_offers_views" zsh_offers "weir trace sum" summary
    check "zsh_offers_keys" zsh_offers "weir set $one keeper=t" keeper=true
    check "zsh_offers_processes" zsh_offers "weir reload $one" "$one"
else
    skip "zsh_reads_it" "no zsh, or no pseudo-terminal for it"
fi

# shellcheck disable=SC2034 # begin() uses it
actor=${weir%/tools/weir}/tests/tools/sharing
check "exporter_begins" begin exporter 4 exporter
check "importer_begins" begin importer 5 importer
importer=$begun
check "importer_holds_a_block" tell importer 5 acquire weights
check "sockets_are_offered_by_name" offers "weir leases " frames
check "importers_are_offered_to_evict" offers "weir evict " "$importer"
check "sockets_are_offered_behind_the_process" offers "weir evict $importer " frames

if command -v shellcheck >/dev/null; then
    check "shellcheck_finds_nothing" shellcheck "$completion"
else
    skip "shellcheck_finds_nothing" "no shellcheck"
fi
for fd in 5 4 3; do
    eval "echo quit >&$fd"
done
wait
done_testing
