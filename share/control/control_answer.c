/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/control/control_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/alloc/sleep.h"
#include "lib/backing/window.h"
#include "lib/base/format.h"
#include "share/wire/closing.h"
#include "share/wire/query.h"

#define MICROSECOND UINT64_C(1000)
#define GIVE_INTERVAL (GPU_SECOND / SHARE_GIVES_A_SECOND)

/* Answers -------------------------------------------------------------------------------------------------------------------------------- */

void share_asker_deny(struct share_asker *asker, uint32_t request, weir_status status, const char *text)
{
    struct wire_message message = share_refusal_of(WIRE_DENIED, request, status, text);
    share_asker_send(asker, &message);
}

void share_asker_ready(struct share_asker *asker, uint32_t request)
{
    share_asker_send(asker, &(struct wire_message){ .type = WIRE_READY, .request = request });
}

/* Figures ------------------------------------------------------------------------------------------------------------------------------ */

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Sends the JSON document in pieces, cut only between UTF-8 characters. */
static void tell(struct share_asker *asker, uint32_t request, const char *json, size_t len)
{
    for (size_t at = 0, size; at < len; at += size) {
        struct wire_message message = { .type = WIRE_TEXT, .request = request };
        size = len - at < WIRE_PIECE_SIZE ? len - at : WIRE_PIECE_SIZE - 1;
        while (is_continuation(json[at + size]))
            size--;
        memcpy(message.u.piece.text, json + at, size);
        share_asker_send(asker, &message);
    }
    share_asker_ready(asker, request);
}

static void answer_figures(struct share_asker *asker, const struct wire_message *question)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_stats *stats;
    weir_status status = weir_stats_take(asker->control->w, &error, &stats);
    if (status != WEIR_OK) {
        share_asker_deny(asker, question->request, status, error.text);
        return;
    }
    size_t len = weir_stats_json(stats, NULL, 0);
    char *json = malloc(len + 1);
    if (json)
        tell(asker, question->request, json, weir_stats_json(stats, json, len + 1));
    else
        share_asker_deny(asker, question->request, WEIR_NO_HOST_MEMORY, "this process has no host memory left to tell its figures");
    free(json);
    weir_stats_free(stats);
}

/* Giving ------------------------------------------------------------------------------------------------------------------------------- */

/* Returns the index of the device, or -1 if this process has no pool on it. */
static int find_device(weir *w, const char *uuid)
{
    for (size_t d = 0; d < w->device_count; d++)
        if (strcmp(w->devices[d].info.uuid, uuid) == 0)
            return weir__device_next_pool(&w->devices[d], NULL) ? (int)d : -1;
    return -1;
}

static void deny_device(struct share_asker *asker, const struct wire_message *question)
{
    share_asker_deny(asker, question->request, WEIR_NOT_FOUND, "this process does not use that GPU");
}

static void answer_offer(struct share_asker *asker, const struct wire_message *question)
{
    weir *w = asker->control->w;
    struct wire_message message = { .type = WIRE_OFFERED, .request = question->request };
    int device = find_device(w, question->u.offer.uuid);
    if (device < 0) {
        deny_device(asker, question);
        return;
    }
    message.u.offered.bytes = weir__give_offer(w, device, &message.u.offered.yielded);
    share_asker_send(asker, &message);
}

static bool is_within_rate(struct share_control *control, uint64_t now)
{
    uint64_t until = control->gives_until > now ? control->gives_until : now;
    if (until - now > (SHARE_GIVES_AT_ONCE - 1) * GIVE_INTERVAL)
        return false;
    control->gives_until = until + GIVE_INTERVAL;
    return true;
}

static void begin(struct share_asker *asker, const struct wire_message *question, const struct weir__give_request *request)
{
    asker->give = weir__give_begin(asker->control->w, request);
    if (!asker->give) {
        share_asker_deny(asker, question->request, WEIR_NO_HOST_MEMORY, "this process has no host memory left to give any of the device");
        return;
    }
    asker->give_type = question->type;
    asker->give_request = question->request;
    asker->give_since = weir__service_now();
    asker->give_due = 0;
}

