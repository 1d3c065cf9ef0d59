/* SPDX-License-Identifier: MIT */
#include "lib/recover/report.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/alloc/held.h"
#include "lib/alloc/stream.h"
#include "lib/base/format.h"
#include "lib/gpu/clock.h"
#include "lib/pool/holders.h"
#include "lib/recover/finding.h"
#include "policy/report.h"

#define POOLS_MAX 16   /* at most so many pools get a line of their own */
#define HOLDERS 6      /* at most so many groups of live blocks, tags and processes are named */
#define BLOCKS_MAX 16384 /* live blocks that are looked at for the groups: a few milliseconds */
#define OTHERS_MAX 256 /* processes that are looked at */
#define REST_LINE 64   /* bytes for the line that sums up the other pools */

/* Appends a line if it fits and leaves `spare` bytes free. Returns false if it does not. */
__attribute__((format(printf, 3, 4))) static bool append(weir_error *error, size_t spare, const char *format, ...)
{
    size_t len = strlen(error->text), room = sizeof error->text - len;
    va_list arguments;
    va_start(arguments, format);
    int needed = vsnprintf(error->text + len, room, format, arguments);
    va_end(arguments);
    if (needed >= 0 && (size_t)needed + spare < room)
        return true;
    error->text[len] = '\0';
    return false;
}

/* Pools -------------------------------------------------------------------------------------------------------------------------------- */

struct pool_line {
    const weir_pool *pool; /* used for its name only; its memory stays until weir_close() */
    struct weir__held held;
    uint64_t used, reserved, max_size;
};

/* Returns whether a's line comes before b's: the request's own pool first, then the pools by size. */
static bool goes_before(const struct pool_line *a, const struct pool_line *b, const weir_pool *own)
{
    return b->pool != own && (a->pool == own || a->reserved > b->reserved);
}

/* Inserts the line at its place among the first POOLS_MAX lines. */
static void insert(struct pool_line *lines, size_t count, const struct pool_line *line, const weir_pool *own)
{
    size_t place = count < POOLS_MAX ? count : POOLS_MAX;
    for (; place && goes_before(line, &lines[place - 1], own); place--)
        if (place < POOLS_MAX)
            lines[place] = lines[place - 1];
    if (place < POOLS_MAX)
        lines[place] = *line;
}

static bool append_pool(weir_error *error, const struct pool_line *line)
{
    char live[WEIR__BYTES_LEN], cached[WEIR__BYTES_LEN], idle[WEIR__BYTES_LEN], reserved[WEIR__BYTES_LEN], cap[WEIR__BYTES_LEN];
    return append(error, REST_LINE, "\n  pool '%s'%s: live %s, cached %s, idle %s, reserved %s%s%s", line->pool->name,
                  weir__pool_is_private(line->pool) ? " (private)" : "", weir__bytes(live, line->held.live),
                  weir__bytes(cached, line->held.cached), weir__bytes(idle, line->reserved > line->used ? line->reserved - line->used : 0),
                  weir__bytes(reserved, line->reserved), line->max_size ? ", max_size " : "",
                  line->max_size ? weir__bytes(cap, line->max_size) : "");
}

static void append_pools(weir_error *error, weir_pool *own)
{
    struct pool_line lines[POOLS_MAX];
    size_t count = 0, said = 0;
    uint64_t rest = 0;
    char text[WEIR__BYTES_LEN];
    struct weir__device *device = own->device;
    for (weir_pool *pool = weir__device_next_pool(device, NULL); pool; pool = weir__device_next_pool(device, pool)) {
        struct pool_line line = { .pool = pool, .held = weir__pool_held(pool), .max_size = atomic_load(&pool->settings.max_size) };
        line.used = weir__pool_figure(pool, GPU_POOL_USED);
        line.reserved = weir__pool_figure(pool, GPU_POOL_RESERVED);
        rest += line.reserved;
        insert(lines, count++, &line, own);
    }
    while (said < count && said < POOLS_MAX && append_pool(error, &lines[said]))
        rest -= lines[said++].reserved;
    if (said < count)
        append(error, 0, "\n  and %zu more pool%s: reserved %s", count - said, count - said == 1 ? "" : "s", weir__bytes(text, rest));
}

/* What decides ------------------------------------------------------------------------------------------------------------------------- */

/* Writes " (in 1.00 s)", or "" for less than a millisecond. */
static const char *slow_of(char text[static WEIR__TIME_LEN + 8], uint64_t took)
{
    if (took >= GPU_MILLISECOND)
        snprintf(text, WEIR__TIME_LEN + 8, " (in %s)", WEIR__TIME(took));
    return text;
}

