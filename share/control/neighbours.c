/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/control/neighbours.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/format.h"
#include "lib/base/number.h"
#include "lib/base/service.h"
#include "share/base/wait.h"
#include "share/wire/directory.h"
#include "share/wire/query.h"

#define NEIGHBOURS_MAX 256 /* processes that one request asks */
#define ANSWER_SOON (20 * GPU_MILLISECOND) /* the time in which a healthy process answers OFFER */
#define ANSWER_SHARE 8        /* 1/8 of a GIVE's time is left for its answer to arrive, and for the giver's last step to end */
/* A process that did not answer is silent for this long: it is asked only if the others have too little. */
#define SILENCE (1000 * GPU_MILLISECOND)
#define SILENT_MAX 16         /* silent processes that are remembered */
#define BUSY_PAUSE (10 * GPU_MILLISECOND) /* pause before a process that was asked too often is asked again */
#define LOOK_PAUSE (5 * GPU_MILLISECOND)  /* pause between two looks at the offers */
#define LOOKS_ALIKE 4        /* number of looks in a row with the same figures, after which a request gives up */
#define VAIN (1000 * GPU_MILLISECOND) /* for this long a later request gives up after its first look, if that shows the same figures */

/* Processes that did not answer lately, called silent, as seen by all weirs of this process. */
static struct {
    pthread_mutex_t lock; /* a leaf: no other lock is taken under it */
    struct {
        char path[SHARE_PATH_SIZE];
        uint64_t until;
        uint64_t waited; /* nanoseconds for which somebody waited in vain; 0: for ANSWER_SOON alone */
    } silent[SILENT_MAX];
} memory = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool is_silent(const char *path, uint64_t now, uint64_t *waited)
{
    bool silent = false;
    pthread_mutex_lock(&memory.lock);
    for (size_t i = 0; i < SILENT_MAX && !silent; i++) {
        silent = now < memory.silent[i].until && strcmp(memory.silent[i].path, path) == 0;
        *waited = silent ? memory.silent[i].waited : 0;
    }
    pthread_mutex_unlock(&memory.lock);
    return silent;
}

static void learn_silent(const char *path, uint64_t waited)
{
    size_t place = 0; /* the entry of this path, or else the oldest entry */
    uint64_t longest = 0;
    if (is_silent(path, weir__service_now(), &longest))
        waited = weir__larger(waited, longest);
    pthread_mutex_lock(&memory.lock);
    for (size_t i = 1; i < SILENT_MAX && strcmp(memory.silent[place].path, path) != 0; i++)
        if (memory.silent[i].until < memory.silent[place].until || strcmp(memory.silent[i].path, path) == 0)
            place = i;
    snprintf(memory.silent[place].path, SHARE_PATH_SIZE, "%s", path);
    memory.silent[place].until = weir__service_now() + SILENCE;
    memory.silent[place].waited = waited;
    pthread_mutex_unlock(&memory.lock);
}

/* Offers ------------------------------------------------------------------------------------------------------------------------------- */

struct neighbour {
    char path[SHARE_PATH_SIZE];
    uint64_t offer;    /* bytes that the process may still be able to give */
    uint64_t yielded;  /* bytes of pools that it may still put to sleep */
    unsigned refusals; /* how often the process answered that it is asked too often */
    bool is_silent;    /* the process did not answer lately, so only a patient survey asks it */
    uint64_t waited;   /* nanoseconds for which this process has waited in vain for an answer lately */
    bool is_deaf;      /* the process did not answer a patient survey of this request, which asks it no more */
    bool has_answered; /* the process has answered since the last look began */
    bool is_here;      /* the process uses this GPU, as its answer says */
};

/* A request that ran out of memory, with the neighbours that it asks. A *survey* asks them for their offers; a patient survey waits
   longer, and also asks processes that were silent lately. */
struct rescue {
    struct weir__plea *plea;
    const char *uuid;
    uint64_t deadline; /* by weir__service_now() */
    /* Bytes to ask for beyond missing(): the last gift should have been enough, but the retry failed. */
    uint64_t extra;
    uint32_t flags;    /* of the GIVEs: WIRE_TAKE once nothing idle is left */
    uint64_t offers;   /* sum of all offers at the last look */
    uint64_t picture;  /* a hash of all figures of the last look */
    size_t count;
    struct neighbour *neighbours;
};

