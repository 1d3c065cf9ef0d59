/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/wire/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/format.h"
#include "lib/gpu/clock.h"
#include "share/wire/other_end.h"
#include "share/wire/socket.h"

/* For systems whose headers are older than SO_PEERPIDFD and pidfd_open(). */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* Its identity ------------------------------------------------------------------------------------------------------------------------ */

/* Reads the supplementary groups that the process had when it connected. Returns false if host memory runs out. */
static bool read_groups(int socket, struct share_process *process)
{
    socklen_t len = 0;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, NULL, &len) == 0 || errno != ERANGE)
        return true;
    process->groups = malloc(len);
    if (!process->groups)
        return false;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, process->groups, &len) == 0)
        process->group_count = len / sizeof process->groups[0];
    return true;
}

/* Sets *start to when the process started, in nanoseconds since boot. Returns false with errno if /proc does not show it. */
static bool read_start(pid_t pid, uint64_t *start)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    text[len > 0 ? len : 0] = '\0';
    /* The second field is the command's name in parentheses, which may contain any character. The start time is the twentieth field
       after it. */
    const char *field = strrchr(text, ')');
    for (int i = 0; i < 20 && field; i++)
        field = strchr(field + 1, ' ');
    if (!field) {
        errno = ENOENT; /* the process ended before its file was read */
        return false;
    }
    *start = strtoull(field, NULL, 10) * (GPU_SECOND / (uint64_t)sysconf(_SC_CLK_TCK));
    return true;
}

static uint64_t since_boot(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * GPU_SECOND + (uint64_t)now.tv_nsec;
}

/*
 * Opens a pidfd from the pid alone, for kernels before 6.5. Between the connection and pidfd_open() the process may have died, and its pid
 * may now belong to another process. A death closes the socket, so a socket that is still connected after pidfd_open() shows that the
 * process is the right one, unless a child of the dead process holds the socket too. For that case a process is refused if it started after
 * this call began, or if it does not hold the other end of the socket. Where /proc hides other users' processes (hidepid) neither can be
 * checked, and such a process is accepted.
 */
static int open_by_pid(int socket, const struct share_process *process, uint64_t asked_at)
{
    uint64_t start = 0;
    int pidfd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    if (pidfd < 0)
        return -1;
    fcntl(pidfd, F_SETFD, FD_CLOEXEC);
    struct pollfd death = { .fd = pidfd, .events = POLLIN };
    bool is_shown = read_start(process->pid, &start);
    int code = is_shown || (errno != EMFILE && errno != ENFILE && errno != ENOMEM) ? ESRCH : errno;
    bool is_known = is_shown || code == ESRCH;
    if (is_known && start <= asked_at && poll(&death, 1, 0) == 0 && !share_has_hung_up(socket) && !share_lacks_other_end(process->pid, socket))
        return pidfd;
    close(pidfd);
    errno = code;
    return -1;
}

static int open_pidfd(int socket, const struct share_process *process, uint64_t asked_at)
{
    int pidfd;
    socklen_t len = sizeof pidfd;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) == 0) {
        fcntl(pidfd, F_SETFD, FD_CLOEXEC);
        return pidfd;
    }
    return errno == ENOPROTOOPT ? open_by_pid(socket, process, asked_at) : -1;
}

static weir_status fail_pidfd(weir_error *error, pid_t pid, int code)
{
    if (code == EMFILE || code == ENFILE || code == ENOMEM)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no pidfd for process %ld: %s", (long)pid, WEIR__WHY(code, "try again"));
    if (code == ENOSYS || code == EPERM)
        return weir__fail(error, WEIR_REFUSED,
                          "this system gives no pidfd (%s), so the death of process %ld could not be seen: Linux 5.3 or "
                          "later is needed, and a sandbox that allows pidfd_open",
                          strerror(code), (long)pid);
    return weir__fail(error, WEIR_GONE, "process %ld is dead already", (long)pid);
}

weir_status share_process_of(int socket, weir_error *error, struct share_process *process)
{
    uint64_t asked_at = since_boot();
    struct ucred peer;
    if (!share_peer(socket, &peer))
        return weir__fail(error, WEIR_REFUSED, "the process at the other end of the socket cannot be found out: %s", strerror(errno));
    if (peer.pid <= 0)
        return weir__fail(error, WEIR_REFUSED, "the process is in a PID namespace that this one cannot see, so its death could not be seen "
                                               "either: run both in one PID namespace (containers: --pid)");
    struct share_process found = { .pid = peer.pid, .uid = peer.uid, .gid = peer.gid, .memory_fd = -1 };
    found.pidfd = open_pidfd(socket, &found, asked_at);
    if (found.pidfd < 0)
        return fail_pidfd(error, peer.pid, errno);
    if (!read_groups(socket, &found)) {
        share_process_close(&found);
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for the groups of process %ld", (long)peer.pid);
    }
    *process = found;
    return WEIR_OK;
}

void share_process_close(struct share_process *process)
{
    if (process->pidfd >= 0)
        close(process->pidfd);
    if (process->memory_fd >= 0)
        close(process->memory_fd);
    free(process->groups);
    process->pidfd = process->memory_fd = -1;
    process->groups = NULL;
    process->group_count = 0;
}

/* Its memory --------------------------------------------------------------------------------------------------------------------------- */

/*
 * Whether the address space behind an open /proc/PID/pagemap still exists. Entries of a pagemap have eight bytes, so while the address
 * space exists a read of one byte fails with EINVAL; afterwards the read returns 0 bytes. Neither read waits for the process, as a read of
 * its memory might.
 */
static bool is_there(int fd)
{
    return pread(fd, &(char){ 0 }, 1, 0) < 0 && errno == EINVAL;
}

void share_process_watch_memory(struct share_process *process)
{
    char path[64];
    struct pollfd death = { .fd = process->pidfd, .events = POLLIN };
    snprintf(path, sizeof path, "/proc/%ld/pagemap", (long)process->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    /* The pidfd is checked after open(): while the process lives, no other process can have its pid. */
    if (fd >= 0 && (!is_there(fd) || poll(&death, 1, 0) != 0)) {
        close(fd);
        fd = -1;
    }
    process->memory_fd = fd;
}

bool share_process_lost_memory(const struct share_process *process)
{
    return process->memory_fd >= 0 && pread(process->memory_fd, &(char){ 0 }, 1, 0) == 0;
}
