/* SPDX-License-Identifier: MIT */
#include "policy/keys.h"

#include <string.h>

#define BYTES_MAX INT64_MAX                  /* 8 EiB, so that sums of a few sizes cannot overflow */
#define CACHE_MIN 512                        /* CUDA's smallest block, which is the smallest size class */
#define ALIGN_MAX (UINT64_C(2) << 20)        /* the unit of an arena's pages */
#define RING_MIN (UINT64_C(64) << 10)
#define RING_MAX (UINT64_C(1) << 30)
#define IPC_BLOCK_MAX (UINT64_C(5248) << 20) /* importing more crashes the importer (measured) */

/* Enums are stored through an int. */
_Static_assert(sizeof(enum policy_backing) == sizeof(int) && sizeof(enum policy_ipc) == sizeof(int) &&
                   sizeof(enum policy_capture) == sizeof(int) && sizeof(enum policy_level) == sizeof(int) &&
                   sizeof(enum policy_contents) == sizeof(int) && sizeof(enum policy_on_wake) == sizeof(int),
               "words are stored as int");

static const char *const backing_words[] = {"new", "default", "arena", "auto", NULL};
static const char *const ipc_words[] = {"none", "posix_fd", NULL};
static const char *const capture_words[] = {"caller", "relaxed", NULL};
static const char *const level_words[] = {"off", "pool", "all", NULL};
/* A key, its type, and the member of its scope's struct that has its value. */
#define KEY(scope, key, kind, member) .name = (key), .type = POLICY_TYPE_##kind, .offset = offsetof(scope, member)
#define FILE_KEY(key, kind, member) KEY(struct policy, key, kind, member)
#define POOL_KEY(key, kind, member) KEY(struct policy_pool, key, kind, member)
#define STREAM_KEY(key, kind, member) KEY(struct policy_stream, key, kind, member)
#define FROM_TO(least, most) .min = (least), .max = (most)
#define TRUE_OR_FALSE(value) .initial = (value), .write = "true or false"

