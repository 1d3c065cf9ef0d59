/* SPDX-License-Identifier: MIT */
/* hand_over.c - blocks with a name, from one process to others. */
#include "config.h"

#include <string.h>

#include "tests/share/stage.h"

/* Data and order ----------------------------------------------------------------------------------------------------------------------- */

START_TEST(block_of_a_name_is_read_as_it_was_written)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s");
    stage_say(importer, "acquire i a l 0 s; check l 3 s; release l s");
    stage_until(exporter, " leases=0 mappings=1", "info");
}
END_TEST

START_TEST(acquire_does_not_wait_for_the_producer_but_the_stream_does)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "delay %u s; share a 3 s; mark written s", stage_long());
    stage_say(importer, "acquire i a l 0 s");
    ck_assert_uint_eq(stage_number(stage_say(exporter, "reached written"), "reached"), 0);
    stage_say(importer, "check l 3 s");
    ck_assert_uint_eq(stage_number(stage_say(exporter, "reached written"), "reached"), 1);
}
END_TEST

START_TEST(host_waits_gives_a_lease_out_once_the_producer_is_done)
{
    struct player *exporter = stage_exporter("exporter", NULL);
    struct player *importer = stage_guest("importer");
    stage_say(importer, "import i frames 0 1");
    stage_say(exporter, "delay %u s; share a 3 s; mark written s", stage_long() / 4);
    stage_say(importer, "acquire i a l 0 s");
    ck_assert_uint_eq(stage_number(stage_say(exporter, "reached written"), "reached"), 1);
    stage_say(importer, "check l 3 s");
}
END_TEST

START_TEST(block_is_not_freed_before_the_consumer_s_stream_came_to_the_release)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s");
    stage_say(importer, "malloc own 1MiB s; acquire i a l 0 s; delay %u s; copy l own s; mark read s; release l s", stage_long() / 2);
    stage_say(exporter, "withdraw a");
    stage_until(exporter, " blocks=0 leases=0 mappings=0", "info");
    ck_assert_uint_eq(stage_number(stage_say(importer, "reached read"), "reached"), 1);
    stage_say(exporter, "share b 4 s; synchronize s");
    stage_say(importer, "check own 3 s");
}
END_TEST

START_TEST(metadata_and_size_are_known_before_the_use)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "malloc a 1MiB s; fill a 5 s; publish a a s 70000 1920x1080");
    const char *answer = stage_say(importer, "acquire i a l 0 s");
    ck_assert_ptr_nonnull(strstr(answer, " size=70000 sequence=0 metadata=1920x1080"));
    ck_assert_ptr_nonnull(strstr(stage_say(importer, "check l 5 s"), " bytes=70000"));
}
END_TEST

START_TEST(name_is_published_again_and_again_and_never_read_as_a_former_block)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    for (unsigned number = 1; number <= 40; number++) {
        stage_say(exporter, "share a %u s", number);
        stage_say(importer, "acquire i a l 0 s; check l %u s; release l s", number);
        stage_say(exporter, "withdraw a");
    }
    stage_until(exporter, " blocks=0 leases=0 mappings=0", "info");
}
END_TEST

/* Captures ----------------------------------------------------------------------------------------------------------------------------- */

START_TEST(stream_that_captures_is_refused_and_goes_on_capturing)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s; malloc b 1MiB s; ring r 1MiB 2 block s");
    stage_say(importer, "reader i q r 1");
    stage_say(exporter, "take r x 1MiB 0 s; take r y 1MiB 0 s; push r x s");
    stage_say(importer, "acquire i a l 0 s");
    stage_say(exporter, "capture s");
    stage_say(importer, "capture s");
    stage_refuses(exporter, "WEIR_CAPTURING", "publish b b s");
    stage_refuses(exporter, "WEIR_CAPTURING", "push r y s");
    stage_refuses(exporter, "WEIR_CAPTURING", "drop r y s");
    stage_refuses(importer, "WEIR_CAPTURING", "acquire i a m 0 s");
    stage_refuses(importer, "WEIR_CAPTURING", "release l s");
    stage_say(exporter, "capture_end s");
    stage_say(importer, "capture_end s; check l 3 s; release l s");
    stage_until(exporter, " blocks=3 leases=1 ", "info"); /* that of the frame */
    stage_say(exporter, "publish b b s; push r y s");
    stage_say(importer, "next q m 20000 s; acquire i b n 0 s");
}
END_TEST

