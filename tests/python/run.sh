#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir run`: what it puts into Python, with a stand-in for torch.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
# shellcheck source=tests/python/python.sh
. "${top_srcdir:-.}/tests/python/python.sh"
needs_simulator
# The library and the package are found by the command, so Python itself is told of neither.
fake=$src/tests/python/fake
export PYTHONPATH="$fake" XDG_CACHE_HOME="$tap_dir/cache"
# Of the shim, which the stand-in has none of, only the facts about that shall hear.
export WEIR_RUN_TOLD=1
# Nor is one to be made for it.
export CXX=/nonexistent/c++
policy good.yaml <<YAML
weir: 1
pools: { work: { max_size: 1GiB, small_below: 0 } }
YAML
policy bad.yaml <<YAML
weir: 1
pools: { work: { size: 3 } }
YAML
cd "$tap_dir" || exit 1

# prints WANTED ARGUMENT…: the command succeeds, and prints that and nothing else.
prints() {
    wanted_text=$1
    shift
    exits 0 "$@" && echo "$wanted_text" | diff - "$out" && is_empty "$err"
}

# python CODE: prepares $script with that code.
script=$tap_dir/script.py
python() {
    printf '%s\n' "$1" >"$script"
}

python 'import torch, weir.torch; print(weir.torch.state().policy, weir.torch.state().patched)'
check "weir_is_enabled_with_the_policy" prints "$tap_dir/good.yaml True" run --gpu=sim --policy=good.yaml -- python3 script.py
check "options_of_the_command_need_no_dashes_before_it" prints "$tap_dir/good.yaml True" run --gpu=sim -p good.yaml python3 -u script.py
check "python_that_is_given_code_is_served" prints "$tap_dir/good.yaml" run --gpu=sim -p good.yaml python3 -c \
    'import torch, weir.torch; print(weir.torch.state().policy)'
check "python_that_runs_a_module_is_served" prints "$tap_dir/good.yaml True" run --gpu=sim -p good.yaml python3 -m script
check "policy_of_the_environment_is_used" env WEIR_POLICY=good.yaml sh -c '"$1" run --gpu=sim python3 script.py | grep -q -x -F "$2/good.yaml True"' \
    sh "$weir" "$tap_dir"
check "without_a_policy_the_usual_search_is_used" prints "None True" run --gpu=sim python3 script.py
check "policy_is_found_from_another_directory" prints "$tap_dir/good.yaml True" run --gpu=sim -p good.yaml sh -c 'cd / && python3 "$0"' "$script"
python 'import torch
print(torch.cuda.memory_stats.__module__, torch.cuda.memory.memory_summary.__module__)'
check "functions_of_torch_are_weirs" prints "weir.torch._memory weir.torch._summary" run --gpu=sim -p good.yaml python3 script.py
check "functions_of_torch_stay_without_the_patch" prints "torch.cuda.memory torch.cuda.memory" run --gpu=sim --no-patch -p good.yaml python3 script.py
python 'import sys, torch
torch.cuda.init()
sys.path += ["'"$src"'/tests/python"]
import tap, weir.torch
host = tap.Host(weir.torch.state().library)
host.malloc(1 << 20)
print(torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated())'
check "figures_are_those_of_the_library" prints "1048576 1048576" run --gpu=sim -p good.yaml python3 script.py
# Of the pools' memory it is the growth step that is reserved.
python 'import sys, torch
sys.path += ["'"$src"'/tests/python"]
import tap, weir.torch
print(torch.cuda.mem_get_info(), torch.cuda.mem_get_info(1), torch.cuda.memory.mem_get_info is torch.cuda.mem_get_info)
host = tap.Host(weir.torch.state().library)
host.malloc(32 << 20)
print(torch.cuda.mem_get_info(), torch.cuda.mem_get_info("cuda:0"))'
export WEIR_CONTROL_DIR="$tap_dir" WEIR_SIM="name=run-$$,memory=1GiB,devices=2"
check "memory_of_the_device_is_what_is_claimed_and_left_of_it" prints "(629145600, 629145600) (700, 801) True
(595591168, 629145600) (595591168, 629145600)" run --gpu=sim -p good.yaml --reserve=600MiB -- python3 script.py
check "memory_of_the_device_is_its_own_without_a_claim" prints "(700, 800) (700, 801) True
(700, 800) (700, 800)" run --gpu=sim -p good.yaml -- python3 script.py
claim_has_ended() {
    WEIR_RESERVATION=0123456789abcdef prints "(700, 800) (700, 801) True
(700, 800) (700, 800)" run --gpu=sim -p good.yaml -- python3 script.py
}
check "memory_of_the_device_is_its_own_once_the_claim_has_ended" claim_has_ended
python 'import multiprocessing, os
def work(queue):
    import torch, weir.torch
    queue.put(torch.cuda.mem_get_info())
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get())
    process.join()'
