/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/share/stranger_scene.h"

#include <unistd.h>

#include "share/wire/socket.h"

struct player *exporter, *friend;

static void set_up(void)
{
    stage_open();
    exporter = stage_exporter("exporter", NULL);
    stage_say(exporter, "share a 3 s 64KiB");
    friend = stage_importer("friend");
}

void serve_friend(void)
{
    stage_say(friend, "acquire i a l 0 s; check l 3 s; release l s");
}

static void tear_down(void)
{
    serve_friend();
    stage_until(exporter, " importers=1 ", "info");
    stage_close();
}

const struct wire_message *hello(enum wire_role role)
{
    static struct wire_message message = { .type = WIRE_HELLO, .request = 1, .u.hello.name = "stranger" };
    message.u.hello.role = (uint16_t)role;
    return &message;
}

int connect_as(enum wire_role role)
{
    int fd = stage_connect();
    say(fd, hello(role));
    hear_a(WIRE_WELCOME, fd);
    return fd;
}

void leave(int fd)
{
    struct wire_message message = { .type = WIRE_GOODBYE };
    try_to_say(fd, &message);
    while (hear(fd, &message))
        continue;
    close(fd);
}

TCase *stranger_case(Suite *suite, const char *name)
{
    TCase *tcase = suite_case(suite, name, 60);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    return tcase;
}
