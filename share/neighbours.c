/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/neighbours.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/format.h"
#include "lib/service.h"
#include "share/directory.h"
#include "share/query.h"

#define NEIGHBOURS_MAX 256 /* that are asked for one request */
#define MS UINT64_C(1000000)
#define ANSWER_SOON (20 * MS) /* what a healthy process takes at most to say what it has */
#define ANSWER_SHARE 8        /* such a part of the time to give is for the answer to come in time, and for the step before it to end */
#define SILENCE (1000 * MS)   /* a process that did not answer is for so long asked only where the others have not enough */
#define SILENT_MAX 16         /* such processes that are remembered */
#define REST_FIRST (10 * MS)  /* after a request that nobody could help, none as large is sent for so long, doubling */
#define REST_LONGEST (1000 * MS)
#define BUSY_PAUSE (10 * MS) /* before a process is asked again that was asked too often */

/* Processes that have not answered, for all weirs of this one. */
static struct {
    pthread_mutex_t lock; /* a leaf */
    struct {
        char path[SHARE_PATH_SIZE];
        uint64_t until;
    } silent[SILENT_MAX];
} memory = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool is_silent(const char *path, uint64_t now)
{
    bool silent = false;
    pthread_mutex_lock(&memory.lock);
    for (size_t i = 0; i < SILENT_MAX && !silent; i++)
        silent = now < memory.silent[i].until && strcmp(memory.silent[i].path, path) == 0;
    pthread_mutex_unlock(&memory.lock);
    return silent;
}

static void learn_silent(const char *path)
{
    size_t place = 0; /* its own, or else the oldest */
    pthread_mutex_lock(&memory.lock);
    for (size_t i = 1; i < SILENT_MAX && strcmp(memory.silent[place].path, path) != 0; i++)
        if (memory.silent[i].until < memory.silent[place].until || strcmp(memory.silent[i].path, path) == 0)
            place = i;
    snprintf(memory.silent[place].path, SHARE_PATH_SIZE, "%s", path);
    memory.silent[place].until = weir__service_now() + SILENCE;
    pthread_mutex_unlock(&memory.lock);
}

/* Who has what ---------------------------------------------------------------------------------------------------------------------------- */

struct neighbour {
    char path[SHARE_PATH_SIZE];
    uint64_t offer;    /* bytes that it may still have */
    unsigned refusals; /* times that it said it is asked too often */
    bool is_silent;    /* it did not answer a moment ago */
    bool has_answered;
};

/* One request for help. */
struct rescue {
    struct weir__plea *plea;
    const char *uuid;
    uint64_t deadline; /* weir__service_now() */
    uint64_t extra;    /* bytes beyond what the device seems to lack: what it has free was not enough before */
    uint64_t offers;   /* bytes that all together said they have */
    size_t count, silent;
    bool has_asked_all; /* those, too, that are slow or were silent a moment ago */
    struct neighbour *neighbours;
};

static bool take_offer(struct share_query *query, const struct wire_message *answer)
{
    struct neighbour *neighbour = query->data;
    if (answer->type != WIRE_OFFERED)
        return false;
    neighbour->offer = answer->u.offered.bytes;
    return true;
}

/* Finds all processes but this weir. */
static void find(struct rescue *rescue)
{
    char(*paths)[SHARE_PATH_SIZE];
    size_t count;
    uint64_t now = weir__service_now();
    const char *own = rescue->plea->device->w->control_path;
    share_control_sockets(true, &paths, &count);
    rescue->neighbours = calloc(count ? count : 1, sizeof *rescue->neighbours);
    for (size_t i = 0; i < count && rescue->neighbours && rescue->count < NEIGHBOURS_MAX; i++) {
        struct neighbour *neighbour = &rescue->neighbours[rescue->count];
        if (own && strcmp(own, paths[i]) == 0)
            continue;
        memcpy(neighbour->path, paths[i], SHARE_PATH_SIZE);
        neighbour->is_silent = is_silent(paths[i], now);
        rescue->count++;
    }
    free(paths);
}

/* Nobody has more than the device: sums of what is said do not overflow. */
static uint64_t believable(const struct rescue *rescue, uint64_t bytes)
{
    uint64_t most = rescue->plea->device->info.memory;
    return bytes < most ? bytes : most;
}

