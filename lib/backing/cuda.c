/* SPDX-License-Identifier: MIT */
#include "lib/backing/cuda.h"

#include "lib/base/context.h"
#include "policy/policy.h"

static struct weir__cuda *cuda_of(struct weir__backing *backing)
{
    return (struct weir__cuda *)backing;
}

/* Called after the driver found no memory for `bytes`. Returns whether the cause was the cap that the driver enforces, while the device (or
   the host, for host memory) still has room. */
static bool was_at_cap(const struct weir__cuda *cuda, uint64_t bytes, bool small)
{
    const struct gpu *gpu = cuda->backing.gpu;
    uint64_t reserved = 0, room = 0, total = 0;
    if (!cuda->max || small || gpu->pool_get(cuda->handle, GPU_POOL_RESERVED, &reserved) != GPU_SUCCESS || reserved + bytes <= cuda->max)
        return false;
    return cuda->is_host || (gpu->device_memory(cuda->backing.device, &room, &total) == GPU_SUCCESS && room >= bytes);
}

void weir__cuda_note_taken(struct weir__ask *ask, uint64_t bytes)
{
    uint64_t *taken = &ask->taken[ask->small], steps = bytes / POLICY_GROWTH_STEP + 1;
    *taken = steps < UINT64_MAX / POLICY_GROWTH_STEP - *taken / POLICY_GROWTH_STEP ? *taken + steps * POLICY_GROWTH_STEP : UINT64_MAX;
}

/* Fills in `ask` after a refusal. Only an attempt that is alone could lower the threshold, so any other may have left whole growth steps
   with the pool. */
static __attribute__((noinline)) int refuse(const struct weir__cuda *cuda, struct weir__ask *ask, uint64_t bytes)
{
    if (!ask->is_alone)
        weir__cuda_note_taken(ask, bytes);
    ask->lack = was_at_cap(cuda, bytes, ask->small) ? WEIR__LACK_CAP : 0;
    return GPU_OUT_OF_MEMORY;
}

int weir__cuda_ask(struct weir__cuda *cuda, struct weir__ask *ask, uint64_t bytes, gpu_stream stream, void **block)
{
    gpu_pool handle = ask->small ? cuda->small : cuda->handle;
    int code = ask->is_alone ? weir__cuda_malloc_alone(cuda, block, bytes, handle, stream)
                             : cuda->backing.gpu->malloc_async(block, bytes, handle, stream);
    return code == GPU_OUT_OF_MEMORY ? refuse(cuda, ask, bytes) : code;
}

static int serve_within(struct weir__cuda *cuda, struct weir__ask *ask, uint64_t bytes, void **block)
{
    uint64_t watched = atomic_load_explicit(&cuda->cap.max_size, memory_order_relaxed);
    if (watched || atomic_load_explicit(&cuda->backing.leave_free, memory_order_relaxed))
        return weir__cap_serve(cuda, watched ? watched : UINT64_MAX, ask, bytes, block);
    int code = weir__cuda_ask(cuda, ask, bytes, ask->user.handle, block);
    /* If a cap was set during this call, the requests that already found room under the cap did not count this one. */
    if (__builtin_expect(atomic_load_explicit(&cuda->cap.max_size, memory_order_relaxed) != 0, false))
        weir__cap_forget_room(&cuda->cap);
    return code;
}

/* Serves a request of a pool with `align`. As all requests are multiples of the alignment, CUDA's blocks mostly begin at multiples too, but
   not beside blocks of other code. Such a block is freed again, and the next one is larger, so that there is a multiple in it. */
static __attribute__((noinline)) int serve_aligned(struct weir__cuda *cuda, struct weir__ask *ask, uint64_t bytes, void **block)
{
    void *base;
    int code = serve_within(cuda, ask, bytes, &base);
    ask->from = NULL;
    if (code == GPU_SUCCESS && (uintptr_t)base % cuda->backing.align) {
        for (int tries = 0; tries < 2 && (code = cuda->backing.gpu->free_async(base, ask->user.handle)) != GPU_SUCCESS; tries++)
            continue;
        if (code == GPU_SUCCESS)
            code = serve_within(cuda, ask, weir__cuda_wide(&cuda->backing, bytes), &base);
        ask->from = base;
    }
    if (code == GPU_SUCCESS)
        *block = weir__cuda_aligned(&cuda->backing, base);
    return code;
}

static int serve(struct weir__backing *backing, struct weir__ask *ask, uint64_t bytes, void **block)
{
    struct weir__cuda *cuda = cuda_of(backing);
    return backing->align > WEIR__ALIGN_LEAST ? serve_aligned(cuda, ask, bytes, block) : serve_within(cuda, ask, bytes, block);
}

