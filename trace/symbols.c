/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "trace/symbols.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/map.h"
#include "trace/memory.h"
#include "trace/object.h"

#define MANGLED_MAX 1024 /* longer names are not demangled: the C++ library does that recursively, and could exhaust the stack */

struct symbols {
    size_t known_count; /* objects in `opened` that can be searched */
    struct trace_map by_module; /* maps (number of the module, 0) to the index in `opened` */
    struct object **opened;     /* an item is NULL if too many objects were open already */
    size_t opened_count, opened_room;
    struct trace_map by_address; /* maps (address, number of the module) to the index in `found` */
    struct symbol **found;
    size_t found_count, found_room;
};

struct symbols *symbols_new(void)
{
    return must(calloc(1, sizeof(struct symbols)));
}

void symbols_free(struct symbols *symbols)
{
    if (!symbols)
        return;
    for (size_t i = 0; i < symbols->found_count && symbols->found[i]; i++) {
        free((char *)symbols->found[i]->function);
        free((char *)symbols->found[i]->file);
        free(symbols->found[i]);
    }
    for (size_t i = 0; i < symbols->opened_count; i++)
        object_close(symbols->opened[i]);
    trace_map_free(&symbols->by_module);
    trace_map_free(&symbols->by_address);
    free(symbols->opened);
    free(symbols->found);
    free(symbols);
}

/* Returns the object of a module, opened on first use; NULL if too many objects are open already. The item of the list is added before the
   object is opened, so that nothing leaks if memory_lacks() jumps out of the call (memory.h). */
static struct object *object_of(struct symbols *symbols, const struct trace_module *module)
{
    bool is_new;
    uint32_t *place = trace_map_add(&symbols->by_module, module->number, 0, &is_new);
    if (!is_new)
        return symbols->opened[*place];
    *place = (uint32_t)symbols->opened_count;
    struct object **opened = MUST_ADD(symbols->opened, symbols->opened_count, symbols->opened_room);
    *opened = NULL;
    if (symbols->known_count < SYMBOLS_FILES_MAX)
        *opened = object_open(module->path, module->build_id);
    symbols->known_count += *opened && object_state(*opened) == OBJECT_KNOWN;
    return *opened;
}

/* Returns `text` or, if that is NULL, a copy of `other`, with a question mark in place of each control character. */
static char *printable(char *text, const char *other)
{
    if (!text)
        text = must(strdup(other ? other : ""));
    for (char *at = text; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
    }
    return text;
}

static char *(*demangler)(const char *, char *, size_t *, int *);

static void find_demangler(void)
{
    void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
    if (library)
        *(void **)&demangler = dlsym(library, "__cxa_demangle");
}

/* Returns the demangled form of a C++ name, or NULL if the name is not mangled. The C++ library is loaded for this purpose only; without it
   the result is NULL, too. */
static char *demangle(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int status;
    if (strncmp(name, "_Z", 2) != 0 || strlen(name) > MANGLED_MAX)
        return NULL;
    pthread_once(&once, find_demangler);
    return demangler ? demangler(name, NULL, NULL, &status) : NULL;
}

static void look_up(struct symbols *symbols, struct symbol *symbol)
{
    const struct trace_module *module = symbol->module;
    struct object_place place = {NULL, NULL, 0};
    struct object *object = object_of(symbols, module);
    if (object) {
        place = object_find(object, symbol->address - 1 - module->first + module->offset);
        symbol->has_changed = object_state(object) == OBJECT_CHANGED;
    }
    symbol->function = printable(place.function ? demangle(place.function) : NULL, place.function);
    symbol->file = printable(NULL, place.file);
    symbol->line = place.line;
}

const struct symbol *symbols_find(struct symbols *symbols, const struct trace_module *module, uint64_t address)
{
    const uint32_t *known = trace_map_find(&symbols->by_address, address, module->number);
    if (known)
        return symbols->found[*known];
    struct symbol **place = MUST_ADD(symbols->found, symbols->found_count, symbols->found_room);
    *place = NULL;
    struct symbol *symbol = *place = must(calloc(1, sizeof(*symbol)));
    symbol->module = module;
    symbol->address = address;
    look_up(symbols, symbol);
    bool is_new;
    *trace_map_add(&symbols->by_address, address, module->number, &is_new) = (uint32_t)symbols->found_count - 1;
    return symbol;
}