START_TEST(service_thread_disturbs_no_capture)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s");
    stage_say(importer, "stream t; acquire i a l 0 t; capture_globally s");
    stage_say(exporter, "capture_globally s");
    stage_say(importer, "release l t");
    stage_say(exporter, "withdraw a");
    stage_until(exporter, " blocks=0 leases=0 mappings=0", "info");
    stage_say(importer, "capture_end s");
    stage_say(exporter, "capture_end s");
}
END_TEST

/* Several ------------------------------------------------------------------------------------------------------------------------------ */

START_TEST(several_importers_lease_one_block)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importers[4];
    stage_say(exporter, "share a 3 s");
    for (int i = 0; i < 4; i++) {
        importers[i] = stage_importer("importer");
        stage_say(importers[i], "acquire i a l 0 s; check l 3 s");
    }
    const char *info = stage_say(exporter, "info");
    ck_assert_ptr_nonnull(strstr(info, " importers=4 hung=0 evicted=0 blocks=1 leases=4 mappings=4"));
    for (int i = 0; i < 4; i++)
        stage_say(importers[i], "release l s");
    stage_until(exporter, " leases=0 mappings=4", "info");
}
END_TEST

START_TEST(leases_of_one_block_share_its_mapping)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s");
    unsigned long long ptr = stage_number(stage_say(importer, "acquire i a l 0 s"), "ptr");
    ck_assert_uint_eq(stage_number(stage_say(importer, "acquire i a m 0 s"), "ptr"), ptr);
    ck_assert_ptr_nonnull(strstr(stage_say(exporter, "info"), " leases=2 mappings=1"));
    stage_say(importer, "release l s");
    stage_until(exporter, " leases=1 mappings=1", "info");
    stage_say(importer, "check m 3 s; release m s");
    stage_until(exporter, " leases=0 mappings=1", "info");
}
END_TEST

START_TEST(mapping_outlives_the_lease_and_serves_the_next)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s");
    unsigned long long ptr = stage_number(stage_say(importer, "acquire i a l 0 s"), "ptr");
    stage_say(importer, "release l s");
    stage_until(exporter, " leases=0 mappings=1", "info");
    ck_assert_uint_eq(stage_number(stage_say(importer, "acquire i a l 0 s"), "ptr"), ptr);
}
END_TEST

/* Names -------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(name_that_is_not_published_is_not_found)
{
    struct player *importer;
    stage_exporter("exporter", NULL);
    importer = stage_importer("importer");
    stage_refuses(importer, "WEIR_NOT_FOUND", "acquire i a l 0 s");
    stage_refuses(importer, "WEIR_INVALID", "acquire i no/name l 0 s");
}
END_TEST

START_TEST(acquire_waits_until_the_name_is_published)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_tell(importer, "acquire i a l 60000 s");
    stage_until(exporter, " messages=3", "messages");
    stage_say(exporter, "share b 4 s; share a 3 s");
    stage_hear(importer);
    stage_say(importer, "check l 3 s");
}
END_TEST

START_TEST(acquire_that_waited_in_vain_leaves_no_lease)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_refuses(importer, "WEIR_TIMEOUT", "acquire i a l 30 s");
    stage_say(exporter, "share a 3 s");
    ck_assert_ptr_nonnull(strstr(stage_say(exporter, "info"), " leases=0 mappings=0"));
    stage_say(importer, "acquire i a l 30 s; check l 3 s");
}
END_TEST

START_TEST(withdrawn_block_is_used_on_by_who_leases_it_and_found_by_nobody)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s");
    stage_say(importer, "acquire i a l 0 s");
    stage_say(exporter, "withdraw a");
    stage_refuses(exporter, "WEIR_NOT_FOUND", "withdraw a");
    stage_refuses(importer, "WEIR_NOT_FOUND", "acquire i a m 0 s");
    stage_say(importer, "check l 3 s");
    ck_assert_ptr_nonnull(strstr(stage_say(exporter, "info"), " blocks=1 leases=1 mappings=1"));
    stage_say(importer, "release l s");
    stage_until(exporter, " blocks=0 leases=0 mappings=0", "info");
}
END_TEST

START_TEST(withdrawn_block_that_is_only_mapped_is_given_back_unasked)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s");
    stage_say(importer, "acquire i a l 0 s; release l s");
    stage_until(exporter, " leases=0 mappings=1", "info");
    stage_say(exporter, "withdraw a");
    stage_until(exporter, " blocks=0 leases=0 mappings=0", "info");
}
END_TEST

START_TEST(name_serves_another_block_while_the_former_is_leased)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_say(exporter, "share a 3 s");
    stage_say(importer, "acquire i a l 0 s");
    stage_say(exporter, "withdraw a; share a 4 s");
    stage_say(importer, "acquire i a m 0 s; check l 3 s; check m 4 s; release l s");
    stage_until(exporter, " blocks=1 leases=1 mappings=1", "info");
    stage_say(importer, "check m 4 s");
}
END_TEST

/* Refusals ----------------------------------------------------------------------------------------------------------------------------- */

