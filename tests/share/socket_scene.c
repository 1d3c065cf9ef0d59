/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/share/socket_scene.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char directory[64];
char path[SHARE_PATH_SIZE];

static void begin(void)
{
    snprintf(directory, sizeof directory, "/tmp/weir-socket-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/frames", directory);
    unsetenv("XDG_RUNTIME_DIR");
}

static void end(void)
{
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    ck_assert_int_eq(system(command), 0);
}

struct share_listener listen_at(const char *at)
{
    struct share_listener listener;
    weir_error error = WEIR_ERROR_INIT;
    ck_assert_msg(share_listen(at, 0600, &error, &listener) == WEIR_OK, "%s", error.text);
    return listener;
}

int connect_to(const char *at)
{
    weir_error error = WEIR_ERROR_INIT;
    int fd = -1;
    ck_assert_msg(connect_within(at, 1000, &error, &fd) == WEIR_OK, "%s", error.text);
    return fd;
}

void expect(weir_status status, weir_status wanted, const weir_error *error, const char *first, const char *second)
{
    ck_assert_msg(status == wanted, "%s: %s", weir_status_name(status), error->text);
    ck_assert_msg(strstr(error->text, first) && strstr(error->text, second), "'%s' without '%s' or '%s'", error->text, first, second);
}

TCase *scene_case(Suite *suite, const char *name)
{
    TCase *tcase = suite_case(suite, name, 0);
    tcase_add_checked_fixture(tcase, begin, end);
    return tcase;
}
