/* SPDX-License-Identifier: MIT */
/* families.h - what `weir metrics` prints: the one table of its families, which says where their values are. Pure. */
#ifndef WEIR_FAMILIES_H
#define WEIR_FAMILIES_H

#include <stddef.h>
#include <stdint.h>

enum value_kind {
    VALUE_PLAIN,
    VALUE_BOUND,        /* UINT64_MAX: without bound */
    VALUE_CAP,          /* 0: there is none */
    VALUE_MILLISECONDS, /* shown as seconds */
};

/* What a family has a series for. */
enum of { OF_PROCESS, OF_GPU, OF_DEVICE, OF_RUNG, OF_QUOTA, OF_POOL, OF_AUDIT, OF_TAG, OF_EXPORT, OF_RING };

struct family {
    const char *name, *type, *help;
    enum of of;
    const char *member; /* of that in a process's document (figures.h); NULL: of an export */
    size_t offset;      /* of an export: where it is in what observe.h has of that */
    enum value_kind kind;
};

extern const struct family metrics_families[];
extern const size_t metrics_family_count;

#endif