check "workers_that_inherit_no_descriptor_know_the_claim" prints "(629145600, 629145600)" run --gpu=sim -p good.yaml --reserve=600MiB -- python3 script.py
unset WEIR_SIM
WEIR_CONTROL_DIR=/nonexistent
python 'import importlib.util
print(importlib.util.find_spec("torch") is not None)
import torch.cuda, weir.torch
print(weir.torch.state() is not None)'
check "torch_may_be_looked_for_before_it_is_imported" prints "True
True" run --gpu=sim -p good.yaml python3 script.py
python 'import sys, torch
hooks = [finder for finder in sys.meta_path if type(finder).__module__ == "sitecustomize"]
import importlib
importlib.reload(torch)
print(len(hooks))'
check "nothing_is_left_in_the_way_of_imports" prints 0 run --gpu=sim -p good.yaml python3 script.py
python 'import subprocess, sys
print(subprocess.check_output([sys.executable, "-c", "import torch, weir.torch; print(weir.torch.state().policy)"], text=True).strip())'
check "processes_that_the_command_starts_are_served" prints "$tap_dir/good.yaml" run --gpu=sim -p good.yaml python3 script.py
python 'import multiprocessing
def work(queue):
    import torch, weir.torch
    queue.put(weir.torch.state().policy)
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get())
    process.join()'
check "workers_that_are_spawned_are_served" prints "$tap_dir/good.yaml" run --gpu=sim -p good.yaml python3 script.py
check "weir_run_inside_of_itself_is_fine" prints "$tap_dir/good.yaml" run --gpu=sim "$weir" run --gpu=sim -p good.yaml python3 -c \
    'import torch, weir.torch; print(weir.torch.state().policy)'
python 'import weir.torch, torch
weir.torch.enable("good.yaml")
weir.torch.enable()
print("enabled")'
check "program_that_enables_the_same_policy_itself_is_fine" prints enabled run --gpu=sim -p good.yaml python3 script.py
python 'import sys
print("torch" in sys.modules, "weir" in sys.modules)'
loads_nothing() {
    exits 0 "$@" && echo "False False" | diff - "$out"
}
check "process_without_torch_loads_nothing" loads_nothing run --gpu=sim -p good.yaml python3 script.py

# reaches STATUS TEXT ARGUMENT…: the command ends with that status, and one line on stderr, its last, has the text.
reaches() {
    wanted_status=$1 wanted_text=$2
    shift 2
    exits "$wanted_status" "$@" && tail -n 1 "$err" | grep -q -- "$wanted_text" && [ "$(grep -c 'allocated from Weir' "$err")" -eq 1 ]
}
python 'import sys
sys.exit(int(sys.argv[1]))'
check "command_without_python_is_told_of_at_the_end" reaches 0 'nothing of true allocated from Weir: no Python process loaded' \
    run --gpu=sim -p good.yaml true
check "command_whose_python_is_kept_from_it_is_told_of" reaches 3 'nothing of python3 .*no Python process loaded Weir.*-E, -I and -S' \
    run --gpu=sim -p good.yaml python3 -I script.py 3
