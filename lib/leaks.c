/* SPDX-License-Identifier: MIT */
/* leaks.c - lists the live blocks: for a program that calls weir_leaks(), and for the log when a weir is closed. */
#include "lib/leaks.h"

#include <stdlib.h>

#include "lib/base/call.h"
#include "lib/base/format.h"
#include "lib/pool/holders.h"

#define LOGGED 8 /* the most lines that weir_close() logs about live blocks */

struct leak {
    weir_leak given;
    uintptr_t frames[WEIR__STACK_MAX];
};

/* Fills the description that the program gets of live blocks with the same pool, tag and stack. Frames of an interpreter are left out. */
static void describe(const weir *w, const struct weir__holder *holder, struct leak *leak)
{
    const struct weir__tag *tag = weir__tags_get(&w->recorder.tags, weir__origin_tag(holder->origin));
    const struct weir__stacks *stacks = atomic_load(&w->recorder.stacks);
    const uint64_t *elements;
    unsigned count = 0;
    leak->given = (weir_leak){.pool = holder->pool->name, .device = holder->pool->device->index, .tag = tag ? tag->name : NULL,
                              .size = holder->size, .blocks = holder->blocks, .ptr = holder->ptr, .frames = leak->frames};
    if (!stacks || !weir__stacks_get(stacks, weir__origin_stack(holder->origin), &elements, &count))
        return;
    for (unsigned i = 0; i < count && i < WEIR__STACK_MAX; i++)
        if (!(elements[i] & 1))
            leak->frames[leak->given.frame_count++] = (uintptr_t)(elements[i] >> 1);
}

static void free_holders(struct weir__holder **holders)
{
    free(*holders);
}

weir_status weir_leaks(weir *w, int device, weir_leak_fn fn, void *data, weir_error *error)
{
    WEIR__CALL;
    struct weir__holder *holders __attribute__((cleanup(free_holders))) = NULL;
    size_t count;
    if (weir__check_fork(error) != WEIR_OK)
        return WEIR_FORKED;
    if (!w || !fn)
        return weir__fail(error, WEIR_INVALID, "weir_leaks: w and fn must not be NULL");
    if (device < -1 || (device >= 0 && (size_t)device >= w->device_count))
        return weir__fail(error, WEIR_NOT_FOUND, "there is no device %d: this machine has %zu, counted from 0; -1 is all of them", device,
                          w->device_count);
    if (!weir__holders_find(w, device, SIZE_MAX, &holders, &count))
        return weir__fail(error, WEIR_NO_HOST_MEMORY, "no host memory for the list of live blocks");
    for (size_t i = 0; i < count; i++) {
        struct leak leak;
        describe(w, &holders[i], &leak);
        fn(data, &leak.given);
    }
    return WEIR_OK;
}

void weir__leaks_log(weir *w)
{
    struct weir__holder *holders;
    size_t count;
    if (!weir__holders_find(w, WEIR__EVERY_DEVICE, SIZE_MAX, &holders, &count))
        return;
    for (size_t i = 0; i < count && i < LOGGED; i++) {
        struct leak leak;
        char size[WEIR__BYTES_LEN];
        describe(w, &holders[i], &leak);
        weir__log(w, WEIR_LOG_WARNING, "live at close: %llu block%s of %s in pool '%s' of device %d%s%s, as %p",
                  (unsigned long long)leak.given.blocks, weir__plural(leak.given.blocks), weir__bytes(size, leak.given.size),
                  leak.given.pool, leak.given.device, leak.given.tag ? ", tag " : "", leak.given.tag ? leak.given.tag : "",
                  leak.given.ptr);
    }
    if (count > LOGGED)
        weir__log(w, WEIR_LOG_WARNING, "live at close: blocks of %zu more kinds; weir_leaks() lists all", count - LOGGED);
    free(holders);
}
