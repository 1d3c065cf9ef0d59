/* SPDX-License-Identifier: MIT */
/*
 * Public structs that begin with their size, as programs have them that were compiled with another version's header: shorter than this
 * library's, and longer. Here because the plug-in of PyTorch has one too; the others come with it.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/plugin/plug.h"

#define SURPLUS 64
#define GARBAGE 0xa5
#define ROOM (sizeof(weir_torch_stats) + SURPLUS)

static const char *const policy = "weir: 1\npools: { p: { devices: [0], ipc: posix_fd, share: { socket: structs } } }\n";

static struct {
    char directory[64];
    weir *w;
    weir_export *e;
} scene;

static void set_up(void)
{
    char why[256] = "";
    weir_error error = WEIR_ERROR_INIT;
    weir_options options = { .size = sizeof options, .policy_text = policy, .gpu = "sim" };
    weir_pool *pool;
    strcpy(scene.directory, "/tmp/weir-structs-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scene.directory));
    setenv("XDG_RUNTIME_DIR", scene.directory, 1);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    setenv("WEIR_GPU", "sim", 1);
    ck_assert_msg(sim_configure("memory=1GiB", why, sizeof why) == 0, "%s", why);
    ck_assert_msg(weir_open(&options, &error, &scene.w) == WEIR_OK, "%s", error.text);
    ck_assert_msg(weir_pool_get(scene.w, NULL, 0, &error, &pool) == WEIR_OK, "%s", error.text);
    ck_assert_msg(weir_export_open(pool, &error, &scene.e) == WEIR_OK, "%s", error.text);
}

static void tear_down(void)
{
    char command[128];
    weir_close(scene.w);
    snprintf(command, sizeof command, "rm -rf %s", scene.directory);
    ck_assert_int_eq(system(command), 0);
}

/* The calls that take such structs ----------------------------------------------------------------------------------------------------- */

static weir_status call_open(void *options, weir_error *error)
{
    weir *w;
    weir_status status = weir_open(options, error, &w);
    if (status == WEIR_OK)
        weir_close(w);
    return status;
}

static weir_status call_configure(void *options, weir_error *error)
{
    return weir_torch_configure(options, error);
}

static weir_status call_import(void *options, weir_error *error)
{
    weir_import *i;
    return weir_import_open(scene.w, "nobody", options, error, &i);
}

static weir_status call_ring(void *options, weir_error *error)
{
    weir_ring *ring;
    weir_status status = weir_ring_open(scene.e, "ring", options, NULL, error, &ring);
    if (status == WEIR_OK)
        weir_ring_close(ring);
    return status;
}

static weir_status call_info(void *info, weir_error *error)
{
    (void)error;
    return weir_export_get_info(scene.e, info);
}

static weir_status call_ring_info(void *info, weir_error *error)
{
    weir_ring_options options = { .size = sizeof options, .slot_size = 4096, .depth = 2 };
    weir_ring *ring;
    weir_status status = weir_ring_open(scene.e, "ring", &options, NULL, error, &ring);
    if (status != WEIR_OK)
        return status;
    status = weir_ring_get_info(ring, info);
    weir_ring_close(ring);
    return status;
}

static weir_status call_torch(void *stats, weir_error *error)
{
    return weir_torch_stats_take(0, error, stats);
}

static const weir_options open_options = { .size = sizeof open_options };
static const weir_import_options import_options = { .size = sizeof import_options };
static const weir_ring_options ring_options = { .size = sizeof ring_options, .slot_size = 4096, .depth = 2 };
static const weir_export_info export_info = { .size = sizeof export_info };
static const weir_ring_info ring_info = { .size = sizeof ring_info };
static const weir_torch_stats torch_stats = { .size = sizeof torch_stats };

/* Each public struct with a size. `first`: where the first member begins that an older one lacks. */
static const struct row {
    const char *name;
    weir_status (*call)(void *given, weir_error *error);
    const void *good;
    size_t size, first;
    bool is_filled;
    weir_status status; /* of the call with a good struct, */
    weir_status shortened; /* and with one that ends before `first`: a ring needs its depth */
} rows[] = {
    { "weir_options", call_open, &open_options, sizeof open_options, offsetof(weir_options, policy_file), false, WEIR_OK, WEIR_OK },
    { "weir_options", call_open, &open_options, sizeof open_options, offsetof(weir_options, log), false, WEIR_OK, WEIR_OK },
    { "weir_options", call_configure, &open_options, sizeof open_options, offsetof(weir_options, policy_text), false, WEIR_OK, WEIR_OK },
    { "weir_import_options", call_import, &import_options, sizeof import_options, offsetof(weir_import_options, timeout_ms), false,
      WEIR_GONE, WEIR_GONE },
    { "weir_ring_options", call_ring, &ring_options, sizeof ring_options, offsetof(weir_ring_options, depth), false, WEIR_OK,
      WEIR_INVALID },
    { "weir_ring_options", call_ring, &ring_options, sizeof ring_options, offsetof(weir_ring_options, late), false, WEIR_OK, WEIR_OK },
    { "weir_export_info", call_info, &export_info, sizeof export_info, offsetof(weir_export_info, importers), true, WEIR_OK, WEIR_OK },
    { "weir_export_info", call_info, &export_info, sizeof export_info, offsetof(weir_export_info, pushed), true, WEIR_OK, WEIR_OK },
    { "weir_ring_info", call_ring_info, &ring_info, sizeof ring_info, offsetof(weir_ring_info, pushed), true, WEIR_OK, WEIR_OK },
    { "weir_torch_stats", call_torch, &torch_stats, sizeof torch_stats, offsetof(weir_torch_stats, memory_free), true, WEIR_OK, WEIR_OK },
};
#define ROWS ((int)(sizeof rows / sizeof rows[0]))

