/* SPDX-License-Identifier: MIT */
/*
 * attached.h - objects of the folders above lib/ (exports, imports, control sockets) that are attached to a weir. lib/ knows nothing about
 * them, but tells them about a new policy, and closes them before the weir.
 *
 * The code that attaches an object owns it. weir.attached_lock guards the list of a weir.
 */
#ifndef WEIR_LIB_ATTACHED_H
#define WEIR_LIB_ATTACHED_H

#include "lib/pool/weir_internal.h"

/* One attached object: a member of the struct that it stands for. */
struct weir__attached {
    struct weir__attached *next, **link; /* guarded by weir.attached_lock */
    /* Closes the object. weir_close() detaches the objects, the newest first, and calls close() for each with no lock held. */
    void (*close)(struct weir__attached *attached);
    /* NULL, or called when the policy may have changed, and once by weir__attach(). The caller holds weir.attached_lock, so that there is
       one call at a time, and none after the object was detached. is_quick: the function must not do anything that may take long, since the
       service thread calls it, or the object was attached a moment ago. */
    void (*policy_changed)(struct weir__attached *attached, bool is_quick);
};
void weir__attach(weir *w, struct weir__attached *attached);
/* Detaches an object, and waits for a call of its policy_changed() in progress. Does nothing if the object is not attached any more. */
void weir__detach(weir *w, struct weir__attached *attached);
/* For weir_close(): detaches and closes all objects. */
void weir__attached_close(weir *w);
/* Calls policy_changed() of all objects, because the policy may have changed. The caller holds no lock. */
void weir__attached_tell(weir *w, bool is_quick);

#endif
