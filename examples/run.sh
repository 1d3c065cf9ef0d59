#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh - runs the examples as a reader would and checks what they print. TAP. Uses $WEIR_GPU (the tests' default is the simulator).
set -u
src=${top_srcdir:-.}/examples
bin=${top_builddir:-.}/examples
# The examples link what is installed, which may have no simulator. A GPU bundle has no config.h, and another WEIR_GPU.
if [ "${WEIR_GPU-}" = sim ] && ! grep -q '^#define HAVE_SIMULATOR 1' "${top_builddir:-.}/config.h"; then
    echo "1..0 # SKIP libweir was built without the simulator"
    exit 0
fi
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT
# Shared pools have their sockets here, and simulated processes one machine of this name.
export XDG_RUNTIME_DIR="$out" WEIR_SIM="name=examples-$$"
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

# until_said FILE PATTERN: waits until the program in the background has said so.
until_said() {
    for _ in $(seq 2400); do
        grep -Eq "$2" "$out/$1" && return 0
        sleep 0.05
    done
    return 1
}

# start EXAMPLE ARGUMENT…: runs it in the background; what it prints goes to files of its name. Its process is $started.
start() {
    example=$1
    shift
    WEIR_POLICY=$src/share.yaml "$bin/$example" "$@" >"$out/$example.stdout" 2>"$out/$example.stderr" &
    started=$!
}

# share EXAMPLE ARGUMENT…: run() under the policy of the sharing examples.
share() {
    example=$1
    shift
    WEIR_POLICY=$src/share.yaml "$bin/$example" "$@" >"$out/stdout" 2>"$out/stderr"
}

has_gpu() {
    nvidia-smi -L >/dev/null 2>&1 || [ "${WEIR_TEST_GPU:-}" = cuda ]
}

echo 1..14

run embed 64 && said stdout "^64 MiB from pool 'main' of device 0\$" && [ ! -s "$out/stderr" ]
result $? embed_serves_64_mib

# More than any device has; the report names what was asked for.
run embed 100000000
[ $? = 1 ] && said stderr '^embed: out of GPU memory$' && said stderr "main"
result $? embed_reports_a_hopeless_request

# The same in C++.
if [ -x "$bin/embed-cpp" ]; then
    WEIR_POLICY=$src/embed.yaml "$bin/embed-cpp" 64 >"$out/stdout" 2>"$out/stderr" &&
        said stdout "^64 MiB from pool 'main' of device 0\$" && [ ! -s "$out/stderr" ]
    result $? embed_cpp_serves_64_mib
    WEIR_POLICY=$src/embed.yaml "$bin/embed-cpp" 100000000 >"$out/stdout" 2>"$out/stderr"
    [ $? = 1 ] && said stderr '^embed: out of GPU memory$' && said stderr "main"
    result $? embed_cpp_reports_a_hopeless_request
else
    for fact in embed_cpp_serves_64_mib embed_cpp_reports_a_hopeless_request; do
        number=$((number + 1))
        echo "ok $number - $fact # SKIP built without a C++ compiler"
    done
fi

run pipeline && said stdout '^16 frames: [1-9][0-9]* results kept, [1-9][0-9]* dropped when the device was full$' &&
    said stdout "^pool 'frames': 16 served, 16 freed, 0 live, 0 refused\$" && said stdout "^pool 'results': 16 served, .* 0 refused\$"
result $? pipeline_goes_on_when_the_device_is_full

run pipeline && said stdout '^rescued by the callback: [1-9]'
result $? pipeline_counts_the_rescues_of_its_callback
run pipeline && said stdout '^[{]"version": .*"pools": [[][{]"device": 0, "name": '
result $? pipeline_ends_with_its_figures_as_json

if [ ! -x "$bin/current-pool" ]; then
    number=$((number + 1))
    echo "ok $number - current_pool # SKIP built without CUDA"
elif has_gpu; then
    run current-pool && said stdout "^the current pool of device 0 is the policy's\$" &&
        said stdout '^100 rounds of 1 GiB done, [1-9][0-9]* MiB still reserved$'
    result $? current_pool_serves_plain_cuda_calls
else
    run current-pool
    [ $? = 1 ] && said stderr 'no usable GPU' && said stderr 'WEIR_GPU=sim'
    result $? current_pool_without_a_gpu_says_what_to_do
fi

share share-consumer
[ $? = 1 ] && said stderr '^share-consumer: no longer there$' && said stderr 'nobody listens at .*/frames .*: start the exporter'
result $? share_consumer_without_a_producer_says_what_to_do

# Two readers of all frames: the one in the background waits for the other, since the producer waits for both.
start share-producer 40 2
producer=$started
until_said share-producer.stdout "^the ring 'camera' is open\$" && start share-consumer && share share-consumer &&
    said stdout '^40 frames were consumed, 0 of them wrong$' && wait "$started" &&
    said share-consumer.stdout '^40 frames were consumed, 0 of them wrong$'
result $? share_consumers_get_every_frame_unharmed
wait "$producer" && said share-producer.stdout '^40 frames were produced$' && [ ! -s "$out/share-producer.stderr" ]
result $? share_producer_hands_over_every_frame

share share-ring && said stdout '^producer: 100 frames; 3 readers are left$' && [ "$(grep -c ': 100 frames, 0 wrong$' "$out/stdout")" = 3 ] &&
    said stdout '^consumer 3: was killed while it held frame 20$'
result $? share_ring_goes_on_when_a_consumer_is_killed

# Without a GPU, as all else here may be.
python=${WEIR_TORCH_PYTHON:-python3}
if "$python" -c 'import torch' 2>/dev/null; then
    OMP_NUM_THREADS=1 "$python" "$src/torch_train.py" --cpu --steps 60 --batch 32 --side 16 --width 8 >"$out/stdout" 2>"$out/stderr" &&
        said stdout '^step +60: loss 0[.]'
    result $? torch_train_learns
else
    number=$((number + 1))
    echo "ok $number - torch_train_learns # SKIP $python has no torch: name one that has in WEIR_TORCH_PYTHON"
fi

# With torch on a GPU, and on the simulator with NumPy.
package=${WEIR_PYTHON_DIR:-${top_srcdir:-.}/plugin/python}
library=${WEIR_TORCH_LIBRARY:-${top_builddir:-.}/plugin/torch/.libs/libweir-torch.so}
needed=torch
[ "${WEIR_GPU:-}" != sim ] || needed=numpy
if [ -e "$library" ] && ! grep -q '^WEIR_CFLAGS = .*-fsanitize' "${top_builddir:-.}/Makefile" 2>/dev/null && "$python" -c "import $needed" 2>/dev/null; then
    PYTHONPATH=$package WEIR_TORCH_LIBRARY=$library "$python" "$src/share_torch.py" --images 40 >"$out/stdout" 2>"$out/stderr" &&
        said stdout '^40 images were produced$' && [ "$(grep -c '^40 images were inferred on, 0 of them wrong$' "$out/stdout")" = 2 ]
    result $? share_torch_infers_on_every_image
else
    number=$((number + 1))
    echo "ok $number - share_torch_infers_on_every_image # SKIP $python has no $needed: name one that has in WEIR_TORCH_PYTHON"
fi