check "command_whose_environment_is_cleared_is_told_of" reaches 0 'nothing of env .*A cleared environment' \
    run --gpu=sim -p good.yaml env -i "PATH=$PATH" python3 script.py 0
check "command_that_imports_no_torch_is_told_of" reaches 0 'nothing of python3 .*Python ran, and imported no torch' \
    run --gpu=sim -p good.yaml python3 script.py 0
check "command_that_reaches_no_torch_fails_where_one_is_required" reaches 2 'nothing of python3' \
    run --gpu=sim --require -p good.yaml python3 script.py 0
check "command_that_fails_by_itself_keeps_its_status" reaches 3 'nothing of python3' run --gpu=sim --require -p good.yaml python3 script.py 3
says_nothing() {
    exits 0 "$@" && is_empty "$out" && is_empty "$err"
}
python "import sys
sys.path[:0] = ['$src/plugin/python', '$fake']
import torch, weir.torch
weir.torch.enable('good.yaml', gpu='sim', shim=False)"
check "program_that_enables_weir_where_run_is_kept_out_is_what_was_required" says_nothing \
    run --gpu=sim --require -p good.yaml python3 -I script.py
python 'import torch'
check "command_that_reaches_a_torch_is_what_was_required" says_nothing run --gpu=sim --require -p good.yaml python3 script.py
check "run_around_another_one_has_reached_what_that_one_did" says_nothing \
    run --gpu=sim --require -p good.yaml "$weir" run --gpu=sim --require -p good.yaml python3 script.py
required_without_cuda() (
    export FAKE_TORCH_CUDA=
    reaches 2 'Python ran, and imported no torch that is built with CUDA' run --gpu=sim --require -p good.yaml python3 script.py
)
check "torch_without_cuda_is_not_what_was_required" required_without_cuda
no_temporary() (
    TMPDIR=$tap_dir/none
    export TMPDIR
    exits 0 run --gpu=sim -p good.yaml python3 script.py && grep -q 'run: .*none/weir-run.*: No such file or directory: .*; set TMPDIR' "$err" &&
        [ "$(wc -l <"$err")" -eq 1 ] && exits 2 run --gpu=sim --require -p good.yaml touch "$tap_dir/ran" && [ ! -e "$tap_dir/ran" ]
)
check "directory_for_temporary_files_that_is_not_there_is_named_and_needed_to_require" no_temporary
no_files() (
    "$weir" run --gpu=sim -p good.yaml sh -c 'echo ran' 2>/dev/null | grep -q ran && ulimit -f 0 &&
        "$weir" run --gpu=sim -p good.yaml sh -c 'echo ran' 2>&1 | grep -q 'File too large: it cannot be known'
)
check "limit_of_files_does_not_end_the_run" no_files
other_folder() (
    mkdir below && TMPDIR=below
    export TMPDIR
    exits 0 run --gpu=sim --require -p good.yaml sh -c 'cd / && python3 "$0"' "$script"
)
check "torch_is_reached_from_another_folder" other_folder
file_mode() (
    umask 0777
    "$weir" run --gpu=sim -p good.yaml sh -c 'stat -c "%a %s" "$WEIR_RUN_REACHED"' 2>/dev/null | grep -q -x '600 2'
)
check "umask_does_not_keep_processes_from_the_file" file_mode
nothing_left() {
    mkdir left && TMPDIR=$tap_dir/left exits 0 run --gpu=sim -p good.yaml python3 script.py && [ -z "$(ls left)" ]
}
check "no_file_is_left_behind" nothing_left
killed() {
    exits 143 run --gpu=sim -p good.yaml sh -c 'kill -TERM $$'
}
check "command_that_a_signal_ends_ends_the_run_so" killed
simulator() (
    WEIR_GPU=sim
    export WEIR_GPU
    exits 2 run -p good.yaml true && grep -q 'WEIR_GPU=sim is set: .*unset WEIR_GPU' "$err"
)
check "simulator_of_the_environment_is_refused" simulator
wrong_gpu() {
    exits 2 run --gpu=gpu true && grep -q -- '--gpu=gpu: write one of cuda|sim' "$err"
}
check "gpu_that_is_none_is_named" wrong_gpu

