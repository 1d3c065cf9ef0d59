/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/export/export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "lib/base/call.h"
#include "lib/base/event.h"
#include "lib/base/format.h"
#include "share/base/wait.h"
#include "share/export/request.h"
#include "share/export/ring.h"
#include "share/export/serve.h"

/* The service thread --------------------------------------------------------------------------------------------------------------------- */

/* Whether a connection waits to be accepted. The clients' sockets are left to the thread that serves. */
static bool has_visitor(weir_export *e)
{
    struct epoll_event events[3];
    bool has = false;
    int count = epoll_wait(e->server.epoll_fd, events, 3, 0);
    for (int i = 0; i < count; i++) {
        has = has || events[i].data.ptr == &e->server;
        if (events[i].data.ptr == &e->server.gone_fd)
            share_server_suspect(&e->server);
    }
    return has;
}

/* Listens at the policy's socket. The credentials of a process decide whether it may connect. If share.allow names nobody, the file's
   mode also keeps other users from trying. */
static weir_status listen_at(void *data, struct share_listener *listener, weir_error *error)
{
    const weir_export *e = data;
    char path[SHARE_PATH_SIZE];
    weir_status status = share_path(e->socket, true, e->has_others, error, path);
    return status == WEIR_OK ? share_listen(path, e->has_others ? 0666 : 0600, error, listener) : status;
}

/* The socket's file was removed, for example by a logout: listens at a new one and logs this. */
static void listen_again(weir_export *e)
{
    weir_error error = WEIR_ERROR_INIT;
    char former[SHARE_PATH_SIZE];
    weir_status status = share_server_listen_again(&e->server, listen_at, e, former, &error);
    weir__log_about(e->w, e->pool, status == WEIR_OK ? WEIR_LOG_INFO : WEIR_LOG_WARNING, "pool '%s': %s was removed: %s", e->pool->name, former,
                    status == WEIR_OK ? e->server.listener.path : error.text);
}

static void accept_visitors(weir_export *e)
{
    weir_error shortage = WEIR_ERROR_INIT;
    share_server_accept(&e->server, &shortage);
    if (shortage.status != WEIR_OK)
        weir__log_about(e->w, e->pool, WEIR_LOG_WARNING, "pool '%s': importers are turned away: %s", e->pool->name, shortage.text);
}

/* Frees the blocks of a list, with their memory, and empties the list. */
static void free_blocks(weir_export *e, struct share_block **first)
{
    pthread_mutex_lock(&e->lock);
    struct share_block *block = *first;
    *first = NULL;
    pthread_mutex_unlock(&e->lock);
    for (struct share_block *next; block; block = next) {
        next = block->next;
        share_block_free(e, block, true);
    }
}

static uint64_t run(struct weir__job *job)
{
    weir_export *e = (weir_export *)((char *)job - offsetof(weir_export, job));
    enum gpu_capture_mode mode = weir__relaxed_begin(e->gpu);
    uint64_t now = weir__service_now();
    if (has_visitor(e))
        accept_visitors(e);
    if (share_server_is_lost(&e->server, now))
        listen_again(e);
    uint64_t due = weir__service_earlier(share_serve_turn(e), e->server.look_at);
    due = weir__service_earlier(due, share_requests_go_on(e) ? 0 : WEIR__SERVICE_NEVER);
    due = weir__service_earlier(due, share_clients_check(e, now));
    due = weir__service_earlier(due, share_server_resume(&e->server, now));
    pthread_mutex_lock(&e->lock);
    share_rings_wind_up(e, false);
    pthread_mutex_unlock(&e->lock);
    free_blocks(e, &e->dead);
    due = weir__service_earlier(due, share_retire_look(e, now));
    share_clients_destroy_gone(e);
    weir__relaxed_end(e->gpu, mode);
    share_news_tell(&e->news, &e->lock, e->w);
    return due;
}

/* Opening -------------------------------------------------------------------------------------------------------------------------------- */

static void close_with_weir(struct weir__attached *attached);

/* Runs in the child of a fork. Closes the child's copies of the descriptors; with an open copy the importers would not notice the
   parent's end. */
static void close_in_child(struct share_forked *forked)
{
    weir_export *e = (weir_export *)((char *)forked - offsetof(weir_export, forked));
    share_server_forget(&e->server);
    share_serve_close(e);
    close(e->pool_fd);
    for (struct share_client *client = e->clients; client; client = client->next) {
        if (client->connection.fd >= 0)
            close(client->connection.fd);
        close(client->process.pidfd);
        if (client->process.memory_fd >= 0)
            close(client->process.memory_fd);
    }
}

/* A copy of the pool's entry in the policy. It is copied because looking up a name may take long, and must not happen under the policy's
   lock. */
