/* SPDX-License-Identifier: MIT */
#include "tests/api/hook.h"

#include <pthread.h>
#include <stdatomic.h>

#include "lib/gpu/gpu_tables.h"

static const struct gpu *base;
static struct gpu table; /* `base`, but for what may be hooked */
static _Atomic(const struct gpu *) hooks;

static const struct gpu *hooked(void)
{
    const struct gpu *gpu = atomic_load(&hooks);
    return gpu ? gpu : base;
}

#define HOOK_DEFINE(name, check, parameters, arguments)                                                                                    \
    static int hook_##name parameters                                                                                                      \
    {                                                                                                                                      \
        return hooked()->name arguments;                                                                                                   \
    }
GPU_OPERATIONS(HOOK_DEFINE)
#undef HOOK_DEFINE

static uint64_t hook_now(void)
{
    return hooked()->now();
}

static void hook_pause(uint64_t nanoseconds)
{
    hooked()->pause(nanoseconds);
}

const struct gpu *hook_base(void)
{
    return base;
}

void hook_set(const struct gpu *gpu)
{
    atomic_store(&hooks, gpu);
}

/* What the linker makes of gpu_find(). All callers of a program ask for the same side. */
const struct gpu *__real_gpu_find(const char *name, const char **why);
const struct gpu *__wrap_gpu_find(const char *name, const char **why);

const struct gpu *__wrap_gpu_find(const char *name, const char **why)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const struct gpu *found = __real_gpu_find(name, why);
    if (!found)
        return NULL;
    pthread_mutex_lock(&lock);
    if (!base) {
        base = found;
        table = *found;
#define HOOK_ENTRY(name, check, parameters, arguments) table.name = hook_##name;
        GPU_OPERATIONS(HOOK_ENTRY)
#undef HOOK_ENTRY
        table.now = hook_now;
        table.pause = hook_pause;
    }
    pthread_mutex_unlock(&lock);
    return found == base ? &table : found;
}
