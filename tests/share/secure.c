/* SPDX-License-Identifier: MIT */
/*
 * A program that runs with more rights than its caller (set-user-ID, set-group-ID, file capabilities; AT_SECURE to the kernel) must not be
 * told by the caller's environment which policy it has, where its sockets lie or what its GPU is. The suite runs a copy of itself
 * that belongs to another group and has the set-group-ID bit.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/gpu/sim.h"
#include "include/weir.h"
#include "share/wire/directory.h"
#include "tests/support/suite.h"

#define ELSEWHERE "/nonexistent/elsewhere"
#define UNWRITABLE "/proc" /* it is there, as a runtime directory has to be, and nothing can be made in it */
#define NOBODYS_GROUP 65534

enum { IGNORED, OBEYED, NOT_SECURE = 9 };

static char directory[64], copy[128];
static const char *own_path;

/* What a probe finds ------------------------------------------------------------------------------------------------------------------- */

static weir_status open_by(const char *policy, const char *gpu, weir **w, weir_error *error)
{
    weir_options options = { .size = sizeof options, .policy_text = policy, .gpu = gpu };
    *error = (weir_error)WEIR_ERROR_INIT;
    *w = NULL;
    return weir_open(&options, error, w);
}

static const char plain[] = "weir: 1\npools: { p: {} }\n";

static bool has_cap_of_the_environment(void)
{
    weir *w;
    weir_error error;
    weir_stats *stats = NULL;
    bool has_cap = open_by(plain, "sim", &w, &error) == WEIR_OK && weir_stats_take(w, NULL, &stats) == WEIR_OK &&
                   weir_stats_pool(stats, 0)->max_size;
    weir_stats_free(stats);
    weir_close(w);
    return has_cap;
}

static bool has_devices_of_the_environment(void)
{
    weir *w;
    weir_error error;
    weir_stats *stats = NULL;
    bool has_three = open_by(plain, "sim", &w, &error) == WEIR_OK && weir_stats_take(w, NULL, &stats) == WEIR_OK &&
                     weir_stats_device_count(stats) == 3;
    weir_stats_free(stats);
    weir_close(w);
    return has_three;
}

static bool asks_for_the_gpu_of_the_environment(void)
{
    weir *w;
    weir_error error;
    weir_status status = open_by(plain, NULL, &w, &error);
    weir_close(w);
    return status == WEIR_INVALID && strstr(error.text, "$WEIR_GPU");
}

static bool has_its_quota_by_the_environment(void)
{
    weir *w;
    weir_error error;
    weir_stats *stats = NULL;
    bool has_quota = open_by("weir: 1\npools: { p: { max_size: quota } }\n", "sim", &w, &error) == WEIR_OK &&
                     weir_stats_take(w, NULL, &stats) == WEIR_OK && weir_stats_pool(stats, 0)->max_size == UINT64_C(1) << 30;
    weir_stats_free(stats);
    weir_close(w);
    return has_quota;
}

/* Of two devices none is local by itself. */
static bool has_its_device_by_the_environment(void)
{
    static const char local[] = "weir: 1\npools: { p: { devices: local } }\n";
    weir *w;
    weir_error error;
    weir_status status;
    char why[256];
    if (sim_configure("devices=2", why, sizeof why) != 0)
        return false;
    status = open_by(local, "sim", &w, &error);
    weir_close(w);
    return status == WEIR_OK || !strstr(error.text, "none of LOCAL_RANK");
}

static bool reads_the_file_of_the_environment(void)
{
    weir *w;
    weir_error error;
    weir_status status = open_by(NULL, "sim", &w, &error);
    weir_close(w);
    return status == WEIR_UNREADABLE && strstr(error.file, ELSEWHERE);
}

/* The name is found where the environment says, and so is not found at all. */
static bool reads_policies_of_the_folder_of_the_environment(void)
{
    weir *w;
    weir_error error = WEIR_ERROR_INIT;
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_file = "fhqwhgads";
    options.gpu = "sim";
    weir_status status = weir_open(&options, &error, &w);
    return status == WEIR_UNREADABLE && strstr(error.text, ELSEWHERE);
}

static bool has_its_sockets_there(void)
{
    char path[SHARE_PATH_SIZE] = "";
    return share_path("frames", false, false, NULL, path) == WEIR_OK && strstr(path, UNWRITABLE);
}

static bool has_its_control_socket_there(void)
{
    char path[SHARE_PATH_SIZE] = "";
    weir_error error = WEIR_ERROR_INIT;
    return share_control_directory(&error, path) != WEIR_OK && strstr(error.text, UNWRITABLE);
}

/* In files whose names anybody could have put links or other names at. */
static bool writes_traces_that_the_environment_names(void)
{
    weir *w;
    weir_error error;
    char policy[256], ours[64], plain_name[64];
    snprintf(policy, sizeof policy, "weir: 1\nrecord: { file: '/tmp/weir-secure-%%p-%%r.weir', dump: /tmp }\npools: { p: {} }\n");
    snprintf(ours, sizeof ours, "/tmp/weir-secure-%ld-7.weir", (long)getpid());
    snprintf(plain_name, sizeof plain_name, "/tmp/weir-secure-%ld-0.weir", (long)getpid());
    if (open_by(policy, "sim", &w, &error) == WEIR_OK)
        weir_close(w);
    int left = unlink(ours);
    return left == 0 || unlink(plain_name) == 0;
}