static const struct policy_key file_keys[] = {
    {
        .name = "weir",
        .type = POLICY_TYPE_VERSION,
        FROM_TO(1, 1),
        .otherwise = "required",
        .write = "1",
        .help = "The version of the policy format. This release reads format 1.",
    },
    {
        FILE_KEY("defaults.pool", POOL, default_pool),
        .otherwise = "the only pool; required if there are several",
        .write = "the name of a pool",
        .help = "The pool of every stream that the policy does not name.",
    },
    {
        FILE_KEY("capture", WORD, capture),
        .words = capture_words,
        .initial = "caller",
        .write = "caller or relaxed",
        .help = "The stream capture mode of plain allocations and frees. caller: the mode of the calling thread stays in force. "
                "relaxed: each call switches the thread to relaxed mode and back, so that it does not invalidate a capture that "
                "another thread has begun; this costs about 60 ns a call. Weir's own work always runs relaxed.",
    },
    {
        FILE_KEY("keeper", BOOL, keeper),
        .live = true,
        TRUE_OR_FALSE("false"),
        .help = "Whether a service thread gives memory back while the program does other work, or nothing: cached blocks that have "
                "gone unused for cache.idle, and idle memory above release_threshold, which without the keeper stays until the "
                "program's next synchronise. The thread sleeps while there is nothing to give back.",
    },
    {
        .name = "pools",
        .type = POLICY_TYPE_POOLS,
        .otherwise = "required",
        .write = "a mapping of pools, as in pools: {main: {}}",
        .help = "The pools, each under a name of its own: a letter or underscore, then letters, digits, _ and -, 63 characters at most. "
                "Write {} for a pool that leaves every key at its default.",
    },
    {
        .name = "streams",
        .type = POLICY_TYPE_STREAMS,
        .otherwise = "none",
        .write = "a mapping of streams, as in streams: {decode: {pool: main}}",
        .help = "The names with which the program opens streams, each with what its streams get. Names follow the rules "
                "for pools.",
    },
    {
        FILE_KEY("exact_peaks", BOOL, exact_peaks),
        TRUE_OR_FALSE("false"),
        .help = "Whether the peak of live bytes of a pool is exact. Otherwise it may be wrong by 1 MiB (or cache.largest, if that is "
                "more) for each opened stream. An exact peak makes each allocation and each free, those of caches included, write to "
                "one counter of the pool that all threads share.",
    },
    {
        FILE_KEY("control", BOOL, control),
        TRUE_OR_FALSE("false"),
        .help = "Whether other processes of this user, and root, can see this process (weir ps, weir top, weir metrics), control it "
                "(weir trim, weir set, weir reload) and ask it for idle memory when they run out (on_oom.steps: neighbours). The "
                "socket for that is in weir/control of $WEIR_CONTROL_DIR or $XDG_RUNTIME_DIR, else in /tmp/weir-UID/control; the "
                "thread that listens sleeps while nobody asks. If the socket cannot be made, the log says so, and memory is served "
                "without it.",
    },
    {
        FILE_KEY("record.level", WORD, record_level),
        .words = level_words,
        .live = true,
        .initial = "pool",
        .write = "off, pool or all",
        .help = "Which of the latest events the recorder keeps. pool: requests and frees that reach CUDA or an arena, growth, trims, "
                "waits, recovery and marks. all: requests and frees that caches serve and keep as well. off: none.",
    },
    {
        FILE_KEY("record.ring", BYTES, record_ring),
        FROM_TO(RING_MIN, RING_MAX),
        .initial = "2MiB",
        .write = "bytes as in 2MiB, from 64KiB to 1GiB",
        .help = "Host memory for the events of one thread, 56 bytes each. Once it is full, the newest event replaces the oldest. A "
                "thread without events has no ring.",
    },
    {
        FILE_KEY("record.stacks", BOOL, record_stacks),
        .live = true,
        TRUE_OR_FALSE("false"),
        .help = "Whether each recorded request has the call stack of its caller. In programs that use Weir's Python package the stack "
                "has Python's frames as well, for which a request takes the GIL. On x86-64 install libunwind8, which makes stacks "
                "faster, and which Weir loads if it is there.",
    },
    {
        FILE_KEY("record.dump", PATH, record_dump),
        .live = true,
        .otherwise = "none",
        .write = "a directory as in /var/tmp, or none",
        .help = "The directory for files that are written when a request finds no memory, with what the recorder has at that moment: "
                "weir-PID-N.weir, readable by this user alone, at most 8 for each process. weir trace reads them.",
    },
    {
        FILE_KEY("record.file", PATH, record_file),
        .otherwise = "none",
        .write = "a file as in /var/tmp/trace-%p.weir, or none; a file of that name is ./none",
        .help = "A file that gets all events from open to close. It must not exist yet. %p stands for the number of the process, %r "
                "for its rank ($RANK, or 0), %% for a percent sign. Programs with changed user or group ids write no file.",
    },
};

#define SIZES_WRITE "bytes as in 512MiB, a share of the device's memory as in 25%"

