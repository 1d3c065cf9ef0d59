/* SPDX-License-Identifier: MIT */
/* new_file.c - outputs of commands: whole or not there, and nothing beside them, whatever becomes of the command. */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/suite.h"
#include "tools/common/command.h"
#include "tools/common/new_file.h"

static char directory[256], path[300];

static void begin(void)
{
    snprintf(directory, sizeof directory, "%s/weir-new-file-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/out", directory);
}

static unsigned files(void)
{
    unsigned count = 0;
    DIR *stream = opendir(directory);
    for (const struct dirent *entry; (entry = readdir(stream));)
        count += entry->d_name[0] != '.';
    closedir(stream);
    return count;
}

static void end(void)
{
    unlink(path);
    ck_assert_int_eq(rmdir(directory), 0);
}

static void write_file(const char *text, bool is_whole, int status)
{
    struct new_file file;
    ck_assert(new_file_begin(&file, "test", path, NEW_FILE_REPLACE, 0640));
    fputs(text, file.out);
    ck_assert_int_eq(new_file_end(&file, is_whole), status);
}

static void expect(const char *text)
{
    char found[64] = "";
    struct stat status;
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(fgets(found, sizeof found, file));
    fclose(file);
    ck_assert_str_eq(found, text);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0640);
    ck_assert_uint_eq(status.st_nlink, 1);
    ck_assert_uint_eq(files(), 1);
}

START_TEST(file_takes_the_place_of_another_as_a_whole)
{
    write_file("one", true, EXIT_GOOD);
    expect("one");
    write_file("two", true, EXIT_GOOD);
    expect("two");
    write_file("three", false, EXIT_TROUBLE);
    expect("two");
}
END_TEST

START_TEST(killed_command_leaves_nothing_beside_its_output)
{
    int status, fd = open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return; /* this file system has no files without a name */
    close(fd);
    write_file("one", true, EXIT_GOOD);
    pid_t child = fork();
    if (child == 0) {
        struct new_file file;
        if (new_file_begin(&file, "test", path, NEW_FILE_REPLACE, 0640) && fputs("two", file.out) >= 0 && fflush(file.out) == 0)
            raise(SIGKILL);
        _exit(1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    expect("one");
}
END_TEST

/* Of two commands that make one file the first to end has it, and the other says so. */
START_TEST(file_that_takes_no_place_is_there_once_it_is_whole)
{
    struct new_file first, second;
    int fd = open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return; /* this file system has no files without a name */
    close(fd);
    umask(027);
    ck_assert(new_file_begin(&first, "test", path, NEW_FILE_NOWHERE, 0644));
    ck_assert(new_file_begin(&second, "test", path, NEW_FILE_NOWHERE, 0644));
    fputs("one", first.out);
    fputs("two", second.out);
    ck_assert_int_eq(fflush(first.out), 0);
    ck_assert_uint_eq(files(), 0); /* which is what a command leaves that is killed here */
    ck_assert_int_eq(new_file_end(&first, true), EXIT_GOOD);
    ck_assert_int_eq(new_file_end(&second, true), EXIT_TROUBLE);
    expect("one");
    ck_assert(!new_file_begin(&second, "test", path, NEW_FILE_NOWHERE, 0644));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("new file");
    TCase *tcase = suite_case(suite, "new file", 0);
    tcase_add_checked_fixture(tcase, begin, end);
    suite_add(tcase, file_takes_the_place_of_another_as_a_whole, killed_command_leaves_nothing_beside_its_output,
              file_that_takes_no_place_is_there_once_it_is_whole);
    return suite_run(suite);
}
