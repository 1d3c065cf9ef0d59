/* SPDX-License-Identifier: MIT */
/* What share/ asks of lib/: things attached to a weir, blocks that are lent, exportable pools that are made anew, blocks cleared. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/alloc/flush.h"
#include "lib/alloc/free.h"
#include "lib/alloc/lend.h"
#include "lib/attached.h"
#include "lib/pool/settings.h"
#include "tests/api/fixture.h"
#include "tests/support/suite.h"

#define SHARED "weir: 1\npools: { a: { devices: [0], ipc: posix_fd, share: { socket: x } } }\n"

#define CURRENT "weir: 1\npools: { a: { devices: [0], ipc: posix_fd, share: { socket: x }, current: true } }\n"

/* Attaching ---------------------------------------------------------------------------------------------------------------------------- */

struct probe {
    struct weir__attached attached;
    weir *w;
    struct probe *detaches; /* as it closes */
    unsigned order;         /* of its close, from 1; 0: it was not closed */
    bool saw_pool;
};

static bool renew(weir_pool *pool)
{
    int fd;
    if (!weir__pool_renew(pool, &fd))
        return false;
    close(fd);
    return true;
}

static unsigned closed;

static void probe_close(struct weir__attached *attached)
{
    struct probe *probe = (struct probe *)attached;
    void *ptr;
    probe->order = ++closed;
    weir__detach(probe->w, attached);
    if (probe->detaches)
        weir__detach(probe->w, &probe->detaches->attached);
    weir_pool *pool = fixture_pool(probe->w, "a", 0);
    probe->saw_pool = weir_pool_malloc(pool, &ptr, 1000, NULL) == WEIR_OK && weir_free(probe->w, ptr, NULL) == WEIR_OK;
}

static void probe_attach(struct probe *probe, weir *w)
{
    probe->attached.close = probe_close;
    probe->w = w;
    weir__attach(w, &probe->attached);
}

START_TEST(closing_a_weir_closes_what_is_attached_the_latest_first)
{
    struct probe probes[3] = { { .order = 0 } };
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    for (int i = 0; i < 3; i++)
        probe_attach(&probes[i], w);
    weir_close(w);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(probes[i].order, 3 - i);
    fixture_expect_empty();
}
END_TEST

START_TEST(what_is_attached_is_closed_while_pools_still_serve)
{
    struct probe probe = { .order = 0 };
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    probe_attach(&probe, w);
    weir_close(w);
    ck_assert(probe.saw_pool);
    fixture_expect_empty();
}
END_TEST

START_TEST(what_was_detached_is_not_closed)
{
    for (int gone = 0; gone < 3; gone++) {
        struct probe probes[3] = { { .order = 0 } };
        fixture_machine(NULL);
        weir *w = fixture_open(SHARED);
        for (int i = 0; i < 3; i++)
            probe_attach(&probes[i], w);
        weir__detach(w, &probes[gone].attached);
        weir__detach(w, &probes[gone].attached);
        weir_close(w);
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(probes[i].order == 0, i == gone);
        fixture_expect_empty();
    }
}
END_TEST

START_TEST(what_is_closed_may_detach_what_is_to_be_closed_next)
{
    struct probe probes[3] = { { .order = 0 } };
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    for (int i = 0; i < 3; i++)
        probe_attach(&probes[i], w);
    probes[2].detaches = &probes[1];
    weir_close(w);
    ck_assert_uint_eq(probes[1].order, 0);
    ck_assert_uint_eq(probes[0].order, 2);
    fixture_expect_empty();
}
END_TEST

/* Lending ------------------------------------------------------------------------------------------------------------------------------ */

static void *take(weir_pool *pool, size_t size)
{
    weir_error error;
    void *ptr = NULL;
    weir_status status = weir_pool_malloc(pool, &ptr, size, NULL);
    weir_last_error(&error);
    ck_assert_msg(status == WEIR_OK, "%s", error.text);
    return ptr;
}

static void lend(weir_pool *pool, void *ptr)
{
    weir_error error = WEIR_ERROR_INIT;
    size_t size;
    ck_assert_msg(weir__block_lend(pool, ptr, &error, &size) == WEIR_OK, "%s", error.text);
}

static void refuse_lending(weir_pool *pool, void *ptr, weir_status status, const char *words)
{
    weir_error error = WEIR_ERROR_INIT;
    size_t size = 5;
    ck_assert_int_eq(weir__block_lend(pool, ptr, &error, &size), status);
    ck_assert_msg(strstr(error.text, words), "'%s' without '%s'", error.text, words);
    ck_assert_uint_eq(size, 5);
}