static const struct row {
    const char *variable, *value;
    bool (*obeys)(void);
} rows[] = {
    { "WEIR_CONF", "pools.p.max_size=128MiB", has_cap_of_the_environment },
    { "WEIR_POLICY", ELSEWHERE, reads_the_file_of_the_environment },
    { "WEIR_POLICY_DIR", ELSEWHERE, reads_policies_of_the_folder_of_the_environment },
    { "WEIR_GPU", "abacus", asks_for_the_gpu_of_the_environment },
    { "WEIR_SIM", "devices=3", has_devices_of_the_environment },
    { "XDG_RUNTIME_DIR", UNWRITABLE, has_its_sockets_there },
    { "XDG_RUNTIME_DIR", UNWRITABLE, has_its_control_socket_there },
    { "WEIR_CONTROL_DIR", UNWRITABLE, has_its_control_socket_there },
    { "WEIR_QUOTA", "1GiB", has_its_quota_by_the_environment },
    { "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1G", has_its_quota_by_the_environment },
    { "CUDA_DEVICE_MEMORY_LIMIT", "1g", has_its_quota_by_the_environment },
    { "CUDA_DEVICE_MEMORY_LIMIT_0", "1g", has_its_quota_by_the_environment },
    { "LOCAL_RANK", "1", has_its_device_by_the_environment },
    { "SLURM_LOCALID", "1", has_its_device_by_the_environment },
    { "OMPI_COMM_WORLD_LOCAL_RANK", "x", has_its_device_by_the_environment },
    { "RANK", "7", writes_traces_that_the_environment_names },
};
#define ROWS ((int)(sizeof rows / sizeof rows[0]))

/* Programs ----------------------------------------------------------------------------------------------------------------------------- */

/* Runs the program as a probe, with that one variable, and returns its exit status. */
static int probe(const char *program, int row)
{
    static const char *const all[] = { "WEIR_CONF", "WEIR_POLICY", "WEIR_POLICY_DIR", "WEIR_GPU", "WEIR_SIM", "XDG_RUNTIME_DIR", "WEIR_CONTROL_DIR", "RANK",
                                       "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "WEIR_QUOTA",
                                       "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT_0" };
    char number[16];
    int status;
    snprintf(number, sizeof number, "%d", row);
    pid_t pid = fork();
    if (pid == 0) {
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            unsetenv(all[i]);
        setenv(rows[row].variable, rows[row].value, 1);
        execl(program, program, "probe", number, (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int be_probe(const char *program, int row)
{
    if (strstr(program, "/weir-secure-") && !getauxval(AT_SECURE))
        return NOT_SECURE;
    return rows[row].obeys() ? OBEYED : IGNORED;
}

/* A group that the copy can have beside ours, or -1. */
static gid_t other_group(void)
{
    gid_t groups[64];
    if (geteuid() == 0)
        return getegid() == NOBODYS_GROUP ? 0 : NOBODYS_GROUP;
    int count = getgroups(64, groups);
    for (int i = 0; i < count; i++)
        if (groups[i] != getegid())
            return groups[i];
    return (gid_t)-1;
}

static bool copy_to(int to)
{
    char bytes[65536];
    ssize_t len = -1;
    int from = open(own_path, O_RDONLY | O_CLOEXEC);
    while (from >= 0 && (len = read(from, bytes, sizeof bytes)) > 0)
        if (write(to, bytes, (size_t)len) != len)
            len = -1;
    if (from >= 0)
        close(from);
    return len == 0;
}

/* NULL: there is a copy that runs with more rights than its caller. */
static const char *arrange(void)
{
    gid_t group = other_group();
    strcpy(directory, "/tmp/weir-secure-XXXXXX");
    if (group == (gid_t)-1)
        return "no second group: run as root, or as a user with one";
    if (!mkdtemp(directory))
        return "no directory for the copy in /tmp";
    snprintf(copy, sizeof copy, "%s/copy", directory);
    int to = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    bool good = to >= 0 && copy_to(to) && fchown(to, (uid_t)-1, group) == 0 && fchmod(to, 02755) == 0;
    if (to >= 0)
        close(to);
    if (!good)
        return "no set-group-ID copy of a program can be made in /tmp";
    int outcome = probe(copy, 0);
    return outcome == IGNORED || outcome == OBEYED ? NULL : "set-group-ID programs have no effect in /tmp (nosuid, or no_new_privs)";
}

static void clear(void)
{
    unlink(copy);
    rmdir(directory);
}

START_TEST(program_with_the_rights_of_its_caller_obeys_the_environment)
{
    ck_assert_int_eq(probe(own_path, _i), OBEYED);
}
END_TEST

START_TEST(program_with_more_rights_than_its_caller_ignores_the_environment)
{
    ck_assert_int_eq(probe(copy, _i), IGNORED);
}
END_TEST

int main(int argc, char **argv)
{
    own_path = argv[0];
    if (argc == 3 && strcmp(argv[1], "probe") == 0)
        return be_probe(argv[0], atoi(argv[2]));
    const char *why_not = arrange();
    if (why_not) {
        clear();
        return suite_skip(why_not);
    }
    Suite *suite = suite_create("secure");
    TCase *tcase = suite_case(suite, "secure", 0);
    tcase_add_loop_test(tcase, program_with_the_rights_of_its_caller_obeys_the_environment, 0, ROWS);
    tcase_add_loop_test(tcase, program_with_more_rights_than_its_caller_ignores_the_environment, 0, ROWS);
    int failed = suite_run(suite);
    clear();
    return failed;
}
