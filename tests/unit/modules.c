/* SPDX-License-Identifier: MIT */
/* The map of loaded code: what is in it, with which build id, and when it is read anew. The program is linked with the build id below. */
#include "config.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/record/modules.h"
#include "tests/support/fail_malloc.h"
#include "tests/support/suite.h"

#define OWN_BUILD_ID "0123456789abcdef00ff"

static const struct weir__module *find(const struct weir__modules *modules, const void *address)
{
    for (size_t i = 0; i < modules->count; i++) {
        if ((uintptr_t)address - modules->list[i].start < modules->list[i].length)
            return &modules->list[i];
    }
    return NULL;
}

/* A library that no program is linked with. */
static void *load_another(void)
{
    void *library = dlopen("libanl.so.1", RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_nonnull(library);
    return library;
}

START_TEST(program_is_in_it_with_its_path_and_build_id)
{
    struct weir__modules modules = {0};
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    ck_assert_int_gt(length, 0);
    path[length] = '\0';
    ck_assert(weir__modules_read(&modules));
    const struct weir__module *own = find(&modules, (void *)find);
    ck_assert_ptr_nonnull(own);
    ck_assert_str_eq(own->path, path);
    ck_assert_str_eq(own->build_id, OWN_BUILD_ID);
    weir__modules_clear(&modules);
}
END_TEST

/* What the file has at the offset is what is in memory. */
START_TEST(code_of_the_file_lies_where_the_map_says)
{
    struct weir__modules modules = {0};
    unsigned char bytes[32];
    ck_assert(weir__modules_read(&modules));
    const struct weir__module *own = find(&modules, (void *)find);
    ck_assert_ptr_nonnull(own);
    FILE *file = fopen(own->path, "rb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, (long)((uintptr_t)find - own->start + own->offset), SEEK_SET), 0);
    ck_assert_uint_eq(fread(bytes, 1, sizeof(bytes), file), sizeof(bytes));
    fclose(file);
    ck_assert_int_eq(memcmp(bytes, (void *)find, sizeof(bytes)), 0);
    weir__modules_clear(&modules);
}
END_TEST

START_TEST(libraries_are_in_it)
{
    struct weir__modules modules = {0};
    Dl_info info;
    ck_assert(weir__modules_read(&modules));
    ck_assert_int_ne(dladdr(dlsym(RTLD_NEXT, "qsort"), &info), 0);
    const struct weir__module *libc = find(&modules, info.dli_saddr);
    ck_assert_ptr_nonnull(libc);
    ck_assert_str_eq(libc->path, info.dli_fname);
    weir__modules_clear(&modules);
}
END_TEST

/* The path of a module that ends like that, or NULL. */
static const char *path_with_end(const struct weir__modules *modules, const char *end)
{
    for (size_t i = 0; i < modules->count; i++) {
        size_t length = strlen(modules->list[i].path), end_length = strlen(end);
        if (length >= end_length && strcmp(modules->list[i].path + length - end_length, end) == 0)
            return modules->list[i].path;
    }
    return NULL;
}

/* Not a link: an emulator has files of its own in the place of the system's, and the system that follows a link does not know of them. */
static void copy(const char *from, const char *to)
{
    char bytes[4096];
    size_t size;
    FILE *source = fopen(from, "rb"), *target = fopen(to, "wb");
    ck_assert(source && target);
    while ((size = fread(bytes, 1, sizeof(bytes), source)) != 0)
        ck_assert_uint_eq(fwrite(bytes, 1, size, target), size);
    ck_assert_int_eq(ferror(source), 0);
    ck_assert_int_eq(fclose(target), 0);
    fclose(source);
}

START_TEST(relative_path_is_made_whole)
{
    struct weir__modules modules = {0};
    char folder[] = "/tmp/weir-modules-XXXXXX", wanted[PATH_MAX];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_ptr_nonnull(getcwd(wanted, sizeof(wanted) - 32));
    strcat(wanted, "/./another.so");
    void *library = load_another();
    ck_assert(weir__modules_read(&modules));
    ck_assert_ptr_nonnull(path_with_end(&modules, "/libanl.so.1"));
    copy(path_with_end(&modules, "/libanl.so.1"), "another.so");
    dlclose(library);
    library = dlopen("./another.so", RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_nonnull(library);
    ck_assert(weir__modules_read(&modules));
    ck_assert_str_eq(path_with_end(&modules, "another.so"), wanted);
    dlclose(library);
    weir__modules_clear(&modules);
    unlink("another.so");
    rmdir(folder);
}
END_TEST

START_TEST(list_is_read_anew_only_where_something_was_loaded_or_unloaded)
{
    struct weir__modules modules = {0};
    ck_assert(weir__modules_read(&modules));
    size_t count = modules.count;
    ck_assert(!weir__modules_read(&modules));
    void *library = load_another();
    ck_assert(weir__modules_read(&modules));
    ck_assert_uint_gt(modules.count, count);
    ck_assert(!weir__modules_read(&modules));
    ck_assert_int_eq(dlclose(library), 0);
    ck_assert(weir__modules_read(&modules));
    ck_assert_uint_eq(modules.count, count);
    weir__modules_clear(&modules);
}
END_TEST

START_TEST(list_stays_where_there_is_no_memory)
{
    struct weir__modules modules = {0}, none = {0};
    ck_assert(weir__modules_read(&modules));
    size_t count = modules.count;
    void *library = load_another();
    for (unsigned nth = 1; nth <= 2; nth++) {
        fail_malloc_at(nth);
        ck_assert(!weir__modules_read(&modules));
        fail_malloc_at(nth);
        ck_assert(!weir__modules_read(&none));
        fail_malloc_at(0);
        ck_assert_uint_eq(modules.count, count);
        ck_assert_str_eq(find(&modules, (void *)find)->build_id, OWN_BUILD_ID);
        ck_assert_ptr_null(none.list);
    }
    dlclose(library);
    weir__modules_clear(&modules);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("modules");
    TCase *tcase = suite_case(suite, "modules", 0);
    suite_add(tcase, program_is_in_it_with_its_path_and_build_id, code_of_the_file_lies_where_the_map_says, libraries_are_in_it,
              relative_path_is_made_whole, list_is_read_anew_only_where_something_was_loaded_or_unloaded);
    if (fail_malloc_works())
        suite_add(tcase, list_stays_where_there_is_no_memory);
    return suite_run(suite);
}
