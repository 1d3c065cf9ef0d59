#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh - runs the examples as a reader would and checks what they print. TAP. Uses $WEIR_GPU (the tests' default is the simulator).
set -u
src=${top_srcdir:-.}/examples
bin=${top_builddir:-.}/examples
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT
number=0

# result STATUS NAME: one TAP line; what the program printed follows a failure as a comment.
result() {
    number=$((number + 1))
    if [ "$1" = 0 ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        sed 's/^/# /' "$out/stdout" "$out/stderr"
    fi
}

# run EXAMPLE ARGUMENT…: runs it under its own policy and keeps what it printed.
run() {
    example=$1
    shift
    WEIR_POLICY=$src/$example.yaml "$bin/$example" "$@" >"$out/stdout" 2>"$out/stderr"
}

# said FILE PATTERN: whether that stream has a line with the pattern.
said() {
    grep -Eq "$2" "$out/$1"
}

has_gpu() {
    nvidia-smi -L >/dev/null 2>&1 || [ "${WEIR_TEST_GPU:-}" = cuda ]
}

echo 1..5

run embed 64 && said stdout "^64 MiB from pool 'main' of device 0\$" && [ ! -s "$out/stderr" ]
result $? embed_serves_64_mib

# More than any device has; the report names what was asked for.
run embed 100000000
[ $? = 1 ] && said stderr '^embed: out of GPU memory$' && said stderr "main"
result $? embed_reports_a_hopeless_request

run pipeline && said stdout '^16 frames: [1-9][0-9]* results kept, [1-9][0-9]* dropped when the device was full$' &&
    said stdout "^pool 'frames': 16 served, 16 freed, 0 live, 0 refused\$" && said stdout "^pool 'results': 16 served, .* 0 refused\$"
result $? pipeline_goes_on_when_the_device_is_full

run pipeline && said stdout '^rescued by the callback: [1-9]'
result $? pipeline_counts_the_rescues_of_its_callback

if [ ! -x "$bin/current-pool" ]; then
    echo "ok 5 - current_pool # SKIP built without CUDA"
elif has_gpu; then
    run current-pool && said stdout "^the current pool of device 0 is the policy's\$" &&
        said stdout '^100 rounds of 1 GiB done, [1-9][0-9]* MiB still reserved$'
    result $? current_pool_serves_plain_cuda_calls
else
    run current-pool
    [ $? = 1 ] && said stderr 'no usable GPU' && said stderr 'WEIR_GPU=sim'
    result $? current_pool_without_a_gpu_says_what_to_do
fi