/* The struct with another size, in memory of that size, so that who looks behind it is found by valgrind and the sanitizers; `behind`: what
   is between its own members and its end. */
static unsigned char *resize(const struct row *row, size_t size, int behind)
{
    unsigned char *given = malloc(size);
    ck_assert_ptr_nonnull(given);
    memset(given, behind, size);
    memcpy(given, row->good, size < row->size ? size : row->size);
    memcpy(given, &size, sizeof size);
    return given;
}

static void expect(const struct row *row, const void *given, weir_status seen, weir_status status, const weir_error *error)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    ck_assert_msg(seen == status, "%s of %zu bytes: %s instead of %s: %s", row->name, size, weir_status_name(seen),
                  weir_status_name(status), error->text);
}

static void call_with(const struct row *row, size_t size, int behind, weir_status status)
{
    weir_error error = WEIR_ERROR_INIT;
    unsigned char *given = resize(row, size, behind);
    expect(row, given, row->call(given, &error), status, &error);
    if (row->is_filled && size > row->size)
        ck_assert(plug_all(given + row->size, 0, size - row->size));
    free(given);
}

START_TEST(struct_of_this_version_is_taken)
{
    call_with(&rows[_i], rows[_i].size, 0, rows[_i].status);
}
END_TEST

START_TEST(struct_of_an_older_program_is_taken_and_what_it_lacks_is_0)
{
    call_with(&rows[_i], rows[_i].first, 0, rows[_i].shortened);
}
END_TEST

START_TEST(nothing_behind_the_struct_of_an_older_program_is_looked_at_or_written)
{
    const struct row *row = &rows[_i];
    weir_error error = WEIR_ERROR_INIT;
    unsigned char *given = resize(row, ROOM, GARBAGE);
    memset(given + row->first, GARBAGE, ROOM - row->first);
    memcpy(given, &row->first, sizeof row->first);
    expect(row, given, row->call(given, &error), row->shortened, &error);
    ck_assert(plug_all(given + row->first, GARBAGE, ROOM - row->first));
    free(given);
}
END_TEST

START_TEST(struct_of_a_newer_program_that_asks_for_nothing_new_is_taken)
{
    call_with(&rows[_i], rows[_i].size + SURPLUS, 0, rows[_i].status);
}
END_TEST

START_TEST(what_a_newer_program_asks_for_beyond_this_library_is_refused_and_figures_beyond_it_are_0)
{
    const struct row *row = &rows[_i];
    call_with(row, row->size + SURPLUS, GARBAGE, row->is_filled ? row->status : WEIR_INVALID);
}
END_TEST

START_TEST(size_that_no_struct_can_have_is_refused)
{
    static const size_t sizes[] = { 0, 1, sizeof(size_t) - 1, sizeof(size_t) + 1, 4096 + sizeof(size_t), SIZE_MAX, SIZE_MAX / 2 + 1 };
    const struct row *row = &rows[_i];
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        weir_error error = WEIR_ERROR_INIT;
        unsigned char *given = resize(row, row->size, 0);
        memcpy(given, &sizes[n], sizeof sizes[n]);
        expect(row, given, row->call(given, &error), WEIR_INVALID, &error);
        ck_assert_msg(!error.status || strstr(error.text, row->name), "%s is not in: %s", row->name, error.text);
        free(given);
    }
}
END_TEST

START_TEST(figures_of_an_older_program_are_those_of_this_version)
{
    struct {
        size_t size;
        uint64_t epoch;
    } older = { .size = sizeof older };
    weir_export_info info = { .size = sizeof info };
    ck_assert_int_eq(weir_export_get_info(scene.e, &info), WEIR_OK);
    ck_assert_int_eq(weir_export_get_info(scene.e, (weir_export_info *)(void *)&older), WEIR_OK);
    ck_assert_uint_eq(older.size, sizeof older);
    ck_assert_uint_eq(info.epoch, 1);
    ck_assert_uint_eq(older.epoch, info.epoch);
}
END_TEST

START_TEST(rungs_that_are_added_move_no_other_figure)
{
    ck_assert_uint_gt(WEIR_RUNG_MAX, WEIR_RUNG_COUNT);
    ck_assert_uint_eq(sizeof(((weir_device_stats *)NULL)->rescues), WEIR_RUNG_MAX * sizeof(uint64_t));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("structs");
    TCase *tcase = suite_case(suite, "structs", 0);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, struct_of_this_version_is_taken, 0, ROWS);
    tcase_add_loop_test(tcase, struct_of_an_older_program_is_taken_and_what_it_lacks_is_0, 0, ROWS);
    tcase_add_loop_test(tcase, nothing_behind_the_struct_of_an_older_program_is_looked_at_or_written, 0, ROWS);
    tcase_add_loop_test(tcase, struct_of_a_newer_program_that_asks_for_nothing_new_is_taken, 0, ROWS);
    tcase_add_loop_test(tcase, what_a_newer_program_asks_for_beyond_this_library_is_refused_and_figures_beyond_it_are_0, 0, ROWS);
    tcase_add_loop_test(tcase, size_that_no_struct_can_have_is_refused, 0, ROWS);
    suite_add(tcase, figures_of_an_older_program_are_those_of_this_version, rungs_that_are_added_move_no_other_figure);
    return suite_run(suite);
}
