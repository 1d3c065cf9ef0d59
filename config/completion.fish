# SPDX-License-Identifier: MIT
# Completion of weir(1) for fish 3 and later. The build puts the table of the program's subcommands and keys into it, so that it cannot lag
# behind (tools/generator/completion.c says what its rows have).

# _weir_option SUBCOMMAND NAME LETTER ARGUMENT HELP: offers an option.
function _weir_option
    set -l what -n "_weir_takes_options $argv[1]" -l $argv[2]
    test $argv[3] = -; or set -a what -s $argv[3]
    if string match -q '*|*' -- $argv[4]
        set -l words (string replace -a '|' ' ' -- $argv[4])
        set -a what -x -a "(_weir_values WORDS $words)"
    else if not string match -q -r '^[-[]' -- $argv[4]
        set -a what -x -a "(_weir_values $argv[4])"
    end
    if contains -- -x $what
        set -ga _weir_arguments "$argv[1] --$argv[2]"
        test $argv[3] = -; or set -ga _weir_arguments "$argv[1] -$argv[3]"
    end
    complete -c weir $what -d $argv[5]
end

# _weir_command NAME OPERANDS WORDS SUMMARY: offers a subcommand, and what may stand behind it.
function _weir_command
    set -l operands (string replace -a -r '[][]' '' -- $argv[2] | string replace -a '|' '\|')
    complete -c weir -n _weir_is_first -a $argv[1] -d $argv[4]
    complete -c weir -n '_weir_is_in help; and _weir_is_operand 1' -a $argv[1]
    if test $argv[3] != -
        set operands "WORDS $operands"
        complete -c weir -n "_weir_is_in $argv[1]; and _weir_is_operand 1" -a (string trim $argv[3])
    end
    if not contains -- $argv[2] - '[SUBCOMMAND]'
        complete -c weir -n "_weir_is_in $argv[1]" -a "(_weir_operand $operands)"
    end
end

# _weir_key NAME VALUES: notes a live key, with each word that may be its value.
function _weir_key
    set -l table _weir_live_keys
    string match -q 'pools.*' -- $argv[1]; and set table _weir_live_pool_keys
    set -l name (string replace -r '^pools\.' '' -- $argv[1])
    set -ga $table $name= $name=(string split -n ' ' -- $argv[2])
end

set -g _weir_arguments
set -g _weir_live_keys
set -g _weir_live_pool_keys
complete -c weir -f
complete -c weir -n _weir_is_first -l version -d 'the version'
complete -c weir -n _weir_takes_options -s h -l help -d help
complete -c weir -n _weir_takes_options -l color -x -a 'auto never always' -d colours
for row in (string split -n \n -- '
@TABLE@
')
    set -l columns (string split \t -- $row)
    test $columns[1] = group; or _weir_$columns[1] $columns[2..-1]
end

# The words behind the command up to the one that is completed, without options, and without arguments of their own that options have.
function _weir_words
    set -l words (commandline -opc)
    set -e words[1]
    set -l skip 0
    set -l first ''
    for word in $words
        if test $skip = 1
            set skip 0
        else if contains -- "$first $word" $_weir_arguments
            set skip 1
        else if not string match -q -- '-*' $word
            test -n "$first"; or set first $word
            echo $word
        end
    end
end

function _weir_is_first
    test (count (_weir_words)) = 0
end

function _weir_is_in
    set -l words (_weir_words)
    test (count $words) -ge 1; and test "$words[1]" = $argv[1]
end

# Whether the operand of that number comes next.
function _weir_is_operand
    test (count (_weir_words)) = $argv[1]
end

# What stands behind the command of `weir run` and `weir record` is that command's.
function _weir_takes_options
    set -l words (_weir_words)
    if test (count $argv) = 1; and not _weir_is_in $argv[1]
        return 1
    end
    not contains -- "$words[1]" run record; or test (count $words) = 1
end

# _weir_values KIND WORD…: what may stand for a word that the help shows as KIND. It keeps nobody waiting who types.
function _weir_values
    switch $argv[1]
        case WORDS
            string join \n -- $argv[2..-1]
        case PID
            if _weir_is_in evict
                weir leases --timeout=0.5 2>/dev/null | string match -r '^ *[0-9]+' | string trim
            else
                weir ps --timeout=0.5 --list=pids 2>/dev/null
            end
        case POOL
            weir ps --timeout=0.5 --list=pools 2>/dev/null
        case SOCKET
            for path in $XDG_RUNTIME_DIR/weir/share/* /run/weir/share/*
                test -S $path; and string replace -r '.*/' '' -- $path
            end
        case POLICY
            weir show --list 2>/dev/null
            __fish_complete_suffix .yaml
        case 'FILE*' TRACE ARGUMENT
            __fish_complete_path (commandline -ct)
        case COMMAND
            __fish_complete_command
        case 'PID|COMMAND'
            _weir_values PID
            __fish_complete_command
        case KEY=VALUE
            printf '%s\n' $_weir_live_keys
            for pool in (weir ps --timeout=0.5 --list=pools (_weir_words)[2] 2>/dev/null)
                printf "pools.$pool.%s\n" $_weir_live_pool_keys
            end
    end
end

# _weir_operand KIND…: for the operand behind those that are there, as the usage line has them: PID, FILE, SOCKET...
function _weir_operand
    set -l kind $argv[(math min (count (_weir_words)), (count $argv))]
    # A file that is not an option's is a policy, but behind a word of the trace.
    if string match -q 'FILE*' -- $kind; and not contains WORDS $argv
        set kind POLICY
    end
    if contains WORDS $argv
        set kind FILE
    end
    _weir_values (string replace -a . '' -- $kind)
end
