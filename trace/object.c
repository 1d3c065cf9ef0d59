/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "trace/object.h"

#include <stdlib.h>

#include "trace/memory.h"

/* The static archives of libdw cannot be linked into a shared library, so the shared library in a Python wheel is built without libdw. */
#if defined(HAVE_LIBDW) && !defined(WEIR_WITHOUT_LIBDW)
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENTS_MAX 64
#define BUILD_ID_MAX 64 /* bytes */
#define DEBUG_FOLDER "/usr/lib/debug"

struct object {
    enum object_state state;
    char build_id[2 * BUILD_ID_MAX + 1];
    size_t segment_count;
    struct segment {
        uint64_t offset, length, address; /* offset and length in the file, and the address that the file gives for the segment */
    } segments[SEGMENTS_MAX];
    Dwfl *dwfl; /* NULL unless `state` is OBJECT_KNOWN */
    Dwfl_Module *module;
};

/*
 * Opens a regular file for reading, and returns a descriptor, or -1. Opening a FIFO may block, and opening a device may have effects. So
 * the path is opened with O_PATH first, which does neither; if this finds a regular file, that same file is opened. Files in /proc have the
 * size 0, and are refused, too.
 */
static int open_regular(const char *path)
{
    struct stat status;
    char same[64];
    int fd = -1, found = path[0] == '/' ? open(path, O_PATH | O_CLOEXEC) : -1;
    if (found < 0)
        return -1;
    if (fstat(found, &status) == 0 && S_ISREG(status.st_mode) && status.st_size >= (off_t)sizeof(Elf32_Ehdr)) {
        snprintf(same, sizeof(same), "/proc/self/fd/%d", found);
        fd = open(same, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    }
    close(found);
    return fd;
}

static bool has_build_id(Elf *elf, const char *wanted)
{
    const void *bytes;
    ssize_t size = dwelf_elf_gnu_build_id(elf, &bytes);
    if (size <= 0 || size > BUILD_ID_MAX || strlen(wanted) != 2 * (size_t)size)
        return false;
    for (size_t i = 0; i < (size_t)size; i++) {
        char hex[3];
        snprintf(hex, sizeof(hex), "%02x", ((const unsigned char *)bytes)[i]);
        if (memcmp(hex, wanted + 2 * i, 2) != 0)
            return false;
    }
    return true;
}

/* Reads from the program headers at which addresses the parts of the file are loaded. */
static void read_segments(struct object *object, Elf *elf)
{
    size_t count;
    GElf_Phdr header;
    if (elf_getphdrnum(elf, &count) != 0)
        return;
    for (size_t i = 0; i < count && object->segment_count < SEGMENTS_MAX; i++) {
        if (gelf_getphdr(elf, (int)i, &header) && header.p_type == PT_LOAD)
            object->segments[object->segment_count++] = (struct segment){header.p_offset, header.p_filesz, header.p_vaddr};
    }
}

/* Checks whether the file is the recorded object, and reads its segments. Returns the state of the object. The descriptor stays open. */
static enum object_state examine(struct object *object, int fd)
{
    enum object_state state = OBJECT_UNKNOWN;
    GElf_Ehdr header;
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &header) && (header.e_type == ET_EXEC || header.e_type == ET_DYN)) {
        state = has_build_id(elf, object->build_id) ? OBJECT_KNOWN : OBJECT_CHANGED;
        read_segments(object, elf);
    }
    elf_end(elf);
    return state;
}

/* Opens a file with debug information. Returns the descriptor, and sets *name to the path, if the file has the object's build id; else
   -1. */
static int open_debug(const struct object *object, const char *path, char **name)
{
    int fd = open_regular(path);
    if (fd < 0)
        return -1;
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    bool is_its = elf && elf_kind(elf) == ELF_K_ELF && has_build_id(elf, object->build_id);
    elf_end(elf);
    if (is_its) {
        *name = must(strdup(path));
        return fd;
    }
    close(fd);
    return -1;
}

/*
 * Finds the file with the object's debug information. It replaces libdwfl's own function, which asks a server if $DEBUGINFOD_URLS is set,
 * as some systems do for all users. `link` comes from the object's file, so it is not trusted: a name with a slash is ignored.
 */
