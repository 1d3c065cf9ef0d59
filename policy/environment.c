/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "policy/environment.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHUNK 65536 /* bytes of values that are mapped at a time */

static const char *const names[] = {
    "WEIR_CONF", "WEIR_CONTROL_DIR", "WEIR_GPU", "WEIR_LOG", "WEIR_POLICY", "WEIR_POLICY_DIR",
    "WEIR_RESERVATION",
    /* Where files and sockets lie. */
    "HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR",
    /* Which process of which job this is. */
    "HOSTNAME", "KUBERNETES_SERVICE_HOST", "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "POD_NAME", "RANK",
    "SLURM_JOB_ID", "SLURM_LOCALID", "SLURM_PROCID", "TORCHELASTIC_RUN_ID",
};
#define COUNT (sizeof names / sizeof *names)

/* Values, one behind the other, each with its NUL. Another thread may be reading any of them, so they stay; one that comes again is used
   again. */
struct chunk {
    struct chunk *next;
    size_t used, room;
    char text[];
};

static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER; /* guards the chunks */
static struct chunk *chunks;
static const char *_Atomic values[COUNT];
static atomic_bool is_read;

static const char *find_value(const char *value)
{
    for (const struct chunk *chunk = chunks; chunk; chunk = chunk->next)
        for (size_t at = 0; at < chunk->used; at += strlen(chunk->text + at) + 1)
            if (strcmp(chunk->text + at, value) == 0)
                return chunk->text + at;
    return NULL;
}

/* Called with `reading`. NULL: no memory. */
static const char *keep(const char *value)
{
    size_t len = strlen(value) + 1;
    const char *known = find_value(value);
    if (known)
        return known;
    if (!chunks || chunks->room - chunks->used < len) {
        size_t bytes = sizeof *chunks + (len > CHUNK ? len : CHUNK);
        struct chunk *chunk = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (chunk == MAP_FAILED)
            return NULL;
        chunk->next = chunks;
        chunk->room = bytes - sizeof *chunks;
        chunks = chunk;
    }
    char *kept = memcpy(chunks->text + chunks->used, value, len);
    chunks->used += len;
    return kept;
}

bool policy_environment_read(void)
{
    bool is_whole = true;
    pthread_mutex_lock(&reading);
    for (size_t i = 0; i < COUNT; i++) {
        const char *now = secure_getenv(names[i]), *kept = now ? keep(now) : NULL;
        if (now && !kept)
            is_whole = false;
        else
            atomic_store_explicit(&values[i], kept, memory_order_release);
    }
    pthread_mutex_unlock(&reading);
    if (is_whole)
        atomic_store(&is_read, true);
    return is_whole;
}

const char *policy_environment(const char *name)
{
    if (!atomic_load(&is_read))
        return secure_getenv(name);
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(names[i], name) == 0)
            return atomic_load_explicit(&values[i], memory_order_acquire);
    return NULL;
}

const char *policy_environment_now(const char *name)
{
    return secure_getenv(name);
}
