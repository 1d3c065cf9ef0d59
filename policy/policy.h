/* SPDX-License-Identifier: MIT */
/*
 * policy.h - a policy: YAML text read into one immutable, fully checked struct.
 *
 * Knows no CUDA. A `struct policy` is made by policy_load() or policy_parse(), never changes afterwards, may be read from any thread, and
 * is freed by policy_free(). What only a device can answer (does it exist, can it reach its peer, how much is 25 %) is checked by lib/.
 */
#ifndef WEIR_POLICY_H
#define WEIR_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POLICY_FILE_MAX (1024 * 1024) /* bytes */
#define POLICY_DEPTH_MAX 16
#define POLICY_SET_MAX (64 * 1024) /* bytes of what policy_override() takes */

enum policy_status {
    POLICY_OK,
    POLICY_BAD,        /* the errors say what */
    POLICY_UNREADABLE, /* one error says which file and why */
    POLICY_NO_MEMORY,
};

/* Values ------------------------------------------------------------------------------------------------------------------------------- */

enum policy_size_kind {
    POLICY_SIZE_BYTES,   /* value = bytes */
    POLICY_SIZE_PERCENT, /* value = hundredths of a percent of what the process may have of the device's memory: 25 % is 2,500 */
    POLICY_SIZE_NONE,    /* "none": 0 for a threshold, no cap for a cap */
    POLICY_SIZE_ALL,     /* "all": without bound */
    POLICY_SIZE_AUTO,    /* "auto": Weir finds it while the program runs */
    POLICY_SIZE_QUOTA,   /* "quota": all that the process may have */
};

struct policy_size {
    enum policy_size_kind kind;
    uint64_t value;
};

/* One device as a policy names it. */
struct policy_device {
    int index;  /* -1: named by uuid */
    char *uuid; /* "GPU-…" or "MIG-…", NULL if named by index */
};

/* all, local, or a list; a list of none is `none`. */
struct policy_devices {
    bool all;
    bool local; /* the one device of this process, by its local rank */
    size_t count;
    struct policy_device *items;
};

enum policy_backing { POLICY_BACKING_NEW, POLICY_BACKING_DEFAULT, POLICY_BACKING_ARENA, POLICY_BACKING_AUTO };
enum policy_contents { POLICY_CONTENTS_KEEP, POLICY_CONTENTS_DISCARD };
enum policy_on_wake { POLICY_ON_WAKE_NOTHING, POLICY_ON_WAKE_ZERO };
enum policy_ipc { POLICY_IPC_NONE, POLICY_IPC_POSIX_FD };
enum policy_capture { POLICY_CAPTURE_CALLER, POLICY_CAPTURE_RELAXED };
enum policy_level { POLICY_LEVEL_OFF, POLICY_LEVEL_POOL, POLICY_LEVEL_ALL };
enum policy_location_kind { POLICY_LOCATION_DEVICE, POLICY_LOCATION_HOST, POLICY_LOCATION_HOST_NUMA };

struct policy_location {
    enum policy_location_kind kind;
    int node; /* with HOST_NUMA */
};

/* The rungs of the recovery ladder that this version has, in the order in which they stand here when all are used. */
enum policy_step {
    POLICY_STEP_FLUSH,
    POLICY_STEP_WAIT,
    POLICY_STEP_TRIM,
    POLICY_STEP_CALLBACKS,
    POLICY_STEP_NEIGHBOURS,
    POLICY_STEP_COUNT
};

struct policy_steps {
    size_t count; /* 0: no recovery */
    enum policy_step items[POLICY_STEP_COUNT];
};

/* A list of names as they are written; whether they exist is for whoever uses them to find out. */
struct policy_names {
    size_t count;
    char **items;
};

/* The policy --------------------------------------------------------------------------------------------------------------------------- */

#define POLICY_GROWTH_STEP (UINT64_C(32) << 20) /* CUDA's pools grow in steps of so many bytes (measured) */

