/* SPDX-License-Identifier: MIT */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "lib/gpu/slots.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int gpu_slots_open(const char *path, int flags, uid_t user)
{
    struct stat status;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0600);
    if (fd < 0)
        return -1;
    if (flags & O_CREAT)
        fchmod(fd, 0600); /* the umask may have changed the mode */
    int error = fstat(fd, &status) != 0 ? errno : 0;
    if (!error && (!S_ISREG(status.st_mode) || status.st_uid != user || (status.st_mode & (S_IRWXG | S_IRWXO))))
        error = EPERM;
    if (!error)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

static struct flock lock_of(int first, int count, short type)
{
    return (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = count };
}

bool gpu_slots_take(int fd, int slot)
{
    struct flock lock = lock_of(slot, 1, F_WRLCK);
    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

int gpu_slots_take_any(int fd, int count)
{
    for (int slot = 0; slot < count; slot++)
        if (gpu_slots_take(fd, slot))
            return slot;
    return -1;
}

void gpu_slots_release(int fd, int first, int count)
{
    struct flock lock = lock_of(first, count, F_UNLCK);
    fcntl(fd, F_OFD_SETLK, &lock);
}

bool gpu_slots_are_taken(int fd, int first, int count)
{
    struct flock lock = lock_of(first, count, F_WRLCK);
    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}