mkdir own
printf 'print("own")\nvalue = 1\n' >own/sitecustomize.py
python 'import sitecustomize, torch, weir.torch
print(sitecustomize.value, weir.torch.state() is not None)'
own() (
    export PYTHONPATH="$tap_dir/own:$fake"
    prints "$@"
)
check "sitecustomize_of_the_user_runs_too" own "own
1 True" run --gpu=sim -p good.yaml python3 script.py
check "sitecustomize_of_the_user_runs_once_in_a_run_inside_of_another" own "own
1 True" run --gpu=sim "$weir" run --gpu=sim -p good.yaml python3 script.py
cp good.yaml changed.yaml
python 'import shutil
shutil.copy("bad.yaml", "changed.yaml")
for _ in range(2):
    try:
        import torch
    except Exception as error:
        print(type(error).__name__, error)'
changed() {
    exits 0 run --gpu=sim -p changed.yaml python3 script.py && [ "$(grep -c '^WeirError weir run: .*changed.yaml:2:18: pools.work.size' "$out")" = 2 ]
}
check "policy_that_has_become_bad_fails_the_import_each_time_and_is_named" changed

python 'import shutil
shutil.copy("bad.yaml", "changed.yaml")
try:
    import torch
except Exception as error:
    shutil.copy("good.yaml", "changed.yaml")
import torch, torch.cuda, weir.torch
print(weir.torch.state() is not None)'
cp good.yaml changed.yaml
check "import_after_a_failure_tries_again" prints True run --gpu=sim --require -p changed.yaml python3 script.py
python 'import torch'
# In vain are the line of the missing shim, and that of the end. What stays in a buffer fails Python at its end.
unwritten() (
    unset WEIR_RUN_TOLD PYTHONUNBUFFERED
    "$weir" run --gpu=sim --require -p good.yaml python3 script.py 2>&- && "$weir" run --gpu=sim --require -p good.yaml python3 script.py 2>/dev/full
)
check "stderr_that_cannot_be_written_to_fails_no_import" unwritten

# says_once LINE ARGUMENT…: the command succeeds, and on stderr are a line that matches and nothing else.
says_once() (
    unset WEIR_RUN_TOLD
    wanted_line=$1
    shift
    exits 0 "$@" && [ "$(wc -l <"$err")" -eq 1 ] && grep -q "$wanted_line" "$err"
)
python 'import subprocess, sys, torch, weir.torch
print(weir.torch.state() is not None)
if len(sys.argv) < 3:
    sys.exit(subprocess.call([sys.executable, *sys.argv, "again"]))'
check "missing_shim_is_told_once_by_a_program_and_all_that_it_starts" says_once \
    '^weir run: .* without its shim, which `weir run -- python -m weir.torch build` makes: .*cudnn.benchmark' run --gpu=sim -p good.yaml python3 script.py
without_cuda() (
    export FAKE_TORCH_CUDA=
    unset WEIR_RUN_TOLD
    exits 0 run --gpu=sim -p good.yaml python3 script.py && [ "$(grep -c '^weir run: torch 2.11.0 is built without CUDA' "$err")" -eq 1 ] && echo "False
False
False" | diff - "$out"
)
check "torch_without_cuda_is_told_once_and_is_imported_all_the_same" without_cuda
python 'import sys, torch, weir.torch._build as build
build._command = lambda target: ["cp", "/dev/null", target]
for build.VERSION in ["0.1", "0.2"]:
    assert build.path() is None and build.is_stale() == (build.VERSION == "0.2")
    build.build()
for build.VERSION in ["0.1", "0.2"]:
    print(build.path() is not None)'
check "shims_of_two_releases_lie_beside_each_other" prints "True
True" run --gpu=sim -p good.yaml python3 script.py
done_testing
