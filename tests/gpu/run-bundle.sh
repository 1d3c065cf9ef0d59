#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# run.sh of a GPU bundle (make gpu-bundle): runs the tests and measurements on this machine's GPU.
#
#   run.sh [STEP...]      tests share peers examples try audit figures torch sanitizer; without any: all these, in this order
#
#   OUT=DIR               where everything raw goes (./results)
#   SUITE_LIMIT=SECONDS   after which one suite is stopped and counts as failed (240; torch 540; sections of weir-bench have their own)
#   BENCH_QUICK=1         figures: weir-bench --quick; torch-figures: bench/torch/bench.py --quick; compare: compare.py --quick
#   BENCH_ROW_SECONDS=N   figures: weir-bench --row-seconds=N (20)
#   ONLY=PATTERN          only test programs whose path matches, as in ONLY='tests/gpu/*'; torch: cases that match, as in ONLY='*graph*'
#   SECTIONS='NAME...'    rivals: these sections alone
#   RMM=FOLDER            rivals, compare: where RMM's wheels are unpacked (bench/rmm/build.sh); without it RMM is left out
#   ROWS=NAME,...         compare: these rows alone, as in ROWS=micro,lora; compare.py --list names them
#   CONTENDERS=NAME,...   compare: of torch and CuPy these alone, as in CONTENDERS=native,expandable,shim
#   COMPARE_SECONDS=N     compare: begins nothing that would end later (540)
#   PYTHON=PROGRAM        torch: the Python that has torch (python3)
#   TORCH_TEST_CUDA=FILE  torch-tests: the test/test_cuda.py of that torch, of which the cases of upstream.txt run as well
#
#   tests      every test program of one process, each test in a process of its own, on one device
#   share      several processes that share pools and give each other memory, on one device
#   peers      the test cases called "peers" of every test program, on two devices, where there are two
#   examples   the examples, as their own test runs them
#   try        weir doctor, weir calibrate, weir try
#   audit      weir record --any, and what it costs; needs python3, and looks at CuPy, JAX and PyTorch where it has them
#   figures    weir-bench, section by section
#   rivals     weir-bench beside RMM, on pools and on arenas: those of its sections that figures leaves out, in about five minutes
#   rmm        RMM's own tests of memory resources, where make gpu-bundle was given its sources
#   compare    bench/torch/compare.py: Weir beside CUDA, RMM and torch, alone and in programs. Goes on with what $OUT/compare lacks
#   recordings bench/torch/recordings.py and weir try: traces for weir replay, in about five minutes
#   torch      torch-tests, then torch-figures. Both build the shim first, for the torch that is there
#     torch-tests    PyTorch on Weir, on all devices
#     torch-peers    those of its cases alone that take two devices; part of torch-tests
#     share-python   weir.share: torch to torch, CuPy, and what a frame costs; tensors through torch.multiprocessing. Part of torch
#     torch-figures  training steps, beside PyTorch's own allocators, and the section torch of weir-bench, on one device
#   sanitizer  every test program in one process under compute-sanitizer, if it is on PATH or in /usr/local/cuda/bin
#
# Ends with a table of suites, and fails if any of them did.
set -uo pipefail

bundle=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$PWD/results}
limit=${SUITE_LIMIT:-240}
only=${ONLY:-*}
python=${PYTHON:-python3}
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
cd "$bundle" || exit 2

# What the tests expect of the build tree they come from. Policies of this machine must not change what they do.
unset WEIR_POLICY WEIR_CONF WEIR_SIM XDG_CONFIG_HOME CK_TAP_LOG_FILE_NAME
export WEIR_GPU=cuda WEIR_TEST_GPU=cuda top_srcdir=. top_builddir=. NO_COLOR=1 WEIR_COSTS_DIR=$bundle/config/costs

# Where compute-sanitizer is, if a toolkit was installed without touching PATH.
PATH=$PATH:/usr/local/cuda/bin

failed_suites=0
passed_tests=0
table=()

