/* SPDX-License-Identifier: MIT */
/*
 * retire.c - making an empty shared pool anew, which is the only way in which its memory goes back to the device.
 *
 * Every importer has to destroy its imported pool first. They are asked, and those who answer connect again when they next want something;
 * until all have answered, or are dead, nobody new is let in. After RETIRE_TIME it is given up, and tried again later.
 */
#include "config.h"

#include <unistd.h>

#include "lib/alloc/held.h"
#include "lib/base/event.h"
#include "share/export/request.h"

#define RETIRE_TIME (2 * GPU_SECOND)
#define LOOK_AGAIN (GPU_SECOND / 10) /* at least, where the pool's users have blocks of it that they do not share */

/* Nothing is published or mapped, but for what the pool's users have and do not share. */
static bool is_empty(weir_export *e)
{
    return !e->blocks && !e->dead && !e->rings;
}

/* How many importers still have the pool; those that have not been asked are asked now, unless something was published meanwhile, of which
   they may have leases. With the lock. */
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

/* Whether the driver has seen all frees of what was shared, which are on this stream. They wait for what their publishers had under way. */
static bool is_quiet(const weir_export *e)
{
    gpu_event event;
    if (!weir__event_behind(e->gpu, e->device, e->stream, &event))
        return false;
    bool is_complete = weir__event_wait(e->gpu, event, 0);
    e->gpu->event_destroy(event);
    return is_complete;
}

/* All importers have let go of it. */
static void renew(weir_export *e)
{
    int fd;
    if (!is_quiet(e))
        return;
    /* A block may be published as soon as there is the new pool: it counts for the epoch that begins. */
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

/* Lets those in who came meanwhile. With the lock. */
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