struct policy_pool {
    char *name;
    struct policy_devices devices;
    enum policy_backing backing;
    bool current;
    struct policy_location location;
    struct policy_size release_threshold; /* of an ipc pool: NONE */
    struct policy_size initial_size;
    struct policy_size max_size; /* kind NONE: no cap */
    struct policy_size leave_free; /* kind NONE: nothing */
    uint64_t align;              /* bytes, a power of two */
    uint64_t small_below;        /* bytes; 0: no small twin. Of an ipc pool: 0 */
    bool reuse_event_dependencies;
    bool reuse_opportunistic;
    bool reuse_internal_dependencies;
    struct policy_size reuse_pending_max; /* kind ALL: no bound */
    struct policy_devices peer_access;
    struct policy_steps on_oom_steps;
    uint64_t on_oom_deadline; /* nanoseconds */
    enum policy_ipc ipc;
    bool cache;                /* false: `cache: off`, and every ipc pool */
    uint64_t cache_per_stream; /* bytes */
    uint64_t cache_per_device;
    uint64_t cache_largest;
    uint64_t cache_idle; /* nanoseconds */
    bool cache_capture_check;
    uint64_t ipc_max_block;      /* bytes; the largest block of an ipc pool */
    char *share_socket;          /* a name, or a path that begins with '/'; NULL: the pool is not shared */
    struct policy_names share_users; /* beside the user of the process; names or numbers */
    struct policy_names share_groups;
    uint64_t share_max_importers;
    uint64_t share_retire_after; /* nanoseconds; UINT64_MAX: never */
    bool share_scrub;
    struct policy_size keep; /* what stays reserved when a neighbour asks */
    enum policy_contents sleep_contents;
    bool sleep_retain;
    enum policy_on_wake sleep_on_wake;
    struct policy_origin *origins; /* policy's own: one for each key, for policy_each_value() and error places */
};

struct policy_stream {
    char *name;
    size_t pool; /* index into policy.pools */
    bool own_pool; /* `private: true` */
    struct policy_origin *origins;
};

struct policy {
    char *file;          /* what errors call it: a path, or "built-in" */
    size_t default_pool; /* index into pools */
    enum policy_capture capture;
    bool keeper;
    bool exact_peaks;
    bool control;
    enum policy_level record_level;
    uint64_t record_ring; /* bytes for each thread */
    bool record_stacks;
    char *record_dump, *record_file; /* as they are written; NULL: none */
    size_t pool_count; /* at least 1 */
    struct policy_pool *pools;
    size_t stream_count;
    struct policy_stream *streams;
    struct policy_origin *origins;
};

/* Errors ------------------------------------------------------------------------------------------------------------------------------- */

struct policy_error {
    char *file;            /* a path, "built-in", "WEIR_CONF" or "weir set" */
    unsigned line, column; /* from 1; 0, 0 when the file as a whole is meant */
    char *path;            /* "pools.frames.ipc", or "" */
    char *message;         /* what is wrong, and what to write instead */
};

/* Every error found, in the order of their places. Zero-initialise before use; policy_errors_clear() frees what it holds. */
struct policy_errors {
    size_t count;
    struct policy_error *items;
};

void policy_errors_clear(struct policy_errors *errors);
/* "file:line:column: path: message" into text, like snprintf(). */
int policy_error_format(const struct policy_error *error, char *text, size_t len);

/* Reading ------------------------------------------------------------------------------------------------------------------------------ */

/*
 * Parses len bytes of YAML. file is the name that errors give it. overrides: NULL, or what stands in $WEIR_CONF
 * ("pools.a.max_size=4GiB,…"), applied on top; its errors have the file "WEIR_CONF", line 1 and the column of the assignment.
 * Pure: no I/O, no environment, no global state. *policy is set only on POLICY_OK; errors (never NULL) gets every error found.
 */
enum policy_status policy_parse(const char *text, size_t len, const char *file, const char *overrides, struct policy_errors *errors,
                                struct policy **policy);

/*
 * What a person may write for the path of a policy: letters, digits and '-' alone, not at the beginning, are the name of an installed one,
 * whatever lies in the current folder. A path has a '/', a '.' or another byte.
 */
bool policy_is_name(const char *text);
/* The path, which is the caller's to free: that of the policy of that name, else what was asked. A name that no policy has is
   POLICY_UNREADABLE; the error says which there are. */