# The devices that this process may use, as a list of numbers or UUIDs.
visible_devices() {
    if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
        tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES"
    elif command -v nvidia-smi >/dev/null; then
        nvidia-smi --query-gpu=index --format=csv,noheader
    else
        find /proc/driver/nvidia/gpus -mindepth 1 -maxdepth 1 2>/dev/null | awk '{ print NR - 1 }'
    fi
}
mapfile -t devices < <(visible_devices)

# row NAME RESULT PASSED FAILED SECONDS
row() {
    table+=("$(printf '%-44s %-8s %7s %7s %8s' "$@")")
}

seconds_since() {
    awk -v start="$1" -v now="$(date +%s.%N)" 'BEGIN { printf "%.1f", now - start }'
}

# suite NAME COMMAND...: runs it, keeps its output in $out/NAME.log and adds its row. The counts come from TAP lines, where there are any.
suite() {
    local name=$1 start status passed failed skipped result=ok
    shift
    start=$(date +%s.%N)
    echo "== $name"
    timeout --kill-after=10 "$limit" "$@" >"$out/$name.log" 2>"$out/$name.err"
    status=$?
    passed=$(grep -c '^ok ' "$out/$name.log")
    failed=$(grep -c '^not ok ' "$out/$name.log")
    passed_tests=$((passed_tests + passed))
    skipped=$(grep -c '^1\.\.0 # SKIP' "$out/$name.log")
    if [ "$status" -ne 0 ] || [ "$failed" -ne 0 ]; then
        result=FAILED
        failed_suites=$((failed_suites + 1))
        grep '^not ok ' "$out/$name.log" | head -n 20
        [ "$status" -eq 0 ] || echo "exit status $status$([ "$status" -ne 124 ] || echo ': stopped after the time limit')"
        tail -n 5 "$out/$name.err"
    elif [ "$skipped" -ne 0 ]; then
        result=skipped
        grep '^1\.\.0' "$out/$name.log"
    elif grep -q '^1\.\.0' "$out/$name.log"; then
        result=none
    fi
    row "$name" "$result" "$passed" "$failed" "$(seconds_since "$start")"
}

