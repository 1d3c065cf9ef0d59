/* SPDX-License-Identifier: MIT */
/*
 * retire.c - retires an empty shared pool: replaces it by a new one, which is the only way to give its memory back to the device.
 *
 * First every importer must destroy its imported pool. The exporter asks them by RETIRE; an importer that has answered connects again when
 * it next needs something. Until all have answered, or are dead, no new importer is welcomed. If that takes longer than RETIRE_TIME, the
 * exporter gives up and tries again later.
 */
#include "config.h"

#include <unistd.h>

#include "lib/alloc/held.h"
#include "lib/base/event.h"
#include "share/export/request.h"

#define RETIRE_TIME (2 * GPU_SECOND)
#define LOOK_AGAIN (GPU_SECOND / 10) /* shortest pause before the next attempt, if users have blocks of the pool that they do not share */

/* Whether the export has no blocks and rings. Users may still have blocks of the pool that they do not share. */
static bool is_empty(weir_export *e)
{
    return !e->blocks && !e->dead && !e->rings;
}

/* Sends RETIRE to the importers that have not got it yet, unless a block was published after the retiring began, as they may have leases
   on that block. Returns how many importers still have the pool. The caller holds e->lock. */
static unsigned ask_importers(weir_export *e)
{
    struct wire_message message = { .type = WIRE_RETIRE, .u.epoch.epoch = e->epoch };
    unsigned left = 0;
    for (struct share_client *client = e->clients; client; client = client->next) {
        left += client->has_pool;
        if (client->state == SHARE_CLIENT_IMPORTER && !client->is_asked && is_empty(e))
            client->is_asked = share_client_send(client, &message, -1) == SHARE_DONE;
    }
    return left;
}

/* Whether all frees of shared blocks, which are on e->stream, are complete. These frees wait for the publishers' work. */
static bool is_quiet(const weir_export *e)
{
    gpu_event event;
    if (!weir__event_behind(e->gpu, e->device, e->stream, &event))
        return false;
    bool is_complete = weir__event_wait(e->gpu, event, 0);
    weir__event_destroy(e->gpu, event);
    return is_complete;
}

/* Replaces the pool by a new one, if all frees are complete. All importers have destroyed their imported pools. */
static void renew(weir_export *e)
{
    int fd;
    if (!is_quiet(e))
        return;
    /* A block may be published as soon as the new pool exists, and then counts for the new epoch. So the count is reset first. */
    pthread_mutex_lock(&e->lock);
    uint64_t former = e->exported_in;
    e->exported_in = 0;
    pthread_mutex_unlock(&e->lock);
    share_forked_hold();
    bool is_new = weir__pool_renew(e->pool, &fd);
    if (is_new) {
        close(e->pool_fd);
        e->pool_fd = fd;
    }
    share_forked_release();
    pthread_mutex_lock(&e->lock);
    if (is_new)
        e->epoch++;
    else
        e->exported_in += former;
    pthread_mutex_unlock(&e->lock);
}

/* Ends the retiring, and welcomes the importers that connected while it lasted. The caller holds e->lock. */
static void end_asking(weir_export *e)
{
    e->retire_until = 0;
    for (struct share_client *client = e->clients; client; client = client->next)
        if (client->state == SHARE_CLIENT_HELD) {
            client->state = SHARE_CLIENT_IMPORTER;
            if (share_request_welcome(client) != SHARE_DONE)
                share_client_break(client);
        }
}

static uint64_t go_on_asking(weir_export *e, uint64_t now)
{
    pthread_mutex_lock(&e->lock);
    unsigned left = ask_importers(e);
    bool is_over = left == 0 || now >= e->retire_until || !is_empty(e);
    pthread_mutex_unlock(&e->lock);
    if (!is_over)
        return e->retire_until;
    if (left == 0)
        renew(e);
    pthread_mutex_lock(&e->lock);
    end_asking(e);
    pthread_mutex_unlock(&e->lock);
    e->empty_since = now;
    return 0;
}

uint64_t share_retire_look(weir_export *e, uint64_t now)
{
    if (e->retire_until)
        return go_on_asking(e, now);
    pthread_mutex_lock(&e->lock);
    bool is_due = is_empty(e) && e->exported_in && e->retire_after != UINT64_MAX && !e->is_closing;
    uint64_t retire_after = e->retire_after;
    pthread_mutex_unlock(&e->lock);
    if (!is_due) {
        e->empty_since = 0;
        return WEIR__SERVICE_NEVER;
    }
    if (!e->empty_since)
        e->empty_since = now;
    if (now - e->empty_since < retire_after)
        return e->empty_since + retire_after;
    if (weir__pool_live_blocks(e->pool)) {
        e->empty_since = now;
        return now + (retire_after > LOOK_AGAIN ? retire_after : LOOK_AGAIN);
    }
    pthread_mutex_lock(&e->lock);
    e->retire_until = now + RETIRE_TIME;
    pthread_mutex_unlock(&e->lock);
    return go_on_asking(e, now);
}
