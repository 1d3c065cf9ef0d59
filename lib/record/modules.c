/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "lib/record/modules.h"

#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

weir__modules_each_fn *weir__modules_each = dl_iterate_phdr;

/* One pass over the loaded objects. It counts their modules, and fills the list as far as there is room. */
struct pass {
    struct weir__modules *modules; /* the list to fill */
    size_t list_room, path_room;   /* modules, and bytes of paths, for which the list has room */
    size_t count, path_bytes;      /* modules, and bytes of paths, that the pass found; they may exceed the room */
    const char *program;           /* the program's path, since the loader has no name for the program; "" after the first object */
    const char *folder;            /* the working directory with a slash at its end, for relative paths; "" if it is unknown */
    bool counters_only;            /* only read the loader's counts of loaded and unloaded objects */
};

/* Returns whether the addresses from start to start + size, relative to the object, lie in a loaded readable segment. A note may lie in a
   part of the file that is not loaded. */
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

/* Writes the build id that the notes of a segment contain to `text`, in hexadecimal. Returns false if there is none. */
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
    /* A name without a slash, such as linux-vdso.so.1, is not a path. */
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
    /* The program comes first, and is the only object without a name: later objects do not get the program's path. */
    pass->program = "";
    return 0;
}

/* Allocates a list for the modules that the pass counted, and for a few more that may be loaded before the next pass. Returns false if host
   memory runs out. */
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
    /* visit() runs under the loader's lock, and must not allocate: a program's malloc() may need that lock. So allocate between two passes,
       until a pass has found no more modules than there is room for. */
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
