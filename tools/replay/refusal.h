/* SPDX-License-Identifier: MIT */
/*
 * refusal.h - a request of a trace that found no memory: what the process had then, what arithmetic on that says of it, and changes of the
 * policy that might have served it.
 *
 * Its maker's; points into the trace, which has to outlive it.
 */
#ifndef WEIR_REPLAY_REFUSAL_H
#define WEIR_REPLAY_REFUSAL_H

#include "tools/replay/script.h"
#include "tools/trace/view.h"

#define REFUSAL_LINES 5
#define REFUSAL_LINE_LEN 640

struct refusal {
    struct model model;       /* right behind the refusal */
    struct trace_event event; /* the refusal: of `a` bytes, at the cap if `b` is 1 */
    uint64_t events;          /* of the trace, up to it and with it */
    size_t number, count;     /* which it is, from 1, of how many */
    uint64_t memory;          /* bytes of its device; 0: the trace does not tell */
    uint64_t leave;           /* of these, what the pool was to leave free by the policy that was recorded */
    uint64_t others;          /* of these, so many at least were not the pools', or the request would have been served */
};

/* Finds that of the moment (of the last refusal; nearest to a time; behind a mark). false, after a complaint: there is none. */
bool refusal_find(struct refusal *refusal, const struct view *view, struct view_file *file);
void refusal_free(struct refusal *refusal);

/* Bytes that the request's pool had in users' hands; those of all pools of the device. */
uint64_t refusal_live(const struct refusal *refusal, bool of_device);
/* The cap of the pool; 0: none, or not known. */
uint64_t refusal_cap(const struct refusal *refusal);

/* Why there was none, as a part of a sentence. */
const char *refusal_reason(const struct refusal *refusal);

/* Whole sentences. Returns how many. */
size_t refusal_conclude(const struct refusal *refusal, char lines[static REFUSAL_LINES][REFUSAL_LINE_LEN]);

struct change {
    char *text;        /* "max_size: 3072MiB" */
    char *assignments; /* as in $WEIR_CONF */
};

struct changes {
    struct change *items;
    size_t count, room;
    char **pools; /* that they are of: the request's own, at a cap, else all of its device */
    size_t pool_count, pool_room;
    const struct refusal *refusal;
    bool has_caches; /* the trace tells of them */
};

/* Changes of one key each; script: up to the refusal. */
void changes_make(struct changes *changes, const struct script *script, const struct refusal *refusal);
/* Adds those of several keys, for where none of one key serves. */
void changes_add_several(struct changes *changes);
void changes_free(struct changes *changes);

#endif
