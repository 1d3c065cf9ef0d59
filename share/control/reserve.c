/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/control/reserve.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "lib/base/call.h"
#include "lib/base/format.h"
#include "policy/environment.h"
#include "share/base/wait.h"
#include "share/control/neighbours.h"
#include "share/wire/query.h"

#define CLAIMS_TEXT 2048
#define PAUSE (4 * GPU_MILLISECOND)         /* between two looks at the ledger, or at the device */
#define ASK_FIRST (10 * GPU_MILLISECOND)    /* from one question to the neighbours to the next; twice as long after each */
#define ASK_LAST (1000 * GPU_MILLISECOND)

/* The mark of all claims of this process; 0: it has made none. */
static _Atomic uint64_t own_mark;

static uint64_t make_mark(void)
{
    uint64_t none = 0, mark = 0;
    if (getrandom(&mark, sizeof mark, GRND_NONBLOCK) != (ssize_t)sizeof mark || !mark)
        mark = weir__service_now() << 22 ^ (uint64_t)getpid();
    return atomic_compare_exchange_strong(&own_mark, &none, mark) ? mark : none;
}

/* Openings of the ledger ----------------------------------------------------------------------------------------------------------------- */

static void close_in_child(struct share_forked *forked)
{
    close(((weir_reservation *)((char *)forked - offsetof(weir_reservation, forked)))->fd);
}

static weir_status open_ledger(weir_reservation *r, const char *uuid, weir_error *error)
{
    share_forked_hold();
    weir_status status = share_ledger_open(uuid, error, &r->fd);
    if (status == WEIR_OK)
        share_forked_add(&r->forked, close_in_child);
    share_forked_release();
    return status;
}

static void close_ledger(weir_reservation *r)
{
    share_forked_hold();
    share_forked_remove(&r->forked);
    share_ledger_close(r->fd);
    share_forked_release();
}

/* The figures ---------------------------------------------------------------------------------------------------------------------------- */

static bool may_have_claims(void)
{
    return atomic_load(&own_mark) || policy_environment("WEIR_RESERVATION");
}

/* Whether the claim is one of this process, or inherited. */
static bool is_own(uint64_t mark)
{
    const char *inherited = policy_environment("WEIR_RESERVATION");
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, mark);
    return (mark && mark == atomic_load(&own_mark)) || (inherited && strstr(inherited, text));
}

uint64_t share_claimed(const struct weir__device *device)
{
    struct share_claims claims;
    uint64_t bytes = 0;
    weir_reservation reader; /* of its members, what an opening has */
    if (!may_have_claims() || open_ledger(&reader, device->info.uuid, NULL) != WEIR_OK)
        return 0;
    bool is_read = share_ledger_read(reader.fd, device->info.memory, 0, &claims) == 0;
    close_ledger(&reader);
    for (size_t i = 0; is_read && i < claims.count; i++)
        if (is_own(claims.items[i].mark))
            bytes += share_claim_stands(&claims.items[i]);
    return weir__smaller(bytes, device->info.memory);
}

uint64_t share_held(struct weir__device *device)
{
    uint64_t bytes = 0;
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool))
        if (!pool->native.is_host)
            bytes += weir__pool_figure(pool, GPU_POOL_RESERVED);
    return bytes;
}

/* The largest leave_free that a pool of the weir has on the device. */
static uint64_t left_free(struct weir__device *device)
{
    uint64_t leave = 0;
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool))
        leave = weir__larger(leave, atomic_load(&pool->backing->leave_free));
    return leave;
}

/* The ledger ----------------------------------------------------------------------------------------------------------------------------- */

/* Names who claims how much, in ": process 1 (a) claims 1 GiB, ...". */
static const char *name_claims(const struct share_claims *others, char text[static CLAIMS_TEXT])
{
    size_t len = 0, i = 0;
    for (text[0] = '\0'; i < others->count && len < CLAIMS_TEXT - 128; i++)
        len += (size_t)snprintf(text + len, CLAIMS_TEXT - len, "%s process %u (%s) claims %s", i ? "," : ":", others->items[i].pid,
                                others->items[i].program, WEIR__BYTES(share_claim_stands(&others->items[i])));
    if (i < others->count)
        snprintf(text + len, CLAIMS_TEXT - len, ", and %zu more", others->count - i);
    return text;
}

static weir_status fail_full(weir_error *error, const struct weir__device *device, const struct share_claim *claim, uint64_t leave,
                             const struct share_claims *others)
{
    char text[CLAIMS_TEXT];
    uint64_t room = weir__less(weir__less(device->info.memory, leave), others->bytes);
    return weir__fail(error, WEIR_TIMEOUT, "device %d has no room for a claim of %s: of its %s others claim %s%s%s%s. Wait longer, end one of "
                                           "them, or claim at most %s",
                      device->index, WEIR__BYTES(claim->bytes), WEIR__BYTES(device->info.memory), WEIR__BYTES(others->bytes),
                      leave ? ", beside leave_free, " : "", leave ? WEIR__BYTES(leave) : "", name_claims(others, text), WEIR__BYTES(room));
}

