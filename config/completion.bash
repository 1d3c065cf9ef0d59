# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Completion of weir(1) for bash 4.2 and later. The build puts the table of the program's subcommands and keys into it, so that it cannot lag
# behind (tools/generator/completion.c says what its rows have).

# _weir_read: fills the tables below from the program's.
_weir_read() {
    local row name words argument more
    _weir_options=() _weir_arguments=() _weir_operands=() _weir_words=() _weir_live_keys=() _weir_live_pool_keys=()
    while IFS=$'\t' read -r row name words argument more; do
        case $row in
        command)
            _weir_options[$name]=' --color= -h --help' _weir_operands[$name]=${words#-}
            _weir_arguments["$name --color"]='auto never always'
            [[ $argument == - ]] || _weir_words[$name]=$argument
            ;;
        option) _weir_read_option "$name" "$words" "$argument" "${more%%$'\t'*}" ;;
        key)
            if [[ $name == pools.* ]]; then _weir_live_pool_keys[${name#pools.}]=$words; else _weir_live_keys[$name]=$words; fi
            ;;
        esac
    done <<<"$_weir_table"
    unset _weir_table
}

# _weir_read_option SUBCOMMAND NAME LETTER ARGUMENT: an argument that the option may stand without is none that can be a word of its own.
_weir_read_option() {
    local form equals=
    [[ $4 == - || $4 == \[* ]] || equals='='
    _weir_options[$1]="--$2$equals ${_weir_options[$1]}"
    [[ $3 == - ]] || _weir_options[$1]="-$3 ${_weir_options[$1]}"
    for form in "--$2" "-$3"; do
        [[ ! $equals || $form == -- ]] || _weir_arguments["$1 $form"]=${4//|/ }
    done
}

declare -gA _weir_options _weir_arguments _weir_operands _weir_words _weir_live_keys _weir_live_pool_keys
# shellcheck disable=SC2016 # nothing in it is to be expanded
_weir_table='
@TABLE@
'
_weir_read

# The functions below add to `found` what may stand for `value`, the word to be completed or what it has behind --option=. `words` has all
# words up to there, `operands` those of the subcommand before it.

# _weir_add BEFORE BEHIND WORD…: adds each word with what stands around it.
_weir_add() {
    local word
    for word in "${@:3}"; do
        found+=("$1$word$2")
    done
}

# _weir_ask BEFORE BEHIND ARGUMENT…: adds what `weir ps --list` says. It keeps nobody waiting who types.
_weir_ask() {
    local lines
    mapfile -t lines < <("${words[0]}" ps --timeout=0.5 --list "${@:3}" 2>/dev/null </dev/null)
    _weir_add "$1" "$2" "${lines[@]}"
}

# _weir_files PATTERN: adds folders, and files but for those whose names match it.
_weir_files() {
    local lines
    compopt -o filenames 2>/dev/null
    mapfile -t lines < <(compgen -f -X "$1" -- "$value"; compgen -d -- "$value")
    _weir_add '' '' "${lines[@]}"
}

# Installed policies by their names, and files of others.
_weir_policies() {
    local lines
    mapfile -t lines < <("${words[0]}" show --list 2>/dev/null </dev/null)
    _weir_add '' '' "${lines[@]}"
    _weir_files '!*.y*ml'
}

# What the shell would run.
_weir_commands() {
    local lines
    mapfile -t lines < <(compgen -c -- "$value" | sort -u)
    _weir_add '' '' "${lines[@]}"
}

# Who imports what is shared here: the first column of `weir leases`.
_weir_importers() {
    local first
    while read -r first _; do
        [[ $first == *[!0-9]* ]] || _weir_add '' '' "$first"
    done < <("${words[0]}" leases --timeout=0.5 2>/dev/null </dev/null)
}

# Names of sockets, as they may be given without their folders, or any path.
_weir_sockets() {
    local path
    for path in "${XDG_RUNTIME_DIR-}"/weir/share/* /run/weir/share/*; do
        [[ ! -S $path ]] || found+=("${path##*/}")
    done
    [[ $value != */* ]] || _weir_files ''
}

# KEY=VALUE for the process that was named before it: step by step, since a process with many pools has very many keys.
_weir_assignments() {
    local key=${value%%=*} pool=${value#pools.}
    pool=pools.${pool%%.*}.
    if [[ $value == *=* && $value == pools.*.* ]]; then
        # shellcheck disable=SC2086 # words
        _weir_add "$key=" '' ${_weir_live_pool_keys[${key#"$pool"}]-}
    elif [[ $value == *=* ]]; then
        # shellcheck disable=SC2086 # words
        _weir_add "$key=" '' ${_weir_live_keys[$key]-}
    elif [[ $value == pools.*.* ]]; then
        _weir_add "$pool" = "${!_weir_live_pool_keys[@]}"
    else
        _weir_add '' = "${!_weir_live_keys[@]}"
        _weir_ask pools. . pools "${operands[@]::1}"
    fi
}

# _weir_values KIND: what may stand for a word that the help shows as KIND; or that is one of several words, if these are given.
_weir_values() {
    case $1 in
    PID) if [[ $subcommand == evict ]]; then _weir_importers; else _weir_ask '' '' pids; fi ;;
    POOL) _weir_ask '' '' pools ;;
    SOCKET) _weir_sockets ;;
    FILE* | TRACE) _weir_files '' ;;
    POLICY) _weir_policies ;;
    COMMAND) _weir_commands ;;
    PID\|COMMAND)
        _weir_values PID
        _weir_commands
        ;;
    ARGUMENT) _weir_files '' ;;
    KEY=VALUE) _weir_assignments ;;
    SUBCOMMAND) _weir_add '' '' "${!_weir_options[@]}" ;;
    *[a-z]*)
        # shellcheck disable=SC2086 # words
        _weir_add '' '' $1
        ;;
    esac
}

# _weir_operand KIND…: for the operand behind those that are there, as the usage line has them: "PID", "[FILE]", "[SOCKET]...".
_weir_operand() {
    local kinds=("$@") kind
    [[ $# -gt 0 ]] || return
    kind=${kinds[${#operands[@]}]-}
    # The last one may stand more than once.
    [[ $kind || ${kinds[$# - 1]} != *... ]] || kind=${kinds[$# - 1]}
    kind=${kind//[].[]/}
    # The first operand may be a word, or what comes behind it.
    if [[ ${_weir_words[$subcommand]-} ]]; then
        # shellcheck disable=SC2086 # words
        [[ ${#operands[@]} -gt 0 ]] || _weir_add '' '' ${_weir_words[$subcommand]}
        _weir_files ''
        return
    fi
    # A file that is not an option's is a policy.
    _weir_values "${kind/#FILE/POLICY}"
}

# Whether an option here would be one of ours: what stands behind the command of `weir run` is that command's.
_weir_takes_options() {
    [[ $subcommand != run || ${#operands[@]} = 0 ]]
}

# What was found, as readline wants it: it replaces only what stands behind the last = where it splits words there.
_weir_reply() {
    local word=$1 prefix=$2 split='' candidate
    [[ $COMP_WORDBREAKS != *=* || $word != *=* ]] || split=${word%=*}=
    for candidate in "${found[@]}"; do
        [[ $candidate == "$value"* ]] || continue
        candidate=$prefix$candidate
        COMPREPLY+=("${candidate#"$split"}")
        # A value or a key is still to come.
        [[ $candidate != *[=.] ]] || compopt -o nospace 2>/dev/null
    done
}

_weir() {
    local words=() operands=() found=() subcommand='' prefix='' value before i
    COMPREPLY=()
    # Not COMP_WORDS: bash splits those at =, which is part of ours.
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} != *[[:space:]] ]] || words+=('')
    local last=$((${#words[@]} - 1))
    value=${words[last]} before=${words[last - 1]}
    for ((i = 1; i < last; i++)); do
        if [[ ${words[i]} == -* ]] && _weir_takes_options; then
            # Its argument may be a word of its own.
            [[ ! $subcommand || ! ${_weir_arguments["$subcommand ${words[i]}"]-} ]] || ((i++))
        elif [[ ! $subcommand ]]; then
            subcommand=${words[i]}
        else
            operands+=("${words[i]}")
        fi
    done
    if [[ $value == --*=* ]] && _weir_takes_options; then
        prefix=${value%%=*}= value=${value#*=}
        # The one option that may stand before the subcommand has the same values everywhere.
        _weir_values "${_weir_arguments["${subcommand:-help} ${prefix%=}"]-}"
    elif [[ ! $subcommand ]]; then
        _weir_add '' '' "${!_weir_options[@]}" --color= --help --version
    elif ((i > last)); then
        _weir_values "${_weir_arguments["$subcommand $before"]}"
    elif [[ $value == -* ]] && _weir_takes_options; then
        # shellcheck disable=SC2086 # words
        _weir_add '' '' ${_weir_options[$subcommand]-}
    else
        # shellcheck disable=SC2086 # words
        _weir_operand ${_weir_operands[$subcommand]-}
    fi
    _weir_reply "${words[last]}" "$prefix"
}

complete -F _weir weir