struct entry_copy {
    char socket[128];
    bool is_shared, has_others;
    uint64_t max_importers, retire_after;
    struct share_allowed allowed; /* names only, ids are not looked up yet */
    bool is_short; /* host memory ran out */
};

static void copy_entry(const struct policy_pool *entry, void *data)
{
    struct entry_copy *copy = data;
    copy->is_shared = entry->share_socket;
    if (entry->share_socket)
        snprintf(copy->socket, sizeof copy->socket, "%s", entry->share_socket);
    copy->has_others = entry->share_users.count || entry->share_groups.count;
    copy->max_importers = entry->share_max_importers;
    copy->retire_after = entry->share_retire_after;
    copy->is_short = !share_allowed_copy(&entry->share_users, &entry->share_groups, &copy->allowed);
}

/* Puts the policy's entry into force. The calling thread waits for the user database, which may be slow; with is_quick, only for names
   that are new. Returns false, with nothing changed, if host memory ran out. */
static bool put_in_force(weir_export *e, struct entry_copy *entry, bool is_quick)
{
    if (entry->is_short)
        return false;
    share_allowed_find(&entry->allowed, is_quick ? &e->allowed : NULL);
    const char *unknown = share_allowed_unknown(&entry->allowed), *told = share_allowed_unknown(&e->allowed);
    if (unknown && (!is_quick || !told || strcmp(unknown, told) != 0))
        weir__log_about(e->w, e->pool, WEIR_LOG_WARNING,
                        "pools.%s.share.allow: this system knows no '%s': nobody is let in by that name until a reload "
                        "finds it",
                        e->pool->name, unknown);
    pthread_mutex_lock(&e->lock);
    struct share_allowed former = e->allowed;
    e->allowed = entry->allowed;
    e->max_importers = entry->max_importers;
    e->retire_after = entry->retire_after;
    pthread_mutex_unlock(&e->lock);
    entry->allowed = former;
    return true;
}

static void policy_changed(struct weir__attached *attached, bool is_quick)
{
    weir_export *e = (weir_export *)((char *)attached - offsetof(weir_export, attached));
    struct entry_copy entry = { 0 };
    weir__pool_with_entry(e->pool, copy_entry, &entry);
    if (!put_in_force(e, &entry, is_quick))
        weir__log_about(e->w, e->pool, WEIR_LOG_ERROR,
                        "pool '%s': no host memory for what share: says now: what it said before stays in force", e->pool->name);
    share_allowed_free(&entry.allowed);
    weir__service_wake(&e->job, 0);
}

static weir_status start_serving(weir_export *e, weir_error *error)
{
    if (!share_serve_open(e))
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "exporting pool '%s': no epoll descriptor: %s", e->pool->name,
                          WEIR__WHY(errno, "raise fs.epoll.max_user_watches"));
    e->job.run = run;
    weir_status status = weir__service_add(&e->job, error);
    if (status != WEIR_OK)
        return status;
    weir__service_watch(&e->job, e->server.epoll_fd);
    return WEIR_OK; /* nothing after this can fail, so a failure never has a job to remove */
}

/* Destroys the stream once its frees are complete. CUDA keeps a pool while frees of the pool are pending, and without the stream nobody
   could wait for them. They wait for the publishers' work, which may never end; so after a second the stream is left alone. */
static void end_stream(weir_export *e)
{
    gpu_event event;
    enum gpu_capture_mode mode = weir__relaxed_begin(e->gpu);
    if (weir__event_behind(e->gpu, e->device, e->stream, &event)) {
        if (weir__event_wait(e->gpu, event, e->gpu->now() + GPU_SECOND))
            e->gpu->stream_destroy(e->stream);
        weir__event_destroy(e->gpu, event);
    }
    weir__relaxed_end(e->gpu, mode);
}

/* Closes the descriptors that are open. The clients' connections were shut down before. */
static void close_descriptors(weir_export *e)
{
    share_server_close(&e->server);
    share_serve_close(e);
    if (e->pool_fd >= 0)
        close(e->pool_fd);
    e->pool_fd = -1;
}

/* Frees the export, whose job was removed. */
static void destroy(weir_export *e)
{
    if (e->stream)
        end_stream(e);
    weir__pool_unclaim(e->pool);
    share_allowed_free(&e->allowed);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    pthread_mutex_destroy(&e->serving);
    free(e);
}

static weir_export *new_export(weir_pool *pool)
{
    weir_export *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    share_cond_init(&e->changed);
    share_mutex_init(&e->lock);
    share_mutex_init(&e->serving);
    e->w = pool->w;
    e->gpu = pool->w->gpu;
    e->pool = pool;
    e->device = pool->device->index;
    e->epoch = 1;
    /* Random numbers are missing only early in the boot; then the time makes numbers differ between exports. */
    if (getrandom(&e->last_publication, sizeof e->last_publication, GRND_NONBLOCK) != (ssize_t)sizeof e->last_publication)
        e->last_publication = weir__service_now();
    e->server = SHARE_SERVER_INIT(WIRE_REFUSED, share_client_admit);
    e->epoll_fd = e->wake_fd = e->pool_fd = -1;
    return e;
}