/* Asks those that have not answered yet what they have, until then. all: the silent ones as well. */
static void survey(struct rescue *rescue, uint64_t deadline, bool all)
{
    struct share_query *queries = calloc(rescue->count ? rescue->count : 1, sizeof *queries);
    size_t count = 0;
    for (size_t i = 0; i < rescue->count && queries; i++) {
        struct share_query *query = &queries[count];
        if (rescue->neighbours[i].has_answered || (rescue->neighbours[i].is_silent && !all))
            continue;
        *query = (struct share_query){ .path = rescue->neighbours[i].path, .take = take_offer, .data = &rescue->neighbours[i] };
        query->question.type = WIRE_OFFER;
        snprintf(query->question.u.offer.uuid, WIRE_UUID_SIZE, "%s", rescue->uuid);
        count++;
    }
    if (count)
        share_queries_run(queries, count, deadline, NULL);
    for (size_t i = 0; i < count; i++) {
        struct neighbour *neighbour = queries[i].data;
        neighbour->has_answered = queries[i].status != WEIR_TIMEOUT;
        neighbour->offer = believable(rescue, neighbour->offer);
        rescue->offers += neighbour->offer;
    }
    free(queries);
}

static uint64_t offered(const struct rescue *rescue)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < rescue->count; i++)
        sum += rescue->neighbours[i].offer;
    return sum;
}

/* Bytes that the device lacks for the request, in steps of a pool's growth; one at least, since what is there now was not enough. What this
   weir's pools have idle counts as there: CUDA takes it for a request of the same process (measured). */
static uint64_t missing(const struct rescue *rescue)
{
    const struct gpu *gpu = rescue->plea->device->w->gpu;
    uint64_t available = 0, total;
    uint64_t needed = (rescue->plea->size + WEIR__GROWTH_STEP - 1) / WEIR__GROWTH_STEP * WEIR__GROWTH_STEP;
    int code = gpu->device_memory(rescue->plea->device->index, &available, &total);
    if (code != GPU_SUCCESS)
        gpu->forget_error(code);
    available = available / WEIR__GROWTH_STEP * WEIR__GROWTH_STEP + weir__device_idle(rescue->plea->device);
    return needed > available && needed - available > WEIR__GROWTH_STEP ? needed - available : WEIR__GROWTH_STEP;
}

/* Whether there are some that have not answered yet, and may. */
static bool can_survey_more(const struct rescue *rescue)
{
    for (size_t i = 0; i < rescue->count && !rescue->has_asked_all; i++)
        if (!rescue->neighbours[i].has_answered)
            return true;
    return false;
}

/* Asks those that have not answered yet, with more patience, once. Whether there were any. */
static bool survey_the_rest(struct rescue *rescue)
{
    uint64_t limit = weir__service_now() + rescue->plea->time_left / 4;
    if (!can_survey_more(rescue))
        return false;
    rescue->has_asked_all = true;
    survey(rescue, weir__service_earlier(limit, rescue->deadline), true);
    return true;
}

/* Whether all together have enough. */
static bool can_be_helped(struct rescue *rescue)
{
    uint64_t patience = rescue->plea->time_left / 4;
    survey(rescue, weir__service_now() + (patience < ANSWER_SOON ? patience : ANSWER_SOON), false);
    if (offered(rescue) < missing(rescue))
        survey_the_rest(rescue);
    return offered(rescue) >= missing(rescue);
}

static void learn_who_is_silent(struct rescue *rescue)
{
    for (size_t i = 0; i < rescue->count; i++)
        if (!rescue->neighbours[i].has_answered) {
            if (rescue->has_asked_all || !rescue->neighbours[i].is_silent)
                learn_silent(rescue->neighbours[i].path);
            rescue->silent++;
        }
}

/* Asking them ----------------------------------------------------------------------------------------------------------------------------- */

/* Of those that have refused least often, since what these offer is still there a moment later. */
static struct neighbour *richest(const struct rescue *rescue, size_t *others)
{
    struct neighbour *most = NULL;
    *others = 0;
    for (size_t i = 0; i < rescue->count; i++) {
        struct neighbour *neighbour = &rescue->neighbours[i];
        if (!neighbour->offer)
            continue;
        *others += most != NULL;
        if (!most || neighbour->refusals < most->refusals ||
            (neighbour->refusals == most->refusals && neighbour->offer > most->offer))
            most = neighbour;
    }
    return most;
}

static bool take_gift(struct share_query *query, const struct wire_message *answer)
{
    uint64_t *bytes = query->data;
    if (answer->type != WIRE_GAVE)
        return false;
    *bytes = answer->u.gave.bytes;
    return true;
}