static bool take_offer(struct share_query *query, const struct wire_message *answer)
{
    struct neighbour *neighbour = query->data;
    if (answer->type != WIRE_OFFERED)
        return false;
    neighbour->offer = answer->u.offered.bytes;
    neighbour->yielded = answer->u.offered.yielded;
    neighbour->is_here = true;
    return true;
}

/* Makes the entry for the process with this socket, and copies into it what earlier looks of this request have learnt about the process. */
static struct neighbour known(const struct rescue *rescue, const char *path, uint64_t now)
{
    struct neighbour neighbour = { .offer = 0 };
    neighbour.is_silent = is_silent(path, now, &neighbour.waited);
    for (size_t i = 0; i < rescue->count; i++)
        if (strcmp(rescue->neighbours[i].path, path) == 0) {
            neighbour.refusals = rescue->neighbours[i].refusals;
            neighbour.is_deaf = rescue->neighbours[i].is_deaf;
        }
    memcpy(neighbour.path, path, SHARE_PATH_SIZE);
    return neighbour;
}

/* Lists the control sockets of all weirs but this one. Each look lists them again, since processes come and go. */
static void find(struct rescue *rescue)
{
    char(*paths)[SHARE_PATH_SIZE];
    size_t count, found = 0;
    uint64_t now = weir__service_now();
    const char *own = rescue->plea->device->w->control_path;
    share_control_sockets(!rescue->neighbours, now + (rescue->deadline > now ? (rescue->deadline - now) / 8 : 0), &paths, &count);
    struct neighbour *neighbours = calloc(count ? count : 1, sizeof *neighbours);
    for (size_t i = 0; i < count && neighbours && found < NEIGHBOURS_MAX; i++)
        if (!own || strcmp(own, paths[i]) != 0)
            neighbours[found++] = known(rescue, paths[i], now);
    free(paths);
    free(rescue->neighbours);
    rescue->neighbours = neighbours;
    rescue->count = found;
}

/* Limits a figure from another process to the size of the device, so that sums of figures do not overflow. */
static uint64_t believable(const struct rescue *rescue, uint64_t bytes)
{
    uint64_t most = rescue->plea->device->info.memory;
    return bytes < most ? bytes : most;
}

static void learn_from(struct rescue *rescue, const struct share_query *query, bool is_patient, uint64_t waited)
{
    struct neighbour *neighbour = query->data;
    neighbour->has_answered = query->status != WEIR_TIMEOUT;
    neighbour->offer = believable(rescue, neighbour->offer);
    neighbour->yielded = believable(rescue, neighbour->yielded);
    if (neighbour->has_answered)
        return;
    learn_silent(neighbour->path, is_patient ? waited : 0);
    neighbour->is_silent = true;
    neighbour->is_deaf = is_patient;
}

/* Whether a survey asks this neighbour for its offer. Only a patient survey asks silent ones. */
static bool is_to_be_asked(const struct neighbour *neighbour, bool is_patient)
{
    return !neighbour->has_answered && !neighbour->is_deaf && (!neighbour->is_silent || is_patient);
}

/* Asks the neighbours that have not answered yet for their offers, and waits up to ANSWER_SOON, or, if is_patient, up to a quarter of
   the time that is left. For processes that did not answer lately in half of that time ANSWER_SOON is enough; that another request was in a
   hurry says nothing about them. Returns whether there were any to ask. */
static bool survey(struct rescue *rescue, bool is_patient)
{
    uint64_t now = weir__service_now(), limit = now < rescue->deadline ? (rescue->deadline - now) / 4 : 0;
    uint64_t time = weir__smaller(limit, ANSWER_SOON);
    struct share_query *queries = calloc(rescue->count ? rescue->count : 1, sizeof *queries);
    size_t count = 0;
    for (size_t i = 0; i < rescue->count && queries; i++) {
        struct share_query *query = &queries[count];
        if (!is_to_be_asked(&rescue->neighbours[i], is_patient))
            continue;
        *query = (struct share_query){ .path = rescue->neighbours[i].path, .take = take_offer, .data = &rescue->neighbours[i] };
        query->question.type = WIRE_OFFER;
        snprintf(query->question.u.offer.uuid, WIRE_UUID_SIZE, "%s", rescue->uuid);
        time = is_patient && rescue->neighbours[i].waited < limit / 2 ? limit : time;
        count++;
    }
    if (count)
        share_queries_run(queries, count, now + time);
    for (size_t i = 0; i < count; i++)
        learn_from(rescue, &queries[i], is_patient, time);
    free(queries);
    return count;
}

static uint64_t offered(const struct rescue *rescue)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < rescue->count; i++)
        sum += rescue->neighbours[i].offer + rescue->neighbours[i].yielded;
    return sum;
}