START_TEST(published_block_is_not_its_user_s_to_free_or_to_publish_again)
{
    struct player *exporter = stage_exporter("exporter", NULL);
    stage_say(exporter, "malloc a 1MiB s; malloc b 1MiB s; publish a a s");
    stage_refuses(exporter, "WEIR_BUSY", "free a s");
    stage_refuses(exporter, "WEIR_BUSY", "publish other a s");
    stage_refuses(exporter, "WEIR_BUSY", "publish a b s");
    stage_refuses(exporter, "WEIR_INVALID", "publish no/name b s");
    stage_refuses(exporter, "WEIR_INVALID", "publish b b s 1048577");
    stage_say(exporter, "free b s; forget a");
}
END_TEST

START_TEST(metadata_beyond_its_limit_is_refused_and_at_the_limit_arrives)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    char metadata[258];
    memset(metadata, 'x', 257);
    metadata[257] = '\0';
    stage_say(exporter, "malloc a 1MiB s");
    stage_refuses(exporter, "WEIR_INVALID", "publish a a s 0 %s", metadata);
    metadata[256] = '\0';
    stage_say(exporter, "publish a a s 0 %s", metadata);
    const char *answer = stage_say(importer, "acquire i a l 0 s");
    ck_assert_str_eq(strstr(answer, "metadata=") + strlen("metadata="), metadata);
}
END_TEST

START_TEST(block_above_ipc_max_block_is_refused_when_it_is_allocated)
{
    struct player *exporter = stage_enter((struct role){
        .name = "exporter",
        .policy = "weir: 1\npools:\n  frames: { devices: [0], ipc: posix_fd, ipc_max_block: 2MiB, share: { socket: frames } }\n" });
    stage_say(exporter, "export frames");
    const char *text = stage_refuses(exporter, "WEIR_INVALID", "malloc a 3MiB s");
    ck_assert_ptr_nonnull(strstr(text, "ipc_max_block"));
    stage_refuses(exporter, "WEIR_INVALID", "ring r 3MiB 4 block s");
    stage_say(exporter, "share a 1 s");
}
END_TEST

START_TEST(scrub_clears_what_an_earlier_block_left)
{
    struct player *exporter = stage_exporter("exporter", ", scrub: true"), *importer = stage_importer("importer");
    stage_say(exporter, "malloc a 65536 s; fill a 9 s; free a s; malloc a 65536 s; publish a a s");
    stage_say(importer, "acquire i a l 0 s; check l 0 s");
}
END_TEST

START_TEST(pool_is_exported_once_and_only_if_the_policy_says_so)
{
    struct player *exporter = stage_exporter("exporter", NULL), *other;
    stage_refuses(exporter, "WEIR_BUSY", "export frames");
    other = stage_enter((struct role){ .name = "other", .policy = stage_exporter_policy(NULL) });
    stage_refuses(other, "WEIR_BUSY", "export frames");
    other = stage_guest("third");
    stage_refuses(other, "WEIR_INVALID", "export own");
}
END_TEST