static bool was_refused(struct weir__backing *backing, struct weir__ask *ask, uint64_t *keep)
{
    struct weir__cuda *cuda = cuda_of(backing);
    const struct gpu *gpu = backing->gpu;
    uint64_t reserved[2] = {0}, before[2];
    if (!(ask->taken[false] || ask->taken[true]) || gpu->pool_get(cuda->handle, GPU_POOL_RESERVED, &reserved[false]) != GPU_SUCCESS ||
        (cuda->small && gpu->pool_get(cuda->small, GPU_POOL_RESERVED, &reserved[true]) != GPU_SUCCESS))
        return false;
    for (int small = false; small <= true; small++)
        before[small] = reserved[small] > ask->taken[small] ? reserved[small] - ask->taken[small] : 0;
    if (ask->before && ask->taken[false])
        before[false] = ask->before < reserved[false] ? ask->before : reserved[false];
    ask->taken[false] = ask->taken[true] = 0;
    *keep = before[false] + before[true];
    return before[false] < reserved[false] || before[true] < reserved[true];
}

static int give(struct weir__backing *backing, void *block, void *from, struct weir__user *user)
{
    return backing->gpu->free_async(from ? from : block, user->handle);
}

/* Allocates and frees a block of `bytes` on a stream of its own, so that the pool has the memory idle. */
static int extend(struct weir__backing *backing, uint64_t bytes)
{
    struct weir__cuda *cuda = cuda_of(backing);
    const struct gpu *gpu = backing->gpu;
    gpu_stream stream;
    void *ptr;
    if (weir__backing_lack(backing, bytes))
        return GPU_OUT_OF_MEMORY;
    int code = gpu->stream_create(backing->device, &stream);
    if (code == GPU_SUCCESS) {
        code = weir__cuda_malloc_alone(cuda, &ptr, bytes, cuda->handle, stream);
        if (code == GPU_SUCCESS) {
            code = gpu->free_async(ptr, stream);
            if (code != GPU_SUCCESS)
                gpu->free_async(ptr, stream); /* nobody else knows of this block: it would pin the pool for good */
            int seen = gpu->stream_synchronize(stream);
            if (seen != GPU_SUCCESS && cuda->is_exportable)
                atomic_store(&backing->debts.is_unknown, true); /* CUDA's figures would not tell that the free is pending */
            code = code == GPU_SUCCESS ? seen : code;
        }
        gpu->stream_destroy(stream);
    }
    return code;
}

/* Returns the reserved bytes of the handle, or 0 if CUDA does not have the figure. */
static uint64_t reserved_by(const struct gpu *gpu, gpu_pool handle)
{
    uint64_t reserved = 0;
    gpu->pool_get(handle, GPU_POOL_RESERVED, &reserved);
    return reserved;
}

static int give_back(struct weir__backing *backing, uint64_t keep, bool is_patient)
{
    struct weir__cuda *cuda = cuda_of(backing);
    const struct gpu *gpu = backing->gpu;
    int code = GPU_SUCCESS;
    (void)is_patient; /* CUDA gives back only memory whose frees it knows to be complete: waiting for others would not help */
    if (cuda->was_lent) {
        /* Trimming would give the device nothing, and the pool could not use the trimmed memory again (measured). The memory goes back to
           the device when the pool is replaced by a new one. */
    } else if (cuda->small) {
        /* Trim the pool first. The twin serves the most requests, so trim it only by the bytes that are still above `keep`. */
        uint64_t small = reserved_by(gpu, cuda->small);
        code = gpu->pool_trim(cuda->handle, keep > small ? keep - small : 0);
        uint64_t main = reserved_by(gpu, cuda->handle);
        if (code == GPU_SUCCESS)
            code = gpu->pool_trim(cuda->small, keep > main ? keep - main : 0);
        if (code == GPU_SUCCESS)
            code = weir__cuda_reshare(cuda);
    } else {
        code = gpu->pool_trim(cuda->handle, keep);
    }
    weir__cuda_mend(cuda);
    return code;
}

static uint64_t nothing(struct weir__backing *backing)
{
    (void)backing;
    return 0;
}

bool weir__cuda_is_complete(const struct gpu *gpu, gpu_pool handle)
{
    uint64_t reserved = 0;
    int code = gpu->pool_trim(handle, 0);
    if (code == GPU_SUCCESS)
        code = gpu->pool_get(handle, GPU_POOL_RESERVED, &reserved);
    /* A driver without figures cannot tell, and a driver that refuses the pool's handle has lost the pool. In neither case is keeping the
       pool of any use. */
    return code != GPU_SUCCESS || reserved == 0;
}