enum policy_status policy_path(const char *asked, struct policy_errors *errors, char **path);
/* The names of those that are installed, each with a newline behind it; the caller's to free. NULL: no memory. */
char *policy_names(void);

/*
 * Where the policy comes from, first hit wins: argument (a path or a name), $WEIR_POLICY, $XDG_CONFIG_HOME/weir/policy.yaml (or ~/.config),
 * /etc/weir/policy.yaml, the built-in default. Then reads it, with $WEIR_CONF on top. A file that was asked for (argument, $WEIR_POLICY)
 * and cannot be read is POLICY_UNREADABLE; the others are skipped only if they do not exist.
 */
enum policy_status policy_load(const char *argument, struct policy_errors *errors, struct policy **policy);
/* Reads what it read once more: the file that the policy has by its name then, made absolute, or POLICY_BUILTIN. */
#define POLICY_BUILTIN "built-in"
enum policy_status policy_load_again(const char *file, struct policy_errors *errors, struct policy **policy);

/*
 * The policy as it would be with these assignments (as in $WEIR_CONF) on top of the text and the assignments that it was read from: files
 * and the environment are not looked at again. A key that was set by earlier ones is set anew. Their errors have the file "weir set"; it is
 * one of them if they are longer than POLICY_SET_MAX. `before` stays the caller's.
 */
enum policy_status policy_override(const struct policy *before, const char *assignments, struct policy_errors *errors,
                                   struct policy **policy);

/* Whether assignments (as in $WEIR_CONF) set that key, or something of which it is a part. What is no assignment sets nothing. */
bool policy_sets(const char *assignments, const char *key);

/* The text of the built-in default policy. */
const char *policy_builtin_text(void);

void policy_free(struct policy *policy);

/* Using -------------------------------------------------------------------------------------------------------------------------------- */

/* NULL if there is none of that name. */
const struct policy_pool *policy_find_pool(const struct policy *policy, const char *name);
const struct policy_stream *policy_find_stream(const struct policy *policy, const char *name);

/* Where one key of an object was set, for errors that only a device can find: file, line and column (the built-in default's own place is
   0:0), and the path. key is the last part ("peer_access", "reuse.opportunistic"). Pointers borrow from the policy. */
struct policy_place {
    const char *file;
    unsigned line, column;
    const char *path; /* "pools.frames.peer_access" */
};
struct policy_place policy_pool_place(const struct policy *policy, const struct policy_pool *pool, const char *key);
/* Whether the file, or something on top of it, sets the key; else it has its default. */
bool policy_pool_sets(const struct policy_pool *pool, const char *key);
struct policy_place policy_stream_place(const struct policy *policy, const struct policy_stream *stream, const char *key);

/* Bytes of a size on a device of which the process may have quota bytes: NONE is 0, ALL is UINT64_MAX, and so is AUTO, as long as nobody
   knows better. */
uint64_t policy_size_bytes(struct policy_size size, uint64_t quota);

/* The least max_size under which the pool can serve anything: a growth step for it, and one for its small twin. */
uint64_t policy_pool_least(const struct policy_pool *pool);

/*
 * What a reload may not change: adds an error for each key that is not live and differs, and for each pool or stream that came or went,
 * placed in `after`. Returns POLICY_OK if only live keys differ, else POLICY_BAD or POLICY_NO_MEMORY.
 */
enum policy_status policy_compare(const struct policy *before, const struct policy *after, struct policy_errors *errors);

/* Every effective value, in the order of the key table; for `weir show`. Caches that are off come as the one value `cache`, others as the
   keys below it. Pointers are valid during the call only. */
struct policy_value {
    const char *path;      /* "pools.activations.release_threshold" */
    const char *text;      /* the value as one would write it: "25%", "[0, 1]" */
    const char *file;      /* where it was set; NULL: the default of the key */
    unsigned line, column; /* with file */
    bool live;             /* can change at reload */
};
typedef void (*policy_value_fn)(const struct policy_value *value, void *data);
void policy_each_value(const struct policy *policy, policy_value_fn fn, void *data);

/* "flush", "wait", … never NULL. */
const char *policy_step_name(enum policy_step step);

#endif
