/* SPDX-License-Identifier: MIT */
/*
 * figures.h - the JSON document in which a process tells its figures: that of weir_stats_json(), which says what is in it.
 *
 * The process may be hostile, or of another release. figures_read() refuses what has another shape, is too large or too deep; all that is
 * borrowed from a document is then safe to use, and what it lacks, or has in another type, reads as 0, false or no text. Texts may hold any
 * characters, and go through the sinks of utf8.h. No other file pair but this one knows json-c.
 */
#ifndef WEIR_FIGURES_H
#define WEIR_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIGURES_SIZE_MAX ((size_t)16 << 20) /* bytes of a document */
#define FIGURES_MEMORY_MAX ((size_t)256 << 20) /* bytes that it takes when it is read: the largest that a process can have takes half */
#define FIGURES_WHY 96

/* An object of a document, or a whole one. Borrowed from it. */
typedef struct json_object figures;

/* About as many bytes of memory as the document takes that the text is, or more. */
size_t figures_memory(const char *text, size_t len);
/* The document that the text is, for figures_free(). NULL: it is none; `why` says what is wrong with it, for people. */
figures *figures_read(const char *text, size_t len, char why[FIGURES_WHY]);
/* NULL does nothing. */
void figures_free(figures *document);

/* How many objects an array of the document has, and one of them: "devices", "pools", "tags" or "values". */
size_t figures_count(const figures *document, const char *array);
const figures *figures_at(const figures *document, const char *array, size_t index);
/* An object within one: "labels" or "rescues". NULL: there is none, which has no members. */
const figures *figures_of(const figures *object, const char *member);

uint64_t figure(const figures *object, const char *member);
bool figure_is(const figures *object, const char *member);
/* NULL: none, or null. */
const char *figure_text(const figures *object, const char *member);

/* The device of that index; NULL: the process does not tell of it. */
const figures *figures_device(const figures *document, uint64_t index);
/* The requests that any rung rescued, of a device. */
uint64_t figures_rescues(const figures *device);
/* What a pool has of `release_threshold: auto`: these members, ended by NULL; and whether it is in force, or any of them is not 0. */
extern const char *const figures_audit[];
bool figures_has_audit(const figures *pool);

/* One member of an object, or one item of an array, of whatever type. */
struct figures_value {
    enum { FIGURES_NULL, FIGURES_BOOL, FIGURES_NUMBER, FIGURES_TEXT, FIGURES_OBJECT, FIGURES_ARRAY } kind; /* NULL: also what is no figure */
    bool is;
    uint64_t number;
    const char *text;
    const figures *object; /* or array: figures_each() */
};
/* Visits all members of an object, or with key NULL all items of an array. */
void figures_each(const figures *object, void (*visit)(void *data, const char *key, const struct figures_value *value), void *data);

#endif
