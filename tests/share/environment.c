/* SPDX-License-Identifier: MIT */
/* The environment is read while a weir is opened, on that thread, and by no other call: setenv() in one thread moves what getenv() reads. */
#include "config.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/share/control_scene.h"
#include "tests/support/suite.h"

static atomic_bool is_counted;
static atomic_uint reads;
static char last_read[64];

static char *look_up(const char *function, const char *name)
{
    char *(*real)(const char *name);
    *(void **)&real = dlsym(RTLD_NEXT, function);
    bool is_of_check = strncmp(name, "CK_", 3) == 0;
    if (!is_of_check && atomic_load(&is_counted) && atomic_fetch_add(&reads, 1) == 0)
        snprintf(last_read, sizeof last_read, "%s", name);
    return real(name);
}

/* In place of the C library's, for all code of this program. */
char *getenv(const char *name)
{
    return look_up("getenv", name);
}

char *secure_getenv(const char *name)
{
    return look_up("secure_getenv", name);
}

static void expect_no_read(void)
{
    atomic_store(&is_counted, false);
    ck_assert_msg(atomic_load(&reads) == 0, "%u variables were read, first %s", atomic_load(&reads), last_read);
}

/* Everything that looks at variables: neighbours are asked, a trace is written, and the socket of an export has a name. */
static void open_scene(void)
{
    char policy[512];
    weir_close(scene.w);
    scene.w = NULL;
    setenv("XDG_RUNTIME_DIR", scene.runtime, 1);
    setenv("RANK", "3", 1);
    snprintf(policy, sizeof policy,
             "weir: 1\ncontrol: true\nrecord: { dump: '%s' }\npools:\n"
             "  main: { devices: [0], ipc: posix_fd, share: { socket: frames }, on_oom: { deadline: 10ms } }\n", scene.runtime);
    scene.w = fixture_open(policy);
    atomic_store(&is_counted, true);
}

START_TEST(request_that_finds_no_memory_reads_none)
{
    void *blocks[5];
    char trace[128];
    size_t count = 0;
    open_scene();
    while (count < 5 && weir_malloc(scene.w, &blocks[count], MIB(512), 0, NULL) == WEIR_OK)
        count++;
    ck_assert_uint_lt(count, 5);
    while (count)
        ck_assert_int_eq(weir_free(scene.w, blocks[--count], NULL), WEIR_OK);
    expect_no_read();
    snprintf(trace, sizeof trace, "%s/weir-%ld-1.weir", scene.runtime, (long)getpid());
    ck_assert_msg(access(trace, F_OK) == 0, "no trace was written");
}
END_TEST

START_TEST(reload_from_outside_reads_none)
{
    open_scene();
    ck_assert_int_eq(scene_answer_to((struct wire_message){ .type = WIRE_RELOAD }).type, WIRE_READY);
    expect_no_read();
}
END_TEST

START_TEST(socket_is_found_where_the_environment_said_when_the_weir_was_opened)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_export *shared;
    open_scene();
    setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
    ck_assert_msg(weir_export_open(fixture_pool(scene.w, "main", 0), &error, &shared) == WEIR_OK, "%s", error.text);
    weir_export_close(shared, 0);
    expect_no_read();
}
END_TEST

START_TEST(closing_reads_none)
{
    open_scene();
    weir_close(scene.w);
    scene.w = NULL;
    expect_no_read();
}
END_TEST

/* A reload of the program's own reads it. */
START_TEST(reload_by_the_program_sees_what_has_changed_and_one_from_outside_does_not)
{
    weir_error error = WEIR_ERROR_INIT;
    setenv("WEIR_CONF", "pools.main.keep=32MiB", 1);
    open_scene();
    setenv("WEIR_CONF", "pools.main.keep=64MiB", 1);
    ck_assert_int_eq(scene_answer_to((struct wire_message){ .type = WIRE_RELOAD }).type, WIRE_READY);
    ck_assert_uint_eq(fixture_figures(scene.w, "main", 0).keep, MIB(32));
    ck_assert_msg(weir_reload(scene.w, NULL, &error) == WEIR_OK, "%s", error.text);
    ck_assert_uint_eq(fixture_figures(scene.w, "main", 0).keep, MIB(64));
    ck_assert_int_eq(scene_answer_to((struct wire_message){ .type = WIRE_RELOAD }).type, WIRE_READY);
    ck_assert_uint_eq(fixture_figures(scene.w, "main", 0).keep, MIB(64));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("environment");
    TCase *tests = suite_case(suite, "environment", 60);
    tcase_add_checked_fixture(tests, scene_open, scene_close);
    suite_add(tests, request_that_finds_no_memory_reads_none, reload_from_outside_reads_none,
              socket_is_found_where_the_environment_said_when_the_weir_was_opened, closing_reads_none,
              reload_by_the_program_sees_what_has_changed_and_one_from_outside_does_not);
    return suite_run(suite);
}
