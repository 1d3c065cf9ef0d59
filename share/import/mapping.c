/* SPDX-License-Identifier: MIT */
/* mapping.c - the blocks and events of an exporter that an importer has on the GPU. */
#include "config.h"

#include <stdlib.h>

#include "lib/base/call.h"
#include "lib/base/event.h"
#include "share/base/order.h"
#include "share/import/import.h"

#define READY_PAUSE UINT64_C(20000) /* pause, in nanoseconds, between two queries whether a block is ready */

/* Importing; the caller holds mapping_lock --------------------------------------------------------------------------------------------- */

static int map(weir_lease *lease)
{
    struct share_session *session = lease->session;
    const struct gpu *gpu = session->i->gpu;
    struct share_mapped *mapped = lease->mapped;
    struct share_number *number = &session->numbers[lease->number];
    int code = GPU_SUCCESS;
    if (!mapped->ready)
        code = gpu->event_open_shared(session->device, &mapped->ready_handle, &mapped->ready);
    if (code == GPU_SUCCESS && !number->release)
        code = gpu->event_open_shared(session->device, &number->handle, &number->release);
    if (code == GPU_SUCCESS && !number->behind)
        code = gpu->event_create(session->device, &number->behind);
    if (code == GPU_SUCCESS && !mapped->ptr)
        code = gpu->block_import(session->pool, &mapped->handle, &mapped->ptr);
    lease->info.ptr = mapped->ptr;
    return code;
}

static weir_status import_block(weir_lease *lease, weir_error *error)
{
    weir_import *i = lease->session->i;
    pthread_mutex_lock(&i->mapping_lock);
    enum gpu_capture_mode mode = weir__relaxed_begin(i->gpu);
    int code = map(lease);
    weir__relaxed_end(i->gpu, mode);
    pthread_mutex_unlock(&i->mapping_lock);
    if (code == GPU_SUCCESS)
        return WEIR_OK;
    return weir__fail_gpu(error, i->gpu, code, "importing a block of '%s'", i->socket);
}

/* A stream that only the session uses, so that a free waits for no other work. */
static gpu_stream own_stream(struct share_session *session)
{
    const struct gpu *gpu = session->i->gpu;
    if (!session->stream)
        gpu->stream_create(session->device, &session->stream);
    return session->stream ? session->stream : GPU_STREAM_LEGACY;
}

static void close_event(const struct gpu *gpu, gpu_event event)
{
    if (event)
        weir__event_destroy(gpu, event);
}

/* Logs a failure that leaves something on the GPU until this process ends. */
static void tell_left(struct share_session *session, const char *what, int code)
{
    pthread_mutex_lock(&session->i->lock);
    share_news_add(&session->i->news, WEIR_LOG_ERROR, "import '%s': %s: %s", session->i->socket, what, session->i->gpu->code_text(code));
    pthread_mutex_unlock(&session->i->lock);
}

void share_mapped_free(struct share_session *session, struct share_mapped *mapped)
{
    const struct gpu *gpu = session->i->gpu;
    gpu_stream stream = own_stream(session);
    int former = weir__current_begin(gpu, session->device, stream);
    int code = GPU_SUCCESS;
    if (mapped->ptr && (code = gpu->free_async(mapped->ptr, stream)) == GPU_SUCCESS)
        code = gpu->stream_synchronize(stream);
    weir__current_end(gpu, former);
    if (code != GPU_SUCCESS)
        tell_left(session, "a block cannot be unmapped", code);
    close_event(gpu, mapped->ready);
    free(mapped);
}

void share_session_unmap(struct share_session *session)
{
    const struct gpu *gpu = session->i->gpu;
    gpu_stream stream = own_stream(session);
    /* Blocks that were released last may still be in use; the exporter would wait for that, but may be gone. */
    for (unsigned n = 0; n < WIRE_LEASES_MAX; n++)
        if (session->numbers[n].is_recorded)
            gpu->stream_wait_event(stream, session->numbers[n].behind);
    while (session->mappings) {
        struct share_mapped *mapped = session->mappings;
        session->mappings = mapped->next;
        share_mapped_free(session, mapped);
    }
    for (unsigned n = 0; n < WIRE_LEASES_MAX; n++) {
        close_event(gpu, session->numbers[n].release);
        close_event(gpu, session->numbers[n].behind);
    }
    int code = session->pool ? gpu->pool_destroy(session->pool) : GPU_SUCCESS;
    if (code != GPU_SUCCESS)
        tell_left(session, "the imported pool cannot be let go of", code);
    if (session->stream)
        gpu->stream_destroy(session->stream);
}

/* Leases --------------------------------------------------------------------------------------------------------------------------------- */

