#compdef weir
# SPDX-License-Identifier: MIT
# Completion of weir(1) for zsh 5. The build puts the table of the program's subcommands and keys into it, so that it cannot lag behind
# (tools/generator/completion.c says what its rows have).

typeset -g _weir_table='
@TABLE@
'
typeset -ga _weir_subcommands=() _weir_live_keys=() _weir_live_pool_keys=()

# _weir_each FUNCTION: calls it with the columns of each row.
_weir_each() {
    local row
    for row in ${(f)_weir_table}; do
        $1 "${(@ps:\t:)row}"
    done
}

# _weir_read ROW…: notes a subcommand, or a key with each word that may be its value.
_weir_read() {
    local -a keys
    case $1 in
    command) _weir_subcommands+=("$2:${5//:/\\:}") ;;
    key)
        keys=("${2#pools.}=" "${2#pools.}="${^${=3}})
        if [[ $2 == pools.* ]]; then _weir_live_pool_keys+=($keys); else _weir_live_keys+=($keys); fi
        ;;
    esac
}
_weir_each _weir_read

# _weir_group ROW…: offers the subcommands of a group, and notes those of the next one.
_weir_group() {
    case $1 in
    group | key)
        (( $#group )) && _describe -t "${group[1]%%:*}-commands" "$title" group
        title=$2 group=()
        ;;
    command) group+=("$2:${5//:/\\:}") ;;
    esac
}

# _weir_describe: offers them, each group below its title.
_weir_describe() {
    local title
    local -a group
    _weir_each _weir_group
}

# _weir_spec ROW…: adds what _arguments wants of an option of the subcommand, or of its operands.
_weir_spec() {
    local name end help=${6//(#m)[\[\]\\:]/\\$MATCH} action
    [[ $2 == $subcommand ]] || return
    if [[ $1 == command ]]; then
        _weir_operands "$3" "$4"
        return
    fi
    [[ $1 == option ]] || return
    action=$(_weir_action "${5//[\[\]]/}")
    case $5 in
    -) action= ;;
    \[*) end='=-' action=:$action ;;
    *) end='=' ;;
    esac
    specs+=("--$3${end}[$help]$action")
    [[ $4 == - ]] || specs+=("-$4${end:++}[$help]$action")
}

# _weir_action KIND: ":KIND: ACTION"; with the blank the action gets no options of compadd's.
_weir_action() {
    if [[ $1 == *\|* ]]; then print -r -- ":word:(${1//|/ })"; else print -r -- ":$1: _weir_value $1"; fi
}

# _weir_operands OPERANDS WORDS: the operands as the usage line has them, "PID [SOCKET]..."; words that the first may be.
_weir_operands() {
    local operand kind
    integer number=0
    if [[ $subcommand == (run|record) ]]; then
        specs+=("(-)1:command: _weir_value \"${1%% *}\"" '*::argument:_normal')
    elif [[ $2 != - ]]; then
        specs+=("1:view: _weir_view $2" '*:file: _weir_value FILE')
    elif [[ $1 != - ]]; then
        for operand in ${=1}; do
            kind=${${operand//[\[\].]/}/#%FILE/POLICY}
            (( ++number ))
            if [[ $operand == *... ]]; then specs+=("*$(_weir_action $kind)"); else specs+=("$number$(_weir_action $kind)"); fi
        done
    fi
}

# _weir_value KIND: what may stand for a word that the help shows as KIND. It keeps nobody waiting who types.
_weir_value() {
    local -a found
    case $1 in
    PID)
        if [[ $subcommand == evict ]]; then
            found=(${(M)${(f)"$(weir leases --timeout=0.5 2>/dev/null | awk '{ print $1 }')"}:#<->})
        else
            found=(${(f)"$(weir ps --timeout=0.5 --list=pids 2>/dev/null)"})
        fi
        compadd -a found
        ;;
    POOL)
        found=(${(f)"$(weir ps --timeout=0.5 --list=pools 2>/dev/null)"})
        compadd -a found
        ;;
    SOCKET)
        found=($XDG_RUNTIME_DIR/weir/share/*(N=:t) /run/weir/share/*(N=:t))
        compadd -a found
        _files
        ;;
    POLICY)
        found=(${(f)"$(weir show --list 2>/dev/null)"})
        compadd -a found
        _files -g '*.y(a|)ml'
        ;;
    FILE* | TRACE | ARGUMENT) _files ;;
    COMMAND) _command_names -e ;;
    "PID|COMMAND")
        _weir_value PID
        _command_names -e
        ;;
    KEY=VALUE)
        found=($_weir_live_keys)
        local pool
        for pool in ${(f)"$(weir ps --timeout=0.5 --list=pools $words[2] 2>/dev/null)"}; do
            found+=(pools.$pool.$^_weir_live_pool_keys)
        done
        compadd -S '' -a found
        ;;
    SUBCOMMAND) compadd ${_weir_subcommands%%:*} ;;
    *) _message "$1" ;;
    esac
}

# _weir_view WORD…: a word, or the file that it would be about.
_weir_view() {
    compadd -- $argv
    _files
}

_weir() {
    local curcontext=$curcontext state line subcommand
    local -a specs
    typeset -A opt_args
    _arguments -C '--color=[colours]:when:(auto never always)' '(-)--version[the version]' '(-)'{-h,--help}'[help]' \
        '1:subcommand:->subcommand' '*::argument:->argument' && return
    case $state in
    subcommand) _weir_describe ;;
    argument)
        subcommand=$words[1]
        setopt local_options extended_glob
        _weir_each _weir_spec
        (( $#specs )) && _arguments -S $specs '--color=[colours]:when:(auto never always)' '(-)'{-h,--help}'[help]'
        ;;
    esac
}

_weir "$@"
