/* SPDX-License-Identifier: MIT */
/*
 * observe.h - what exports tell who looks at them: who holds what of their pools, and what went through them; and evicting who holds it.
 *
 * One connection to each, as an observer, all at once: nothing is imported, and no GPU is needed. Main thread only.
 */
#ifndef WEIR_OBSERVE_H
#define WEIR_OBSERVE_H

#include <stddef.h>

#include "include/weir.h"
#include "share/wire/directory.h"
#include "share/wire/query.h"
#include "tools/common/command.h"

/* As in the messages HOLDS, EXPORT, RING, IMPORTER and WELCOME. A hold is one lease of an importer, or one block that it maps without a
   lease. */
typedef __typeof__(((struct wire_message *)NULL)->u.holds) observed_hold;
typedef __typeof__(((struct wire_message *)NULL)->u.export) observed_counts;
typedef __typeof__(((struct wire_message *)NULL)->u.ring) observed_ring;

struct observed_importer {
    __typeof__(((struct wire_message *)NULL)->u.importer) told;
    size_t hold_count, hold_room;
    observed_hold *holds;
};

struct observed_export {
    __typeof__(((struct wire_message *)NULL)->u.welcome) told;
    size_t count, room;
    struct observed_importer *importers;
    bool is_counted; /* else what follows is not known: the exporter is of an earlier Weir */
    observed_counts counts;
    size_t ring_count, ring_room;
    observed_ring *rings; /* no two of one name */
};

/* One socket to be asked, and what was answered there. */
struct observed_socket {
    char path[SHARE_PATH_SIZE];
    weir_status status; /* as of share/wire/query.h */
    int pid;            /* of whoever answered, as the kernel says */
    uint32_t uid;
    char text[sizeof(((struct share_query *)NULL)->text)]; /* why */
    struct observed_export seen; /* as much of it as came, with WEIR_OK all */
};

/* The sockets to be asked. observe_sockets_free() it. */
struct observed_sockets {
    size_t count, room;
    struct observed_socket *items;
    const char *unlisted; /* why SHARE_SYSTEM_DIRECTORY cannot be listed, so that what lies there is not known; or NULL */
};

/* The sockets of the operands, names or paths as in share.socket; or, with none, all that lie where exports of this user listen (root: of
   any), or of any in the system's directory. false, after a complaint: an operand is neither. */
bool observe_sockets(const char *subcommand, int count, char *const *operands, struct observed_sockets *sockets);
void observe_sockets_free(struct observed_sockets *sockets);

/* Asks all exports at once: LIST, who holds what, and what went through those that answer; COUNT, only that; or EVICT. All together takes
   timeout_ms at most. */
void observe_ask(struct observed_sockets *sockets, const struct wire_message *question, unsigned timeout_ms);

#endif
