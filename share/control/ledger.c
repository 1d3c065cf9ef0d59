/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/control/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/format.h"
#include "lib/base/number.h"
#include "lib/base/service.h"
#include "lib/gpu/slots.h"
#include "share/wire/directory.h"
#include "share/wire/socket.h"
#include "share/wire/wire.h"

#define SUMS SHARE_CLAIMS_MAX /* the slot whose lock orders sums */
#define SUMS_PATIENCE (100 * GPU_MILLISECOND) /* how long a claim waits for the lock at the least; it is held for 0.1 ms at the most */
#define SUMS_NAP 20000        /* nanoseconds between two attempts at the lock */

_Static_assert(sizeof(struct share_claim) == 64, "the layout of the file is the same in every build");

weir_status share_ledger_open(const char *uuid, weir_error *error, int *fd)
{
    char path[SHARE_PATH_SIZE];
    weir_status status = share_claims_path(uuid, error, path);
    if (status != WEIR_OK)
        return status;
    *fd = gpu_slots_open(path, O_CREAT, geteuid());
    if (*fd < 0) {
        status = share_errno_status(errno) == WEIR_GONE ? WEIR_INVALID : share_errno_status(errno);
        return weir__fail(error, status, "the file of claims %s cannot be opened: %s", path,
                          WEIR__WHY(errno, "remove it if it is no file of this user's alone (mode 0600), or set WEIR_CONTROL_DIR"));
    }
    flock(*fd, LOCK_SH | LOCK_NB); /* systemd-tmpfiles, which cleans /tmp, lets locked files be */
    return WEIR_OK;
}

static int lock_sums(int fd, uint64_t deadline)
{
    uint64_t least = weir__service_now() + SUMS_PATIENCE;
    while (!gpu_slots_take(fd, SUMS)) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return errno;
        if (weir__service_now() >= (least > deadline ? least : deadline))
            return ETIMEDOUT;
        nanosleep(&(struct timespec){ .tv_nsec = SUMS_NAP }, NULL);
    }
    return 0;
}

/* Reads the file, and keeps what is a claim. The name is only for people, but may have any bytes in it. */
static int read_claims(int fd, uint64_t memory, struct share_claims *claims)
{
    ssize_t len = pread(fd, claims->items, sizeof claims->items, 0);
    size_t slots = len > 0 ? (size_t)len / sizeof claims->items[0] : 0;
    claims->count = claims->bytes = 0;
    for (size_t slot = 0; slot < slots; slot++) {
        struct share_claim claim = claims->items[slot];
        if (!claim.bytes || claim.bytes > memory || !gpu_slots_are_taken(fd, (int)slot, 1))
            continue;
        claim.program[sizeof claim.program - 1] = '\0';
        for (char *at = claim.program; *at; at++)
            if (!wire_is_name((const char[]){ *at, '\0' }))
                *at = '_';
        claims->bytes += share_claim_stands(&claim);
        claims->slots[claims->count] = (uint16_t)slot;
        claims->items[claims->count++] = claim;
    }
    return len < 0 ? errno : 0;
}

int share_ledger_read(int fd, uint64_t memory, uint64_t deadline, struct share_claims *others)
{
    int code = lock_sums(fd, deadline);
    if (code && code != ETIMEDOUT)
        return code;
    code = read_claims(fd, memory, others);
    gpu_slots_release(fd, SUMS, 1);
    return code;
}

static int write_claim(int fd, int slot, const struct share_claim *claim)
{
    off_t at = slot * (off_t)sizeof *claim, end = at + (off_t)sizeof *claim;
    struct rlimit most;
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < (rlim_t)end)
        return EFBIG; /* the write would raise SIGXFSZ */
    ssize_t len = pwrite(fd, claim, sizeof *claim, at);
    return len == (ssize_t)sizeof *claim ? 0 : len < 0 ? errno : ENOSPC;
}

int share_ledger_claim(int fd, const struct share_claim *claim, uint64_t memory, uint64_t room, uint64_t deadline,
                       struct share_claims *others)
{
    int code = lock_sums(fd, deadline);
    if (code)
        return code;
    code = read_claims(fd, memory, others);
    if (!code && (claim->bytes > room || others->bytes > room - claim->bytes))
        code = EAGAIN;
    int slot = code ? -1 : gpu_slots_take_any(fd, SHARE_CLAIMS_MAX);
    if (!code)
        code = slot < 0 ? EUSERS : write_claim(fd, slot, claim);
    if (code && slot >= 0)
        gpu_slots_release(fd, slot, 1);
    gpu_slots_release(fd, SUMS, 1);
    return code;
}

/* Moves up to `bytes` of the claim between what stands and what is asleep, and writes that. Returns 0 or an errno. */
static int shift(int fd, int slot, struct share_claim *claim, bool sleeps, uint64_t *bytes)
{
    uint64_t stands = share_claim_stands(claim), part = weir__smaller(*bytes, sleeps ? stands : claim->bytes - stands);
    if (!part)
        return 0;
    claim->asleep = claim->bytes - stands + (sleeps ? part : -part);
    int code = write_claim(fd, slot, claim);
    *bytes -= code ? 0 : part;
    return code;
}

int share_ledger_shift(int fd, bool (*is_own)(uint64_t mark), uint64_t memory, uint64_t room, uint64_t deadline, uint64_t wanted,
                       uint64_t *asleep, struct share_claims *claims)
{
    bool sleeps = wanted > *asleep;
    uint64_t bytes = sleeps ? wanted - *asleep : *asleep - wanted, left = bytes, own = 0;
    int code = lock_sums(fd, deadline);
    if (code)
        return code;
    code = read_claims(fd, memory, claims);
    for (size_t i = 0; !code && i < claims->count; i++)
        if (is_own(claims->items[i].mark))
            own += claims->items[i].bytes - share_claim_stands(&claims->items[i]);
    if (!code && !sleeps && (claims->bytes > room || weir__smaller(bytes, own) > room - claims->bytes))
        code = EAGAIN;
    for (size_t i = 0; !code && left && i < claims->count; i++)
        if (is_own(claims->items[i].mark))
            code = shift(fd, claims->slots[i], &claims->items[i], sleeps, &left);
    gpu_slots_release(fd, SUMS, 1);
    *asleep = sleeps ? *asleep + (bytes - left) : *asleep - (bytes - left);
    return code;
}

void share_ledger_close(int fd)
{
    gpu_slots_release(fd, 0, SHARE_CLAIMS_MAX);
    close(fd);
}