static bool is_giving(struct share_asker *asker, const struct wire_message *question)
{
    if (asker->give)
        share_asker_deny(asker, question->request, WEIR_BUSY, "memory is being given on this connection: wait for that answer, or use another one");
    return asker->give;
}

static void answer_give(struct share_asker *asker, const struct wire_message *question)
{
    struct share_control *control = asker->control;
    uint64_t now = weir__service_now();
    int device = find_device(control->w, question->u.give.uuid);
    if (is_giving(asker, question))
        return;
    if (device < 0)
        deny_device(asker, question);
    else if (!is_within_rate(control, now))
        share_asker_deny(asker, question->request, WEIR_BUSY, "asked too often: ask again later");
    else
        begin(asker, question,
              &(struct weir__give_request){
                  .device = device,
                  .keep = WEIR__GIVE_POLICY_KEEP,
                  .wanted = question->u.give.bytes,
                  .deadline = now + question->u.give.deadline_ms * GPU_MILLISECOND,
                  .is_neighbour = true,
                  .takes_yielded = question->u.give.flags & WIRE_TAKE,
              });
}

/* Whether the policy has a pool of that name. If not, `text` gets an error with the names that the policy has. */
static bool has_pool(weir *w, const char *name, char text[WIRE_TEXT_SIZE])
{
    pthread_mutex_lock(&w->config);
    bool is_there = policy_find_pool(w->policy, name);
    size_t len = (size_t)snprintf(text, WIRE_TEXT_SIZE, "there is no pool '%s'; there is", name);
    for (size_t i = 0; !is_there && i < w->policy->pool_count && len < WIRE_TEXT_SIZE; i++)
        len += (size_t)snprintf(text + len, WIRE_TEXT_SIZE - len, "%s %s", i ? "," : "", w->policy->pools[i].name);
    pthread_mutex_unlock(&w->config);
    return is_there;
}

static void answer_trim(struct share_asker *asker, const struct wire_message *question)
{
    char text[WIRE_TEXT_SIZE], pool[WIRE_NAME_SIZE];
    bool is_named = question->u.trim.pool[0];
    memcpy(pool, question->u.trim.pool, sizeof pool);
    if (is_giving(asker, question))
        return;
    if (is_named && !has_pool(asker->control->w, pool, text))
        share_asker_deny(asker, question->request, WEIR_NOT_FOUND, text);
    else
        begin(asker, question,
              &(struct weir__give_request){
                  .device = -1,
                  .pool = is_named ? pool : NULL,
                  .keep = question->u.trim.keep == WIRE_POLICY_KEEP ? WEIR__GIVE_POLICY_KEEP : question->u.trim.keep,
                  .wanted = UINT64_MAX,
                  .deadline = weir__service_now() + question->u.trim.deadline_ms * GPU_MILLISECOND,
              });
}

/* Does what SLEEP or WAKE asks with the yielded pools, and returns the bytes that went. If there are none, *error says what is to be done. */
static uint64_t apply(weir *w, const struct wire_message *question, weir_error *error)
{
    const char *name = question->u.sleep.pool;
    uint64_t deadline = w->gpu->now() + question->u.sleep.deadline_ms * GPU_MILLISECOND, gave = 0;
    bool sleeps = question->type == WIRE_SLEEP, any = false;
    weir_pool *other = NULL; /* a pool of that name which is not yielded */
    for (size_t d = 0; d < w->device_count; d++)
        for (weir_pool *pool = weir__device_next_pool(&w->devices[d], NULL); pool; pool = weir__device_next_pool(&w->devices[d], pool)) {
            bool is_meant = !*name || strcmp(name, pool->name) == 0, is_yielded = weir__yielded_is(pool);
            other = *name && is_meant && !is_yielded ? pool : other;
            any = any || (is_meant && is_yielded);
            if (is_meant && is_yielded && sleeps)
                weir__yielded_take(pool, deadline, error, &gave);
            else if (is_meant && is_yielded)
                weir__yielded_return(pool, error);
        }
    if (!any && other && sleeps)
        weir__yielded_take(other, deadline, error, &gave);
    else if (!any && other)
        weir__yielded_return(other, error);
    else if (!any)
        weir__fail(error, WEIR_NOT_FOUND, "this process has yielded no pool: it has to call weir_pool_yield() first, or weir.torch.yielded() in "
                                          "Python");
    return gave;
}

