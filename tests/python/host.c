/* SPDX-License-Identifier: MIT */
/* host.c - native code that allocates, mostly in threads that Python never saw: a shared object that frames_test.py loads. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

typedef void *malloc_fn(ssize_t size, int device, void *stream);
typedef void free_fn(void *ptr, ssize_t size, int device, void *stream);

struct host_work {
    malloc_fn *take;
    free_fn *give;
    ssize_t size;
    unsigned count; /* 0: until the process ends */
};

#define EXPORTED __attribute__((visibility("default")))
EXPORTED unsigned host_run(const struct host_work *work, unsigned threads);
EXPORTED int host_start(const struct host_work *work, unsigned threads);
EXPORTED void host_here(const struct host_work *work);

/* Every second block stays. A process that ends refuses. */
static void *allocate(void *data)
{
    const struct host_work *work = data;
    size_t refused = 0;
    for (unsigned i = 0; !work->count || i < work->count; i++) {
        void *ptr = work->take(work->size, 0, NULL);
        refused += !ptr;
        if (ptr && (!work->count || i % 2))
            work->give(ptr, work->size, 0, NULL);
    }
    return (void *)refused;
}

/* Returns how many requests were refused, or could not be made. */
unsigned host_run(const struct host_work *work, unsigned threads)
{
    pthread_t ids[64];
    unsigned refused = 0, made = 0;
    while (made < threads && made < 64 && pthread_create(&ids[made], NULL, allocate, (void *)work) == 0)
        made++;
    for (unsigned i = 0; i < made; i++) {
        void *result;
        pthread_join(ids[i], &result);
        refused += (unsigned)(size_t)result;
    }
    return made < threads ? refused + 1 : refused;
}

/* 0: they run now, for good. */
int host_start(const struct host_work *work, unsigned threads)
{
    pthread_t id;
    struct host_work *copy = malloc(sizeof *copy);
    if (!copy)
        return 1;
    *copy = *work;
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&id, NULL, allocate, copy) != 0 || pthread_detach(id) != 0)
            return 1;
    return 0;
}

/* A Python that ends makes threads end that ask for the GIL. */
static void was_ended(void *unused)
{
    (void)unused;
    _exit(9);
}

/* On the calling thread, which must come back. */
void host_here(const struct host_work *work)
{
    pthread_cleanup_push(was_ended, NULL);
    allocate((void *)work);
    pthread_cleanup_pop(0);
}