/* Bytes that the request can get without help: free memory of the device, and idle memory of this weir's pools, which CUDA takes for a
   request of the same process (measured). */
static uint64_t available(const struct rescue *rescue)
{
    const struct gpu *gpu = rescue->plea->device->w->gpu;
    uint64_t bytes = 0, total;
    gpu->device_memory(rescue->plea->device->index, &bytes, &total);
    return bytes / rescue->plea->grain * rescue->plea->grain + weir__device_idle(rescue->plea->device);
}

/* Bytes that the device lacks for the request, in grains of it. At least one grain, since the available memory was not enough. */
static uint64_t missing(const struct rescue *rescue)
{
    uint64_t grain = rescue->plea->grain, needed = (rescue->plea->size + grain - 1) / grain * grain;
    return weir__larger(weir__less(needed, available(rescue)), grain);
}

static uint64_t mix(uint64_t picture, uint64_t figure)
{
    return (picture ^ figure) * UINT64_C(0x9e3779b97f4a7c15) ^ picture >> 29;
}

/* Lists the neighbours again, and asks all of them for their offers. The neighbours allocate and free while they are asked, so the
   offers may never have been true at the same moment. Returns whether the figures differ from those of the look before. */
static bool look(struct rescue *rescue)
{
    uint64_t before = rescue->picture;
    find(rescue);
    survey(rescue, false);
    if (offered(rescue) + rescue->plea->yielded < missing(rescue))
        survey(rescue, true);
    rescue->extra = 0;
    rescue->flags = 0;
    rescue->offers = offered(rescue);
    rescue->picture = mix(mix(rescue->count, available(rescue)), rescue->plea->yielded);
    for (size_t i = 0; i < rescue->count; i++)
        rescue->picture = mix(mix(rescue->picture, rescue->neighbours[i].offer), rescue->neighbours[i].yielded);
    return rescue->picture != before;
}

/* Asking for memory -------------------------------------------------------------------------------------------------------------------- */

/* The neighbour with the largest offer among those that have refused least often. A neighbour that refuses (asked too often) keeps its
   memory, so it can be asked later. */
