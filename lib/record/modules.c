/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "lib/record/modules.h"

#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

weir__modules_each_fn *weir__modules_each = dl_iterate_phdr;

/* One pass over what is loaded: it counts, and fills in what there is room for. */
struct pass {
    struct weir__modules *modules; /* the list that is filled, with room for */
    size_t list_room, path_room;
    size_t count, path_bytes; /* what the pass found, which may be more than there is room for */
    const char *program;      /* the path of the program, whose name the loader leaves empty; "" once that was visited */
    const char *folder;       /* the working folder with a slash, for relative paths; "" if it is unknown */
    bool counters_only;
};

/* Whether [start, start + size) lies within what the object has loaded for reading: a note may be in the file alone. */
static bool is_loaded(const struct dl_phdr_info *info, uint64_t start, uint64_t size)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_R) && start >= segment->p_vaddr &&
            start - segment->p_vaddr <= segment->p_filesz && size <= segment->p_filesz - (start - segment->p_vaddr))
            return true;
    }
    return false;
}

static uint64_t align_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

static void write_hex(char *text, const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        text[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    text[2 * size] = '\0';
}

/* Finds the build id among the notes of a segment. Returns false if there is none. */
static bool find_in_notes(const unsigned char *notes, uint64_t size, uint64_t alignment, char *text)
{
    uint64_t at = 0;
    ElfW(Nhdr) note;
    while (at <= size && size - at >= sizeof(note)) {
        memcpy(&note, notes + at, sizeof(note));
        uint64_t name = at + sizeof(note), content = align_up(name + note.n_namesz, alignment);
        uint64_t end = content + note.n_descsz;
        if (end > size)
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") && memcmp(notes + name, "GNU", sizeof("GNU")) == 0 &&
            note.n_descsz <= WEIR__BUILD_ID_MAX) {
            write_hex(text, notes + content, note.n_descsz);
            return true;
        }
        at = align_up(end, alignment);
    }
    return false;
}

static void find_build_id(const struct dl_phdr_info *info, char *text)
{
    text[0] = '\0';
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_NOTE && is_loaded(info, segment->p_vaddr, segment->p_memsz) &&
            find_in_notes((const unsigned char *)(info->dlpi_addr + segment->p_vaddr), segment->p_memsz, segment->p_align == 8 ? 8 : 4,
                          text))
            return;
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    struct pass *pass = data;
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs)) {
        pass->modules->loaded = info->dlpi_adds;
        pass->modules->unloaded = info->dlpi_subs;
    }
    if (pass->counters_only)
        return 1;
    const char *path = info->dlpi_name && info->dlpi_name[0] ? info->dlpi_name : pass->program;
    /* A name without a slash is no path: linux-vdso.so.1. */
    const char *folder = path[0] != '/' && strchr(path, '/') ? pass->folder : "";
    size_t folder_size = strlen(folder), path_size = strlen(path) + 1, path_at = pass->path_bytes;
    bool fits = pass->path_room >= path_at && pass->path_room - path_at >= folder_size + path_size;
    if (fits) {
        memcpy(pass->modules->paths + path_at, folder, folder_size);
        memcpy(pass->modules->paths + path_at + folder_size, path, path_size);
    }
    pass->path_bytes += folder_size + path_size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || !segment->p_filesz)
            continue;
        if (fits && pass->count < pass->list_room) {
            struct weir__module *module = &pass->modules->list[pass->count];
            module->start = info->dlpi_addr + segment->p_vaddr;
            module->length = segment->p_filesz;
            module->offset = segment->p_offset;
            module->path = pass->modules->paths + path_at;
            find_build_id(info, module->build_id);
        }
        pass->count++;
    }
    /* Only the program comes without a name, and first. */
    pass->program = "";
    return 0;
}

/* Makes room for the modules that a pass counted, and for some that may be loaded before the next pass. False: no host memory. */
static bool make_room(struct weir__modules *modules, struct pass *pass)
{
    pass->list_room = pass->count + 8;
    pass->path_room = pass->path_bytes + 1024;
    modules->list = calloc(pass->list_room, sizeof(*modules->list));
    modules->paths = malloc(pass->path_room);
    return modules->list && modules->paths;
}

bool weir__modules_read(struct weir__modules *modules)
{
    struct weir__modules now = {0};
    struct pass pass = {.modules = &now, .counters_only = true};
    weir__modules_each(visit, &pass);
    if (modules->list && now.loaded == modules->loaded && now.unloaded == modules->unloaded)
        return false;
    char program[PATH_MAX], folder[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    program[length > 0 ? length : 0] = '\0';
    size_t end = getcwd(folder, sizeof(folder) - 1) ? strlen(folder) : 0;
    folder[end] = '\0';
    if (end)
        memcpy(folder + end, "/", sizeof "/");
    pass.folder = folder;
    pass.counters_only = false;
    /* Nothing is allocated while the loader's lock is held: an allocator may want that lock. */
    for (;;) {
        pass.count = pass.path_bytes = 0;
        pass.program = program;
        weir__modules_each(visit, &pass);
        if (now.list && pass.count <= pass.list_room && pass.path_bytes <= pass.path_room)
            break;
        weir__modules_clear(&now);
        if (!make_room(&now, &pass)) {
            weir__modules_clear(&now);
            return false;
        }
    }
    now.count = pass.count;
    weir__modules_clear(modules);
    *modules = now;
    return true;
}

void weir__modules_clear(struct weir__modules *modules)
{
    free(modules->list);
    free(modules->paths);
    *modules = (struct weir__modules){0};
}
