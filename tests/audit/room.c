/* SPDX-License-Identifier: MIT */
/* room.c - a library that is preloaded, and wants as much room for thread-local variables in each thread's static block as jemalloc does. */
static __thread char room[3000] __attribute__((tls_model("initial-exec")));

char *room_of_this_thread(void);
char *room_of_this_thread(void)
{
    return room;
}
