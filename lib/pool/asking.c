/* SPDX-License-Identifier: MIT */
#include "lib/pool/asking.h"

void weir__asking_init(struct weir__asking *asking)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&asking->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&asking->lock, NULL);
}

void weir__asking_destroy(struct weir__asking *asking)
{
    pthread_cond_destroy(&asking->changed);
    pthread_mutex_destroy(&asking->lock);
}

void weir__asking_wake(struct weir__asking *asking)
{
    pthread_mutex_lock(&asking->lock);
    pthread_cond_broadcast(&asking->changed);
    pthread_mutex_unlock(&asking->lock);
}

uint64_t weir__asking_wait(struct weir__asking *asking, const struct gpu *gpu, uint64_t *waited)
{
    pthread_mutex_lock(&asking->lock);
    atomic_fetch_add(&asking->ended, 1);
    asking->waiting++;
    pthread_cond_broadcast(&asking->changed);
    if (atomic_load(&asking->is_closed)) {
        uint64_t since = gpu->now();
        do
            pthread_cond_wait(&asking->changed, &asking->lock);
        while (atomic_load(&asking->is_closed));
        *waited += gpu->now() - since;
    }
    uint64_t number = atomic_fetch_add(&asking->begun, 1);
    if (--asking->waiting == 0)
        pthread_cond_broadcast(&asking->changed);
    pthread_mutex_unlock(&asking->lock);
    return number;
}

bool weir__asking_alone_begin(struct weir__asking *asking, const struct timespec *until, const struct gpu *gpu, uint64_t *waited)
{
    bool is_closed = false, is_late = false, waits = false;
    uint64_t since = 0;
    pthread_mutex_lock(&asking->lock);
    while (!is_late) {
        if (!is_closed && !asking->waiting && !atomic_load(&asking->is_closed)) {
            is_closed = true;
            atomic_store(&asking->is_closed, true);
        }
        if (is_closed && atomic_load(&asking->begun) == atomic_load(&asking->ended))
            break;
        since = waits ? since : gpu->now();
        waits = true;
        is_late = pthread_cond_timedwait(&asking->changed, &asking->lock, until) != 0;
    }
    if (is_late && is_closed) {
        atomic_store(&asking->is_closed, false);
        pthread_cond_broadcast(&asking->changed);
    }
    pthread_mutex_unlock(&asking->lock);
    *waited += waits ? gpu->now() - since : 0;
    return !is_late;
}

void weir__asking_alone_end(struct weir__asking *asking)
{
    pthread_mutex_lock(&asking->lock);
    atomic_store(&asking->is_closed, false);
    pthread_cond_broadcast(&asking->changed);
    pthread_mutex_unlock(&asking->lock);
}
