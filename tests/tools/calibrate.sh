#!/bin/sh
# SPDX-License-Identifier: MIT
# `weir calibrate` on the simulator: what it measures is what was set, and it is kept where it is found again.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
export XDG_CACHE_HOME="$tap_dir/cache" WEIR_COSTS_DIR="$tap_dir/shipped"
mkdir "$WEIR_COSTS_DIR"
kept=$XDG_CACHE_HOME/weir/simulated-gpu-0-13.0-gpu-00000000-0000-0000-0000-000000000000.yaml

# Every cost differs from every other one, and is no round number where that shows more.
settings='grow=701us/GiB grow_host=199ms/GiB grow_each=17us first=361us first_of_all=9ms trim=900001ns/GiB pool_trim=11ns pool_create=2us pool_get=25ns pool_set=26ns
malloc_async=307ns free_async=211ns stream_synchronize=803ns device_synchronize=3us stream_wait_event=136ns stream_capture_status=38ns stream_id=48ns
exchange_capture_mode=30ns event_record=131ns event_query=109ns get_current_device=31ns device_memory=3463ns page_create=8201ns+26117ns/GiB
page_map=5200ns page_set_access=24300ns+41us/GiB page_unmap=21us+9us/GiB page_release=10us+305123ns/GiB'

# on SETTINGS STATUS ARGUMENT…: exits() on a simulated machine.
on() {
    machine=$1
    shift
    WEIR_SIM=$machine exits "$@"
}
words() {
    printf '%s\n' "$1" | tr -s ' \n' ','
}

# finds FILE FORMAT: the file has each setting in that format of printf, with its key and its value.
finds() {
    for setting in $settings; do
        # shellcheck disable=SC2059 # the format is ours
        line=$(printf "$2" "${setting%%=*}" "${setting#*=}")
        grep -q -F -e "$line" "$1" || {
            echo "not found: $line"
            cat "$1"
            return 1
        }
    done
}

check "without_a_table_the_simulators_costs_are_shown" on "" 0 calibrate --show
check "what_was_not_measured_is_called_so" says "$out" "830us/GiB  not measured  a pool on the device grows"
no_cache() {
    [ ! -e "$XDG_CACHE_HOME" ]
}
check "showing_keeps_nothing" no_cache

check "simulated_costs_are_measured" on "$(words "$settings")" 0 calibrate
check "place_of_the_table_is_told" says "$out" "Kept in $kept"
check "what_was_set_is_what_is_found" finds "$kept" '%s: %s #'
mode() {
    [ "$(stat -c %a "$1")" = "$2" ]
}
check "table_is_its_users_alone" mode "$kept" 600
check "folder_is_its_users_alone" mode "$XDG_CACHE_HOME/weir" 700

settings_of_table() {
    sed -n -e '/^weir_costs\|^gpu\|^driver\|^uuid\|^pair\|^#/d' -e 's/: /=/' -e 's/ #.*//p' "$kept" | tr '\n' ','
}
cp "$kept" "$tap_dir/first.yaml"
check "machine_made_of_the_table_is_measured" on "$(settings_of_table)" 0 calibrate
check "measured_again_it_gives_the_same_table" cmp "$kept" "$tap_dir/first.yaml"

check "table_in_the_cache_is_shown" on "" 0 calibrate --show --json
check_json "json_has_the_kept_costs" \
    '{x["cost"]: (x["ns"], x["ns_per_gib"]) for x in d["costs"]}["page_release"] == (10000, 305123) and all(x["measured"] for x in d["costs"])'
check_json "json_says_where_they_come_from" 'd["origin"] == "measured" and d["file"].endswith(".yaml") and d["gpu"] == "simulated GPU 0"'

printf 'weir_costs: 1\ngpu: simulated GPU 1\nmalloc_async: 5ns\n' >"$WEIR_COSTS_DIR/simulated-gpu-1.yaml"
check "other_gpu_has_the_shipped_table" on devices=2 0 calibrate --show --device=1 --json
check_json "shipped_table_is_called_so" 'd["origin"] == "shipped"'
check "named_table_needs_no_gpu" on devices=0 0 calibrate --costs "$WEIR_COSTS_DIR/simulated-gpu-1.yaml"
check "named_table_is_shown" row malloc_async 5ns
check "named_table_is_found_by_its_name" on devices=0 0 calibrate --costs=simulated-gpu-1
check "table_of_that_name_is_shown" row malloc_async 5ns
check "unknown_name_of_a_table_exits_2" exits 2 calibrate --costs=simulated-gpu-9
check "names_of_tables_are_told" says "$err" "simulated-gpu-9: no cost table in $WEIR_COSTS_DIR has this name; there are simulated-gpu-1;" "./simulated-gpu-9"
printf 'weir_costs: 1\ngpu: X\npair_16: 5us\nmalloc_async: 7ns\n' >"$tap_dir/former.yaml"
check "table_of_a_former_release_is_read" on devices=0 0 calibrate --costs="$tap_dir/former.yaml"
check "pairs_of_several_threads_are_left_out_of_it" says_not "$out" pair_16
printf 'weir_costs: 1\ngpu: X\nmaloc: 5ns\n' >"$tap_dir/bad.yaml"
check "bad_table_exits_1" exits 1 calibrate --costs "$tap_dir/bad.yaml"
check "bad_table_is_named_with_its_line" says "$err" "bad.yaml:3: 'maloc' is no cost that this weir knows"
check "table_that_is_not_there_exits_2" exits 2 calibrate --costs "$tap_dir/none.yaml"

check "small_device_is_measured" on memory=256MiB 0 calibrate --output "$tap_dir/small.yaml"
check "output_is_a_file_of_its_own" says "$tap_dir/small.yaml" "grow: 830us/GiB"
check "device_without_room_exits_1" on memory=128MiB 1 calibrate
check "device_without_room_has_a_remedy" says "$err" "only 128 MiB are free, and measuring needs 256"
check "old_driver_is_measured" on driver=11.2 0 calibrate -o "$tap_dir/old.yaml"
check "what_an_old_driver_lacks_is_not_in_the_table" says_not "$tap_dir/old.yaml" stream_id
check "device_without_pools_exits_1" on pools=no 1 calibrate
check "missing_device_is_named" on "" 1 calibrate --device=3
check "missing_device_has_a_remedy" says "$err" "--device=3: there are only 1"
check "no_device_exits_1" on devices=0 1 calibrate
for call in device_info versions device_memory stream_create event_create pool_create malloc_async event_query page_map page_set_access page_unmap; do
    check "failing_${call}_exits_1" on "fail=$call:1:999" 1 calibrate
    check "failing_${call}_is_told" says "$err" "cudaErrorUnknown"
done
mkfifo "$tap_dir/pipe.yaml"
check "pipe_is_no_place_for_a_table" exits 2 calibrate --output="$tap_dir/pipe.yaml"
check "which_is_said" says "$err" "calibrate: $tap_dir/pipe.yaml is no regular file, and would be replaced by one: name another file"
check "and_the_pipe_is_still_there" test -p "$tap_dir/pipe.yaml"
check "output_with_show_is_refused" exits 2 calibrate --show --output=x.yaml
no_place() {
    HOME='' XDG_CACHE_HOME='' exits 2 calibrate
}
check "no_place_for_the_table_exits_2" no_place
check "no_place_has_a_remedy" says "$err" "set XDG_CACHE_HOME or HOME"
done_testing
