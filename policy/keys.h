/* SPDX-License-Identifier: MIT */
/*
 * keys.h - the one table of keys. Parser, `weir show`, JSON schema and man page are all driven by it.
 *
 * A key is a path below its scope: the file itself, one pool, or one stream. Immutable; any thread may read it.
 */
#ifndef WEIR_POLICY_KEYS_H
#define WEIR_POLICY_KEYS_H

#include "policy/policy.h"

enum policy_scope { POLICY_SCOPE_FILE, POLICY_SCOPE_POOL, POLICY_SCOPE_STREAM, POLICY_SCOPE_COUNT };

enum policy_type {
    POLICY_TYPE_VERSION,  /* nothing is stored */
    POLICY_TYPE_POOLS,    /* the mapping of pools */
    POLICY_TYPE_STREAMS,  /* the mapping of streams */
    POLICY_TYPE_POOL,     /* size_t: the index of the pool that is named */
    POLICY_TYPE_BOOL,     /* bool */
    POLICY_TYPE_SWITCH,   /* bool: off or on, in place of the mapping of the keys below it; such a mapping switches it on */
    POLICY_TYPE_WORD,     /* an enum; words[] in its order */
    POLICY_TYPE_SIZE,     /* struct policy_size */
    POLICY_TYPE_BYTES,    /* uint64_t */
    POLICY_TYPE_TIME,     /* uint64_t, nanoseconds */
    POLICY_TYPE_DEVICES,  /* struct policy_devices */
    POLICY_TYPE_LOCATION, /* struct policy_location */
    POLICY_TYPE_STEPS,    /* struct policy_steps */
    POLICY_TYPE_NUMBER,   /* uint64_t */
    POLICY_TYPE_NAMES,    /* struct policy_names */
    POLICY_TYPE_SOCKET,   /* char *, NULL if it is not written */
    POLICY_TYPE_PATH,     /* the same */
};

/* Which words stand in for a value. */
enum policy_accepts {
    POLICY_ACCEPTS_PERCENT = 1,
    POLICY_ACCEPTS_NONE = 2,
    POLICY_ACCEPTS_ALL = 4,
    POLICY_ACCEPTS_NEVER = 8, /* of a time: UINT64_MAX */
    POLICY_ACCEPTS_AUTO = 16,
    POLICY_ACCEPTS_LOCAL = 32,
    POLICY_ACCEPTS_QUOTA = 64,
};

struct policy_key {
    const char *name; /* "reuse.opportunistic" */
    enum policy_type type;
    unsigned accepts;         /* enum policy_accepts */
    uint64_t min, max;        /* of numbers, in the unit that is stored */
    const char *const *words; /* of POLICY_TYPE_WORD, NULL at the end */
    const char *needs;        /* of a pool's key: the key that must be set beside it; it is not shown where that is not. Or NULL */
    size_t offset;            /* in the struct of its scope */
    bool live;                /* can change at reload */
    const char *initial;      /* the default as one would write it; NULL: it follows from other keys, as `otherwise` says */
    const char *otherwise;    /* the default in words, where `initial` is NULL */
    const char *write;        /* what to write, for errors: "true or false" */
    const char *help;         /* whole sentences */
};

/* The keys of a scope, in the order in which they are shown. */
const struct policy_key *policy_keys(enum policy_scope scope, size_t *count);
/* NULL if there is none of that name. */
const struct policy_key *policy_key_find(enum policy_scope scope, const char *name);

/* Whether name is the mapping that holds keys, as "on_oom" holds on_oom.steps. */
bool policy_key_is_group(enum policy_scope scope, const char *name);

/* The switch that the key stands below, as "cache" of "cache.idle"; NULL if it stands below none. */
const struct policy_key *policy_key_switch(enum policy_scope scope, const struct policy_key *key);

/* Whether the pool has what the key needs, if it needs anything. */
bool policy_key_is_served(const struct policy_pool *pool, const struct policy_key *key);

/* Names of pools and streams. */
#define POLICY_NAME_MAX 63
#define POLICY_NAME_PATTERN "[A-Za-z_][A-Za-z0-9_-]*"
bool policy_name_is_valid(const char *name);

/* How many of each a policy may have: far more than any use, and few enough that no file can exhaust memory. */
#define POLICY_POOLS_MAX 1024
#define POLICY_STREAMS_MAX 4096
#define POLICY_DEVICES_MAX 1024
#define POLICY_INDEX_MAX 1023 /* of a device or a NUMA node */
#define POLICY_NAMES_MAX 64   /* of a list of names */

/* Names of users and groups, as systems have them, and of sockets. */
#define POLICY_USER_PATTERN "[A-Za-z0-9_][A-Za-z0-9_.@$+-]*"
#define POLICY_SOCKET_PATTERN "[A-Za-z0-9_-][A-Za-z0-9_.-]*"
#define POLICY_FILE_NAME_MAX 1023 /* bytes */
#define POLICY_SOCKET_PATH_MAX 99 /* bytes: what the system allows, less room for the lock file's suffix */

struct policy_unit {
    const char *name;
    uint64_t factor;
};
extern const struct policy_unit policy_size_units[]; /* NULL name at the end; these two are in quantity.c */
extern const struct policy_unit policy_time_units[];
#define POLICY_SECOND UINT64_C(1000000000) /* in the unit in which times are stored */

#endif
