/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/top/look.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Each count in an eventfd passes `found` on to the other side. */
static int wanted = -1, done = -1;
static unsigned timeout;
static struct processes found;

static void pass(int fd)
{
    static const uint64_t one = 1;
    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

static void wait_for(int fd)
{
    uint64_t count;
    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}

static void *look(void *nothing)
{
    for (;;) {
        wait_for(wanted);
        processes_list(&found);
        processes_ask(&found, timeout);
        processes_ask_details(&found, timeout);
        pass(done);
    }
    return nothing;
}

bool top_look_start(unsigned timeout_ms, int *fd)
{
    pthread_t thread;
    timeout = timeout_ms;
    wanted = eventfd(0, EFD_CLOEXEC);
    done = eventfd(0, EFD_CLOEXEC);
    if (wanted < 0 || done < 0)
        return false;
    errno = pthread_create(&thread, NULL, look, NULL);
    if (errno)
        return false;
    pthread_detach(thread);
    *fd = done;
    return true;
}

void top_look_begin(void)
{
    pass(wanted);
}

void top_look_end(struct processes *processes)
{
    wait_for(done);
    *processes = found;
}