static const struct policy_key pool_keys[] = {
    {
        POOL_KEY("devices", DEVICES, devices),
        .accepts = POLICY_ACCEPTS_ALL | POLICY_ACCEPTS_LOCAL,
        .max = POLICY_INDEX_MAX,
        .initial = "all",
        .write = "all, local, or a list of indices and UUIDs as in [0, 1]",
        .help = "The devices that get a pool under this name, one pool each. A device is an index from 0, or its whole UUID as "
                "nvidia-smi -L prints it (GPU-... or MIG-...). local is the device of this process, in a job that gives each process "
                "one: see RANKS.",
    },
    {
        POOL_KEY("backing", WORD, backing),
        .words = backing_words,
        .initial = "new",
        .write = "new, default, arena or auto",
        .help = "Where the pool's memory comes from. new: a new pool of CUDA's. default: the pool that the driver made for the device, "
                "which is in device memory, cannot be capped or exported, and cannot belong to one stream. arena: memory that Weir "
                "maps itself, page by page, for exact sizes, which suits large blocks of changing sizes; an arena is in device memory, "
                "cannot be exported or current, and needs no small_below. Idle memory of an arena serves nobody else until it goes "
                "back, so let release_threshold leave room for libraries that call CUDA themselves. auto: an arena if the device has "
                "virtual memory management and the pool needs nothing that an arena lacks, else new.",
    },
    {
        POOL_KEY("current", BOOL, current),
        TRUE_OR_FALSE("false"),
        .help = "Whether this is the device's current pool, from which code that calls cudaMallocAsync itself gets memory. Closing "
                "restores the former current pool, unless other code has set another one since. At most one pool of a device can be "
                "current.",
    },
    {
        POOL_KEY("location", LOCATION, location),
        .max = POLICY_INDEX_MAX,
        .initial = "device",
        .write = "device, host, or host_numa:N as in host_numa:0",
        .help = "Where the memory lives: on the device, in host memory, or on host NUMA node N. Sizes of a host pool cannot be "
                "percentages, as there is no device memory to take a share of.",
    },
    {
        POOL_KEY("release_threshold", SIZE, release_threshold),
        .accepts = POLICY_ACCEPTS_PERCENT | POLICY_ACCEPTS_NONE | POLICY_ACCEPTS_ALL | POLICY_ACCEPTS_AUTO,
        .max = BYTES_MAX,
        .live = true,
        .initial = "all",
        .write = SIZES_WRITE ", none, all or auto",
        .help = "How much reserved memory the pool and its small twin together keep when a stream or event is synchronised; memory "
                "above it goes back to the device. none keeps nothing, which makes each allocation after a synchronise slow; all keeps "
                "everything. auto keeps everything at a synchronise, but lets the keeper give back what the program will hardly need "
                "again; it needs keeper: true, see AUTOMATIC THRESHOLDS. An exportable pool cannot have it: see ipc.",
    },
    {
        POOL_KEY("initial_size", SIZE, initial_size),
        .accepts = POLICY_ACCEPTS_PERCENT,
        .max = BYTES_MAX,
        .initial = "0",
        .write = SIZES_WRITE ", or 0",
        .help = "How far the pool grows when it is opened, so that the first requests need not wait for the driver. More than "
                "release_threshold or max_size is refused.",
    },
    {
        POOL_KEY("max_size", SIZE, max_size),
        .accepts = POLICY_ACCEPTS_PERCENT | POLICY_ACCEPTS_NONE | POLICY_ACCEPTS_QUOTA,
        FROM_TO(1, BYTES_MAX),
        .live = true,
        .initial = "none",
        .write = SIZES_WRITE ", quota or none",
        .help = "The cap of the pool and its small twin together. A request above it fails as out of memory. none: no cap. quota: all "
                "that the process may have of the device, see QUOTAS. A pool without this key is capped at the quota, if one is set. "
                "Pool and twin grow by 32MiB each, so a cap below 64MiB, or below 32MiB without a twin, is refused.",
    },
    {
        POOL_KEY("leave_free", SIZE, leave_free),
        .accepts = POLICY_ACCEPTS_PERCENT | POLICY_ACCEPTS_NONE,
        .max = BYTES_MAX,
        .live = true,
        .initial = "none",
        .write = SIZES_WRITE ", or none",
        .help = "How much of the device stays free when the pool grows, for libraries that call CUDA themselves and for other processes. "
                "A request for which the pool would have to grow further finds no memory, as on a smaller device; see LEAVING MEMORY FREE. "
                "The memory must be on the device.",
    },
    {
        POOL_KEY("align", BYTES, align),
        FROM_TO(CACHE_MIN, ALIGN_MAX),
        .initial = "512",
        .write = "a power of two from 512 to 2MiB, as in 4KiB",
        .help = "Each block of the pool begins at a multiple of this, as GPUDirect Storage (4KiB) and windows of NCCL need it. Requests are "
                "rounded up to such multiples, and counted so. An exportable pool cannot have it, as CUDA chooses the address in the "
                "importing process.",
    },
    {
        POOL_KEY("small_below", BYTES, small_below),
        .max = BYTES_MAX,
        .initial = "1MiB",
        .write = "bytes as in 1MiB, or 0 for no small twin",
        .help = "Requests smaller than this get their memory from a second pool, the small twin, so that small blocks do not pin the "
                "large memory around them. 0: no twin. An exportable pool has none.",
    },
    {
        POOL_KEY("reuse.event_dependencies", BOOL, reuse_event_dependencies),
        .live = true,
        TRUE_OR_FALSE("true"),
        .help = "Whether memory freed in one stream may serve another stream that waits for it through events "
                "(cudaMemPoolReuseFollowEventDependencies).",
    },
    {
        POOL_KEY("reuse.opportunistic", BOOL, reuse_opportunistic),
        .live = true,
        TRUE_OR_FALSE("true"),
        .help = "Whether memory whose free happens to be complete may serve any stream (cudaMemPoolReuseAllowOpportunistic). Turn it "
                "off if every run must allocate alike.",
    },
    {
        POOL_KEY("reuse.internal_dependencies", BOOL, reuse_internal_dependencies),
        .live = true,
        TRUE_OR_FALSE("true"),
        .help = "Whether the driver may make a stream wait for another stream's free in order to reuse its memory "
                "(cudaMemPoolReuseAllowInternalDependencies). It does so only if the pool cannot grow. With false the wait step of "
                "on_oom serves such a request.",
    },
    {
        POOL_KEY("reuse.pending_max", SIZE, reuse_pending_max),
        .accepts = POLICY_ACCEPTS_PERCENT | POLICY_ACCEPTS_ALL | POLICY_ACCEPTS_AUTO,
        .max = BYTES_MAX,
        .live = true,
        .initial = "all",
        .write = SIZES_WRITE ", all or auto",
        .help = "How much of the pool other streams may have freed behind work that is not done, before a request that would make the "
                "pool grow makes its stream wait for these frees instead. The stream waits on the GPU, the program goes on. all: the "
                "pool grows first. auto: it grows first while it reserves no more than the most that was in use and an eighth of that, "
                "or 64MiB, beside it. See PENDING FREES.",
    },
    {
        POOL_KEY("peer_access", DEVICES, peer_access),
        .accepts = POLICY_ACCEPTS_NONE | POLICY_ACCEPTS_ALL,
        .max = POLICY_INDEX_MAX,
        .live = true,
        .initial = "none",
        .write = "none, all, or a list of indices and UUIDs as in [1]",
        .help = "Other devices whose kernels may read and write the pool's memory. A peer that the device cannot reach is refused when the "
                "policy is opened; all means every device that it can reach.",
    },
    {
        POOL_KEY("on_oom.steps", STEPS, on_oom_steps),
        .live = true,
        .initial = "[flush, wait, trim, callbacks, neighbours]",
        .write = "a list of steps as in [flush, wait]",
        .help =
            "What is tried, in this order, when CUDA has no memory left: flush empties the caches, wait waits for pending frees that "
            "the driver does not wait for by itself, trim takes idle memory from other pools and at last what they have yielded, "
            "callbacks asks the application, neighbours asks other processes on the same GPU that have control: true for what they do not "
            "use or have yielded. Steps can be left out but not reordered; [] tries nothing.",
    },
    {
        POOL_KEY("on_oom.deadline", TIME, on_oom_deadline),
        .max = 600 * POLICY_SECOND,
        .live = true,
        .initial = "1s",
        .write = "a time as in 500ms, 1s or 2m",
        .help = "No step starts later than this after the request failed.",
    },
    {
        POOL_KEY("cache", SWITCH, cache),
        .live = true,
        .initial = "on",
        .write = "off, on, or a mapping of its keys as in {per_stream: 64MiB}",
        .help = "Whether Weir keeps blocks that opened streams free, for each stream and size class, and serves them again on the same "
                "stream without calling CUDA. off: every free goes to CUDA. on: every key below has its default; a mapping sets some "
                "of these keys, and switches the caches on as well. An exportable pool has no caches: see ipc.",
    },
    {
        POOL_KEY("cache.per_stream", BYTES, cache_per_stream),
        FROM_TO(CACHE_MIN, BYTES_MAX),
        .live = true,
        .initial = "64MiB",
        .write = "bytes as in 64MiB, at least 512; or cache: off to keep nothing",
        .help = "The most that the cache of one stream holds. If a freed block does not fit, others go to CUDA, first those of the "
                "size that has gone longest without a new block.",
    },
    {
        POOL_KEY("cache.per_device", BYTES, cache_per_device),
        FROM_TO(CACHE_MIN, BYTES_MAX),
        .live = true,
        .initial = "512MiB",
        .write = "bytes as in 512MiB, at least 512; or cache: off to keep nothing",
        .help = "The most that all caches of this pool on one device hold together, and never more than an eighth of max_size, or of "
                "the device's memory. A stream for which nothing is left takes the room of streams that kept nothing for a second. "
                "Less than per_stream is refused.",
    },
    {
        POOL_KEY("cache.largest", BYTES, cache_largest),
        FROM_TO(CACHE_MIN, UINT64_C(64) << 30),
        .live = true,
        .initial = "1MiB",
        .write = "bytes as in 1MiB, from 512 to 64GiB",
        .help = "The largest block that is kept by its size class. Of larger ones each stream keeps the last two that it freed, for "
                "requests of exactly their size, and gives them up before the pool grows for a large request; in CUDA's pools only "
                "sizes that it requests again. More than per_stream is refused.",
    },
    {
        POOL_KEY("cache.idle", TIME, cache_idle),
        FROM_TO(POLICY_SECOND / 100, 24 * 60 * 60 * POLICY_SECOND),
        .live = true,
        .initial = "10s",
        .write = "a time as in 10s, from 10ms to 1440m",
        .help = "How long a cached block may go unused before the keeper gives it back to CUDA. Without keeper: true no block goes "
                "back for its age.",
    },
    {
        POOL_KEY("cache.capture_check", BOOL, cache_capture_check),
        .live = true,
        TRUE_OR_FALSE("true"),
        .help = "Whether to ask CUDA before each call if the stream is being captured into a graph; such a call must not be served "
                "from a cache, as its memory is the graph's. false saves about 28 ns of a cached allocation and its free (measured on "
                "an H200), and is only for programs that never capture CUDA graphs.",
    },
    {
        POOL_KEY("ipc", WORD, ipc),
        .words = ipc_words,
        .initial = "none",
        .write = "none or posix_fd",
        .help = "Whether the pool can be exported to other processes, as a file descriptor. Memory of exported blocks never goes back "
                "while the pool lives, so release_threshold, initial_size and small_below cannot be set with it: the pool keeps "
                "nothing at a synchronise until its first block is published, and everything afterwards. Its blocks are never cached, "
                "so cache can only be off. The memory must be on the device.",
    },
    {
        POOL_KEY("ipc_max_block", BYTES, ipc_max_block),
        FROM_TO(1, IPC_BLOCK_MAX),
        .needs = "ipc",
        .initial = "5248MiB",
        .write = "bytes as in 256MiB, from 1 to 5248MiB",
        .help = "The largest block of an exportable pool; a larger request is refused with the reason. More than the default cannot be "
                "allowed: the driver crashes a process that imports a larger block (measured).",
    },
    {
        POOL_KEY("share.socket", SOCKET, share_socket),
        .needs = "ipc",
        .otherwise = "the pool is not shared",
        .write = "a name as in frames, of letters, digits, _, - and ., or an absolute path of at most 99 bytes as in /run/app/frames",
        .help = "Where other processes connect to import blocks of the pool, once the program opens an export of it. A name lies in "
                "$XDG_RUNTIME_DIR/weir/share, or in /run/weir/share if allow names others than the user of the process. A socket is for "
                "one pool: devices must name exactly one device, and no private stream can have such a pool. Needs ipc: posix_fd.",
    },
    {
        POOL_KEY("share.allow.users", NAMES, share_users),
        .needs = "share.socket",
        .live = true,
        .initial = "[]",
        .write = "a list of user names or numbers as in [camera, 1001]",
        .help = "Users that may import, beside root and the user of the process. An importer can read and write everything that the "
                "pool ever exports: see SECURITY CONSIDERATIONS.",
    },
    {
        POOL_KEY("share.allow.groups", NAMES, share_groups),
        .needs = "share.socket",
        .live = true,
        .initial = "[]",
        .write = "a list of group names or numbers as in [video]",
        .help = "Groups whose members may import, by their first group or a supplementary one.",
    },
    {
        POOL_KEY("share.max_importers", NUMBER, share_max_importers),
        FROM_TO(1, 64),
        .needs = "share.socket",
        .live = true,
        .initial = "16",
        .write = "a number from 1 to 64",
        .help = "How many processes may import at a time; the next one is refused. A lower number at reload disconnects nobody.",
    },
    {
        POOL_KEY("share.retire_after", TIME, share_retire_after),
        .accepts = POLICY_ACCEPTS_NEVER,
        FROM_TO(POLICY_SECOND / 100, 24 * 60 * 60 * POLICY_SECOND),
        .needs = "share.socket",
        .live = true,
        .initial = "never",
        .write = "a time as in 30s, from 10ms to 1440m, or never",
        .help = "How long a pool without a block in use is kept before Weir makes it anew. Until then the memory of exported blocks "
                "stays with the pool: it goes back to the device only when the exporter and every importer have destroyed their pool "
                "(measured). Importers are asked to do so, and connect again by themselves.",
    },
    {
        POOL_KEY("share.scrub", BOOL, share_scrub),
        .needs = "share.socket",
        .live = true,
        TRUE_OR_FALSE("false"),
        .help = "Whether blocks of the pool are set to zero before the program gets them, in stream order, so that importers see "
                "nothing of their former contents. This costs the time to write each block once.",
    },
    {
        POOL_KEY("keep", SIZE, keep),
        .accepts = POLICY_ACCEPTS_PERCENT | POLICY_ACCEPTS_NONE | POLICY_ACCEPTS_ALL,
        .max = BYTES_MAX,
        .live = true,
        .initial = "none",
        .write = SIZES_WRITE ", none or all",
        .help = "How many bytes the pool keeps reserved when a neighbouring process asks for memory (control: true), as long as it has "
                "so many; all gives nothing away.",
    },
    {
        POOL_KEY("sleep.contents", WORD, sleep_contents),
        .words = (const char *const[]){"keep", "discard", NULL},
        .live = true,
        .initial = "keep",
        .write = "keep or discard",
        .help = "What an arena that sleeps does with its contents, where the program's call does not say. keep: they go to page-locked memory "
                "of the host. discard: they are given up.",
    },
    {
        POOL_KEY("sleep.retain", BOOL, sleep_retain),
        .live = true,
        TRUE_OR_FALSE("false"),
        .help = "Whether the page-locked host memory of a sleep stays for the next one, which then need not lock it again.",
    },
    {
        POOL_KEY("sleep.on_wake", WORD, sleep_on_wake),
        .words = (const char *const[]){"nothing", "zero", NULL},
        .live = true,
        .initial = "nothing",
        .write = "nothing or zero",
        .help = "What the blocks of an arena hold after it woke without its contents. nothing: anything. zero: zeros.",
    },
};

