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
# Each by its name, as it is found once it was installed: beside a command elsewhere, and in the folder that a variable names.
WEIR_POLICY_DIR=$(cd "$src/config" && pwd -P) || exit 99
export WEIR_POLICY_DIR
for file in "$src"/config/*.yaml; do
    name=$(basename "$file" .yaml)
    echo "weir: 2" >"$XDG_RUNTIME_DIR/$name"
    fact=$(echo "$name" | tr - _)
    "$weir" check "$name" >"$said" 2>&1 && grep -Fq "$WEIR_POLICY_DIR/$name.yaml: ok" "$said"
    result $? "${fact}_is_checked_by_its_name"
    WEIR_POLICY=$name "$weir" show >"$said" 2>&1 && grep -Fq "$WEIR_POLICY_DIR/$name.yaml" "$said"
    result $? "${fact}_is_shown_by_the_variable"
done
"$weir" try --gpu=sim --seconds=0.1 inference >"$said" 2>&1
result $? "name_is_tried"
"$weir" check infrence >"$said" 2>&1
[ $? = 2 ] && grep -q "infrence: no policy in .* has this name; there are default, inference, .*training; .* ./infrence" "$said"
result $? "unknown_name_lists_those_there_are"
"$weir" check --json infrence >"$said" 2>&1
[ $? = 2 ] && grep -q '"unreadable"' "$said" && grep -q 'there are default' "$said"
result $? "unknown_name_is_said_in_json"
unset WEIR_POLICY_DIR
program=$weir
[ ! -x "${weir%/weir}/.libs/weir" ] || program=${weir%/weir}/.libs/weir
mkdir -p "$XDG_RUNTIME_DIR/moved/bin" "$XDG_RUNTIME_DIR/moved/share/weir" && cp "$program" "$XDG_RUNTIME_DIR/moved/bin/weir" &&
    cp "$src"/config/*.yaml "$XDG_RUNTIME_DIR/moved/share/weir/" && "$XDG_RUNTIME_DIR/moved/bin/weir" check inference >"$said" 2>&1 &&
    grep -q "moved/share/weir/inference.yaml: ok" "$said"
result $? "name_is_found_beside_a_command_that_was_moved"
for file in "$src"/examples/*.yaml; do
    "$weir" check "$file" >"$said" 2>&1
    result $? "example_$(basename "$file" .yaml | tr - _)_passes_check"
done
echo "1..$number"
