#!/bin/sh
# SPDX-License-Identifier: MIT
# policies.sh - the ready-made policies of config/ and examples/ are what they claim to be. TAP. Always on the simulator.
set -u
src=${top_srcdir:-.}
weir=${top_builddir:-.}/tools/weir
said=$(mktemp) || exit 99
# Policies with a socket have it there.
XDG_RUNTIME_DIR=$(mktemp -d) || exit 99
WEIR_CONTROL_DIR=$XDG_RUNTIME_DIR
export XDG_RUNTIME_DIR WEIR_CONTROL_DIR
trap 'rm -rf "$said" "$XDG_RUNTIME_DIR"' EXIT
number=0

# result STATUS NAME: one TAP line; what the command said follows a failure as a comment.
result() {
    number=$((number + 1))
    if [ "$1" = 0 ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        sed 's/^/# /' "$said"
    fi
}

for file in "$src"/config/*.yaml; do
    name=$(basename "$file" .yaml | tr - _)
    # shellcheck disable=SC2016 # $schema is what editors look for
    head -n 1 "$file" | grep -Fqx '# yaml-language-server: $schema=weir.schema.json'
    result $? "${name}_names_its_schema"
    "$weir" check "$file" >"$said" 2>&1
    result $? "${name}_passes_check"
    "$weir" try --gpu=sim --seconds=0.1 "$file" >"$said" 2>&1
    result $? "${name}_serves_and_recovers_on_one_device"
    WEIR_SIM=devices=2 "$weir" try --gpu=sim --seconds=0.1 "$file" >"$said" 2>&1
    result $? "${name}_serves_and_recovers_on_two_devices"
done
for file in "$src"/examples/*.yaml; do
    "$weir" check "$file" >"$said" 2>&1
    result $? "example_$(basename "$file" .yaml | tr - _)_passes_check"
done
echo "1..$number"