/* An operator's SLEEP or WAKE. */
static void answer_sleep(struct share_asker *asker, const struct wire_message *question)
{
    weir *w = asker->control->w;
    struct wire_message message = {.type = question->type == WIRE_SLEEP ? WIRE_GAVE : WIRE_READY, .request = question->request};
    const char *name = question->u.sleep.pool;
    char text[WIRE_TEXT_SIZE];
    weir_error error = WEIR_ERROR_INIT;
    uint64_t since = weir__service_now();
    if (*name && !has_pool(w, name, text)) {
        share_asker_deny(asker, question->request, WEIR_NOT_FOUND, text);
        return;
    }
    uint64_t gave = apply(w, question, &error);
    asker->connection.last = weir__service_now();
    if (error.status != WEIR_OK) {
        char why[sizeof error.text + 64];
        snprintf(why, sizeof why, "%s went; %s", WEIR__BYTES(gave), error.text); /* of other pools */
        share_asker_deny(asker, question->request, error.status, gave ? why : error.text);
        return;
    }
    if (message.type == WIRE_GAVE) {
        message.u.gave.bytes = gave;
        message.u.gave.took_us = (weir__service_now() - since) / MICROSECOND;
    }
    weir__log(w, WEIR_LOG_INFO, "process %d had what is yielded %s", asker->pid, message.type == WIRE_GAVE ? "put to sleep" : "woken");
    share_asker_send(asker, &message);
}

static void finish(struct share_asker *asker, uint64_t now)
{
    struct wire_message message = { .type = WIRE_GAVE, .request = asker->give_request };
    message.u.gave.bytes = weir__give_bytes(asker->give);
    message.u.gave.took_us = (now - asker->give_since) / MICROSECOND;
    share_asker_stop(asker);
    asker->connection.last = now;
    weir__log(asker->control->w, WEIR_LOG_INFO, "gave %s to %s process %d in %s", WEIR__BYTES(message.u.gave.bytes),
              asker->give_type == WIRE_GIVE ? "neighbour" : "the device for", asker->pid, WEIR__TIME(now - asker->give_since));
    share_asker_send(asker, &message);
}

uint64_t share_asker_due(const struct share_asker *asker)
{
    return asker->give && !asker->is_over ? asker->give_due : WEIR__SERVICE_NEVER;
}

void share_asker_go_on(struct share_asker *asker)
{
    asker->give_due = weir__give_step(asker->give);
    if (asker->give_due == WEIR__GIVE_DONE)
        finish(asker, weir__service_now());
}

void share_asker_stop(struct share_asker *asker)
{
    if (asker->give)
        weir__give_end(asker->give);
    asker->give = NULL;
}

/* The policy --------------------------------------------------------------------------------------------------------------------------- */

static void answer_change(struct share_asker *asker, const struct wire_message *question)
{
    weir *w = asker->control->w;
    weir_error error = WEIR_ERROR_INIT;
    bool is_set = question->type == WIRE_SET;
    const char *how = is_set ? question->u.set.text : "read again";
    weir_status status = is_set ? weir__policy_set(w, question->u.set.text, &error) : weir__policy_again(w, &error);
    if (status != WEIR_OK) {
        share_asker_deny(asker, question->request, status, error.text);
        return;
    }
    weir__log_about(w, weir__log_words(how), WEIR_LOG_INFO, "process %d had the policy changed: %s", asker->pid, how);
    share_asker_ready(asker, question->request);
}