/* Appends a line for each step that gave memory, and one line for all steps that gave none, with the times of slow ones. */
static void append_rungs(weir_error *error, const struct weir__report *report)
{
    char vain[256] = "";
    size_t len = 0;
    for (weir_rung rung = 0; rung < WEIR_RUNG_COUNT; rung++) {
        const struct weir__rung_report *step = &report->rungs[rung];
        if (step->ran && step->gave)
            append(error, 0, "\n  %s: gave %s in %s", weir_rung_name(rung), WEIR__BYTES(step->gave), WEIR__TIME(step->took));
        else if (step->ran)
            len += (size_t)snprintf(vain + len, sizeof vain - len, "%s%s%s", len ? ", " : "", weir_rung_name(rung),
                                    slow_of((char[WEIR__TIME_LEN + 8]){0}, step->took));
    }
    if (len)
        append(error, 0, "\n  gave nothing: %s", vain);
    if (report->note[0])
        append(error, 0, "\n  %s", report->note);
    if (report->why)
        append(error, 0, "\n  %s", report->why);
}

/* Appends the device's memory, and the quota if there is one: a pool whose cap is a share of the quota may be full although the device has
   much free memory. */
static void append_device(weir_error *error, const struct weir__device *device)
{
    const struct weir__quota *quota = &device->quota;
    const struct gpu *gpu = device->w->gpu;
    uint64_t free_bytes = 0, total_bytes = 0;
    char free_text[WEIR__BYTES_LEN], total[WEIR__BYTES_LEN];
    gpu->device_memory(device->index, &free_bytes, &total_bytes);
    append(error, 0, "\n  device %d: %s free of %s", device->index, weir__bytes(free_text, free_bytes), weir__bytes(total, total_bytes));
    if (quota->counts >= 0)
        append(error, 0, "\n  %s='%s': this process may have %s of it, and shares of the policy are of that",
               quota->limits[quota->counts].variable, quota->limits[quota->counts].value, WEIR__BYTES(quota->bytes));
}

/* Other processes -------------------------------------------------------------------------------------------------------------------------- */

/* Writes " (python3)", the name that the process gives itself, which may have any bytes; "" if it is unknown. */
#define PROGRAM_LEN 80
static const char *program_of(char text[static PROGRAM_LEN], int pid)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, name, sizeof name - 1);
    if (fd >= 0)
        close(fd);
    name[len > 0 ? len : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    for (char *at = name; *at; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    text[0] = '\0';
    if (*name)
        snprintf(text, PROGRAM_LEN, " (%s)", policy_quote(name).text);
    return text;
}

static int by_bytes(const void *left, const void *right)
{
    const struct gpu_process *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->pid < b->pid ? -1 : a->pid > b->pid;
}

/* Appends the other processes that use the device, those with the most memory first. */
static void append_others(weir_error *error, const struct weir__device *device)
{
    struct gpu_process found[OTHERS_MAX];
    char text[HOLDERS * (PROGRAM_LEN + WEIR__BYTES_LEN + 24) + 64];
    size_t len = 0, count = 0, others = 0;
    if (device->w->gpu->device_processes(device->index, found, OTHERS_MAX, &count) != GPU_SUCCESS)
        return;
    for (size_t i = 0; i < count && i < OTHERS_MAX; i++)
        if (found[i].pid != (int)getpid())
            found[others++] = found[i];
    qsort(found, others, sizeof found[0], by_bytes);
    for (size_t i = 0; i < others && i < HOLDERS; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%spid %d%s%s%s", i ? ", " : "", found[i].pid,
                                program_of((char[PROGRAM_LEN]){0}, found[i].pid), found[i].bytes == GPU_BYTES_UNKNOWN ? "" : " ",
                                found[i].bytes == GPU_BYTES_UNKNOWN ? "" : WEIR__BYTES(found[i].bytes));
    if (others > HOLDERS)
        snprintf(text + len, sizeof text - len, " and %zu more", (count > OTHERS_MAX ? count - 1 : others) - HOLDERS);
    if (others)
        append(error, REST_LINE, "\n  other processes on this GPU: %s", text);
}

/* Returns what the request lacked, perhaps in `text`. */
#define WANT_LEN 80
static const char *want_of(const struct weir__request *request, const struct gpu *gpu, char text[static WANT_LEN])
{
    if (request->at_cap)
        return "its max_size is reached";
    if (request->ask.lack == WEIR__LACK_FREE) {
        snprintf(text, WANT_LEN, "the device would have less than leave_free, %s, left",
                 WEIR__BYTES(atomic_load(&request->pool->backing->leave_free)));
        return text;
    }
    if (request->ask.lack == WEIR__PAGE_NO_ADDRESSES)
        return "its range has no gap of so many addresses, whatever memory there is: free the blocks between";
    return request->ask.lack ? "the host has no memory to keep track of it" : gpu->code_text(GPU_OUT_OF_MEMORY);
}

/* Who holds memory --------------------------------------------------------------------------------------------------------------------- */

/* Appends one line with the tags that have the most live bytes. */
static void append_tags(weir_error *error, const weir *w)
{
    unsigned before = 0; /* the tag that was named last; it had `below` bytes */
    char text[HOLDERS * (WEIR__TAG_NAME_MAX + WEIR__BYTES_LEN + 8)] = "", size[WEIR__BYTES_LEN];
    int64_t below = INT64_MAX;
    size_t len = 0;
    for (unsigned said = 0; said < HOLDERS; said++) {
        unsigned largest = 0;
        int64_t most = 0;
        for (unsigned i = 1; i <= atomic_load(&w->recorder.tags.count); i++) {
            int64_t live = atomic_load(&weir__tags_get(&w->recorder.tags, i)->live);
            /* Tags with equal bytes follow in the order of their numbers. */
            if (live > most && (live < below || (live == below && i > before))) {
                largest = i;
                most = live;
            }
        }
        if (!largest)
            break;
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s %s", said ? ", " : "",
                                weir__tags_get(&w->recorder.tags, largest)->name,
                                weir__bytes(size, (uint64_t)most));
        below = most;
        before = largest;
    }
    if (len)
        append(error, 0, "\n  live by tag: %s", text);
}

