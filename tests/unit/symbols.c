/* SPDX-License-Identifier: MIT */
/* What return addresses are called: by the file that was recorded, only if it is that still, and whatever stands in its place. */
#include "config.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/record/modules.h"
#include "tests/support/suite.h"
#include "tests/unit/symbols_data.h"
#include "tools/trace/view.h"

#ifdef HAVE_LIBDW
#define HAS_NAMES true
#else
#define HAS_NAMES false
#endif

#define LENGTH 0x10000 /* of a made-up module */

static struct weir__modules loaded;
static struct weir__module data; /* of the shared object */
static char folder[] = "/tmp/weir-symbols-XXXXXX";

static void setup(void)
{
    ck_assert(weir__modules_read(&loaded));
    for (size_t i = 0; i < loaded.count; i++) {
        if ((uintptr_t)symbols_call - loaded.list[i].start < loaded.list[i].length)
            data = loaded.list[i];
    }
    ck_assert_ptr_nonnull(data.path);
    ck_assert_str_eq(data.build_id, SYMBOLS_BUILD_ID);
    strcpy(folder + sizeof(folder) - 7, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
    char command[128];
    weir__modules_clear(&loaded);
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

/* The path of a file in the test's folder; the next call overwrites it. */
static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static __attribute__((noinline)) void *own_return_address(void)
{
    return __builtin_return_address(0);
}

/* The shared object, as if it had been loaded from there. */
static struct trace_module module_at(const char *path, const char *build_id)
{
    return (struct trace_module){0, data.start, data.length, data.offset, build_id, path};
}

/* What is known of an address in it. The next call overwrites the text. */
static const char *text_of(const char *path, const char *build_id, void *address)
{
    static char text[FRAME_TEXT_LEN];
    struct trace_module module = module_at(path, build_id);
    const struct trace_frame frame = {.address = (uintptr_t)address, .module = &module};
    struct symbols *symbols = symbols_new();
    trace_frame_text(text, symbols, &frame);
    symbols_free(symbols);
    return text;
}

/* "name+0x…" of an address in the shared object. */
static const char *plain_text(const char *name, void *address, const char *addition)
{
    static char text[256];
    snprintf(text, sizeof(text), "%s+0x%llx%s", name, (unsigned long long)((uintptr_t)address - data.start + data.offset), addition);
    return text;
}

/* Runs it in the test's folder; false: such a program is not here. %s: the shared object. */
static bool run(const char *command)
{
    char whole[4096];
    snprintf(whole, sizeof(whole), "cd '%s' && data='%s' && %s", folder, data.path, command);
    int status = system(whole);
    ck_assert_int_ne(status, -1);
    if (WEXITSTATUS(status) == 127)
        return false;
    ck_assert_msg(status == 0, "%s: %d", whole, status);
    return true;
}

START_TEST(function_and_line_of_the_call_are_found)
{
    bool has_cpp = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
    const struct {
        void *address;
        const char *function;
    } rows[] = {
        {symbols_call(own_return_address), "symbols_call"},
        {symbols_call_hidden(own_return_address), "hidden_call"},
        {symbols_call_mangled(own_return_address), has_cpp ? "known::call(void* (*)())" : "_ZN5known4callEPFPvvE"},
    };
    char wanted[128];
    struct symbols *symbols = symbols_new();
    struct trace_module module = module_at(data.path, data.build_id);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct symbol *symbol = symbols_find(symbols, &module, (uintptr_t)rows[i].address);
        snprintf(wanted, sizeof(wanted), "%s (%s:%d)", rows[i].function, SYMBOLS_FILE, SYMBOLS_LINE);
        ck_assert_str_eq(text_of(data.path, data.build_id, rows[i].address), wanted);
        ck_assert_str_eq(symbol->function, rows[i].function);
        ck_assert_str_eq(symbol->file, SYMBOLS_FILE);
        ck_assert_uint_eq(symbol->line, SYMBOLS_LINE);
        ck_assert_ptr_eq(symbols_find(symbols, &module, (uintptr_t)rows[i].address), symbol);
    }
    symbols_free(symbols);
}
END_TEST

START_TEST(functions_of_libraries_without_debug_information_are_found)
{
    struct symbols *symbols = symbols_new();
    struct trace_module module = {.path = NULL};
    Dl_info info;
    void *address = (char *)dlsym(RTLD_NEXT, "qsort") + 1;
    ck_assert_int_ne(dladdr(address, &info), 0);
    for (size_t i = 0; i < loaded.count; i++) {
        const struct weir__module *one = &loaded.list[i];
        if ((uintptr_t)address - one->start < one->length)
            module = (struct trace_module){0, one->start, one->length, one->offset, one->build_id, one->path};
    }
    ck_assert_str_eq(module.path, info.dli_fname);
    const struct symbol *symbol = symbols_find(symbols, &module, (uintptr_t)address);
    /* What the C library calls it within is its affair. */
    ck_assert_ptr_nonnull(strstr(symbol->function, "qsort"));
    symbols_free(symbols);
}
END_TEST

START_TEST(changed_file_is_not_looked_into)
{
    void *address = symbols_call(own_return_address);
    char other[sizeof(SYMBOLS_BUILD_ID)];
    strcpy(other, SYMBOLS_BUILD_ID);
    other[strlen(other) - 1] ^= 1;
    const char *name = strrchr(data.path, '/') + 1;
    ck_assert_str_eq(text_of(data.path, other, address), plain_text(name, address, " (the file has changed)"));
}
END_TEST

START_TEST(file_without_a_recorded_build_id_is_not_looked_into)
{
    static const char *const ids[] = {"", "fe", "FEEDBEEF00112233445566778899AABB", "feedbeef../../../../../etc/x", "zz"};
    void *address = symbols_call(own_return_address);
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        ck_assert_str_eq(text_of(data.path, ids[i], address), plain_text(strrchr(data.path, '/') + 1, address, ""));
}
END_TEST

/* Each is made, or is there, and nothing is known of its functions. */
static const struct odd_file {
    const char *name, *command;
} odd_files[] = {
    {"fifo", "mkfifo fifo"},
    {"folder", "mkdir folder"},
    {"missing", "true"},
    {"loop", "ln -s loop loop"},
    {"to-zero", "ln -s /dev/zero to-zero"},
    {"empty", ": >empty"},
    {"text", "yes text | head -n 1000 >text"},
    {"header", "head -c 64 \"$data\" >header"},
    {"torn", "head -c 4096 /dev/zero >torn && dd if=\"$data\" of=torn bs=1 count=16 conv=notrunc 2>dd"},
    {"secret", "cp \"$data\" secret && chmod 0 secret && [ \"$(id -u)\" != 0 ] || rm -f secret"},
};

START_TEST(nothing_but_the_recorded_file_is_opened)
{
    void *address = symbols_call(own_return_address);
    const char *name = odd_files[_i].name;
    ck_assert(run(odd_files[_i].command));
    const char *text = text_of(path_of(name), data.build_id, address), *wanted = plain_text(name, address, "");
    /* What begins as a program does without the rest counts as another one. */
    ck_assert_msg(strncmp(text, wanted, strlen(wanted)) == 0, "%s", text);
}
END_TEST

START_TEST(devices_proc_and_relative_paths_are_not_opened)
{
    static const char *const paths[] = {"/dev/zero", "/dev/tty", "/proc/kmsg", "/proc/self/mem", "linux-vdso.so.1", "", "/", "/etc"};
    void *address = symbols_call(own_return_address);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct symbols *symbols = symbols_new();
        struct trace_module module = module_at(paths[i], data.build_id);
        const struct symbol *symbol = symbols_find(symbols, &module, (uintptr_t)address);
        ck_assert_msg(!symbol->function[0] && !symbol->has_changed, "%s: %s", paths[i], symbol->function);
        symbols_free(symbols);
    }
}
END_TEST