/* Recording ---------------------------------------------------------------------------------------------------------------------------- */

static void answer_stop(struct share_asker *asker, const struct wire_message *question)
{
    if (question->request == asker->control->recording.request)
        share_recording_stop(asker->control, asker);
}

/* Pages -------------------------------------------------------------------------------------------------------------------------------- */

static void answer_page(struct share_asker *asker, const struct wire_message *question)
{
    const struct weir__window window = {question->u.page.address, question->u.page.bytes, question->u.page.number};
    struct wire_message message = { .type = WIRE_PAGED, .request = question->request };
    weir_error error = WEIR_ERROR_INIT;
    int fd;
    weir_status status = weir__window_page(&window, question->u.page.offset, asker->pid, &error, &fd, &message.u.paged.bytes);
    if (status != WEIR_OK) {
        share_asker_deny(asker, question->request, status, error.text);
        return;
    }
    asker->is_over = asker->is_over || share_connection_send(&asker->connection, &message, fd) != SHARE_DONE;
    weir__window_page_end(fd);
}

/* Questions ---------------------------------------------------------------------------------------------------------------------------- */

static void (*const answers[])(struct share_asker *asker, const struct wire_message *question) = {
    [WIRE_FIGURES] = answer_figures, [WIRE_OFFER] = answer_offer,   [WIRE_GIVE] = answer_give, [WIRE_TRIM] = answer_trim,
    [WIRE_SET] = answer_change,      [WIRE_RELOAD] = answer_change, [WIRE_STOP] = answer_stop,
    [WIRE_SLEEP] = answer_sleep,     [WIRE_WAKE] = answer_sleep,
    [WIRE_PAGE] = answer_page,
};

static void refuse_version(struct share_asker *asker, uint16_t version)
{
    char text[WIRE_TEXT_SIZE];
    snprintf(text, sizeof text, "version %u of the protocol is not spoken here, only %d: use the same release of Weir on both sides",
             version, WIRE_CONTROL_VERSION);
    share_asker_deny(asker, 0, WEIR_REFUSED, text);
}

/* Returns false if the message is no question of a controller; then the caller still owns the descriptor. */
static bool take_question(struct share_asker *asker, const struct wire_message *question, int passed)
{
    if (wire_sender(question->type) != WIRE_CONTROLLER_SENDS || (passed >= 0 && question->type != WIRE_RECORD) ||
        (asker->control->for_pages && question->type != WIRE_PAGE))
        return false;
    if (question->type == WIRE_RECORD)
        share_recording_begin(asker, question, passed);
    else
        answers[question->type](asker, question);
    return true;
}

void share_asker_answer(struct share_asker *asker, const unsigned char *bytes, size_t len, int passed)
{
    struct wire_message question;
    uint16_t version = 0;
    enum wire_fault fault = wire_decode(bytes, len, &question, &version);
    bool is_taken = fault == WIRE_GOOD && take_question(asker, &question, passed);
    if (is_taken)
        return;
    if (passed >= 0)
        share_close_away(&passed, 1, NULL);
    /* A controller of another release gets this answer to each question, and should close the connection. If it does not, the connection
       is closed later as an idle one. */
    if (fault == WIRE_OTHER_VERSION) {
        refuse_version(asker, version);
        return;
    }
    asker->is_over = true;
    weir__log(asker->control->w, WEIR_LOG_WARNING, "%s: the connection of process %d is closed, since %s of %zu bytes is no question",
              asker->control->server.listener.path, asker->pid, fault == WIRE_GOOD ? wire_type_name(question.type) : "a message", len);
}
