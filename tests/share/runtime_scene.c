/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/share/runtime_scene.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char runtime[64];
char directory[SHARE_PATH_SIZE];
uid_t stranger;
char strangers[64];

void set_up(void)
{
    stranger = 20000 + (uid_t)getpid() % 40000;
    snprintf(strangers, sizeof strangers, "/tmp/weir-%u", (unsigned)stranger);
    unsetenv("WEIR_CONTROL_DIR");
    snprintf(runtime, sizeof runtime, "/tmp/weir-query-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(runtime));
    ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", runtime, 1), 0);
    snprintf(directory, sizeof directory, "%s/weir/control", runtime);
}

void tear_down(void)
{
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf %s", runtime);
    ck_assert_int_eq(system(command), 0);
}

void make_directory(void)
{
    char made[SHARE_PATH_SIZE];
    weir_error error = WEIR_ERROR_INIT;
    ck_assert_msg(share_control_directory(&error, made) == WEIR_OK, "%s", error.text);
    ck_assert_str_eq(made, directory);
}

struct share_listener listen_at(const char *name)
{
    struct share_listener listener;
    weir_error error = WEIR_ERROR_INIT;
    char path[2 * SHARE_PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    ck_assert_msg(share_listen(path, 0600, &error, &listener) == WEIR_OK, "%s", error.text);
    return listener;
}

void leave_dead(const char *name)
{
    pid_t child = fork();
    if (child == 0) {
        listen_at(name);
        raise(SIGKILL);
    }
    wait_for(child);
}