/* Makes the claim as soon as it fits. */
static weir_status enter_ledger(const weir_reservation *r, const struct weir__device *device, uint64_t leave, uint64_t deadline, weir_error *error)
{
    struct share_claims others;
    int code;
    do
        code = share_ledger_claim(r->fd, &r->claim, device->info.memory, device->info.memory - leave, deadline, &others);
    while ((code == EAGAIN || code == EUSERS) && share_pause(deadline, PAUSE));
    switch (code) {
    case 0:
        return WEIR_OK;
    case EAGAIN:
        return fail_full(error, device, &r->claim, leave, &others);
    case EUSERS:
        return weir__fail(error, WEIR_BUSY, "device %d has %d claims already, the most that there can be: end one of them", device->index,
                          SHARE_CLAIMS_MAX);
    case ETIMEDOUT:
        return weir__fail(error, WEIR_TIMEOUT, "the claims on device %d cannot be read, as a process is stopped that was about to claim: "
                                               "continue or end it", device->index);
    default:
        return weir__fail(error, code == ENOSPC || code == EDQUOT ? WEIR_NO_HOST_MEMORY : WEIR_INVALID,
                          "a claim on device %d cannot be written: %s", device->index,
                          WEIR__WHY(code, "make room on that disk, or set WEIR_CONTROL_DIR"));
    }
}

/* Waits until this process may have what a pool that wakes gave up, as enter_ledger() does. */
weir_status share_claims_shift(struct weir__device *device, uint64_t wanted, uint64_t patience, weir_error *error, uint64_t *asleep)
{
    uint64_t leave = left_free(device), room = weir__less(device->info.memory, leave), deadline = weir__service_now() + patience;
    struct share_claims claims;
    char text[CLAIMS_TEXT];
    weir_reservation opening; /* of its members, what an opening has: it makes no claim */
    int code;
    if (wanted == *asleep || !may_have_claims())
        return WEIR_OK;
    weir_status status = open_ledger(&opening, device->info.uuid, error);
    if (status != WEIR_OK)
        return status;
    do
        code = share_ledger_shift(opening.fd, is_own, device->info.memory, room, deadline, wanted, asleep, &claims);
    while (code == EAGAIN && share_pause(deadline, PAUSE));
    close_ledger(&opening);
    if (code == EAGAIN)
        return weir__fail(error, WEIR_OUT_OF_MEMORY, "device %d has no room for %s that this process gave up of its claims while a pool slept: "
                                                     "of its %s %s are claimed now%s%s%s. Wait longer, %sor end one of these claims",
                          device->index, WEIR__BYTES(*asleep), WEIR__BYTES(device->info.memory), WEIR__BYTES(claims.bytes),
                          leave ? ", beside leave_free, " : "", leave ? WEIR__BYTES(leave) : "", name_claims(&claims, text),
                          leave ? "lower leave_free, " : "");
    if (code)
        return weir__fail(error, WEIR_OUT_OF_MEMORY, "the claims on device %d cannot be changed for a pool that wakes: %s", device->index,
                          WEIR__WHY(code, "continue or end a process that is stopped"));
    return WEIR_OK;
}

/* Memory --------------------------------------------------------------------------------------------------------------------------------- */

/* What is asked of the neighbours: that the device has so much free memory. Earlier claims had theirs when they were made, and others may
   use it where they are inherited; so the new one lacks its own bytes at the most, less what the pools have beyond the earlier ones. */
struct wish {
    struct weir__plea plea;
    struct weir__vain vain;
    uint64_t bytes, claimed; /* of the new claim; with the earlier ones of this process */
    uint64_t lacking, free;  /* at the last look */
    int code;                /* of the driver, then */
};

/* Looks at the device. Returns whether it has the memory now, or cannot be asked, or may have more than it says. */
static bool is_granted(struct weir__plea *plea)
{
    struct wish *wish = (struct wish *)((char *)plea - offsetof(struct wish, plea));
    uint64_t total;
    wish->lacking = weir__smaller(wish->bytes, weir__less(wish->claimed, share_held(plea->device)));
    wish->code = plea->device->w->gpu->device_memory(plea->device->index, &wish->free, &total);
    return wish->code != GPU_SUCCESS || wish->free >= wish->lacking || plea->device->info.os_managed;
}

static weir_status end_of(const struct wish *wish, weir_error *error)
{
    const struct weir__device *device = wish->plea.device;
    if (wish->code == GPU_SUCCESS)
        return WEIR_OK;
    return weir__fail_gpu(error, device->w->gpu, wish->code, "the free memory of device %d, for a claim", device->index);
}

static void prepare_nothing(struct weir__plea *plea)
{
    (void)plea;
}

