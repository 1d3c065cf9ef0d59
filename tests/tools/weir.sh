# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# weir.sh - what the tests of the command share. Sourced with POSIX sh. The command always runs on the simulator here.
# shellcheck source=tests/build/tap.sh
. "${top_srcdir:-.}/tests/build/tap.sh"

# Nothing of the person who runs the tests shall reach the command: neither policy nor settings nor colours.
export WEIR_GPU=sim HOME="$tap_dir/home" XDG_CONFIG_HOME="$tap_dir/home/config"
unset WEIR_POLICY WEIR_POLICY_DIR WEIR_CONF WEIR_SIM WEIR_COSTS_DIR XDG_CACHE_HOME NO_COLOR
find_python
out=$tap_dir/out
err=$tap_dir/err
here=$(pwd -P)
case $top_builddir in
/*) weir=$top_builddir/tools/weir ;;
*) weir=$here/$top_builddir/tools/weir ;;
esac

# policy NAME: a policy file made of standard input.
policy() {
    cat >"$tap_dir/$1"
}

# exits STATUS ARGUMENT…: runs the command, keeps what it prints in $out and $err, and holds if it ends with that status.
exits() {
    wanted=$1
    shift
    "$weir" "$@" >"$out" 2>"$err" </dev/null
    status=$?
    [ "$status" -eq "$wanted" ] || {
        echo "weir $*: status $status instead of $wanted"
        cat "$out" "$err"
        return 1
    }
}

# asks STATUS SUBCOMMAND ARGUMENT…: exits(), with time for an answer that is sure to come.
asks() {
    wanted=$1 subcommand=$2
    shift 2
    exits "$wanted" "$subcommand" --timeout=60 "$@"
}

# says FILE TEXT…: the file has a line with each text; nothing in a text is special.
says() {
    file=$1
    shift
    for text in "$@"; do
        grep -q -F -e "$text" "$file" || {
            echo "no line has: $text"
            cat "$file"
            return 1
        }
    done
}

# says_not FILE TEXT: no line of the file has the text.
says_not() {
    ! grep -F -e "$2" "$1"
}

# row WORD…: $out, a table, has a row with these words, whatever is between them.
row() {
    pattern=$(printf '%s .*' "$@")
    grep -q -E -e "^ *${pattern% .\*}" "$out" || {
        echo "no row: $*"
        cat "$out"
        return 1
    }
}

# json EXPRESSION: $out is one JSON document, and the Python expression holds for it, named d. With no python3 nothing can be said.
have_python() {
    [ -n "$interpreter" ]
}
json() {
    python3 -I -S -c 'import json, sys
d = json.load(open(sys.argv[1]))
if not eval(sys.argv[2]):
    sys.exit("not so: %s\n%s" % (sys.argv[2], json.dumps(d, indent=1)))' "$out" "$1"
}

# check_json NAME EXPRESSION: check() or skip() of json().
check_json() {
    if have_python; then
        check "$1" json "$2"
    else
        skip "$1" "no python3"
    fi
}

# Other processes, which do what they are told. Whatever happens, none of them is left behind, stopped or not.
actor=
all=
# shellcheck disable=SC2086 # a list of numbers
trap '[ -z "$all" ] || kill -KILL $all 2>/dev/null; rm -rf "$tap_dir"' EXIT

# begin NAME FD ARGUMENT…: runs $actor in the background, told what to do through that descriptor. Its process is $begun.
begin() {
    began=$1 fd=$2
    shift 2
    mkfifo "$began.in"
    "$actor" "$@" <"$began.in" >"$began.out" 2>"$began.err" &
    begun=$!
    all="$all $begun"
    eval "exec $fd>$began.in"
    answers "$began" 1
}

# bury PID: waits for it; from now on its number may be anybody's. The status is its own.
bury() {
    wait "$1" 2>/dev/null
    buried=$? left=
    for pid in $all; do
        [ "$pid" = "$1" ] || left="$left $pid"
    done
    all=$left
    return $buried
}

# answers NAME COUNT: waits until it has given so many answers, and holds if the last is WEIR_OK.
answers() {
    for _ in $(seq 2400); do
        [ "$(wc -l <"$1.out")" -ge "$2" ] && break
        sleep 0.025
    done
    [ "$(wc -l <"$1.out")" -ge "$2" ] && [ "$(tail -n 1 "$1.out")" = WEIR_OK ] && return 0
    echo "$1, answers: "
    cat "$1.out" "$1.err"
    return 1
}

# tell NAME FD COMMAND…: has it do something, which succeeds.
tell() {
    told=$1 fd=$2 before=$(wc -l <"$1.out")
    shift 2
    eval "echo \"\$*\" >&$fd"
    answers "$told" $((before + 1))
}

# stop PID: waits until every thread of it is stopped, so that it is asked in vain.
stop() {
    kill -STOP "$1"
    for _ in $(seq 2400); do
        grep -h '^State:' "/proc/$1/task"/*/status | grep -q -v 'State:.T' || return 0
        sleep 0.025
    done
    return 1
}