# Test programs, one path a line; without those that start others.
test_programs() {
    local program
    while read -r program; do
        case $program in tests/share/* | tests/gpu/audit/*) continue ;; esac
        # The pattern is meant as one.
        # shellcheck disable=SC2254
        case $program in
        tests/*) case $program in $only) echo "$program" ;; esac ;;
        esac
    done <programs
}

# "tests/gpu/conformance" as part of a file name.
short() {
    echo "${1#tests/}" | tr / -
}

step_tests() {
    local program
    for program in $(test_programs); do
        CUDA_VISIBLE_DEVICES=${devices[0]} suite "$(short "$program")" "./$program"
    done
}

step_share() {
    local program
    for program in share:gpu neighbours:neighbours_gpu; do
        if [ -x "tests/share/${program#*:}" ]; then
            CUDA_VISIBLE_DEVICES=${devices[0]} suite "${program%:*}" "tests/share/${program#*:}"
        else
            row "${program%:*}" none - - -
        fi
    done
}

step_peers() {
    local program
    if [ "${#devices[@]}" -lt 2 ]; then
        row peers "one GPU" - - -
        return
    fi
    for program in $(test_programs); do
        CK_RUN_CASE=peers CUDA_VISIBLE_DEVICES=${devices[0]},${devices[1]} suite "$(short "$program")-two-devices" "./$program"
    done
    [ ! -e config/multi-gpu.yaml ] ||
        CUDA_VISIBLE_DEVICES=${devices[0]},${devices[1]} suite try-multi-gpu tools/weir try --seconds=5 config/multi-gpu.yaml
}

step_examples() {
    if [ ! -e examples/run.sh ]; then
        row examples none - - -
        return
    fi
    CUDA_VISIBLE_DEVICES=${devices[0]} suite examples sh examples/run.sh
}

# GoogleTest knows no TAP.
step_rmm() {
    if [ ! -x rmm/rmm-tests ]; then
        row rmm "no rmm" - - -
        return
    fi
    # shellcheck disable=SC2016 # the inner shell's
    CUDA_VISIBLE_DEVICES=${devices[0]} suite rmm bash -c 'set -o pipefail
        rmm/rmm-tests --gtest_color=no | sed -e "s/^\[       OK \]/ok -/" -e "/ms)\$/s/^\[  FAILED  \]/not ok -/"'
}

step_try() {
    local policy
    if [ ! -x tools/weir ]; then
        row try "no weir" - - -
        return
    fi
    suite doctor tools/weir doctor
    CUDA_VISIBLE_DEVICES=${devices[0]} suite calibrate tools/weir calibrate --output "$out/costs.yaml"
    for policy in config/*.yaml; do
        [ -e "$policy" ] || continue
        [ "$policy" != config/multi-gpu.yaml ] || continue
        CUDA_VISIBLE_DEVICES=${devices[0]} suite "try-$(basename "$policy" .yaml)" tools/weir try --seconds=5 "$policy"
        CUDA_VISIBLE_DEVICES=${devices[0]} suite "try-$(basename "$policy" .yaml)-json" tools/weir try --json --seconds=5 "$policy"
    done
}

step_audit() {
    if [ ! -e audit/libweir-audit.so ]; then
        row audit none - - -
        return
    fi
    CUDA_VISIBLE_DEVICES=${devices[0]} suite audit "$python" tests/gpu/audit/run.py .
    grep '^# ' "$out/audit.log"
}

# Each section of weir-bench, and the seconds after which it is stopped: far more than it should take.
bench_sections=(pairs:60 threads:90 live:40 handover:40 multi:40 open:30 loop:40 keeper:40 random:200 small:60 pending:90 share:120 neighbours:150)

# And of those beside RMM.
rival_sections=(rmm-pairs:60 rmm-threads:90 grow:60 pages:60 full:90 comb:90 pinned:90 rmm-random:240)

# measure_sections VISIBLE OPTION... -- NAME:SECONDS...: section by section, as one that cannot be measured leaves the others alone.
measure_sections() {
    local visible=$1 options=() entry section
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    if [ ! -x bench/weir-bench ]; then
        row figures "none" - - -
        return
    fi
    for entry; do
        section=${entry%:*}
        CUDA_VISIBLE_DEVICES=$visible limit=${entry#*:} suite "bench-$section" bench/weir-bench ${BENCH_QUICK:+--quick} \
            --row-seconds="${BENCH_ROW_SECONDS:-20}" "${options[@]}" --json "$out/bench-$section.json" "$section"
        cat "$out/bench-$section.log"
    done
}

step_figures() {
    measure_sections "${devices[0]}" -- "${bench_sections[@]}"
}

step_rivals() {
    local options=() chosen=() entry visible=${devices[0]}
    # The peer of `grow`.
    [ "${#devices[@]}" -lt 2 ] || visible+=,${devices[1]}
    if [ -n "${RMM:-}" ]; then
        suite rmm-build bench/rmm/build.sh "$RMM" "$out/libweir-rmm.so"
        [ ! -e "$out/libweir-rmm.so" ] || options=(--rmm "$out/libweir-rmm.so")
    fi
    for entry in "${rival_sections[@]}"; do
        case " ${SECTIONS:-${entry%:*}} " in *" ${entry%:*} "*) chosen+=("$entry") ;; esac
    done
    measure_sections "$visible" "${options[@]}" -- "${chosen[@]}"
}

# What is missing here is skipped by compare.py, by name.
step_compare() {
    local options=() seconds=${COMPARE_SECONDS:-540} visible=${devices[0]}
    torch_ready compare
    # The second one is for the data-parallel program.
    [ "${#devices[@]}" -lt 2 ] || visible+=,${devices[1]}
    [ -z "${ROWS:-}" ] || options+=(--rows "$ROWS")
    [ -z "${CONTENDERS:-}" ] || options+=(--contenders "$CONTENDERS")
    [ -z "${RMM:-}" ] || options+=(--rmm "$RMM")
    CUDA_VISIBLE_DEVICES=$visible limit=$((seconds + 120)) suite compare "$python" bench/torch/compare.py --out "$out/compare" \
        --time-limit "$seconds" ${BENCH_QUICK:+--quick} "${options[@]}"
    cat "$out/compare.log"
    tail -n 1 "$out/compare.err"
}

step_recordings() {
    torch_ready recordings || return 0
    export WEIR=$bundle/tools/weir
    CUDA_VISIBLE_DEVICES=${devices[0]} limit=${SUITE_LIMIT:-400} suite recordings "$python" bench/torch/recordings.py record "$out/recordings"
    cat "$out/recordings.log"
    local policy trace
    for policy in default inference; do
        trace=$out/recordings/try.$policy.weir
        CUDA_VISIBLE_DEVICES=${devices[0]} limit=60 suite "recordings-try-$policy" \
            tools/weir record -o "$trace" -- tools/weir try --seconds=1 "config/$policy.yaml"
    done
    # The same requests on this GPU, in the recorded time, by the library alone.
    for trace in "$out"/recordings/lora.cached.weir "$out"/recordings/try.*.weir; do
        CUDA_VISIBLE_DEVICES=${devices[0]} limit=60 suite "replay-$(basename "$trace" .weir)" tools/weir replay --gpu --json \
            --policy="$out/recordings/cached.yaml" --policy="$out/recordings/uncached.yaml" --policy="$out/recordings/arena.yaml" "$trace"
    done
}

torch_built=

# torch_ready STEP: what PyTorch on Weir needs; says in the table why not, if it is not there. The shim is built once.
torch_ready() {
    if [ ! -e plugin/torch/libweir-torch.so ]; then
        row "$1" none - - -
        return 1
    fi
    if ! "$python" -c 'import torch' 2>"$out/torch-import.err"; then
        row "$1" "no torch" - - -
        tail -n 1 "$out/torch-import.err"
        return 1
    fi
    export WEIR_TORCH_LIBRARY=$bundle/plugin/torch/libweir-torch.so WEIR_PYTHON_DIR=$bundle/plugin/python WEIR=$bundle/tools/weir
    export PYTHONPATH=$bundle/plugin/python${PYTHONPATH:+:$PYTHONPATH} XDG_CACHE_HOME=$out/cache
    [ -n "$torch_built" ] || suite torch-build "$python" -m weir.torch build --verbose
    torch_built=1
    "$python" -m weir.torch >"$out/torch.txt" 2>&1
    cat "$out/torch.txt"
}

step_torch_tests() {
    local seconds=${SUITE_LIMIT:-540}
    torch_ready torch-tests || return 0
    # A little less than the suite has, so that its table is printed.
    limit=$seconds suite torch-tests "$python" tests/gpu/torch/run.py --limit "$((seconds - 10))" ${ONLY:+--only "$ONLY"} \
        --json "$out/torch-tests.json" --logs "$out/torch-tests"
    grep '^# ' "$out/torch-tests.log"
    [ -z "${TORCH_TEST_CUDA:-}" ] ||
        limit=$seconds suite torch-upstream "$python" tests/gpu/torch/upstream.py --limit "$((seconds - 10))" \
            --json "$out/torch-upstream.json" "$TORCH_TEST_CUDA"
}

step_torch_peers() {
    local seconds=${SUITE_LIMIT:-540}
    if [ "${#devices[@]}" -lt 2 ]; then
        row torch-peers "one GPU" - - -
        return
    fi
    torch_ready torch-peers || return 0
    limit=$seconds suite torch-peers "$python" tests/gpu/torch/run.py --gpus 2 --limit "$((seconds - 10))" \
        --json "$out/torch-peers.json" --logs "$out/torch-tests"
    grep '^# ' "$out/torch-peers.log"
}

step_torch_figures() {
    local seconds=${SUITE_LIMIT:-420}
    torch_ready torch-figures || return 0
    CUDA_VISIBLE_DEVICES=${devices[0]} limit=$seconds suite torch-figures \
        "$python" bench/torch/bench.py ${BENCH_QUICK:+--quick} --limit "$((seconds - 10))" --json "$out/torch-figures.json"
    cat "$out/torch-figures.log"
    # The section of weir-bench that needs no torch.
    CUDA_VISIBLE_DEVICES=${devices[0]} limit=60 suite bench-torch \
        bench/weir-bench ${BENCH_QUICK:+--quick} --row-seconds="${BENCH_ROW_SECONDS:-20}" --json "$out/bench-torch.json" torch
    cat "$out/bench-torch.log"
}

step_share_python() {
    torch_ready share-python || return 0
    CUDA_VISIBLE_DEVICES=${devices[0]} suite share-python "$python" tests/gpu/torch/sharing.py
    CUDA_VISIBLE_DEVICES=${devices[0]} suite share-example "$python" examples/share_torch.py
    cat "$out/share-example.log"
    CUDA_VISIBLE_DEVICES=${devices[0]} suite bench-share-python "$python" bench/share_python.py --json "$out/bench-share-python.json"
    cat "$out/bench-share-python.log"
    CUDA_VISIBLE_DEVICES=${devices[0]} limit=140 suite torch-queues "$python" tests/gpu/torch/queues.py --json "$out/torch-queues.json"
    cat "$out/torch-queues.log"
}

step_torch() {
    step_torch_tests
    step_share_python
    step_torch_figures
}

step_sanitizer() {
    local program name start errors result passed
    if ! command -v compute-sanitizer >/dev/null; then
        row sanitizer "not found" - - -
        return
    fi
    # One process, as the sanitizer does not follow the forks of the tests. What counts is what the sanitizer found: it allocates on its own
    # account and synchronises, so a few facts about CUDA's memory do not hold beside it, and their tests fail. API errors stay off, since
    # tests call CUDA wrongly on purpose.
    for program in $(test_programs); do
        name=$(short "$program")-sanitizer
        start=$(date +%s.%N)
        echo "== $name"
        WEIR_STRESS_COUNT=20000 CK_FORK=no CUDA_VISIBLE_DEVICES=${devices[0]} timeout --kill-after=10 "$limit" compute-sanitizer --tool memcheck \
            --report-api-errors no --log-file "$out/$name-memcheck.txt" "./$program" >"$out/$name.log" 2>"$out/$name.err"
        errors=$(sed -n 's/^========= ERROR SUMMARY: \([0-9]*\) error.*/\1/p' "$out/$name-memcheck.txt")
        result="${errors:-no} found"
        [ "$errors" = 0 ] || failed_suites=$((failed_suites + 1))
        passed=$(grep -c '^ok ' "$out/$name.log")
        passed_tests=$((passed_tests + passed))
        row "$name" "$result" "$passed" "$(grep -c '^not ok ' "$out/$name.log")" "$(seconds_since "$start")"
    done
}