START_TEST(lent_block_tells_its_bytes_and_stays_live)
{
    size_t size = 0;
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    void *ptr = take(pool, 1000);
    ck_assert_int_eq(weir__block_lend(pool, ptr, NULL, &size), WEIR_OK);
    ck_assert_uint_eq(size, 1000);
    weir_pool_stats figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.live, 1000);
    ck_assert_uint_eq(figures.live_blocks, 1);
    weir__block_return(pool, ptr);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(lent_block_cannot_be_freed_by_its_user)
{
    weir_error error;
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(s, 1000);
    lend(pool, ptr);
    uint64_t frees = sim_calls("free_async");
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_BUSY);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_BUSY);
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, "published") && strstr(error.text, "weir_export_withdraw"), "%s", error.text);
    ck_assert_uint_eq(sim_calls("free_async"), frees);
    ck_assert_uint_eq(fixture_figures(w, "a", 0).live_blocks, 1);
    weir__block_return(pool, ptr);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(block_is_lent_once_at_a_time)
{
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    void *ptr = take(pool, 1000);
    lend(pool, ptr);
    refuse_lending(pool, ptr, WEIR_BUSY, "published already");
    weir__block_return(pool, ptr);
    lend(pool, ptr);
    weir__block_return(pool, ptr);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(address_of_a_block_that_was_lent_is_an_ordinary_block_again)
{
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    void *ptr = take(pool, 1000);
    lend(pool, ptr);
    weir__block_return(pool, ptr);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    void *again = take(pool, 1000);
    ck_assert_int_eq(weir_free(w, again, NULL), WEIR_OK);
    ck_assert_int_eq(weir_free(w, again, NULL), WEIR_NOT_A_BLOCK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(what_is_no_block_cannot_be_lent)
{
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    char *ptr = take(pool, 10000);
    refuse_lending(pool, ptr + 512, WEIR_NOT_A_BLOCK, "start of a live block");
    refuse_lending(pool, &pool, WEIR_NOT_A_BLOCK, "start of a live block");
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    refuse_lending(pool, ptr, WEIR_NOT_A_BLOCK, "freed already");
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(block_of_another_pool_cannot_be_lent)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\ndefaults: { pool: a }\npools:\n  a: { devices: [0], ipc: posix_fd, share: { socket: x } }\n"
                           "  b: { devices: [0], ipc: posix_fd, share: { socket: y } }\n  c: {}\n");
    void *ptr = take(fixture_pool(w, "b", 0), 1000);
    refuse_lending(fixture_pool(w, "a", 0), ptr, WEIR_INVALID, "another pool than 'a'");
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    ptr = take(fixture_pool(w, "c", 0), 1000);
    refuse_lending(fixture_pool(w, "c", 0), ptr, WEIR_INVALID, "posix_fd");
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(block_of_a_graph_cannot_be_lent)
{
    size_t nodes;
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_stream *s = fixture_stream(w, 0, NULL);
    ck_assert_int_eq(fixture_gpu()->capture_begin(weir_stream_handle(s), GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    void *ptr = fixture_malloc(s, 1000);
    refuse_lending(fixture_pool(w, "a", 0), ptr, WEIR_INVALID, "graph");
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    ck_assert_int_eq(fixture_gpu()->capture_end(weir_stream_handle(s), &nodes), GPU_SUCCESS);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* What the policy says ----------------------------------------------------------------------------------------------------------------- */

static void copy_entry(const struct policy_pool *entry, void *data)
{
    *(struct policy_pool *)data = *entry;
}

START_TEST(entry_of_a_pool_is_that_of_the_latest_reload)
{
    char path[] = "/tmp/weir-attach-XXXXXX";
    static const char after[] = "weir: 1\npools: { a: { devices: [0], ipc: posix_fd, share: { socket: x, max_importers: 3 } } }\n";
    struct policy_pool entry;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { devices: [0], ipc: posix_fd, share: { socket: x } } }\n");
    weir_pool *pool = fixture_pool(w, "a", 0);
    weir__pool_with_entry(pool, copy_entry, &entry);
    ck_assert_uint_eq(entry.share_max_importers, 16);
    int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, after, strlen(after)), (ssize_t)strlen(after));
    close(fd);
    weir_error error = WEIR_ERROR_INIT;
    ck_assert_msg(weir_reload(w, path, &error) == WEIR_OK, "%s", error.text);
    unlink(path);
    weir__pool_with_entry(pool, copy_entry, &entry);
    ck_assert_uint_eq(entry.share_max_importers, 3);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(request_above_the_largest_block_is_refused_with_the_reason)
{
    weir_error error;
    void *ptr = &error;
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: { ipc: posix_fd, ipc_max_block: 1MiB } }\n");
    weir_pool *pool = fixture_pool(w, "a", 0);
    ck_assert_uint_eq(weir__pool_max_block(pool), MIB(1));
    uint64_t mallocs = sim_calls("malloc_async");
    ck_assert_int_eq(weir_pool_malloc(pool, &ptr, MIB(1) + 1, NULL), WEIR_INVALID);
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, "pools.a.ipc_max_block (1 MiB)") && strstr(error.text, "crashes"), "%s", error.text);
    ck_assert_ptr_eq(ptr, &error);
    ck_assert_uint_eq(sim_calls("malloc_async"), mallocs);
    ck_assert_int_eq(weir_malloc(w, &ptr, MIB(1) + 1, 0, NULL), WEIR_INVALID);
    ck_assert_int_eq(weir_malloc(w, &ptr, MIB(1), 0, NULL), WEIR_OK);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(pool_that_is_not_exportable_has_no_largest_block)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    ck_assert_uint_eq(weir__pool_max_block(fixture_pool(w, "a", 0)), UINT64_MAX);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

#define SCRUBBED "weir: 1\npools: { a: { devices: [0], ipc: posix_fd, share: { socket: x, scrub: true } } }\n"

START_TEST(scrubbed_block_has_nothing_of_its_former_user)
{
    static const size_t sizes[] = { 1, 100, 512, 1000, 1 << 20 };
    fixture_machine(NULL);
    weir *w = fixture_open(SCRUBBED);
    weir_stream *s = fixture_stream(w, 0, NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t bytes = (sizes[i] + 511) / 512 * 512;
        unsigned char *seen = malloc(bytes), *former = fixture_malloc(s, bytes);
        ck_assert_int_eq(fixture_gpu()->set_async(former, 0x5A, bytes, weir_stream_handle(s)), GPU_SUCCESS);
        ck_assert_int_eq(weir_stream_free(s, former), WEIR_OK);
        unsigned char *ptr = fixture_malloc(s, sizes[i]);
        ck_assert_ptr_eq(ptr, former);
        ck_assert_int_eq(fixture_gpu()->copy_async(seen, ptr, bytes, weir_stream_handle(s)), GPU_SUCCESS);
        fixture_synchronize(s);
        for (size_t at = 0; at < bytes; at++)
            ck_assert_msg(seen[at] == 0, "byte %zu of %zu", at, sizes[i]);
        ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
        free(seen);
    }
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(block_that_cannot_be_cleared_is_given_back)
{
    weir_error error;
    void *ptr = NULL;
    fixture_machine(NULL);
    weir *w = fixture_open(SCRUBBED);
    weir_stream *s = fixture_stream(w, 0, NULL);
    sim_fail("set_async", 1, GPU_UNKNOWN);
    ck_assert_int_eq(weir_stream_malloc(s, &ptr, 1000), WEIR_CUDA_ERROR);
    weir_last_error(&error);
    ck_assert_msg(strstr(error.text, "share.scrub") && error.cuda_code == GPU_UNKNOWN, "%s", error.text);
    ck_assert_ptr_null(ptr);
    weir_pool_stats figures = fixture_figures(w, "a", 0);
    ck_assert_uint_eq(figures.live, 0);
    ck_assert_uint_eq(figures.used, 0);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(pools_without_scrub_set_nothing)
{
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    void *ptr = take(fixture_pool(w, "a", 0), 1000);
    ck_assert_uint_eq(sim_calls("set_async"), 0);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* Pools made anew ---------------------------------------------------------------------------------------------------------------------- */

static bool is_another_file(int a, int b)
{
    struct stat first, second;
    ck_assert_int_eq(fstat(a, &first), 0);
    ck_assert_int_eq(fstat(b, &second), 0);
    return first.st_ino != second.st_ino;
}

START_TEST(pool_made_anew_is_another_one_that_serves)
{
    int before = -1, after = -1;
    struct sim_census census;
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    ck_assert_int_eq(weir__pool_export(pool, &before), GPU_SUCCESS);
    ck_assert(renew(pool));
    ck_assert_int_eq(weir__pool_export(pool, &after), GPU_SUCCESS);
    ck_assert(is_another_file(before, after));
    sim_census(&census);
    ck_assert_uint_eq(census.pools, 1);
    void *ptr = take(pool, MIB(10));
    ck_assert_uint_eq(fixture_attribute(weir_pool_handle(pool), GPU_POOL_USED), MIB(10));
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    close(before);
    close(after);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* Another thread may publish as soon as it gets memory of the new pool. */
START_TEST(block_of_a_pool_made_anew_can_be_exported_at_once)
{
    struct gpu_shared_block shared;
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    ck_assert(renew(pool));
    void *ptr = take(pool, 1000);
    ck_assert_int_eq(fixture_gpu()->block_export(ptr, &shared), GPU_SUCCESS);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(pool_with_a_live_block_is_not_made_anew)
{
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    gpu_pool handle = weir_pool_handle(pool);
    void *ptr = take(pool, 1000);
    ck_assert(!renew(pool));
    ck_assert_ptr_eq(weir_pool_handle(pool), handle);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(pool_with_a_free_behind_a_kernel_is_not_made_anew_until_it_is_complete)
{
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(s, MIB(10));
    ck_assert_int_eq(fixture_gpu()->delay(weir_stream_handle(s), UINT64_C(1000000000)), GPU_SUCCESS);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    ck_assert(!renew(pool));
    fixture_synchronize(s);
    ck_assert(renew(pool));
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(pool_is_made_anew_once_frees_are_complete_whatever_the_figures_say)
{
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    weir_stream *s = fixture_stream(w, 0, NULL);
    struct sim_census census;
    void *ptr = fixture_malloc(s, MIB(10));
    struct gpu_shared_block shared;
    int fd = -1;
    lend(pool, ptr);
    ck_assert_int_eq(weir__pool_export(pool, &fd), GPU_SUCCESS);
    ck_assert_int_eq(fixture_gpu()->block_export(ptr, &shared), GPU_SUCCESS);
    close(fd);
    weir__block_return(pool, ptr);
    ck_assert_int_eq(fixture_gpu()->delay(weir_stream_handle(s), UINT64_C(1000000000)), GPU_SUCCESS);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    sim_census(&census);
    ck_assert_uint_eq(census.events, 1);
    ck_assert(!renew(pool));
    fixture_synchronize(s);
    ck_assert_uint_gt(fixture_attribute(weir_pool_handle(pool), GPU_POOL_RESERVED), 0);
    ck_assert(renew(pool));
    ck_assert_uint_eq(fixture_attribute(weir_pool_handle(pool), GPU_POOL_RESERVED), 0);
    ck_assert(weir__wait_for_frees(&w->devices[0], 0, false)); /* the stream's line has one, too */
    sim_census(&census);
    ck_assert_uint_eq(census.events, 0);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(pool_with_a_free_that_left_no_trace_is_never_made_anew)
{
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    void *ptr = take(pool, MIB(10));
    ck_assert_int_eq(fixture_gpu()->free_async(ptr, NULL), GPU_SUCCESS);
    ck_assert_ptr_eq(take(pool, MIB(10)), ptr);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    ck_assert_int_eq(fixture_gpu()->device_synchronize(0), GPU_SUCCESS);
    ck_assert(!renew(pool));
    weir_close(w);
    struct sim_census census;
    sim_census(&census);
    ck_assert_uint_eq(census.pools, 1);
    fixture_machine(NULL);
}
END_TEST

START_TEST(free_whose_first_event_fails_is_noted_all_the_same)
{
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    void *ptr = take(pool, MIB(10));
    sim_fail("event_record", 1, GPU_OUT_OF_MEMORY);
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    ck_assert_int_eq(fixture_gpu()->device_synchronize(0), GPU_SUCCESS);
    ck_assert(renew(pool));
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

static int refuse_to_record(gpu_event event, gpu_stream stream)
{
    (void)event, (void)stream;
    return GPU_UNKNOWN;
}

/* Rather than crash the driver, which a pool with pending frees would when it is destroyed. */
START_TEST(free_that_gets_no_event_keeps_the_pool_for_good)
{
    struct sim_census census;
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    struct weir__fences *fences = w->devices[0].fences;
    struct gpu refusing = *fences->gpu;
    refusing.event_record = refuse_to_record;
    void *ptr = take(pool, MIB(10));
    fences->gpu = &refusing;
    ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
    fences->gpu = fixture_gpu();
    ck_assert_int_eq(fixture_gpu()->device_synchronize(0), GPU_SUCCESS);
    ck_assert(!renew(pool));
    ck_assert_int_eq(weir_free(w, take(pool, MIB(10)), NULL), WEIR_OK);
    ck_assert_int_eq(fixture_gpu()->device_synchronize(0), GPU_SUCCESS);
    ck_assert(!renew(pool));
    weir_close(w);
    weir__debts_sweep(fixture_gpu());
    sim_census(&census);
    ck_assert_uint_eq(census.pools, 1);
    ck_assert_uint_eq(census.events, 0);
    fixture_machine(NULL);
}
END_TEST

START_TEST(free_on_a_stream_of_another_device_is_noted)
{
    fixture_machine("devices=2");
    weir *w = fixture_open("weir: 1\ndefaults: { pool: a }\npools:\n  a: { devices: [0], ipc: posix_fd, share: { socket: x }, peer_access: [1] }\n"
                           "  b: { devices: [1] }\nstreams: { s: { pool: b } }\n");
    weir_pool *pool = fixture_pool(w, "a", 0);
    gpu_stream stream;
    ck_assert_int_eq(fixture_gpu()->stream_create(1, &stream), GPU_SUCCESS);
    void *ptr = take(pool, MIB(10));
    ck_assert_int_eq(fixture_gpu()->delay(stream, UINT64_C(1000000000)), GPU_SUCCESS);
    ck_assert_int_eq(weir_free(w, ptr, stream), WEIR_OK);
    ck_assert(!renew(pool));
    ck_assert_int_eq(fixture_gpu()->stream_synchronize(stream), GPU_SUCCESS);
    ck_assert(renew(pool));
    ck_assert_int_eq(fixture_gpu()->stream_destroy(stream), GPU_SUCCESS);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* The event behind the later stream's free tells nothing of the earlier stream's, whose handle it has. */
START_TEST(free_on_a_stream_that_is_gone_is_not_taken_for_one_on_the_next_with_its_handle)
{
    const struct gpu *gpu = fixture_gpu();
    gpu_stream first, second;
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    void *early = take(pool, MIB(10)), *late = take(pool, MIB(10));
    ck_assert_int_eq(gpu->stream_create(0, &first), GPU_SUCCESS);
    ck_assert_int_eq(gpu->delay(first, UINT64_C(1000000000)), GPU_SUCCESS);
    ck_assert_int_eq(weir_free(w, early, first), WEIR_OK);
    ck_assert_int_eq(gpu->stream_destroy(first), GPU_SUCCESS);
    ck_assert_int_eq(gpu->stream_create(0, &second), GPU_SUCCESS);
    ck_assert_ptr_eq(second, first);
    for (unsigned i = 0; i < 2 * WEIR__MARKS; i++) {
        ck_assert_int_eq(weir_free(w, late, second), WEIR_OK);
        late = take(pool, MIB(10));
    }
    ck_assert_int_eq(weir_free(w, late, second), WEIR_OK);
    ck_assert_int_eq(gpu->stream_synchronize(second), GPU_SUCCESS);
    ck_assert(!renew(pool));
    ck_assert_int_eq(gpu->device_synchronize(0), GPU_SUCCESS);
    ck_assert(renew(pool));
    ck_assert_int_eq(gpu->stream_destroy(second), GPU_SUCCESS);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* Orphans go back on a stream of Weir's own, on which nobody else can put an event. */
START_TEST(free_of_an_orphan_has_an_event)
{
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    weir_error error;
    uint64_t released;
    ck_assert_int_eq(weir__block_orphan(w, take(pool, MIB(10)), NULL, 0, &error), WEIR_OK);
    ck_assert(!renew(pool));
    uint64_t records = sim_calls("event_record");
    ck_assert_int_eq(weir_pool_trim(pool, 0, NULL, &released), WEIR_OK);
    ck_assert_uint_eq(sim_calls("event_record"), records + 1);
    ck_assert(renew(pool));
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(events_behind_frees_do_not_pile_up)
{
    struct sim_census census;
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_stream *s = fixture_stream(w, 0, NULL);
    weir_pool *pool = fixture_pool(w, "a", 0);
    ck_assert_int_eq(fixture_gpu()->delay(weir_stream_handle(s), UINT64_C(1000000000)), GPU_SUCCESS);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, 1000)), WEIR_OK);
    sim_census(&census);
    ck_assert_uint_le(census.events, WEIR__MARKS + 1);
    ck_assert(!renew(pool));
    fixture_synchronize(s);
    ck_assert(renew(pool));
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(closed_pool_of_which_blocks_were_exported_goes_although_figures_are_left)
{
    struct gpu_shared_block shared;
    int fd = -1;
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    weir_stream *s = fixture_stream(w, 0, NULL);
    void *ptr = fixture_malloc(s, MIB(10));
    ck_assert_int_eq(weir__pool_export(pool, &fd), GPU_SUCCESS);
    ck_assert_int_eq(fixture_gpu()->block_export(ptr, &shared), GPU_SUCCESS);
    close(fd);
    ck_assert_int_eq(fixture_gpu()->delay(weir_stream_handle(s), UINT64_C(1000000000)), GPU_SUCCESS);
    ck_assert_int_eq(weir_stream_free(s, ptr), WEIR_OK);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* What lives on is freed by the program itself, so that no note can tell when it is complete. */
START_TEST(pool_closed_with_a_live_block_goes_once_that_is_free)
{
    struct sim_census census;
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    void *ptr = take(fixture_pool(w, "a", 0), MIB(10));
    weir_close(w);
    sim_census(&census);
    ck_assert_uint_eq(census.pools, 1);
    ck_assert_int_eq(fixture_gpu()->free_async(ptr, NULL), GPU_SUCCESS);
    fixture_expect_empty();
}
END_TEST

/* weir_close() does not wait where something lives on. The event behind the free outlives the weir, as the stream's line does. */
START_TEST(pool_closed_with_a_live_block_and_a_free_behind_a_kernel_goes_once_both_are_complete)
{
    struct sim_census census;
    gpu_stream stream;
    fixture_machine(NULL);
    ck_assert_int_eq(fixture_gpu()->stream_create(0, &stream), GPU_SUCCESS);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    void *live = take(pool, MIB(10)), *freed = take(pool, MIB(10));
    ck_assert_int_eq(fixture_gpu()->delay(stream, UINT64_C(1000000000)), GPU_SUCCESS);
    ck_assert_int_eq(weir_free(w, freed, stream), WEIR_OK);
    weir_close(w);
    ck_assert_int_eq(fixture_gpu()->free_async(live, NULL), GPU_SUCCESS);
    ck_assert_int_eq(fixture_gpu()->stream_synchronize(NULL), GPU_SUCCESS);
    weir_close(fixture_open("weir: 1\npools: { b: {} }\n"));
    sim_census(&census);
    ck_assert_uint_eq(census.pools, 1);
    ck_assert_uint_gt(census.events, 0);
    ck_assert_int_eq(fixture_gpu()->stream_synchronize(stream), GPU_SUCCESS);
    weir_close(fixture_open("weir: 1\npools: { b: {} }\n"));
    sim_census(&census);
    ck_assert_uint_eq(census.pools, 0);
    ck_assert_uint_eq(census.events, 0);
    ck_assert_int_eq(fixture_gpu()->stream_destroy(stream), GPU_SUCCESS);
}
END_TEST

START_TEST(graph_on_a_shared_pool_leaves_no_trace)
{
    size_t nodes;
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_stream *s = fixture_stream(w, 0, NULL);
    ck_assert_int_eq(fixture_gpu()->capture_begin(weir_stream_handle(s), GPU_CAPTURE_MODE_RELAXED), GPU_SUCCESS);
    ck_assert_int_eq(weir_stream_free(s, fixture_malloc(s, 1000)), WEIR_OK);
    ck_assert_int_eq(fixture_gpu()->capture_end(weir_stream_handle(s), &nodes), GPU_SUCCESS);
    ck_assert(renew(fixture_pool(w, "a", 0)));
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(current_pool_with_a_block_that_weir_does_not_know_is_not_made_anew)
{
    const struct gpu *gpu = fixture_gpu();
    gpu_pool current;
    void *ptr;
    fixture_machine(NULL);
    weir *w = fixture_open(CURRENT);
    weir_pool *pool = fixture_pool(w, "a", 0);
    ck_assert_int_eq(gpu->pool_get_current(0, &current), GPU_SUCCESS);
    ck_assert_int_eq(gpu->malloc_async(&ptr, 1000, current, NULL), GPU_SUCCESS);
    ck_assert(!renew(pool));
    ck_assert_int_eq(gpu->free_async(ptr, NULL), GPU_SUCCESS);
    ck_assert_int_eq(gpu->device_synchronize(0), GPU_SUCCESS);
    ck_assert(renew(pool));
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(pool_made_anew_is_the_current_one_if_the_former_was)
{
    const struct gpu *gpu = fixture_gpu();
    gpu_pool first, current;
    fixture_machine(NULL);
    ck_assert_int_eq(gpu->pool_get_current(0, &first), GPU_SUCCESS);
    weir *w = fixture_open(CURRENT);
    weir_pool *pool = fixture_pool(w, "a", 0);
    ck_assert(renew(pool));
    ck_assert_int_eq(gpu->pool_get_current(0, &current), GPU_SUCCESS);
    ck_assert_ptr_eq(current, weir_pool_handle(pool));
    weir_close(w);
    ck_assert_int_eq(gpu->pool_get_current(0, &current), GPU_SUCCESS);
    ck_assert_ptr_eq(current, first);
}
END_TEST

START_TEST(later_current_pool_restores_the_one_made_anew)
{
    const struct gpu *gpu = fixture_gpu();
    gpu_pool current;
    fixture_machine(NULL);
    weir *w = fixture_open(CURRENT);
    weir *later = fixture_open("weir: 1\npools: { b: { current: true } }\n");
    ck_assert(renew(fixture_pool(w, "a", 0)));
    ck_assert_int_eq(gpu->pool_get_current(0, &current), GPU_SUCCESS);
    ck_assert_ptr_eq(current, weir_pool_handle(fixture_pool(later, "b", 0)));
    weir_close(later);
    ck_assert_int_eq(gpu->pool_get_current(0, &current), GPU_SUCCESS);
    ck_assert_ptr_eq(current, weir_pool_handle(fixture_pool(w, "a", 0)));
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(pool_made_anew_keeps_its_cap_its_peers_and_its_reuse_settings)
{
    enum gpu_access access = GPU_ACCESS_NONE;
    void *ptr;
    fixture_machine("devices=2");
    weir *w = fixture_open("weir: 1\npools: { a: { devices: [0], ipc: posix_fd, share: { socket: x }, max_size: 64MiB,\n"
                           "  peer_access: [1], reuse: { opportunistic: false }, on_oom: { steps: [] } } }\n");
    weir_pool *pool = fixture_pool(w, "a", 0);
    ck_assert(renew(pool));
    ck_assert_int_eq(fixture_gpu()->pool_get_access(weir_pool_handle(pool), 1, &access), GPU_SUCCESS);
    ck_assert_int_eq(access, GPU_ACCESS_READ_WRITE);
    ck_assert_uint_eq(fixture_attribute(weir_pool_handle(pool), GPU_POOL_REUSE_OPPORTUNISTIC), 0);
    ck_assert_uint_eq(fixture_attribute(weir_pool_handle(pool), GPU_POOL_REUSE_EVENT_DEPENDENCIES), 1);
    ck_assert_int_eq(weir_pool_malloc(pool, &ptr, MIB(65), NULL), WEIR_OUT_OF_MEMORY);
    ck_assert_int_eq(fixture_gpu()->malloc_async(&ptr, MIB(65), weir_pool_handle(pool), NULL), GPU_OUT_OF_MEMORY);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

START_TEST(pool_that_is_not_exportable_is_not_made_anew)
{
    fixture_machine(NULL);
    weir *w = fixture_open("weir: 1\npools: { a: {} }\n");
    ck_assert(!renew(fixture_pool(w, "a", 0)));
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

/* Each call of the GPU fails in turn: then the former pool is there as it was. */
START_TEST(failed_renewal_changes_nothing)
{
    unsigned failures = 0;
    for (unsigned nth = 1;; nth++) {
        void *ptr;
        gpu_pool current;
        fixture_machine("devices=2");
        weir *w = fixture_open("weir: 1\npools: { a: { devices: [0], ipc: posix_fd, share: { socket: x }, peer_access: [1],\n"
                               "  current: true } }\n");
        weir_pool *pool = fixture_pool(w, "a", 0);
        gpu_pool before = weir_pool_handle(pool);
        uint64_t calls = sim_calls(NULL);
        sim_fail(NULL, nth, GPU_UNKNOWN);
        bool is_new = renew(pool);
        bool is_over = sim_calls(NULL) - calls < nth;
        sim_fail(NULL, 0, 0);
        failures += !is_new;
        ck_assert_int_eq(weir_pool_handle(pool) != before, is_new);
        ck_assert_int_eq(fixture_gpu()->pool_get_current(0, &current), GPU_SUCCESS);
        ck_assert_ptr_eq(current, weir_pool_handle(pool));
        ck_assert_int_eq(weir_pool_malloc(pool, &ptr, 1000, NULL), WEIR_OK);
        ck_assert_int_eq(weir_free(w, ptr, NULL), WEIR_OK);
        weir_close(w);
        if (!is_new || is_over) /* else it was the former pool that CUDA refused to destroy */
            fixture_expect_empty();
        if (is_over)
            break;
    }
    ck_assert_uint_gt(failures, 0);
}
END_TEST

static atomic_bool is_over;

/* Takes and frees blocks, and sometimes waits, so that the pool is empty now and then. */
static void *use_pool(void *pool)
{
    weir *w = ((weir_pool *)pool)->w;
    weir_stream *s = fixture_stream(w, 0, NULL);
    uintptr_t failures = 0;
    for (int i = 0; i < 2000; i++) {
        void *ptr;
        if (weir_stream_malloc(s, &ptr, 1000) != WEIR_OK || weir_stream_free(s, ptr) != WEIR_OK ||
            weir_stream_synchronize(s, NULL) != WEIR_OK)
            failures++;
    }
    weir_stream_close(s);
    return (void *)failures;
}

static void *look_at_figures(void *pool)
{
    weir *w = ((weir_pool *)pool)->w;
    uintptr_t failures = 0;
    while (!atomic_load(&is_over)) {
        weir_stats *stats;
        uint64_t released;
        if (weir_stats_take(w, NULL, &stats) == WEIR_OK)
            weir_stats_free(stats);
        else
            failures++;
        failures += weir_pool_trim(pool, 0, NULL, &released) != WEIR_OK;
        failures += weir_pool_handle(pool) == NULL;
    }
    return (void *)failures;
}

START_TEST(requests_figures_and_trims_beside_renewals_are_served)
{
    pthread_t users[2], looker;
    void *failures;
    unsigned renewals = 0;
    fixture_machine(NULL);
    weir *w = fixture_open(SHARED);
    weir_pool *pool = fixture_pool(w, "a", 0);
    ck_assert_int_eq(pthread_create(&looker, NULL, look_at_figures, pool), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&users[i], NULL, use_pool, pool), 0);
    for (int i = 0; i < 2000; i++)
        renewals += renew(pool);
    for (int i = 0; i < 2; i++) {
        pthread_join(users[i], &failures);
        ck_assert_ptr_null(failures);
    }
    atomic_store(&is_over, true);
    pthread_join(looker, &failures);
    ck_assert_ptr_null(failures);
    renewals += renew(pool);
    ck_assert_uint_gt(renewals, 0);
    weir_close(w);
    fixture_expect_empty();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attach");
    TCase *tcase = suite_case(suite, "attaching", 0);
    suite_add(tcase, closing_a_weir_closes_what_is_attached_the_latest_first, what_is_attached_is_closed_while_pools_still_serve,
              what_was_detached_is_not_closed, what_is_closed_may_detach_what_is_to_be_closed_next);
    tcase = suite_case(suite, "lending", 0);
    suite_add(tcase, lent_block_tells_its_bytes_and_stays_live, lent_block_cannot_be_freed_by_its_user, block_is_lent_once_at_a_time,
              address_of_a_block_that_was_lent_is_an_ordinary_block_again, what_is_no_block_cannot_be_lent,
              block_of_another_pool_cannot_be_lent, block_of_a_graph_cannot_be_lent);
    tcase = suite_case(suite, "policy", 0);
    suite_add(tcase, entry_of_a_pool_is_that_of_the_latest_reload, request_above_the_largest_block_is_refused_with_the_reason,
              pool_that_is_not_exportable_has_no_largest_block, scrubbed_block_has_nothing_of_its_former_user,
              block_that_cannot_be_cleared_is_given_back, pools_without_scrub_set_nothing);
    tcase = suite_case(suite, "made anew", 60);
    suite_add(tcase, pool_made_anew_is_another_one_that_serves, block_of_a_pool_made_anew_can_be_exported_at_once,
              pool_with_a_live_block_is_not_made_anew, pool_with_a_free_behind_a_kernel_is_not_made_anew_until_it_is_complete,
              pool_is_made_anew_once_frees_are_complete_whatever_the_figures_say, pool_with_a_free_that_left_no_trace_is_never_made_anew,
              free_whose_first_event_fails_is_noted_all_the_same, free_that_gets_no_event_keeps_the_pool_for_good,
              free_on_a_stream_of_another_device_is_noted,
              free_on_a_stream_that_is_gone_is_not_taken_for_one_on_the_next_with_its_handle, free_of_an_orphan_has_an_event,
              events_behind_frees_do_not_pile_up, closed_pool_of_which_blocks_were_exported_goes_although_figures_are_left,
              pool_closed_with_a_live_block_goes_once_that_is_free,
              pool_closed_with_a_live_block_and_a_free_behind_a_kernel_goes_once_both_are_complete, graph_on_a_shared_pool_leaves_no_trace,
              current_pool_with_a_block_that_weir_does_not_know_is_not_made_anew, pool_made_anew_is_the_current_one_if_the_former_was,
              later_current_pool_restores_the_one_made_anew, pool_made_anew_keeps_its_cap_its_peers_and_its_reuse_settings,
              pool_that_is_not_exportable_is_not_made_anew, failed_renewal_changes_nothing,
              requests_figures_and_trims_beside_renewals_are_served);
    return suite_run(suite);
}
