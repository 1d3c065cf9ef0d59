/* SPDX-License-Identifier: MIT */
/*
 * actor.h - a process that plays the exporter, the importer or a neighbour in tests across processes.
 *
 * It obeys commands on its standard input, one a line or several with semicolons between them, and answers each line by one: "ok", with
 * what there is to say as key=value, or "fail WEIR_STATUS text" of the first that failed. What it makes it knows by the names that the
 * commands give. One thread obeys, and some commands start others for as long as they take. Everything on the GPU goes through the table of
 * lib/gpu, so that the same program plays on a real one.
 */
#ifndef WEIR_TESTS_ACTOR_H
#define WEIR_TESTS_ACTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/gpu/gpu.h"
#include "include/weir.h"

/* What a name stands for; the same name may stand for one of each kind. */
enum kind { KIND_STREAM, KIND_BLOCK, KIND_MARK, KIND_RING, KIND_IMPORT, KIND_READER, KIND_LEASE, KINDS };

struct block {
    void *ptr;
    size_t size;
};

struct actor {
    weir *w;
    const struct gpu *gpu;
    int device;
    weir_export *e;
    char **words; /* of the command, itself first */
    void *thing;  /* what its first word names */
    weir_cuda_stream stream;
    weir_error error; /* of the command */
    char said[4096];  /* what its answer has beside "ok" */
};

extern struct actor actor;

/* Commands. Each finds its words in the actor, and returns what it came to. */
typedef weir_status command_fn(void);
struct command {
    const char *name;
    /* The words that it needs beside its own, up to a colon, and in brackets those that may be given. When it runs the STREAM is found, and
       what the first word names, where that is a RING, IMPORT, READER, LEASE, BLOCK or MARK. */
    const char *words;
    command_fn *run;
};
extern const struct command actor_gpu_commands[], actor_export_commands[], actor_import_commands[], actor_crowd_commands[],
    actor_late_commands[], actor_memory_commands[];

/* Adds to the answer, as printf() does. */
__attribute__((format(printf, 1, 2))) void actor_say(const char *format, ...);
/* Fails the command; returns the status. */
__attribute__((format(printf, 2, 3))) weir_status actor_fail(weir_status status, const char *format, ...);
/* WEIR_OK, or fails the command for the GPU's code. */
weir_status actor_gpu(int code, const char *what);
/* The number that a word is, as in 7, 512B or 4MiB; 0 for NULL. */
unsigned long long actor_number(const char *word);

/* Names: NULL if there is none. Giving NULL forgets the name. */
void *actor_get(enum kind kind, const char *name);
void actor_set(enum kind kind, const char *name, void *thing);
/* The next name of the kind, so that all can be forgotten; NULL: no more. */
const char *actor_next(enum kind kind);

/* The stream of that name; NULL, "0" and "-" are the legacy one. An unknown name fails the command. */
weir_status actor_stream(const char *name, weir_cuda_stream *stream);
/* Where a block, a slot or a lease of that name lies, and its bytes. */
weir_status actor_memory(const char *name, void **ptr, size_t *size);

/* A block of the pool, or the default pool, on the command's stream. */
weir_status actor_new_block(const char *name, size_t size, weir_pool *pool);
/* Writes what a block of that number has, on the stream. */
weir_status actor_fill(void *ptr, size_t size, unsigned long long number, weir_cuda_stream stream);
/* Compares every byte, behind what is on the stream; waits for it. */
weir_status actor_check(const void *ptr, size_t size, unsigned long long number, weir_cuda_stream stream);

/* Gives up everything of its part; of imports, all names. */
void actor_gpu_end(void);
void actor_import_end(bool release_leases);

/* Takes a slot and pushes a frame of that number; tries again where all slots are leased. timeout 0: a long one. */
weir_status actor_write_frame(weir_ring *ring, unsigned long long number, size_t size, unsigned timeout, weir_cuda_stream stream);

/* How many messages this process has sent and received (actor_messages.c). */
unsigned long actor_messages(void);
/* How often it has asked the user database for a name. */
unsigned long actor_lookups(void);
/* From now on none of them kills it. */
void actor_spare(void);
/* The n-th point from now on stops it, until a signal lets it go on. */
void actor_stop_at(unsigned long long n);
void actor_stop_at_give(void);

#endif