/* Appends the largest groups of live blocks. */
static void append_holders(weir_error *error, const weir *w, const struct weir__holder *holders, size_t count)
{
    char size[WEIR__BYTES_LEN], all[WEIR__BYTES_LEN];
    if (atomic_load(&w->recorder.tags.are_used))
        append_tags(error, w);
    for (size_t i = 0; i < count && i < HOLDERS; i++) {
        const struct weir__holder *holder = &holders[i];
        const struct weir__tag *tag = weir__tags_get(&w->recorder.tags, weir__origin_tag(holder->origin));
        append(error, 0, "\n  live: %s = %llu block%s of %s in pool '%s'%s%s", weir__bytes(all, holder->size * holder->blocks),
               (unsigned long long)holder->blocks, weir__plural(holder->blocks), weir__bytes(size, holder->size), holder->pool->name,
               tag ? ", tag " : "", tag ? tag->name : "");
    }
}

/* Writes ", stream 'decode'", with the handle if several open streams have that name; "" for a stream without a name. */
#define STREAM_LEN (WEIR__NAME_MAX + 48)
static const char *stream_of(char text[static STREAM_LEN], const struct weir__request *request)
{
    char name[WEIR__NAME_MAX + 1];
    bool is_shared;
    weir_stream *pinned = request->opened ? NULL : weir__stream_pin(request->pool->device, request->stream);
    const weir_stream *stream = pinned ? pinned : request->opened;
    text[0] = '\0';
    if (stream && weir__recorder_stream_name(&stream->w->recorder, &stream->recorded, name, &is_shared)) {
        int len = snprintf(text, STREAM_LEN, ", stream '%s'", policy_quote(name).text);
        if (is_shared)
            snprintf(text + len, STREAM_LEN - (size_t)len, " (0x%" PRIxPTR ")", (uintptr_t)stream->handle);
    }
    if (pinned)
        weir__stream_unpin(pinned);
    return text;
}

weir_status weir__report(const struct weir__report *report)
{
    weir_error *error = weir__last_error_reset();
    weir_pool *pool = report->request->pool;
    const struct gpu *gpu = pool->w->gpu;
    char size[WEIR__BYTES_LEN], stream[STREAM_LEN], findings[WEIR__FINDINGS_LEN];
    struct weir__holder *holders = NULL;
    size_t count = 0;
    /* The groups are left out if finding them would take long. */
    if (!weir__holders_find(pool->w, pool->device->index, BLOCKS_MAX, &holders, &count))
        count = 0;
    weir__findings_write(findings, report, holders, count);
    atomic_fetch_add_explicit(&pool->figures.failures, 1, memory_order_relaxed);
    error->status = report->request->ask.lack == WEIR__PAGE_NO_HOST_MEMORY ? WEIR_NO_HOST_MEMORY : WEIR_OUT_OF_MEMORY;
    error->cuda_code = GPU_OUT_OF_MEMORY;
    append(error, 0, "no %s for pool '%s' on device %d%s: %s (%s)", weir__bytes(size, report->request->asked), pool->name,
           pool->device->index, stream_of(stream, report->request), want_of(report->request, gpu, (char[WANT_LEN]){0}), gpu->code_name(GPU_OUT_OF_MEMORY));
    append_rungs(error, report);
    append_device(error, pool->device);
    if (!report->request->at_cap && !pool->native.is_host)
        append_others(error, pool->device);
    append(error, 0, "%s", findings);
    append_pools(error, pool);
    append_holders(error, pool->w, holders, count);
    free(holders);
    weir__log_about(pool->w, pool, WEIR_LOG_WARNING, "%s", error->text);
    return error->status;
}