/* What this process has yielded itself is part of its claim already. */
static bool spend_nothing(struct weir__plea *plea)
{
    (void)plea;
    return false;
}

/* Waits until the device has what this process claims and does not have yet. */
static weir_status await_memory(struct weir__device *device, uint64_t bytes, uint64_t deadline, weir_error *error)
{
    struct wish wish = { .bytes = bytes, .claimed = UINT64_MAX };
    wish.plea = (struct weir__plea){
        .device = device, .grain = 1, .prepare = prepare_nothing, .retry = is_granted, .spend = spend_nothing, .vain = &wish.vain
    };
    uint64_t now, ask = 0, pause = ASK_FIRST;
    if (is_granted(&wish.plea)) /* all of it is free, so the pools need not have any of it */
        return end_of(&wish, error);
    wish.claimed = weir__larger(bytes, share_claimed(device));
    while (!is_granted(&wish.plea)) {
        now = weir__service_now();
        if (now >= deadline)
            return weir__fail(error, WEIR_TIMEOUT, "device %d has room for this claim beside the others, but only %s free, and %s are still to "
                                                   "come: programs that claim nothing have the rest. Wait longer, as neighbours "
                                                   "are asked meanwhile, or end one of them%s%s",
                              device->index, WEIR__BYTES(wish.free), WEIR__BYTES(wish.lacking), wish.plea.note[0] ? "; " : "", wish.plea.note);
        if (now >= ask) {
            /* Memory that is idle here counts as had already, and share_neighbours_rescue() counts it as available. */
            wish.plea.size = wish.lacking + weir__device_idle(device);
            wish.plea.time_left = deadline - now;
            share_neighbours_rescue(&wish.plea);
            ask = weir__service_now() + pause;
            pause = weir__smaller(2 * pause, ASK_LAST);
        } else {
            share_pause(deadline, PAUSE);
        }
    }
    return end_of(&wish, error);
}

/* Reservations --------------------------------------------------------------------------------------------------------------------------- */

static void destroy(weir_reservation *r)
{
    close_ledger(r);
    free(r);
}

static void close_with_weir(struct weir__attached *attached)
{
    destroy((weir_reservation *)((char *)attached - offsetof(weir_reservation, attached)));
}

weir_status share_reserve(weir *w, int device, uint64_t bytes, uint64_t leave, unsigned timeout_ms, const char *program, int pid,
                          weir_error *error, weir_reservation **r)
{
    struct weir__device *on = &w->devices[device];
    uint64_t deadline = share_deadline(timeout_ms), most = weir__less(on->info.memory, leave);
    if (!bytes || bytes > most)
        return weir__fail(error, WEIR_INVALID, "a claim of %s on device %d, which has %s%s: claim from 1 B to %s", WEIR__BYTES(bytes), device,
                          WEIR__BYTES(on->info.memory), leave ? " and is to keep its leave_free" : "", WEIR__BYTES(most));
    weir_reservation *made = calloc(1, sizeof *made);
    if (!made)
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for a claim on device %d", device);
    *made = (weir_reservation){ .attached.close = close_with_weir, .w = w, .claim = { .bytes = bytes, .mark = make_mark(), .pid = (uint32_t)pid } };
    snprintf(made->claim.program, sizeof made->claim.program, "%s", program);
    weir_status status = open_ledger(made, on->info.uuid, error);
    if (status != WEIR_OK) {
        free(made);
        return status;
    }
    enum gpu_capture_mode mode = weir__relaxed_begin(w->gpu);
    status = enter_ledger(made, on, leave, deadline, error);
    if (status == WEIR_OK)
        status = await_memory(on, bytes, deadline, error);
    weir__relaxed_end(w->gpu, mode);
    if (status != WEIR_OK) {
        destroy(made);
        return status;
    }
    weir__attach(w, &made->attached);
    *r = made;
    return WEIR_OK;
}

weir_status weir_reserve(weir *w, int device, uint64_t bytes, unsigned timeout_ms, weir_error *error, weir_reservation **r)
{
    char program[WIRE_NAME_SIZE];
    WEIR__CALL;
    weir_status status = weir__check_fork(error);
    if (status != WEIR_OK)
        return status;
    if (!w || !r)
        return weir__fail(error, WEIR_INVALID, "weir_reserve: w and r must not be NULL");
    if (device < 0 || (size_t)device >= w->device_count)
        return weir__fail(error, WEIR_NOT_FOUND, "there is no device %d: this machine has %zu, counted from 0", device, w->device_count);
    share_program_name(program);
    return share_reserve(w, device, bytes, left_free(&w->devices[device]), timeout_ms, program, (int)getpid(), error, r);
}

void weir_reservation_end(weir_reservation *r)
{
    if (!r || weir__is_forked())
        return;
    WEIR__CALL;
    weir__detach(r->w, &r->attached);
    destroy(r);
}
