/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/record/any.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/format.h"
#include "lib/gpu/clock.h"
#include "tools/common/complain.h"
#include "tools/common/environment.h"
#include "tools/common/format.h"
#include "tools/record/program.h"

/* The Makefile has that of this installation. */
#ifndef WEIR_LIBDIR
#define WEIR_LIBDIR "/usr/local/lib"
#endif

/*
 * Room for thread-local variables that libraries want in each thread's static block. With an auditor the block is laid out before the program's
 * libraries are known, and what they want must fit into what glibc keeps free: 512 bytes, of which jemalloc alone wants 3,000. With 8 KiB
 * threads whose stacks have 16 KiB, the least there is, have no room for a call on a processor whose registers take 3 KiB.
 */
#define STATIC_TLS "glibc.rtld.optional_static_tls"
#define STATIC_TLS_BYTES "4096"

/* NULL after a complaint. */
static char *find_library(void)
{
    const char *asked = variable("WEIR_AUDIT_LIBRARY");
    char *path = asked ? absolute_path(asked) : installed_path("", "audit/.libs/libweir-audit.so"); /* that of a build, not installed */
    if (!*path) {
        free(path);
        path = installed_path(WEIR_LIBDIR "/libweir-audit.so", "lib/libweir-audit.so");
    }
    if (access(path, R_OK) == 0 && !strchr(path, ':'))
        return path;
    complain("record: --any: %s: %s; install Weir with it, or set WEIR_AUDIT_LIBRARY to the path of libweir-audit.so", path,
             strchr(path, ':') ? "a path with a colon cannot be in LD_AUDIT" : strerror(errno));
    free(path);
    return NULL;
}

/* A variable that is a list: ours first, then what the user has in it. Within another `weir record --any` ours is there. */
static void put_first(const char *name, const char *ours)
{
    const char *former = variable(name);
    const size_t len = strlen(ours);
    for (const char *at = former; at && *at; at = strchrnul(at, ':'), at += *at == ':')
        if (strncmp(at, ours, len) == 0 && (at[len] == ':' || at[len] == '\0'))
            return;
    set_variable(name, format_text("%s%s%s", ours, former ? ":" : "", former ? former : ""));
}

static bool make_report(struct record_any *any, const char *name, bool has_stacks)
{
    char *folder = absolute_path(variable("TMPDIR") ? variable("TMPDIR") : "/tmp");
    any->path = format_text("%s/weir-record.XXXXXX", folder);
    free(folder);
    const int fd = mkostemp(any->path, O_CLOEXEC);
    const bool is_made = fd >= 0 && fchmod(fd, 0600) == 0 && posix_fallocate(fd, 0, sizeof *any->report) == 0;
    any->report = is_made ? mmap(NULL, sizeof *any->report, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    const int code = errno;
    if (fd >= 0)
        close(fd);
    if (any->report != MAP_FAILED) {
        any->report->version = AUDIT_VERSION;
        any->report->asked.has_stacks = has_stacks;
        memcpy(any->report->asked.name, name, strlen(name) + 1);
        return true;
    }
    complain("record: %s: %s; set TMPDIR to a directory that can be written to", any->path, strerror(code));
    if (fd >= 0)
        unlink(any->path);
    free(any->path);
    return false;
}

bool record_any_begin(struct record_any *any, const char *command, const char *name, bool has_stacks)
{
    char *library = record_program_is_fit(command) ? find_library() : NULL;
    const bool is_good = library && make_report(any, name, has_stacks);
    if (is_good) {
        const char *tunables = variable("GLIBC_TUNABLES");
        put_first("LD_AUDIT", library);
        if (!tunables || !strstr(tunables, STATIC_TLS))
            put_first("GLIBC_TUNABLES", STATIC_TLS "=" STATIC_TLS_BYTES);
        set_variable(AUDIT_VARIABLE, format_text("%s", any->path));
        any->began = gpu_clock_now();
        any->began_ticks = gpu_clock_ticks();
    }
    free(library);
    return is_good;
}

void record_any_drop(struct record_any *any)
{
    unlink(any->path);
    munmap(any->report, sizeof *any->report);
    free(any->path);
}

/* Whoever was recorded may have written anything. */
static void say_text(const _Atomic uint32_t *has, char text[static AUDIT_TEXT], const char *before, const char *behind)
{
    text[AUDIT_TEXT - 1] = '\0';
    if (atomic_load(has))
        complain("record: %s%s%s", before, text, behind);
}

static void say_costs(const struct record_any *any)
{
    const uint64_t all = gpu_clock_ticks() - any->began_ticks;
    uint64_t calls = 0, timed = 0, ticks = 0;
    for (unsigned i = 0; i < AUDIT_SLOTS; i++) {
        const struct audit_slot *slot = &any->report->told.slots[i];
        calls += atomic_load(&slot->calls);
        timed += atomic_load(&slot->timed);
        ticks += atomic_load(&slot->ticks);
    }
    if (!calls)
        return;
    const double ns = timed && all ? (double)ticks / (double)timed * ((double)(gpu_clock_now() - any->began) / (double)all) : 0;
    complain("record: %s call%s of the driver seen; each took %s more than the driver's own time (measured in %s of them)", COUNT_TEXT(calls),
             weir__plural(calls), TIME_TEXT((uint64_t)ns), COUNT_TEXT(timed));
}

void record_any_end(struct record_any *any, const char *command, bool has_files)
{
    __typeof__(any->report->told) *told = &any->report->told;
    if (!atomic_load(&told->processes))
        complain("record: --any: the loader of %s took no LD_AUDIT: its processes run with a cleared environment, with other rights, or with a "
                 "loader that is not glibc's of 2.35 or later", command);
    else if (!atomic_load(&told->drivers) && !has_files)
        complain("record: --any: %s does not use CUDA, or does so in processes whose environment it cleared: none that was watched loaded "
                 "libcuda.so, so there is no trace", command);
    else if (!atomic_load(&told->traces) && !atomic_load(&told->weirs) && !atomic_load(&told->has_failure) && !has_files)
        complain("record: --any: %s loaded libcuda.so, and asked it for no memory, so there is no trace; a program that is linked with the "
                 "driver and built with -fno-plt does so unseen", command);
    if (atomic_load(&told->weirs))
        complain("record: --any: a process of %s uses Weir, whose own recording holds there", command);
    if (atomic_load(&told->torches) && atomic_load(&told->traces))
        complain("record: --any: PyTorch's own allocator hands out parts of few large blocks, and these alone are seen here. For its tensors: "
                 "'python3 -m weir.trace import' of a snapshot of torch's, or 'weir record -- weir run …', which puts Weir in its place");
    if (atomic_load(&told->seconds))
        complain("record: --any: a second copy of libcuda.so was loaded beside the first, and what was called there is not seen");
    say_text(&told->has_unknown, told->unknown, "--any: the program uses a form of ",
             " that this Weir does not know, and whose calls are not seen: a later release of Weir may");
    say_text(&told->has_failure, told->failure, "no trace, or not all of one: ", "");
    say_costs(any);
    record_any_drop(any);
}
