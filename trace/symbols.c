/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "trace/symbols.h"

#include <dlfcn.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/memory.h"
#include "trace/object.h"

#define MANGLED_MAX 1024 /* bytes of a name that is handed to the C++ library, which takes names apart recursively */

/* One that was looked into, for all modules of it. */
struct opened {
    const char *path, *build_id; /* of the module that it was opened for */
    struct object *object;
};

struct symbols {
    size_t known_count; /* opened ones that can be asked */
    void *opened;       /* trees of tsearch() */
    void *found;
};

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_opened(const void *a, const void *b)
{
    const struct opened *one = a, *other = b;
    int paths = strcmp(one->path, other->path);
    return paths ? paths : strcmp(one->build_id, other->build_id);
}

static int compare_symbols(const void *a, const void *b)
{
    const struct symbol *one = a, *other = b;
    return one->module != other->module ? compare(one->module->number, other->module->number) : compare(one->address, other->address);
}

static void free_opened(void *data)
{
    struct opened *opened = data;
    object_close(opened->object);
    free(opened);
}

static void free_symbol(void *data)
{
    struct symbol *symbol = data;
    free((char *)symbol->function);
    free((char *)symbol->file);
    free(symbol);
}

struct symbols *symbols_new(void)
{
    return must(calloc(1, sizeof(struct symbols)));
}

void symbols_free(struct symbols *symbols)
{
    if (!symbols)
        return;
    tdestroy(symbols->found, free_symbol);
    tdestroy(symbols->opened, free_opened);
    free(symbols);
}

/* Before anything else is allocated for the item, so that it is freed with the tree. */
static void insert(void *item, void **tree, int (*compare_items)(const void *, const void *))
{
    if (tsearch(item, tree, compare_items))
        return;
    free(item);
    memory_lacks();
}

/* NULL: too many were opened. */
static struct object *object_of(struct symbols *symbols, const struct trace_module *module)
{
    struct opened key = {.path = module->path, .build_id = module->build_id};
    struct opened **at = tfind(&key, &symbols->opened, compare_opened);
    if (at)
        return (*at)->object;
    if (symbols->known_count == SYMBOLS_FILES_MAX)
        return NULL;
    struct opened *opened = must(malloc(sizeof(*opened)));
    *opened = key;
    insert(opened, &symbols->opened, compare_opened);
    opened->object = object_open(module->path, module->build_id);
    symbols->known_count += object_state(opened->object) == OBJECT_KNOWN;
    return opened->object;
}

/* The text, or else a copy of the other one, without what a terminal would obey. */
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

/* The name as it is written in C++, by the library of that, which weir does not need otherwise. NULL: it stays as it is. */
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
    struct symbol key = {.module = module, .address = address};
    struct symbol **at = tfind(&key, &symbols->found, compare_symbols);
    if (at)
        return *at;
    struct symbol *symbol = must(calloc(1, sizeof(*symbol)));
    symbol->module = module;
    symbol->address = address;
    insert(symbol, &symbols->found, compare_symbols);
    look_up(symbols, symbol);
    return symbol;
}
