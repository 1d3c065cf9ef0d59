/* SPDX-License-Identifier: MIT */
/*
 * room.c - a library that is preloaded, and wants as much room for thread-local variables in each thread's static block as jemalloc does. Its
 * constructor calls the program, if that wants to be called while the loader loads.
 */
void while_loading(void) __attribute__((weak));

__attribute__((constructor)) static void construct(void)
{
    if (while_loading)
        while_loading();
}

static __thread char room[3000] __attribute__((tls_model("initial-exec")));

char *room_of_this_thread(void);
char *room_of_this_thread(void)
{
    return room;
}
