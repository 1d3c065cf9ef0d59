/* SPDX-License-Identifier: MIT */
/*
 * attached.h - what the folders above lib/ hang onto a weir, of which lib/ knows nothing: it is told of a new policy, and closed before the
 * weir.
 *
 * Owned by whoever attaches it. weir.attached_lock guards the list.
 */
#ifndef WEIR_LIB_ATTACHED_H
#define WEIR_LIB_ATTACHED_H

#include "lib/pool/weir_internal.h"

/* Something that belongs to a weir and has to go before it. Embedded in its owner. */
struct weir__attached {
    struct weir__attached *next, **link; /* guarded by weir.attached_lock */
    void (*close)(struct weir__attached *attached); /* weir_close() calls it, the latest first, after it was detached; no lock is held */
    /* NULL, or called whenever the policy may have changed, and once when it is attached; under weir.attached_lock, so one call at a time
       and none once it is detached. is_quick: on the service thread, or it was called a moment ago: nothing that may take long is to be
       done again. */
    void (*policy_changed)(struct weir__attached *attached, bool is_quick);
};
void weir__attach(weir *w, struct weir__attached *attached);
/* Waits for a call of policy_changed(). Does nothing if it is not attached any more. */
void weir__detach(weir *w, struct weir__attached *attached);
/* weir_close()'s: detaches and closes everything. */
void weir__attached_close(weir *w);
/* The policy may have changed: tells everything that is attached. No lock is held. */
void weir__attached_tell(weir *w, bool is_quick);

#endif
