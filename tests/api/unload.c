/* SPDX-License-Identifier: MIT */
/* The shared libraries in a program that loads them at run time and closes them again, as it does with its own plug-ins: they stay
   mapped, since threads that have used them still run code of theirs when they end. */
#include "config.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "include/weir.h"
#include "tests/support/suite.h"

static const char *const libraries[] = {"lib/.libs/libweir.so", "plugin/torch/.libs/libweir-torch.so"};

static const char *path_of(int which, char path[PATH_MAX])
{
    const char *build = getenv("top_builddir");
    snprintf(path, PATH_MAX, "%s/%s", build ? build : ".", libraries[which]);
    return access(path, R_OK) == 0 ? path : NULL;
}

/* A function of the library, as a pointer of its declared type. */
#define FUNCTION(library, name) ((__typeof__(&name))dlsym((library), #name))

static void *use_and_close(void *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = "weir: 1\npools: { a: {} }\n";
    options.gpu = "sim";
    weir *w;
    void *ptr;
    ck_assert_int_eq(FUNCTION(library, weir_open)(&options, NULL, &w), WEIR_OK);
    ck_assert_int_eq(FUNCTION(library, weir_malloc)(w, &ptr, 1 << 20, 0, NULL), WEIR_OK);
    ck_assert_int_eq(FUNCTION(library, weir_free)(w, ptr, NULL), WEIR_OK);
    FUNCTION(library, weir_close)(w);
    dlclose(library);
    return NULL;
}

START_TEST(thread_that_used_a_library_ends_after_it_was_closed)
{
    char buffer[PATH_MAX];
    const char *path = path_of(_i, buffer);
    if (!path)
        return;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, use_and_close, (void *)path), 0);
    pthread_join(thread, NULL);
    ck_assert(dlopen(path, RTLD_NOW | RTLD_NOLOAD) != NULL);
}
END_TEST

int main(void)
{
    char path[PATH_MAX];
    if (!path_of(0, path))
        return suite_skip("there is no shared libweir in this build");
#ifndef HAVE_SIMULATOR
    return suite_skip("libweir was built without the simulator");
#endif
    Suite *suite = suite_create("unload");
    TCase *closed = suite_case(suite, "closed", 0);
    tcase_add_loop_test(closed, thread_that_used_a_library_ends_after_it_was_closed, 0, 2);
    return suite_run(suite);
}
