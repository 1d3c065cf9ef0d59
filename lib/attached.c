/* SPDX-License-Identifier: MIT */
#include "lib/attached.h"

static void tell(struct weir__attached *attached, bool is_quick)
{
    if (attached->policy_changed)
        attached->policy_changed(attached, is_quick);
}

void weir__attach(weir *w, struct weir__attached *attached)
{
    pthread_mutex_lock(&w->attached_lock);
    attached->next = w->attached;
    attached->link = &w->attached;
    if (attached->next)
        attached->next->link = &attached->next;
    w->attached = attached;
    /* The policy may have changed since the owner of `attached` read it. */
    tell(attached, true);
    pthread_mutex_unlock(&w->attached_lock);
}

void weir__attached_tell(weir *w, bool is_quick)
{
    pthread_mutex_lock(&w->attached_lock);
    for (struct weir__attached *attached = w->attached; attached; attached = attached->next)
        tell(attached, is_quick);
    pthread_mutex_unlock(&w->attached_lock);
}

/* Removes an object from the list. Does nothing if the object is not on the list. The caller holds weir.attached_lock. */
static void unlink_attached(struct weir__attached *attached)
{
    if (!attached->link)
        return;
    *attached->link = attached->next;
    if (attached->next)
        attached->next->link = attached->link;
    attached->next = NULL;
    attached->link = NULL;
}

void weir__detach(weir *w, struct weir__attached *attached)
{
    pthread_mutex_lock(&w->attached_lock);
    unlink_attached(attached);
    pthread_mutex_unlock(&w->attached_lock);
}

void weir__attached_close(weir *w)
{
    for (;;) {
        pthread_mutex_lock(&w->attached_lock);
        struct weir__attached *latest = w->attached;
        if (latest)
            unlink_attached(latest);
        pthread_mutex_unlock(&w->attached_lock);
        if (!latest)
            return;
        latest->close(latest);
    }
}