START_TEST(process_imports_a_pool_once_at_a_time)
{
    struct player *exporter = stage_exporter("exporter", NULL), *importer = stage_importer("importer");
    stage_refuses(importer, "WEIR_BUSY", "import j frames");
    ck_assert_ptr_nonnull(strstr(stage_say(exporter, "info"), " importers=1 "));
    stage_say(importer, "import_close i; import j frames");
    ck_assert_ptr_nonnull(strstr(stage_say(exporter, "info"), " importers=1 "));
}
END_TEST

START_TEST(no_more_importers_are_let_in_than_the_policy_has)
{
    struct player *exporter = stage_exporter("exporter", ", max_importers: 1"), *first = stage_importer("first");
    struct player *second = stage_guest("second");
    const char *text = stage_refuses(second, "WEIR_REFUSED", "import i frames");
    ck_assert_ptr_nonnull(strstr(text, "max_importers"));
    stage_say(first, "import_close i");
    stage_say(second, "import i frames");
    stage_say(exporter, "reload %s", stage_policy_file("more", stage_exporter_policy(", max_importers: 2")));
    stage_say(first, "import i frames");
}
END_TEST

/* It was let in, and could not import: as long as it counted, it would be kept out. */
START_TEST(importer_that_cannot_import_leaves_in_good_order)
{
    struct player *exporter = stage_exporter("exporter", NULL);
    struct player *importer = stage_guest("importer");
    for (int i = 0; i < 3; i++) {
        stage_say(importer, "fail_call pool_import 1");
        stage_refuses(importer, "WEIR_CUDA_ERROR", "import i frames");
    }
    stage_until(exporter, " importers=0 ", "info");
    stage_leave(importer);
}
END_TEST

START_TEST(importer_that_does_not_see_the_exporters_gpu_is_told_so)
{
    struct player *exporter = stage_exporter("exporter", NULL);
    struct player *importer = stage_enter((struct role){ .name = "importer", .policy = stage_importer_policy(), .sim = "memory=1GiB" });
    ck_assert_ptr_nonnull(strstr(stage_refuses(importer, "WEIR_NOT_FOUND", "import i frames"), "not visible"));
    stage_until(exporter, " importers=0 ", "info");
    stage_leave(importer);
}
END_TEST

START_TEST(nobody_listens_is_gone)
{
    struct player *importer = stage_guest("importer");
    stage_refuses(importer, "WEIR_GONE", "import i frames");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hand_over");
    TCase *data = stage_case(suite, "data");
    suite_add(data, block_of_a_name_is_read_as_it_was_written, acquire_does_not_wait_for_the_producer_but_the_stream_does,
              host_waits_gives_a_lease_out_once_the_producer_is_done, block_is_not_freed_before_the_consumer_s_stream_came_to_the_release,
              metadata_and_size_are_known_before_the_use, name_is_published_again_and_again_and_never_read_as_a_former_block);
    TCase *captures = stage_case(suite, "captures");
    suite_add(captures, stream_that_captures_is_refused_and_goes_on_capturing, service_thread_disturbs_no_capture);
    TCase *several = stage_case(suite, "several");
    suite_add(several, several_importers_lease_one_block, leases_of_one_block_share_its_mapping,
              mapping_outlives_the_lease_and_serves_the_next);
    TCase *names = stage_case(suite, "names");
    suite_add(names, name_that_is_not_published_is_not_found, acquire_waits_until_the_name_is_published,
              acquire_that_waited_in_vain_leaves_no_lease, withdrawn_block_is_used_on_by_who_leases_it_and_found_by_nobody,
              withdrawn_block_that_is_only_mapped_is_given_back_unasked, name_serves_another_block_while_the_former_is_leased);
    TCase *refusals = stage_case(suite, "refusals");
    suite_add(refusals, published_block_is_not_its_user_s_to_free_or_to_publish_again,
              metadata_beyond_its_limit_is_refused_and_at_the_limit_arrives, block_above_ipc_max_block_is_refused_when_it_is_allocated,
              scrub_clears_what_an_earlier_block_left, pool_is_exported_once_and_only_if_the_policy_says_so,
              process_imports_a_pool_once_at_a_time, no_more_importers_are_let_in_than_the_policy_has);
    if (stage_is_simulated()) {
        suite_add(refusals, importer_that_cannot_import_leaves_in_good_order, importer_that_does_not_see_the_exporters_gpu_is_told_so);
    }
    suite_add(refusals, nobody_listens_is_gone);
    return suite_run(suite);
}