static int find_debug(Dwfl_Module *module, void **data, const char *module_name, Dwarf_Addr base, const char *file, const char *link,
                      GElf_Word crc, char **name)
{
    (void)module, (void)module_name, (void)base, (void)crc;
    const struct object *object = *data;
    char *path;
    int length = (int)(file && strrchr(file, '/') ? strrchr(file, '/') - file : 0);
    must(asprintf(&path, "%s/.build-id/%.2s/%s.debug", DEBUG_FOLDER, object->build_id, object->build_id + 2) < 0 ? NULL : path);
    int fd = open_debug(object, path, name);
    free(path);
    static const char *const forms[] = {"%.*s/%s", "%.*s/.debug/%s", DEBUG_FOLDER "%.*s/%s"};
    for (size_t i = 0; fd < 0 && length && link && !strchr(link, '/') && i < sizeof(forms) / sizeof(forms[0]); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        must(asprintf(&path, forms[i], length, file, link) < 0 ? NULL : path);
#pragma GCC diagnostic pop
        fd = open_debug(object, path, name);
        free(path);
    }
    return fd;
}

/* libdwfl wants this callback, but does not call it: the file is given to dwfl_report_elf(). */
static int find_elf(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base, char **file, Elf **elf)
{
    (void)module, (void)data, (void)name, (void)base, (void)file, (void)elf;
    return -1;
}

/* Opens the file with libdwfl, which takes over the descriptor. If that fails, the state becomes OBJECT_UNKNOWN. */
static void start(struct object *object, const char *path, int fd)
{
    static const Dwfl_Callbacks callbacks = {.find_elf = find_elf, .find_debuginfo = find_debug, .section_address = NULL};
    void **data;
    object->dwfl = must(dwfl_begin(&callbacks));
    dwfl_report_begin(object->dwfl);
    object->module = dwfl_report_elf(object->dwfl, "object", path, fd, 0, true);
    dwfl_report_end(object->dwfl, NULL, NULL);
    if (object->module) {
        dwfl_module_info(object->module, &data, NULL, NULL, NULL, NULL, NULL, NULL);
        *data = object;
        return;
    }
    close(fd);
    object->state = OBJECT_UNKNOWN;
}

struct object *object_open(const char *path, const char *build_id)
{
    struct object *object = must(calloc(1, sizeof(*object)));
    object->state = OBJECT_UNKNOWN;
    size_t length = strlen(build_id);
    if (length < 4 || length >= sizeof(object->build_id) || strspn(build_id, "0123456789abcdef") != length)
        return object;
    memcpy(object->build_id, build_id, length + 1);
    int fd = open_regular(path);
    if (fd < 0)
        return object;
    elf_version(EV_CURRENT);
    object->state = examine(object, fd);
    if (object->state == OBJECT_KNOWN)
        start(object, path, fd);
    else
        close(fd);
    return object;
}

enum object_state object_state(const struct object *object)
{
    return object->state;
}

/* Finds the line of an address by asking each compilation unit. clang writes no index of addresses (.debug_aranges), and libdw before 0.189
   finds no line without it. */
static const char *search_line(Dwfl_Module *module, uint64_t address, int *line)
{
    Dwarf_Addr bias;
    for (Dwarf_Die *unit = dwfl_module_nextcu(module, NULL, &bias); unit; unit = dwfl_module_nextcu(module, unit, &bias)) {
        Dwarf_Line *found = dwarf_haspc(unit, address - bias) == 1 ? dwarf_getsrc_die(unit, address - bias) : NULL;
        if (found && dwarf_lineno(found, line) == 0)
            return dwarf_linesrc(found, NULL, NULL);
    }
    return NULL;
}

struct object_place object_find(struct object *object, uint64_t offset)
{
    struct object_place place = {NULL, NULL, 0};
    for (size_t i = 0; object->module && i < object->segment_count; i++) {
        const struct segment *segment = &object->segments[i];
        if (offset < segment->offset || offset - segment->offset >= segment->length)
            continue;
        uint64_t address = segment->address + (offset - segment->offset);
        GElf_Off beyond;
        GElf_Sym symbol;
        int line = 0;
        place.function = dwfl_module_addrinfo(object->module, address, &beyond, &symbol, NULL, NULL, NULL);
        Dwfl_Line *where = dwfl_module_getsrc(object->module, address);
        place.file = where ? dwfl_lineinfo(where, NULL, &line, NULL, NULL, NULL) : search_line(object->module, address, &line);
        place.line = place.file && line > 0 ? (unsigned)line : 0;
        break;
    }
    return place;
}

void object_close(struct object *object)
{
    if (object && object->dwfl)
        dwfl_end(object->dwfl);
    free(object);
}

#else
struct object {
    enum object_state state;
};

struct object *object_open(const char *path, const char *build_id)
{
    (void)path, (void)build_id;
    struct object *object = must(calloc(1, sizeof(*object)));
    object->state = OBJECT_UNKNOWN;
    return object;
}

enum object_state object_state(const struct object *object)
{
    return object->state;
}

struct object_place object_find(struct object *object, uint64_t offset)
{
    (void)object, (void)offset;
    return (struct object_place){NULL, NULL, 0};
}

void object_close(struct object *object)
{
    free(object);
}
#endif