static const struct policy_key stream_keys[] = {
    {
        STREAM_KEY("pool", POOL, pool),
        .otherwise = "that of defaults.pool",
        .write = "the name of a pool",
        .help = "The pool that serves streams opened under this name.",
    },
    {
        STREAM_KEY("private", BOOL, own_pool),
        TRUE_OR_FALSE("false"),
        .help = "Whether each stream opened under this name gets a pool of its own, with the settings of the named pool.",
    },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
static const struct {
    const struct policy_key *keys;
    size_t count;
} scopes[POLICY_SCOPE_COUNT] = {
    [POLICY_SCOPE_FILE] = {file_keys, COUNT(file_keys)},
    [POLICY_SCOPE_POOL] = {pool_keys, COUNT(pool_keys)},
    [POLICY_SCOPE_STREAM] = {stream_keys, COUNT(stream_keys)},
};

const struct policy_key *policy_keys(enum policy_scope scope, size_t *count)
{
    *count = scopes[scope].count;
    return scopes[scope].keys;
}

const struct policy_key *policy_key_find(enum policy_scope scope, const char *name)
{
    for (size_t i = 0; i < scopes[scope].count; i++)
        if (strcmp(scopes[scope].keys[i].name, name) == 0)
            return &scopes[scope].keys[i];
    return NULL;
}