/* weir__cuda_destroy() for one handle (NULL: there is none), which becomes NULL if it is destroyed. */
static int destroy(const struct gpu *gpu, gpu_pool *handle, bool is_settled, bool asks_figures)
{
    int code = GPU_SUCCESS;
    if (*handle && is_settled && (!asks_figures || weir__cuda_is_complete(gpu, *handle)) &&
        (code = gpu->pool_destroy(*handle)) == GPU_SUCCESS)
        *handle = NULL;
    if (*handle)
        gpu->pool_set(*handle, GPU_POOL_RELEASE_THRESHOLD, 0);
    return code;
}

int weir__cuda_destroy_former(struct weir__cuda *cuda, bool asks_figures)
{
    return destroy(cuda->backing.gpu, &cuda->former, true, asks_figures);
}

int weir__cuda_destroy(struct weir__cuda *cuda, bool is_settled, bool asks_figures)
{
    gpu_pool *const handles[] = {&cuda->handle, &cuda->small, &cuda->former};
    int code = GPU_SUCCESS;
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        int destroyed = destroy(cuda->backing.gpu, handles[i], is_settled, asks_figures);
        if (destroyed != GPU_SUCCESS)
            code = destroyed;
    }
    return code;
}

/* Does nothing: the handles may outlive the backing, and weir__cuda_destroy() destroys them. */
static void leave_handles(struct weir__backing *backing, struct weir__closing *closing)
{
    (void)backing, (void)closing;
}

static void synchronised(struct weir__backing *backing)
{
    (void)backing;
}

/* Reads the sum of the figures of pool and twin. */
static int read_figure(struct weir__backing *backing, enum gpu_pool_attribute attribute, uint64_t *value)
{
    struct weir__cuda *cuda = cuda_of(backing);
    uint64_t main = 0, small = 0;
    weir__cuda_begin(cuda);
    int code = backing->gpu->pool_get(cuda->handle, attribute, &main);
    weir__cuda_end(cuda);
    if (code == GPU_SUCCESS && cuda->small)
        code = backing->gpu->pool_get(cuda->small, attribute, &small);
    if (code == GPU_SUCCESS || code == GPU_NOT_SUPPORTED)
        *value = main + small;
    return code == GPU_NOT_SUPPORTED ? GPU_SUCCESS : code;
}

/* Leaves the twin out, since the figures of the pool are enough in most cases. */
static uint64_t idle_of(struct weir__backing *backing, uint64_t *reserved)
{
    struct weir__cuda *cuda = cuda_of(backing);
    uint64_t used = 0, all = 0;
    bool is_known = backing->gpu->pool_get(cuda->handle, GPU_POOL_USED, &used) == GPU_SUCCESS &&
                    backing->gpu->pool_get(cuda->handle, GPU_POOL_RESERVED, &all) == GPU_SUCCESS;
    *reserved = is_known ? all : 0;
    return is_known && all > used ? all - used : 0;
}

static void read_figures(struct weir__backing *backing, struct weir__backing_figures *figures)
{
    uint64_t used = 0;
    *figures = (struct weir__backing_figures){.reserved = 0};
    read_figure(backing, GPU_POOL_USED, &used);
    read_figure(backing, GPU_POOL_RESERVED, &figures->reserved);
    if (!cuda_of(backing)->was_lent && figures->reserved > used)
        figures->idle = figures->reserved - used;
}

static bool has_pending(struct weir__backing *backing)
{
    const struct weir__cuda *cuda = cuda_of(backing);
    bool is_complete = weir__cuda_is_complete(backing->gpu, cuda->handle);
    return (cuda->small && !weir__cuda_is_complete(backing->gpu, cuda->small)) || !is_complete;
}

static bool pinned(struct weir__backing *backing, uint64_t *bytes)
{
    (void)backing, (void)bytes;
    return false;
}

static int reset_peak(struct weir__cuda *cuda)
{
    const struct gpu *gpu = cuda->backing.gpu;
    if (!gpu->supports(cuda->backing.device, GPU_FEATURE_POOL_USAGE, NULL, 0))
        return GPU_SUCCESS;
    weir__cuda_begin(cuda);
    int code = gpu->pool_set(cuda->handle, GPU_POOL_RESERVED_HIGH, 0);
    if (code == GPU_SUCCESS && cuda->small)
        code = gpu->pool_set(cuda->small, GPU_POOL_RESERVED_HIGH, 0);
    weir__cuda_end(cuda);
    return code;
}

static int set(struct weir__backing *backing, enum gpu_pool_attribute attribute, uint64_t value)
{
    struct weir__cuda *cuda = cuda_of(backing);
    if (attribute == GPU_POOL_RELEASE_THRESHOLD)
        return weir__cuda_set_threshold(cuda, value);
    if (attribute == GPU_POOL_RESERVED_HIGH)
        return reset_peak(cuda);
    int code = weir__cuda_write(cuda, cuda->handle, attribute, value);
    return code == GPU_SUCCESS && cuda->small ? weir__cuda_write(cuda, cuda->small, attribute, value) : code;
}

