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

struct module {
    uint64_t id, start, length, offset;
    char *build_id, *path;
    size_t order; /* of its definition */
};

/* One that was looked into, for all modules of it. */
struct opened {
    const char *path, *build_id; /* of the module that it was opened for */
    struct object *object;
};

struct symbols {
    struct module *modules;
    size_t count, room;
    bool is_sorted; /* by start, and each id once */
    size_t known_count; /* opened ones that can be asked */
    void *opened;       /* trees of tsearch() */
    void *found;
};

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_ids(const void *a, const void *b)
{
    const struct module *one = a, *other = b;
    return one->id != other->id ? compare(one->id, other->id) : compare(one->order, other->order);
}

static int compare_starts(const void *a, const void *b)
{
    const struct module *one = a, *other = b;
    return one->start != other->start ? compare(one->start, other->start) : compare(one->order, other->order);
}

static int compare_opened(const void *a, const void *b)
{
    const struct opened *one = a, *other = b;
    int paths = strcmp(one->path, other->path);
    return paths ? paths : strcmp(one->build_id, other->build_id);
}

static int compare_symbols(const void *a, const void *b)
{
    return compare(((const struct symbol *)a)->address, ((const struct symbol *)b)->address);
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
    free((char *)symbol->text);
    free((char *)symbol->function);
    free((char *)symbol->file);
    free((char *)symbol->module);
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
    for (size_t i = 0; i < symbols->count; i++) {
        free(symbols->modules[i].build_id);
        free(symbols->modules[i].path);
    }
    free(symbols->modules);
    free(symbols);
}

void symbols_module(struct symbols *symbols, uint64_t id, uint64_t start, uint64_t length, uint64_t offset, const char *build_id,
                    const char *path)
{
    if (symbols->count == SYMBOLS_MODULES_MAX)
        return;
    symbols->modules = must_grow(symbols->modules, symbols->count, &symbols->room, sizeof symbols->modules[0]);
    struct module *module = &symbols->modules[symbols->count];
    *module = (struct module){.id = id, .start = start, .length = length, .offset = offset, .order = symbols->count};
    symbols->count++;
    module->build_id = must(strdup(build_id));
    module->path = must(strdup(path));
    symbols->is_sorted = false;
}

/* An earlier definition of an id ends as one of no bytes, since what was opened for it may point to its path. */
static void sort(struct symbols *symbols)
{
    qsort(symbols->modules, symbols->count, sizeof(*symbols->modules), compare_ids);
    for (size_t i = 0; i + 1 < symbols->count; i++) {
        if (symbols->modules[i].id == symbols->modules[i + 1].id)
            symbols->modules[i].start = symbols->modules[i].length = 0;
    }
    qsort(symbols->modules, symbols->count, sizeof(*symbols->modules), compare_starts);
    symbols->is_sorted = true;
}

/* The module that begins last at or before the address, if it reaches that far. */
static const struct module *find_module(struct symbols *symbols, uint64_t address)
{
    if (!symbols->is_sorted && symbols->count)
        sort(symbols);
    size_t low = 0, high = symbols->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (symbols->modules[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || address - symbols->modules[low - 1].start >= symbols->modules[low - 1].length)
        return NULL;
    return &symbols->modules[low - 1];
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
static struct object *object_of(struct symbols *symbols, const struct module *module)
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

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static char *write_text(const struct symbol *symbol)
{
    char *text;
    int length;
    if (!symbol->module[0])
        length = asprintf(&text, "0x%llx", (unsigned long long)symbol->address);
    else if (symbol->function[0] && symbol->line)
        length = asprintf(&text, "%s (%s:%u)", symbol->function, symbol->file, symbol->line);
    else if (symbol->function[0])
        length = asprintf(&text, "%s (%s)", symbol->function, last_part(symbol->module));
    else
        length = asprintf(&text, "%s+0x%llx%s", last_part(symbol->module), (unsigned long long)symbol->offset,
                          symbol->has_changed ? " (the file has changed)" : "");
    return must(length < 0 ? NULL : text);
}

static void look_up(struct symbols *symbols, struct symbol *symbol)
{
    struct object_place place = {NULL, NULL, 0};
    const struct module *module = symbol->address ? find_module(symbols, symbol->address - 1) : NULL;
    struct object *object = module ? object_of(symbols, module) : NULL;
    if (module)
        symbol->offset = symbol->address - module->start + module->offset;
    if (object) {
        place = object_find(object, symbol->offset - 1);
        symbol->has_changed = object_state(object) == OBJECT_CHANGED;
    }
    symbol->function = printable(place.function ? demangle(place.function) : NULL, place.function);
    symbol->file = printable(NULL, place.file);
    symbol->line = place.line;
    symbol->module = printable(NULL, module ? module->path : NULL);
    symbol->text = write_text(symbol);
}

const struct symbol *symbols_find(struct symbols *symbols, uint64_t address)
{
    struct symbol key = {.address = address};
    struct symbol **at = tfind(&key, &symbols->found, compare_symbols);
    if (at)
        return *at;
    struct symbol *symbol = must(calloc(1, sizeof(*symbol)));
    symbol->address = address;
    insert(symbol, &symbols->found, compare_symbols);
    look_up(symbols, symbol);
    return symbol;
}

const char *symbols_text(struct symbols *symbols, uint64_t address)
{
    return symbols_find(symbols, address)->text;
}