static weir_status open_export(weir_export *e, struct entry_copy *entry, weir_error *error)
{
    memcpy(e->socket, entry->socket, sizeof e->socket);
    e->has_others = entry->has_others;
    if (!put_in_force(e, entry, false))
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory to export pool '%s'", e->pool->name);
    share_forked_hold();
    enum gpu_capture_mode mode = weir__relaxed_begin(e->gpu);
    int code = weir__pool_export(e->pool, &e->pool_fd);
    if (code == GPU_SUCCESS)
        code = e->gpu->stream_create(e->device, &e->stream);
    weir__relaxed_end(e->gpu, mode);
    weir_status status = code == GPU_SUCCESS ? listen_at(e, &e->server.listener, error)
                                             : weir__fail_gpu(error, e->gpu, code, "exporting pool '%s'", e->pool->name);
    if (status == WEIR_OK)
        status = start_serving(e, error);
    if (status == WEIR_OK)
        share_forked_add(&e->forked, close_in_child);
    else
        close_descriptors(e);
    share_forked_release();
    return status;
}

static weir_status claim_and_open(weir_pool *pool, struct entry_copy *entry, weir_error *error, weir_export **out)
{
    if (!pool->native.is_exportable || !entry->is_shared)
        return weir__fail(error, WEIR_INVALID,
                          "weir_export_open: pool '%s' is not to be shared: give it `ipc: posix_fd` and `share: {socket: "
                          "NAME}` in the policy",
                          pool->name);
    if (!weir__pool_claim(pool))
        return weir__fail(error, WEIR_BUSY, "weir_export_open: pool '%s' is exported already: close that export first", pool->name);
    weir_export *e = new_export(pool);
    if (!e) {
        weir__pool_unclaim(pool);
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory to export pool '%s'", pool->name);
    }
    weir_status status = open_export(e, entry, error);
    if (status != WEIR_OK) {
        destroy(e);
        return status;
    }
    e->attached.close = close_with_weir;
    e->attached.policy_changed = policy_changed;
    weir__attach(e->w, &e->attached);
    *out = e;
    return WEIR_OK;
}

weir_status weir_export_open(weir_pool *pool, weir_error *error, weir_export **out)
{
    WEIR__CALL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!pool || !out)
        return weir__fail(error, WEIR_INVALID, "weir_export_open: pool and e must not be NULL");
    struct entry_copy entry = { 0 };
    weir__pool_with_entry(pool, copy_entry, &entry);
    weir_status status = claim_and_open(pool, &entry, error, out);
    share_allowed_free(&entry.allowed);
    return status;
}

/* Closing -------------------------------------------------------------------------------------------------------------------------------- */

static void withdraw_all(weir_export *e)
{
    for (struct share_block *block = e->blocks, *next; block; block = next) {
        next = block->next;
        if (!block->is_withdrawn && !block->ring)
            share_block_withdraw(e, block);
    }
}

/* Withdraws everything. Readers get up to timeout_ms to get queued frames, and importers to unmap blocks. */
static void wind_up(weir_export *e, unsigned timeout_ms)
{
    uint64_t deadline = share_deadline(timeout_ms);
    pthread_mutex_lock(&e->lock);
    for (weir_ring *ring = e->rings; ring; ring = ring->next)
        ring->is_closed = true;
    share_rings_wind_up(e, false);
    withdraw_all(e);
    while (e->blocks && timeout_ms && share_cond_wait(&e->changed, &e->lock, deadline))
        continue;
    share_rings_wind_up(e, true);
    withdraw_all(e);
    pthread_mutex_unlock(&e->lock);
}

/* Takes the blocks that importers still map off the list and returns them. Their memory cannot be used again before the pool is
   destroyed. */
static struct share_block *set_mapped_aside(weir_export *e)
{
    size_t count = 0, bytes = 0;
    pthread_mutex_lock(&e->lock);
    struct share_block *mapped = e->blocks;
    e->blocks = NULL;
    for (struct share_block *block = mapped; block; block = block->next) {
        block->is_withdrawn = false; /* so that share_block_released() does not free the block when its mappings are forgotten */
        count++;
        bytes += block->bytes;
    }
    pthread_mutex_unlock(&e->lock);
    if (mapped)
        weir__log_about(e->w, e->pool, WEIR_LOG_WARNING,
                        "pool '%s': importers still map %zu block%s, %s, of what is shared no more: the memory stays "
                        "reserved until weir_close()",
                        e->pool->name, count, weir__plural(count), WEIR__BYTES(bytes));
    return mapped;
}