void share_lease_forget(weir_lease *lease)
{
    struct share_session *session = lease->session;
    weir_reader *reader = lease->is_taken ? lease->reader : NULL;
    if (reader && --reader->held == 0 && reader->is_closed)
        free(reader);
    lease->mapped->leases--;
    session->numbers[lease->number].is_leased = false;
    if (--session->leases == 0 && (session->fd < 0 || session->farewell))
        weir__service_wake(&session->i->job, 0);
    free(lease);
}

static void say_released(const weir_lease *lease, enum wire_how how)
{
    struct wire_message message = { .type = WIRE_RELEASE };
    message.u.release.lease = lease->number;
    message.u.release.how = (uint16_t)how;
    share_session_send(lease->session, &message);
}

void share_lease_return(weir_lease *lease)
{
    say_released(lease, WIRE_HOW_DONE);
    share_lease_forget(lease);
}

/* Whether the session is still connected. With `look` the socket is read first. */
static bool is_connected(weir_lease *lease, bool look)
{
    weir_import *i = lease->session->i;
    pthread_mutex_lock(&i->lock);
    if (look && !i->is_pumping)
        share_session_drain(lease->session);
    bool connected = lease->session->fd >= 0;
    pthread_mutex_unlock(&i->lock);
    return connected;
}

/* Waits on the host until the block is written, for applications that do not want a stream to wait for a process that may die
   (host_waits). */
static weir_status wait_until_ready(weir_lease *lease, uint64_t deadline, weir_error *error)
{
    weir_import *i = lease->session->i;
    for (;;) {
        enum gpu_capture_mode mode = weir__relaxed_begin(i->gpu);
        int code = i->gpu->event_query(lease->mapped->ready);
        weir__relaxed_end(i->gpu, mode);
        if (code == GPU_SUCCESS)
            return WEIR_OK;
        if (code != GPU_NOT_READY)
            return weir__fail_gpu(error, i->gpu, code, "asking whether a block of '%s' is ready", i->socket);
        if (!is_connected(lease, true))
            return weir__fail(error, WEIR_GONE, "import '%s': the exporter ended before its work on this block", i->socket);
        if (weir__service_now() >= deadline)
            return weir__fail(error, WEIR_TIMEOUT, "import '%s': the exporter's work on the block takes longer than the time given",
                              i->socket);
        i->gpu->pause(READY_PAUSE);
    }
}

weir_status share_lease_deliver(weir_lease *lease, gpu_stream stream, uint64_t deadline, weir_error *error)
{
    weir_import *i = lease->session->i;
    weir_status status = import_block(lease, error);
    if (status == WEIR_OK && i->host_waits)
        status = wait_until_ready(lease, deadline, error);
    else if (status == WEIR_OK)
        status = share_order(SHARE_ORDER_WAIT, i->gpu, lease->session->device, stream, lease->mapped->ready, "acquiring a lease", error);
    return status;
}

const weir_lease_info *weir_lease_get_info(const weir_lease *lease)
{
    return lease ? &lease->info : NULL;
}

/* Records the release events after the work that is on the stream. *how tells the exporter whether to query the event. If the events
   cannot be recorded the host waits for the stream instead, since the exporter must learn of the release in any case. */
static weir_status record_release(weir_lease *lease, gpu_stream stream, weir_error *error, enum wire_how *how)
{
    struct share_session *session = lease->session;
    const struct gpu *gpu = session->i->gpu;
    struct share_number *number = &session->numbers[lease->number];
    weir_status status = share_order(SHARE_ORDER_RECORD, gpu, session->device, stream, number->behind, "releasing a lease", NULL);
    number->is_recorded = number->is_recorded || status == WEIR_OK;
    /* The events of a dead exporter are not used. */
    if (status == WEIR_OK && is_connected(lease, false))
        status = share_order(SHARE_ORDER_RECORD, gpu, session->device, stream, number->release, "releasing a lease", NULL);
    *how = status == WEIR_OK ? WIRE_HOW_EVENT : WIRE_HOW_DONE;
    return status == WEIR_OK ? WEIR_OK : share_order(SHARE_ORDER_FINISH, gpu, session->device, stream, NULL, "releasing a lease", error);
}

weir_status(weir_lease_release)(weir_lease *lease, weir_cuda_stream stream, weir_error *error)
{
    WEIR__CALL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!lease)
        return WEIR_OK;
    weir_import *i = lease->session->i;
    enum wire_how how;
    weir_status status = record_release(lease, stream, error, &how);
    if (status != WEIR_OK)
        return status;
    pthread_mutex_lock(&i->lock);
    say_released(lease, how);
    share_lease_forget(lease);
    pthread_mutex_unlock(&i->lock);
    return WEIR_OK;
}