/* Whether all that was wanted was given. */
static bool ask(struct rescue *rescue, struct neighbour *neighbour, uint64_t time)
{
    struct weir__recovery *recovery = &rescue->plea->device->recovery;
    uint64_t bytes = 0, wanted = missing(rescue) + rescue->extra, ms = time / MS;
    ms -= ms / ANSWER_SHARE;
    struct share_query query = { .path = neighbour->path, .take = take_gift, .data = &bytes };
    query.question.type = WIRE_GIVE;
    query.question.u.give.bytes = wanted;
    query.question.u.give.deadline_ms = ms < WIRE_GIVE_MAX_MS ? (uint32_t)ms : WIRE_GIVE_MAX_MS;
    snprintf(query.question.u.give.uuid, WIRE_UUID_SIZE, "%s", rescue->uuid);
    uint64_t deadline = weir__service_now() + time;
    if (neighbour->refusals) /* and so has everybody else */
        nanosleep(&(struct timespec){ .tv_nsec = BUSY_PAUSE }, NULL);
    share_query_send(&query);
    rescue->plea->prepare(rescue->plea);
    share_queries_run(&query, 1, deadline, NULL);
    if (query.status == WEIR_BUSY) {
        neighbour->refusals++;
        return false;
    }
    bytes = believable(rescue, bytes);
    atomic_fetch_add_explicit(&recovery->asks_sent, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&recovery->bytes_got, bytes, memory_order_relaxed);
    rescue->plea->gave += bytes;
    if (query.status == WEIR_TIMEOUT) {
        learn_silent(neighbour->path);
        rescue->silent++;
    }
    /* Who gave less than was wanted has no more. */
    neighbour->offer = bytes >= wanted && neighbour->offer > bytes ? neighbour->offer - bytes : 0;
    return bytes >= wanted;
}

/* Until the request is served, nobody has anything left, or time is up. Each gets half of the time, the last one all of it. Where those that
   were quick to answer do not keep their word, or will not be asked so often, the others are heard: there has to be time left for them. */
static bool ask_all(struct rescue *rescue)
{
    for (;;) {
        size_t others;
        struct neighbour *neighbour = richest(rescue, &others);
        if ((!neighbour || neighbour->refusals) && survey_the_rest(rescue))
            continue;
        uint64_t now = weir__service_now();
        if (!neighbour || now >= rescue->deadline)
            return false;
        bool is_last = !others && !can_survey_more(rescue);
        bool is_enough = ask(rescue, neighbour, (rescue->deadline - now) / (is_last ? 1 : 2));
        if (rescue->plea->retry(rescue->plea))
            return true;
        if (is_enough)
            rescue->extra = rescue->extra ? 2 * rescue->extra : WEIR__GROWTH_STEP;
    }
}

static void note(const struct rescue *rescue)
{
    char text[WEIR__BYTES_LEN], *at = rescue->plea->note;
    size_t room = sizeof rescue->plea->note;
    if (!rescue->count && !rescue->silent) {
        snprintf(at, room, "no other process that has control: true in its policy was found");
        return;
    }
    int len = snprintf(at, room, "%zu other process%s on this GPU offered %s", rescue->count, rescue->count == 1 ? "" : "es",
                       weir__bytes(text, rescue->offers));
    if (rescue->silent && len > 0 && (size_t)len < room)
        snprintf(at + len, room - (size_t)len, ", %zu did not answer", rescue->silent);
}

static void learn(struct weir__rest *rest, uint64_t size, bool is_rescued)
{
    uint64_t now = weir__service_now();
    if (is_rescued) {
        *rest = (struct weir__rest){ 0 };
        return;
    }
    rest->size = now < rest->until && rest->size < size ? rest->size : size;
    rest->pause = !rest->pause ? REST_FIRST : 2 * rest->pause < REST_LONGEST ? 2 * rest->pause : REST_LONGEST;
    rest->until = now + rest->pause;
}

void share_neighbours_rescue(struct weir__plea *plea)
{
    uint64_t now = weir__service_now();
    struct weir__rest *rest = &plea->device->recovery.rest;
    struct rescue rescue = { .plea = plea, .uuid = plea->device->info.uuid, .deadline = now + plea->time_left };
    if (now < rest->until && plea->size >= rest->size) {
        snprintf(plea->note, sizeof plea->note, "other processes on this GPU were asked a moment ago, in vain: they were not asked again");
        return;
    }
    find(&rescue);
    if (rescue.count) {
        learn(rest, plea->size, can_be_helped(&rescue) && ask_all(&rescue));
        learn_who_is_silent(&rescue);
    }
    note(&rescue);
    free(rescue.neighbours);
}