START_TEST(file_that_ends_anywhere_does_no_harm)
{
    void *address = symbols_call(own_return_address);
    ck_assert(run("cp \"$data\" cut"));
    struct stat status;
    ck_assert_int_eq(stat(path_of("cut"), &status), 0);
    off_t step = status.st_size / 97 + 1;
    for (off_t size = status.st_size; size > 0; size -= step) {
        ck_assert_int_eq(truncate(path_of("cut"), size), 0);
        ck_assert_uint_gt(strlen(text_of(path_of("cut"), data.build_id, address)), 0);
    }
}
END_TEST

#define STRIP OBJCOPY " --strip-all --remove-section=.gnu_debuglink \"$data\" lib.so && "
#define KEEP OBJCOPY " --only-keep-debug \"$data\" lib.debug && " STRIP OBJCOPY " --add-gnu-debuglink=lib.debug lib.so && "

/* What is known of hidden_call() where the file itself has only what the loader needs. */
static const struct apart {
    const char *name, *command;
    bool is_found;
} aparts[] = {
    {"beside it", KEEP "true", true},
    {"in .debug beside it", KEEP "mkdir .debug && mv lib.debug .debug", true},
    {"nowhere", KEEP "rm lib.debug", false},
    {"not mentioned", STRIP "true", false},
    {"a FIFO", KEEP "rm lib.debug && mkfifo lib.debug", false},
    {"of another build", KEEP OBJCOPY " --remove-section=.note.gnu.build-id lib.debug", false},
};