/* Grants or withdraws one peer's access to one handle, and reads the access back. Returns the GPU code, or GPU_NOT_SUPPORTED if CUDA has
   not changed the access. */
static int set_access(const struct gpu *gpu, gpu_pool handle, int peer, enum gpu_access access)
{
    enum gpu_access seen;
    int code = gpu->pool_set_access(handle, peer, access);
    if (code == GPU_SUCCESS) {
        code = gpu->pool_get_access(handle, peer, &seen);
        if (code == GPU_SUCCESS && seen != access)
            code = GPU_NOT_SUPPORTED;
        if (code != GPU_SUCCESS)
            gpu->pool_set_access(handle, peer, access == GPU_ACCESS_NONE ? GPU_ACCESS_READ_WRITE : GPU_ACCESS_NONE);
    }
    return code;
}

static int set_peer(struct weir__backing *backing, int peer, bool grant)
{
    struct weir__cuda *cuda = cuda_of(backing);
    enum gpu_access access = grant ? GPU_ACCESS_READ_WRITE : GPU_ACCESS_NONE;
    int code = set_access(backing->gpu, cuda->handle, peer, access);
    if (code == GPU_SUCCESS && cuda->small) {
        code = set_access(backing->gpu, cuda->small, peer, access);
        if (code != GPU_SUCCESS)
            set_access(backing->gpu, cuda->handle, peer, grant ? GPU_ACCESS_NONE : GPU_ACCESS_READ_WRITE);
    }
    return code;
}

/* The cap that the driver enforces is fixed when the pool is made. Any other cap is left to cuda_cap.c. */
static void set_cap(struct weir__backing *backing, uint64_t max_size)
{
    struct weir__cuda *cuda = cuda_of(backing);
    weir__cap_set(&cuda->cap, max_size == cuda->max ? 0 : max_size);
}

int weir__cuda_copy(const struct weir__cuda *cuda, gpu_pool made, const bool *peers, size_t count)
{
    const struct gpu *gpu = cuda->backing.gpu;
    int code = GPU_SUCCESS;
    for (size_t i = 0; i < WEIR__CUDA_ATTRIBUTES && code == GPU_SUCCESS; i++) {
        uint64_t value;
        if (weir__cuda_attributes[i] == GPU_POOL_RELEASE_THRESHOLD)
            continue;
        code = gpu->pool_get(cuda->handle, weir__cuda_attributes[i], &value);
        if (code == GPU_SUCCESS)
            code = gpu->pool_set(made, weir__cuda_attributes[i], value);
    }
    for (size_t peer = 0; peer < count && code == GPU_SUCCESS; peer++)
        if (peers[peer])
            code = set_access(gpu, made, (int)peer, GPU_ACCESS_READ_WRITE);
    return code;
}

/* CUDA does not tell when it grows a pool. So the recorder gets only the memory that cuda_cap.c gives back. */
static void record(struct weir__backing *backing, struct weir__recorder *recorder, unsigned pool)
{
    cuda_of(backing)->recorder = recorder;
    cuda_of(backing)->record = pool;
}

static bool hold(struct weir__backing *backing)
{
    (void)backing;
    return true;
}

static void release(struct weir__backing *backing)
{
    (void)backing;
}

static const struct weir__backing_ops ops = {
    .lends_idle = true,
    .step = POLICY_GROWTH_STEP,
    .grain = POLICY_GROWTH_STEP,
    .grow = 830000,
    .trim = 930000,
    .call_to_free = "cudaFreeAsync",
    .serve = serve,
    .was_refused = was_refused,
    .give = give,
    .extend = extend,
    .give_back = give_back,
    .left = nothing,
    .close = leave_handles,
    .synchronised = synchronised,
    .set = set,
    .set_peer = set_peer,
    .set_cap = set_cap,
    .read = read_figure,
    .idle = idle_of,
    .figures = read_figures,
    .pending = nothing,
    .has_pending = has_pending,
    .pinned = pinned,
    .record = record,
    .hold = hold,
    .release = release,
};

void weir__cuda_init(struct weir__cuda *cuda, struct weir__fences *fences, const void *group, pthread_mutex_t *lock)
{
    cuda->backing = (struct weir__backing){.ops = &ops, .gpu = fences->gpu, .device = fences->device, .lock = lock};
    cuda->backing.align = WEIR__ALIGN_LEAST;
    weir__debts_init(&cuda->backing.debts, fences);
    cuda->backing.debts.group = group;
    weir__cap_init(&cuda->cap, fences, group);
    pthread_rwlock_init(&cuda->exchange, NULL);
}
