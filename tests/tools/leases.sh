#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir leases` and `weir evict`, with exporters and importers of their own on one simulated machine.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
actor=${weir%/tools/weir}/tests/tools/sharing
export XDG_RUNTIME_DIR="$tap_dir/run" WEIR_SIM="name=leases-$$,memory=256MiB" WEIR_POLICY="$tap_dir/policy.yaml"
sockets=$XDG_RUNTIME_DIR/weir/share
mkdir -m 700 "$XDG_RUNTIME_DIR"
policy policy.yaml <<'YAML'
weir: 1
defaults: { pool: work }
pools:
  work: {}
  frames: { devices: [0], ipc: posix_fd, max_size: 128MiB, share: { socket: frames } }
YAML
cd "$tap_dir" || exit 1

# until_row WORD…: row(), as soon as it is so.
until_row() {
    for _ in $(seq 2400); do
        exits 0 leases frames && row "$@" >"$tap_dir/row" && return 0
        sleep 0.025
    done
    cat "$tap_dir/row"
    return 1
}

if ls -d /run/weir/share /run/user/*/weir/share >/dev/null 2>&1; then
    skip "without_sockets_nothing_is_shared" "this machine has exports of its own"
else
    check "without_sockets_nothing_is_shared" exits 0 leases
    check "where_sockets_would_be_is_said" says "$out" "\$XDG_RUNTIME_DIR/weir/share"
fi
check "nobody_at_a_named_socket_exits_1" asks 1 leases frames
check "nobody_at_a_named_socket_is_told_what_to_do" says "$err" "nobody listens" "start the exporter"
check "odd_socket_exits_2" asks 2 leases a/b
check "odd_socket_is_told_what_to_write" says "$err" "'a/b' is neither the name of a socket nor an absolute path"

check "exporter_begins" begin exporter 3 exporter
exporter=$begun
check "export_without_importers_is_shown" asks 0 leases frames
check "export_is_called_by_its_socket_pool_and_process" says "$out" "$sockets/frames: pool 'frames' of process $exporter, epoch 1, GPU-"
check "nobody_imports_it" says "$out" "nobody imports it"

check "importer_begins" begin importer 4 importer
importer=$begun
check "idle_importer_is_shown" until_row "$importer" "$(id -un)" sharing connected - - - -
check "importer_takes_a_lease" tell importer 4 acquire weights
check "lease_is_shown_with_its_block_and_size" until_row "$importer" weights "1 MiB" leased
check "importer_subscribes" tell importer 4 subscribe 1
check "frame_is_pushed" tell exporter 3 push 0
check "frame_is_read" tell importer 4 next
check "leased_frame_is_shown_with_its_number" until_row "$importer" "camera #1" "64 KiB" leased
check "ring_is_shown_with_what_went_through_it" row camera block 3 "64 KiB" 1 1 0 1 0 0 0 1 1 1
check "importer_has_work" tell importer 4 busy
check "lease_is_released_behind_it" tell importer 4 release
check "release_that_the_gpu_has_not_come_to_is_shown" until_row "$importer" weights "1 MiB" releasing

all_in_json() {
    asks 0 leases --json
}
check "json_of_all_sockets_is_printed" all_in_json
check_json "json_has_the_export" "[(x['socket'], x['status'], x['pool'], x['pid'], x['epoch']) for x in d['exports']] == \
[('$sockets/frames', 'WEIR_OK', 'frames', $exporter, 1)] and d['unlisted'] == [] and d['status'] == 0"
check_json "json_has_the_importer" "[(i['pid'], i['uid'], i['user'], i['program'], i['state']) for i in d['exports'][0]['importers']] == \
[($importer, $(id -u), '$(id -un)', 'sharing', 'connected')]"
check_json "json_has_what_it_holds" "{(h['name'], h['sequence'], h['is_slot'], h['size'], h['hold']) \
for h in d['exports'][0]['importers'][0]['holds']} == \
{('weights', None, False, 1 << 20, 'releasing'), ('camera', 1, True, 64 << 10, 'leased')}"
check_json "json_counts_add_up" "all(i['leases'] == sum(h['hold'] != 'mapped' for h in i['holds']) and i['mappings'] == 2 \
for i in d['exports'][0]['importers'])"

# The importer sits on the one frame that it may have, and the other two slots fill up: the push that finds none declares it hung.
check "second_frame_is_pushed" tell exporter 3 push 0
check "third_frame_is_pushed" tell exporter 3 push 0
check "producer_goes_on_without_the_importer_that_takes_nothing" tell exporter 3 push 50
check "importer_that_takes_nothing_is_hung" until_row "$importer" sharing hung "camera #1" leased
check "ring_is_shown_with_who_hung" row camera block 3 "64 KiB" 1 1 1 4 0 0 1 1 4 4
check "what_went_through_the_export_is_told" says "$out" \
    "4 frames pushed, 0 dropped, 0 takes refused, 1 times hung, 2 leases given, 0 importers evicted"
check "json_of_a_full_ring_is_printed" asks 0 leases --json frames
check_json "json_has_the_counts_of_the_export" "d['exports'][0]['counts'] == dict(pushed=4, bytes=4 << 16, dropped=0, refused=0, hangs=1, \
leases_given=2, lag=4, lag_high=4, evictions=0)"
check_json "json_has_the_ring" "d['exports'][0]['rings'] == [dict(name='camera', overflow='block', slot_size=1 << 16, depth=3, taken=0, \
queued=1, readers=1, hung=1, pushed=4, bytes=4 << 16, dropped=0, refused=0, hangs=1, leases_given=1, lag=4, lag_high=4)]"

# A reader that holds nothing, and has two slots mapped: the third is the hung one's.
check "reader_begins" begin reader 7 importer
reader=$begun
check "reader_subscribes" tell reader 7 subscribe 1
check "first_frame_for_it_is_pushed" tell exporter 3 push 0
check "second_frame_for_it_is_pushed" tell exporter 3 push 0
for frame in first second; do
    check "${frame}_frame_for_it_is_read" tell reader 7 next
    check "${frame}_frame_for_it_is_released" tell reader 7 release
done
check "mapped_slots_of_a_ring_share_a_line" until_row "$reader" sharing connected "camera, 2 blocks" "128 KiB" mapped
each_slot() {
    asks 0 leases --all frames && [ "$(grep -c "^ *$reader .*camera  *64 KiB  mapped" "$out")" -eq 2 ]
}
check "all_has_a_line_for_each" each_slot
echo quit >&7
check "reader_ends" bury "$reader"

check "ring_is_closed" tell exporter 3 close-ring
check "frame_of_a_closed_ring_is_shown" until_row "$importer" sharing connected "camera #1" leased
check "json_of_a_closed_ring_is_printed" asks 0 leases --json frames
check_json "json_knows_the_slot_of_a_closed_ring" "[(h['sequence'], h['is_slot']) for h in d['exports'][0]['importers'][0]['holds'] \
if h['name'] == 'camera'] == [(1, True)]"
check_json "closed_ring_counts_in_the_export_alone" "d['exports'][0]['rings'] == [] and d['exports'][0]['counts']['pushed'] == 6"

check "second_importer_begins" begin idle 5 importer
idle=$begun
check "second_importer_takes_a_lease" tell idle 5 acquire weights
check "second_importer_releases_it" tell idle 5 release
check "mapping_without_a_lease_is_shown" until_row "$idle" connected weights "1 MiB" mapped
check "both_importers_are_shown" row "$importer" connected

for wrong in 0 -1 12x ''; do
    check "evict_of_'${wrong}'_exits_2" asks 2 evict -- "$wrong"
    check "evict_of_'${wrong}'_is_told_what_to_write" says "$err" "'$wrong' is no process: write its number"
done
check "evict_without_a_process_exits_2" asks 2 evict
check "evict_of_a_stranger_exits_1" asks 1 evict "$exporter"
check "evict_of_a_stranger_is_told_where_to_look" says "$err" "nobody evicted process $exporter" "'weir leases' shows"
check "evict_of_a_stranger_at_a_socket_exits_1" asks 1 evict "$exporter" frames
check "evict_of_a_stranger_at_a_socket_names_the_socket" says "$err" "$sockets/frames: process $exporter is no importer of this pool"
check "evict_exits_0" asks 0 evict "$importer"
check "evict_says_what_was_done" says "$out" "$sockets/frames: process $importer is evicted from pool 'frames' of process $exporter"
check "evicted_importer_is_shown_with_what_it_keeps_from_others" until_row "$importer" sharing evicted "camera #1" leased
check "eviction_is_counted" says "$out" "1 importers evicted"
check "nobody_else_is_evicted" row "$idle" connected weights mapped
check "second_evict_finds_nobody" asks 1 evict "$importer"
kill -KILL "$importer"
bury "$importer"
gone() {
    until_row "$idle" connected && says_not "$out" " $importer "
}
until_gone() {
    for _ in $(seq 2400); do
        gone >"$tap_dir/gone" && return 0
        sleep 0.025
    done
    cat "$tap_dir/gone"
    return 1
}
check "dead_importer_holds_nothing" until_gone

# More exporters: another one of Weir, one that is dead, one that is stopped, and some that are none.
export WEIR_CONF=pools.frames.share.socket=other
check "other_exporter_begins" begin other 6 exporter
other=$begun
export WEIR_CONF=pools.frames.share.socket=dead
check "third_exporter_begins" begin dead 7 exporter
unset WEIR_CONF
kill -KILL "$begun"
bury "$begun"
check "dead_exporter_exits_1" asks 1 leases
check "dead_exporter_is_reported" says "$err" "nobody listens at $sockets/dead"
check "dead_exporter_does_not_hide_others" says "$out" "$sockets/frames: pool" "$sockets/other: pool"
check "evict_says_nothing_of_dead_exporters" asks 1 evict "$exporter"
check "evict_does_not_name_the_dead" says_not "$err" "$sockets/dead"

check "exporter_is_stopped" stop "$exporter"
check "stopped_exporter_exits_2" exits 2 leases --timeout=15
check "stopped_exporter_is_reported" says "$err" "$sockets/frames: the exporter did not answer in time"
check "stopped_exporter_does_not_hide_others" says "$out" "$sockets/other: pool"
check "stopped_exporter_in_json_exits_2" exits 2 leases --json --timeout=15
check_json "json_has_every_socket_with_its_status" "{x['socket'].split('/')[-1]: x['status'] for x in d['exports']} == \\
{'dead': 'WEIR_GONE', 'frames': 'WEIR_TIMEOUT', 'other': 'WEIR_OK'} and d['status'] == 2 and \\
all(('reason' in x) == (x['status'] != 'WEIR_OK') for x in d['exports'])"
check "evict_at_a_stopped_exporter_exits_2" exits 2 evict --timeout=1 "$idle"
kill -CONT "$exporter"
check "evict_at_two_sockets_exits_0_if_one_knows_the_process" asks 0 evict "$idle" other frames
check "evict_at_two_sockets_says_where_it_is_unknown" says "$err" "$sockets/other: process $idle is no importer"

# An exporter that answers the first packet with given bytes: other versions, refusals, nonsense.
pretend() {
    rm -f pretender pretender.out
    python3 -c 'import socket, sys
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.bind("pretender")
server.listen()
print("ready", flush=True)
client = server.accept()[0]
client.recv(2000)
client.send(bytes.fromhex(sys.argv[1]).ljust(int(sys.argv[2]), b"\0"))
client.recv(2000)' "$1" "$2" >pretender.out &
    for _ in $(seq 2400); do
        [ -s pretender.out ] && break
        sleep 0.025
    done
    asks 2 leases "$tap_dir/pretender"
}

# Two exporters, neither of which answers before both were asked.
pretend_both() {
    rm -f first second pretender.out
    python3 -c 'import socket
servers = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
for server, path in zip(servers, ("first", "second")):
    server.bind(path)
    server.listen()
print("ready", flush=True)
clients = [server.accept()[0] for server in servers]
for client in clients:
    client.recv(2000)
for client in clients:
    client.send(bytes.fromhex("57454952 0100 2100 04010000 01000000 10000000 6e6f").ljust(276, b"\0"))
for client in clients:
    client.recv(2000)' >pretender.out &
    for _ in $(seq 2400); do
        [ -s pretender.out ] && break
        sleep 0.025
    done
    asks 2 leases --timeout=60 "$tap_dir/first" "$tap_dir/second"
}
# An exporter that answers who holds what, and a second connection's question for the counts by the packets given, in hexadecimal; then it
# closes. An older one has nothing to say to that.
pretend_to_count() {
    rm -f pretender pretender.out
    python3 -c 'import socket, sys
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.bind("pretender")
server.listen()
print("ready", flush=True)
done = bytes.fromhex("57454952 0100 2700 00000000 01000000")
for packets in [done], [bytes.fromhex(packet) for packet in sys.argv[1:]]:
    client = server.accept()[0]
    client.recv(2000)
    welcome = "57454952 0100 2000 7c000000 01000000 0100000000000000 d2040000" + "70".ljust(128, "0") + "67".ljust(96, "0")
    client.send(bytes.fromhex(welcome))
    client.recv(2000)
    for packet in packets:
        client.send(packet)
    client.close()' "$@" >pretender.out &
    for _ in $(seq 2400); do
        [ -s pretender.out ] && break
        sleep 0.025
    done
    asks 0 leases --json "$tap_dir/pretender"
}
zeros() {
    printf "%0$1d" 0
}
whole="57454952 0100 2a00 78000000 01000000 $(zeros 240)"
ring="57454952 0100 2b00 b8000000 01000000 01000000 00000000 $(zeros 224) 72 $(zeros 126)"
done="57454952 0100 2700 00000000 01000000"
is_uncounted="[(x['status'], x['pool'], x['counts'], x['rings'], x['importers']) for x in d['exports']] == [('WEIR_OK', 'p', None, [], [])]"
if have_python; then
    check "exporter_that_counts_is_listed" pretend_to_count "$whole" "$ring" "$done"
    check_json "its_counts_are_there" "[(x['counts']['pushed'], [r['name'] for r in x['rings']]) for x in d['exports']] == [(0, ['r'])]"
    check "older_exporter_is_listed" pretend_to_count
    check_json "older_exporter_has_no_counts" "$is_uncounted"
    check "exporter_that_stops_counting_is_listed" pretend_to_count "$whole" "$ring"
    check_json "exporter_that_stops_counting_has_no_counts" "$is_uncounted"
    check "exporter_with_a_ring_twice_is_listed" pretend_to_count "$whole" "$ring" "$ring" "$done"
    check_json "exporter_with_a_ring_twice_has_no_counts" "$is_uncounted"
    check "exporter_that_counts_twice_is_listed" pretend_to_count "$whole" "$whole" "$done"
    check_json "exporter_that_counts_twice_has_no_counts" "$is_uncounted"
    check "exporter_of_rings_alone_is_listed" pretend_to_count "$ring" "$done"
    check_json "exporter_of_rings_alone_has_no_counts" "$is_uncounted"
else
    skip "older_and_odd_exporters_have_no_counts" "no python3"
fi

if have_python; then
    check "two_exporters_are_asked" pretend_both
    check "they_are_asked_at_once" says "$err" "$tap_dir/first: no" "$tap_dir/second: no"
    check "exporter_of_another_version_exits_2" pretend "57454952 0200 2000" 40
    check "exporter_of_another_version_is_told_with_both_versions" says "$err" \
        "the exporter speaks version 2 of the protocol, this one version 1"
    check "exporter_that_refuses_exits_2" pretend "57454952 0100 2100 04010000 01000000 10000000 6e6f" 276
    check "exporter_that_refuses_is_told_with_its_reason" says "$err" "$tap_dir/pretender: no"
    check "what_is_no_exporter_exits_2" pretend "48545450" 100
    check "what_is_no_exporter_is_called_so" says "$err" "what listens there does not keep to the protocol of Weir"
    check "answer_to_another_question_exits_2" pretend "57454952 0100 2700 00000000 01000000" 16
    check "answer_to_another_question_is_named" says "$err" "answered HELLO with DONE"
else
    for fact in two_exporters exporter_of_another_version exporter_that_refuses what_is_no_exporter answer_to_another_question; do
        skip "$fact" "no python3"
    done
fi

# Sockets that anybody may have made, with names that are no UTF-8, and orders to the terminal.
names_are_plain() {
    python3 - "$weir" "$sockets" <<'PYTHON'
import os, socket, subprocess, sys
names, kept = [b"\xff", b"\xfe", b"\x1b]0;owned\x07\x1b[2J\rall is well", b"a\nweir: all is well", b'q"\\'], []
for name in names:
    kept.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    kept[-1].bind(os.fsencode(sys.argv[2]) + b"/" + name)
    kept[-1].listen(5)
try:
    for arguments in ("leases",), ("leases", "--json"), ("metrics",), ("doctor",):
        run = subprocess.run((sys.argv[1],) + arguments + ("--timeout=0.5",), capture_output=True)
        text = (run.stdout + run.stderr).decode()
        assert all(char == "\n" or char.isprintable() for char in text), text
        assert not any(line.startswith("weir: all") for line in text.splitlines()), text
        series = [line for line in text.splitlines() if line.startswith("weir_export_up{")]
        assert len(series) == len(set(series)) and (arguments[0] != "metrics" or len(series) >= len(names)), text
finally:
    for name in names:
        os.unlink(os.fsencode(sys.argv[2]) + b"/" + name)
PYTHON
}
if have_python; then
    check "names_of_strange_sockets_are_shown_without_what_acts_on_a_terminal" names_are_plain
else
    skip "names_of_strange_sockets_are_shown_without_what_acts_on_a_terminal" "no python3"
fi

for fd in 3 5 6; do
    eval "echo quit >&$fd"
done
ended() {
    bury "$exporter" && [ ! -e "$sockets/frames" ]
}
check "exporter_ends_and_leaves_no_socket" ended
check "evicted_importer_ends" bury "$idle"
check "other_exporter_ends" bury "$other"
done_testing