START_TEST(debug_information_apart_is_found_if_it_belongs_to_the_file)
{
    void *address = symbols_call_hidden(own_return_address);
    if (!run(aparts[_i].command))
        return; /* there is no objcopy */
    const char *text = text_of(path_of("lib.so"), data.build_id, address);
    bool is_found = strncmp(text, "hidden_call (", strlen("hidden_call (")) == 0;
    ck_assert_msg(is_found == aparts[_i].is_found, "%s: %s", aparts[_i].name, text);
}
END_TEST

START_TEST(no_server_is_asked)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    char url[64];
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, length), 0);
    ck_assert_int_eq(listen(listener, 8), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/", ntohs(address.sin_port));
    setenv("DEBUGINFOD_URLS", url, 1);
    setenv("DEBUGINFOD_TIMEOUT", "1", 1);
    setenv("HOME", folder, 1);
    if (run(STRIP "true")) {
        text_of(path_of("lib.so"), data.build_id, symbols_call_hidden(own_return_address));
        ck_assert_int_eq(accept(listener, NULL, NULL), -1);
        ck_assert_int_eq(errno, EAGAIN);
    }
    close(listener);
}
END_TEST

/* Modules
 * ---------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(address_is_an_offset_in_its_file_where_nothing_else_is_known)
{
    static const struct {
        struct trace_module module;
        uint64_t address;
        const char *text;
    } rows[] = {
        {{0, 0x100000, LENGTH, 0x2000, "", "/b/one"}, 0x100001, "one+0x2001"},
        {{0, 0x100000, LENGTH, 0x2000, "", "/b/one"}, 0x110000, "one+0x12000"},
        {{0, 0x300000, 0x1000, 0, "", "three"}, 0x300001, "three+0x1"},
        {{0, UINT64_MAX - 0xfffe, UINT64_MAX, UINT64_MAX, "", "/high"}, UINT64_MAX, "high+0xfffd"},
    };
    char text[FRAME_TEXT_LEN];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct trace_frame frame = {.address = rows[i].address, .module = &rows[i].module};
        struct symbols *symbols = symbols_new();
        ck_assert_str_eq(trace_frame_text(text, symbols, &frame), rows[i].text);
        symbols_free(symbols);
    }
    symbols_free(NULL);
}
END_TEST

START_TEST(address_without_a_module_is_a_number)
{
    char text[FRAME_TEXT_LEN];
    ck_assert_str_eq(trace_frame_text(text, NULL, &(struct trace_frame){.address = 0x100000}), "0x100000");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("symbols");
    TCase *files = suite_case(suite, "files", 0), *modules = suite_case(suite, "modules", 0);
    tcase_add_checked_fixture(files, setup, teardown);
    tcase_add_loop_test(files, nothing_but_the_recorded_file_is_opened, 0, (int)(sizeof(odd_files) / sizeof(odd_files[0])));
    suite_add(files, file_without_a_recorded_build_id_is_not_looked_into, devices_proc_and_relative_paths_are_not_opened,
              file_that_ends_anywhere_does_no_harm, no_server_is_asked);
    if (HAS_NAMES) {
        tcase_add_loop_test(files, debug_information_apart_is_found_if_it_belongs_to_the_file, 0,
                            (int)(sizeof(aparts) / sizeof(aparts[0])));
        suite_add(files, function_and_line_of_the_call_are_found, functions_of_libraries_without_debug_information_are_found,
                  changed_file_is_not_looked_into);
    }
    suite_add(modules, address_is_an_offset_in_its_file_where_nothing_else_is_known, address_without_a_module_is_a_number);
    return suite_run(suite);
}