/* Ends the export, except for the blocks that importers still map, which it returns. */
static struct share_block *end(weir_export *e, unsigned timeout_ms)
{
    pthread_mutex_lock(&e->lock);
    e->is_closing = true;
    pthread_mutex_unlock(&e->lock);
    wind_up(e, timeout_ms);
    weir__service_remove(&e->job);
    enum gpu_capture_mode mode = weir__relaxed_begin(e->gpu);
    struct share_block *mapped = set_mapped_aside(e);
    share_clients_destroy(e);
    share_forked_hold();
    share_forked_remove(&e->forked);
    close_descriptors(e);
    share_forked_release();
    free_blocks(e, &e->dead);
    weir__relaxed_end(e->gpu, mode);
    return mapped;
}

static void close_remains(struct weir__attached *attached)
{
    weir_export *e = (weir_export *)((char *)attached - offsetof(weir_export, attached));
    free_blocks(e, &e->blocks);
    destroy(e);
}

static void close_with_weir(struct weir__attached *attached)
{
    weir_export *e = (weir_export *)((char *)attached - offsetof(weir_export, attached));
    e->blocks = end(e, 0);
    close_remains(attached);
}

void weir_export_close(weir_export *e, unsigned timeout_ms)
{
    WEIR__CALL;
    if (!e || weir__is_forked())
        return;
    weir__detach(e->w, &e->attached);
    e->blocks = end(e, timeout_ms);
    if (e->blocks) {
        e->attached.close = close_remains;
        e->attached.policy_changed = NULL;
        weir__attach(e->w, &e->attached);
    } else {
        destroy(e);
    }
}

/* Publishing ------------------------------------------------------------------------------------------------------------------------------ */

static weir_status list_block(weir_export *e, struct share_block *block, weir_error *error)
{
    pthread_mutex_lock(&e->lock);
    bool is_free = !share_block_find(e, block->name) && !share_ring_find(e, block->name);
    if (is_free) {
        share_block_add(e, block, share_publication_new(e), 0);
        share_clients_offer(e);
    }
    pthread_mutex_unlock(&e->lock);
    if (is_free)
        return WEIR_OK;
    return weir__fail(error, WEIR_BUSY, "weir_export_publish: '%s' is published already: withdraw it first", block->name);
}

weir_status(weir_export_publish)(weir_export *e, const char *name, void *ptr, size_t size, const void *metadata, size_t metadata_size,
                                 weir_cuda_stream stream, weir_error *error)
{
    WEIR__CALL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!e || !name || !ptr)
        return weir__fail(error, WEIR_INVALID, "weir_export_publish: e, name and ptr must not be NULL");
    if (!wire_is_name(name))
        return weir__fail(error, WEIR_INVALID, "weir_export_publish: '%s' cannot be a name: use 1 to 63 letters, digits, '_', '-' and '.'",
                          name);
    struct share_block *block;
    weir_status status = share_block_new(e, ptr, error, &block);
    if (status != WEIR_OK)
        return status;
    snprintf(block->name, sizeof block->name, "%s", name);
    struct share_content content = { size, metadata, metadata_size };
    status = share_content_check(block, &content, "weir_export_publish", error);
    if (status == WEIR_OK)
        status = share_block_record(e, block, stream, "weir_export_publish", error);
    if (status == WEIR_OK)
        share_block_describe(block, &content);
    if (status == WEIR_OK)
        status = list_block(e, block, error);
    if (status != WEIR_OK)
        share_block_free(e, block, false);
    return status;
}

weir_status weir_export_withdraw(weir_export *e, const char *name, weir_error *error)
{
    WEIR__CALL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!e || !name)
        return weir__fail(error, WEIR_INVALID, "weir_export_withdraw: e and name must not be NULL");
    pthread_mutex_lock(&e->lock);
    struct share_block *block = share_block_find(e, name);
    if (block)
        share_block_withdraw(e, block);
    pthread_mutex_unlock(&e->lock);
    return block ? WEIR_OK : weir__fail(error, WEIR_NOT_FOUND, "weir_export_withdraw: no block '%s' is published", name);
}

weir_status weir_export_evict(weir_export *e, int pid, weir_error *error)
{
    WEIR__CALL;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!e)
        return weir__fail(error, WEIR_INVALID, "weir_export_evict: e must not be NULL");
    pthread_mutex_lock(&e->lock);
    bool found = share_clients_evict(e, pid);
    pthread_mutex_unlock(&e->lock);
    return found ? WEIR_OK
                 : weir__fail(error, WEIR_NOT_FOUND, "weir_export_evict: process %d is no importer of pool '%s'", pid, e->pool->name);
}
