
# What stands above is generated; this part is written by hand, in config/completion.zsh.

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
        _weir_specs $subcommand
        (( $#specs )) && _arguments -S $specs
        ;;
    esac
}

_weir "$@"
