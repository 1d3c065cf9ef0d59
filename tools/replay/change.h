/* SPDX-License-Identifier: MIT */
/* change.h - changes of a policy that might have served a request which it refused. Plain lists, their maker's. */
#ifndef WEIR_REPLAY_CHANGE_H
#define WEIR_REPLAY_CHANGE_H

#include "tools/replay/refusal.h"
#include "tools/replay/script.h"

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
