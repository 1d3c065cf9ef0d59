#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir run`: what it checks, and what it hands to the command. What comes of that in Python: tests/python/run.sh.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
# What runs here is no Python.
unset WEIR_GPU
WEIR_PYTHON_DIR=$(cd "$top_srcdir" && pwd -P)/plugin/python
WEIR_TORCH_LIBRARY=$tap_dir/library.so
export WEIR_PYTHON_DIR WEIR_TORCH_LIBRARY
: >"$WEIR_TORCH_LIBRARY"
policy good.yaml <<YAML
weir: 1
pools: { work: {} }
YAML
policy bad.yaml <<YAML
weir: 1
pools: { work: { size: 3 } }
YAML
cd "$tap_dir" || exit 1
mkdir folder

# prints WANTED ARGUMENT…: the command succeeds, and prints that; and all that is said is that it was no Python.
prints() {
    wanted_text=$1
    shift
    exits 0 "$@" && echo "$wanted_text" | diff - "$out" && [ "$(grep -c -v 'run: nothing of .* allocated from Weir: no Python' "$err")" -eq 0 ]
}

# has VALUE NAME ARGUMENT…: the command that is run finds this value in the variable.
has() {
    wanted_value=$1 name=$2
    shift 2
    prints "$wanted_value" run "$@" sh -c "echo \"\$$name\""
}

check "policy_is_handed_on_as_an_absolute_path" has "$tap_dir/good.yaml" WEIR_POLICY --policy=good.yaml
check "policy_of_the_environment_is_handed_on_so_too" env WEIR_POLICY=good.yaml "$weir" run sh -c '[ "$WEIR_POLICY" = "$0/good.yaml" ]' "$tap_dir"
check "without_a_policy_none_is_handed_on" has "" WEIR_POLICY
check "library_is_handed_on" has "$tap_dir/library.so" WEIR_TORCH_LIBRARY
check "patch_is_handed_on" has 1 WEIR_TORCH_PATCH
check "no_patch_is_handed_on" has 0 WEIR_TORCH_PATCH --no-patch
unset PYTHONPATH
check "path_of_python_is_handed_on" has "$WEIR_PYTHON_DIR/run:$WEIR_PYTHON_DIR" PYTHONPATH
PYTHONPATH=/one:/two
export PYTHONPATH
check "path_of_the_user_is_kept" has "$WEIR_PYTHON_DIR/run:$WEIR_PYTHON_DIR:/one:/two" PYTHONPATH
unset PYTHONPATH

check "bad_policy_exits_1" exits 1 run -p bad.yaml -- sh -c 'echo it ran'
check "command_does_not_run_with_a_bad_policy" is_empty "$out"
cp "$err" said
as_check() {
    exits 1 check bad.yaml && diff said "$err"
}
check "bad_policy_is_answered_as_by_check" as_check
check "missing_policy_exits_2" exits 2 run -p missing.yaml -- sh -c 'echo it ran'
check "missing_policy_is_named" says "$err" "missing.yaml"
check "policy_on_standard_input_exits_2" exits 2 run -p - -- sh -c 'echo it ran'
check "policy_on_standard_input_is_answered_with_what_to_do" says "$err" "name a file"
mkfifo pipe
check "policy_from_a_pipe_exits_2" exits 2 run -p ./pipe -- sh -c 'echo it ran'
check "policy_from_a_pipe_is_answered_with_what_to_do" says "$err" "--policy=./pipe: name a file"
check "missing_command_exits_127" exits 127 run -p good.yaml ./missing
check "missing_command_is_named" says "$err" "cannot run './missing': No such file"
check "command_that_is_a_directory_exits_126" exits 126 run -p good.yaml ./folder
check "exit_status_is_that_of_the_command" exits 7 run -p good.yaml sh -c 'exit 7'
check "arguments_reach_the_command_as_they_are" prints "<a b> <--policy=x> <-->" run -p good.yaml sh -c 'echo "<$1> <$2> <$3>"' sh 'a b' --policy=x --
check "broken_pipe_ends_the_command_as_ever" prints "141" run -p good.yaml sh -c '(sh -c "kill -PIPE \$\$"; echo $?)'
# lacks NAME FILE: with that variable set to what is not there, the file is named, and the variable.
lacks() (
    export "$1=/nonexistent/it"
    exits 2 run -p good.yaml sh -c 'echo it ran' && says "$err" "$2: No such file or directory" "set $1 to" && is_empty "$out"
)
check "missing_package_is_named_with_the_remedy" lacks WEIR_PYTHON_DIR /nonexistent/it/run/sitecustomize.py
check "missing_library_is_named_with_the_remedy" lacks WEIR_TORCH_LIBRARY /nonexistent/it
done_testing