if [ "${#devices[@]}" -eq 0 ]; then
    echo "run.sh: no NVIDIA GPU here: neither nvidia-smi nor /proc/driver/nvidia/gpus names one" >&2
    exit 2
fi
{
    date -u
    uname -a
    nvidia-smi 2>&1
} >"$out/machine.txt"
[ $# -gt 0 ] || set -- tests share peers examples try audit figures torch sanitizer
for step; do
    case $step in
    tests | share | peers | examples | try | audit | rmm | figures | rivals | compare | recordings | torch | torch-tests | torch-peers | share-python | torch-figures | sanitizer) ;;
    *)
        echo "run.sh: there is no step '$step'; write some of: tests share peers examples try audit rmm figures rivals compare recordings torch torch-tests" \
            "torch-peers share-python torch-figures sanitizer" >&2
        exit 2
        ;;
    esac
done
for step; do
    "step_${step//-/_}"
done

{
    printf '%-44s %-8s %7s %7s %8s\n' suite result passed failed seconds
    printf '%s\n' "${table[@]}"
} | tee "$out/table.txt"
# A machine whose driver does not work skips every suite; that is no success.
case " $* " in
*" tests "* | *" share "* | *" peers "* | *" audit "* | *" rmm "* | *" torch "* | *" torch-tests "* | *" torch-peers "* | *" share-python "* | *" sanitizer "*)
    if [ "$passed_tests" -eq 0 ]; then
        echo "run.sh: not one test ran to success; the reasons are in $out" >&2
        failed_suites=$((failed_suites + 1))
    fi
    ;;
esac
[ "$failed_suites" -eq 0 ] || echo "run.sh: $failed_suites of ${#table[@]} suites failed; their output is in $out"
[ "$failed_suites" -eq 0 ]
