#!/bin/sh
# SPDX-License-Identifier: MIT
# The directory of exports for other users, as systemd makes it from what is installed: exporters take it, and nobody else may write to it.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
file=${weir%/tools/weir}/config/weir.conf
export WEIR_CONTROL_DIR="$tap_dir" WEIR_SIM="name=tmpfiles-$$,memory=256MiB" WEIR_POLICY="$tap_dir/policy.yaml"

# The last line of the file: d PATH MODE USER GROUP AGE.
line() {
    sed -n 's|^d /run/weir/share ||p' "$file"
}
check "file_has_a_line_for_the_directory" test "$(line | wc -l)" = 1
check "users_enter_it_and_do_not_write" test "$(line | cut -d ' ' -f 1)" = 0711
check "nothing_in_it_is_ever_removed" test "$(line | cut -d ' ' -f 4)" = -
check "what_is_above_it_is_of_root_alone" grep -q -x 'd /run/weir 0755 root root -' "$file"
check "no_other_line_makes_anything" test "$(grep -c '^[^#]' "$file")" = 2

# The directory as the line has it, but for the path: below a root of the test's own, where that is possible.
owner=$(line | cut -d ' ' -f 2)
root=$tap_dir/root
made=$root/run/weir/share
mkdir -m 0755 "$root"
made_by_systemd() {
    systemd-tmpfiles --root="$root" --create "$file" >"$out" 2>&1 || { cat "$out"; return 1; }
    [ "$(stat -c %a:%U "$made")" = "711:$owner" ] && [ "$(stat -c %a:%U "$root/run/weir")" = 755:root ]
}
if ! command -v systemd-tmpfiles >/dev/null; then
    skip "systemd_makes_it" "no systemd-tmpfiles"
elif [ "$(id -u)" != 0 ]; then
    skip "systemd_makes_it" "only root can make what belongs to root"
else
    mkdir "$root/etc" && grep -e '^root:' -e "^$owner:" /etc/passwd >"$root/etc/passwd"
    grep '^root:' /etc/group >"$root/etc/group"
    check "systemd_makes_it" made_by_systemd
fi
[ -d "$made" ] || { mkdir -p "$made" && chmod "$(line | cut -d ' ' -f 1)" "$made"; }
[ "$(id -u)" != 0 ] || chmod 0711 "$tap_dir"

cat >"$WEIR_POLICY" <<YAML
weir: 1
pools:
  frames: { devices: [0], ipc: posix_fd, max_size: 128MiB, share: { socket: $made/frames, allow: { users: [root] } } }
YAML
cd "$tap_dir" || exit 1
# shellcheck disable=SC2034 # begin() uses it
actor=${weir%/tools/weir}/tests/tools/sharing
if [ "$owner" = "$(id -un)" ] || [ "$(stat -c %u "$made")" = "$(id -u)" ]; then
    check "exporter_listens_there" begin exporter 4 exporter
    check "its_socket_is_for_others" test "$(stat -c %a "$made/frames")" = 666
    echo quit >&4
    wait
else
    skip "exporter_listens_there" "it belongs to $owner, and this is $(id -un)"
fi
done_testing