static struct neighbour *richest(const struct rescue *rescue)
{
    struct neighbour *most = NULL;
    for (size_t i = 0; i < rescue->count; i++) {
        struct neighbour *neighbour = &rescue->neighbours[i];
        if (!neighbour->offer)
            continue;
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

/* Asks one neighbour to give, within `time` nanoseconds. Returns whether it gave all of the wanted bytes. */
static bool ask(struct rescue *rescue, struct neighbour *neighbour, uint64_t time)
{
    struct weir__recovery *recovery = &rescue->plea->device->recovery;
    uint64_t bytes = 0, wanted = missing(rescue) + rescue->extra, ms = time / GPU_MILLISECOND;
    ms -= ms / ANSWER_SHARE;
    struct share_query query = { .path = neighbour->path, .take = take_gift, .data = &bytes };
    query.question.type = WIRE_GIVE;
    query.question.u.give.bytes = wanted;
    query.question.u.give.flags = rescue->flags;
    query.question.u.give.deadline_ms = ms < WIRE_GIVE_MAX_MS ? (uint32_t)ms : WIRE_GIVE_MAX_MS;
    snprintf(query.question.u.give.uuid, WIRE_UUID_SIZE, "%s", rescue->uuid);
    uint64_t deadline = weir__service_now() + time;
    if (neighbour->refusals) /* every other neighbour with an offer has refused too, or richest() would have chosen it */
        nanosleep(&(struct timespec){ .tv_nsec = BUSY_PAUSE }, NULL);
    share_query_send(&query);
    rescue->plea->prepare(rescue->plea);
    share_queries_run(&query, 1, deadline);
    if (query.status == WEIR_BUSY) {
        neighbour->refusals++;
        return false;
    }
    bytes = believable(rescue, bytes);
    atomic_fetch_add_explicit(&recovery->asks_sent, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&recovery->bytes_got, bytes, memory_order_relaxed);
    rescue->plea->gave += bytes;
    if (query.status == WEIR_TIMEOUT) {
        learn_silent(neighbour->path, time);
        neighbour->has_answered = false;
        neighbour->is_deaf = true;
    }
    /* A neighbour that gave less than it was asked for has no more. */
    neighbour->offer = bytes >= wanted && neighbour->offer > bytes ? neighbour->offer - bytes : 0;
    return bytes >= wanted;
}

/* Nothing idle is left: from now on neighbours are asked for what they have yielded, after this process. Returns whether there is any. */
static bool turn_to_yielded(struct rescue *rescue)
{
    uint64_t all = rescue->plea->yielded;
    rescue->flags = WIRE_TAKE;
    for (size_t i = 0; i < rescue->count; i++) {
        struct neighbour *neighbour = &rescue->neighbours[i];
        all += neighbour->offer = neighbour->yielded;
        neighbour->yielded = 0;
    }
    return all;
}

/* Asks one neighbour after the other, until the request is served, no neighbour has an offer left, or the time is up. Each gets half of
   the time that is left, since the others may have more to give later. When the offers run out, or a neighbour refuses, silent
   neighbours are asked too. Returns whether the request is served. */
static bool ask_all(struct rescue *rescue)
{
    for (;;) {
        struct neighbour *neighbour = richest(rescue);
        if ((!neighbour || neighbour->refusals) && survey(rescue, true))
            continue;
        uint64_t now = weir__service_now();
        if (now < rescue->deadline && !neighbour && !rescue->flags && turn_to_yielded(rescue)) {
            if (rescue->plea->spend(rescue->plea))
                return true;
            continue;
        }
        if (!neighbour || now >= rescue->deadline)
            return false;
        bool is_enough = ask(rescue, neighbour, (rescue->deadline - now) / 2);
        if (rescue->plea->retry(rescue->plea))
            return true;
        if (is_enough)
            rescue->extra = believable(rescue, rescue->extra ? 2 * rescue->extra : WEIR__GROWTH_STEP);
    }
}

/* Retries the request if the available memory seems to be enough by now. The caller does this only when the figures have changed, since
   a failed retry takes long. */
static bool help_oneself(struct rescue *rescue)
{
    if (available(rescue) < rescue->plea->size)
        return false;
    rescue->plea->prepare(rescue->plea);
    return rescue->plea->retry(rescue->plea);
}

/* Whether a request of at most this size, with half of this one's time at the least, failed a moment ago with the same figures. Neighbours
   need time to give: work that uses the memory has to end, and yielded contents are copied. */
static bool is_known_vain(const struct rescue *rescue)
{
    const struct weir__vain *vain = rescue->plea->vain;
    return vain->picture == rescue->picture && vain->size <= rescue->plea->size && rescue->plea->time_left / 2 <= vain->patience &&
           weir__service_now() < vain->until;
}

/* Looks and asks until the request is served, the time is up, or LOOKS_ALIKE looks in a row show the same figures. Another look is
   useful because another process may have taken the given memory, and may now have other memory to give instead. */
static void look_and_ask(struct rescue *rescue)
{
    for (unsigned alike = 0; alike < LOOKS_ALIKE;) {
        bool is_news = look(rescue);
        if (!rescue->count || is_known_vain(rescue) || (is_news && help_oneself(rescue)))
            return;
        if (offered(rescue) + rescue->plea->yielded >= missing(rescue) && ask_all(rescue))
            return;
        alike = is_news ? 1 : alike + 1;
        if (weir__service_now() + LOOK_PAUSE >= rescue->deadline)
            return;
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_PAUSE }, NULL);
    }
    *rescue->plea->vain = (struct weir__vain){
        .picture = rescue->picture, .size = rescue->plea->size, .until = weir__service_now() + VAIN, .patience = rescue->plea->time_left
    };
}

static void note(const struct rescue *rescue)
{
    char text[WEIR__BYTES_LEN], *at = rescue->plea->note;
    size_t room = sizeof rescue->plea->note;
    size_t silent = 0, here = 0;
    for (size_t i = 0; i < rescue->count; i++) {
        silent += !rescue->neighbours[i].has_answered;
        here += rescue->neighbours[i].is_here;
    }
    int len = here ? snprintf(at, room, "%zu other process%s on this GPU offered %s", here, here == 1 ? "" : "es", weir__bytes(text, rescue->offers))
                   : snprintf(at, room, "no other process that has control: true in its policy was found on this GPU");
    if (silent && len > 0 && (size_t)len < room)
        snprintf(at + len, room - (size_t)len, ", %zu did not answer", silent);
}

void share_neighbours_rescue(struct weir__plea *plea)
{
    struct rescue rescue = { .plea = plea, .uuid = plea->device->info.uuid, .deadline = weir__service_now() + plea->time_left };
    look_and_ask(&rescue);
    note(&rescue);
    free(rescue.neighbours);
}
