/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/share/stranger_scene.h"

#include <poll.h>
#include <unistd.h>

#include "share/wire/socket.h"

struct player *exporter, *friend;

static void set_up(void)
{
    stage_open();
    exporter = stage_exporter("exporter", NULL);
    stage_say(exporter, "share a 3 s %d", SIZE);
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

void say_bytes(int fd, const void *bytes, size_t len)
{
    ck_assert_int_eq(share_send(fd, bytes, len, -1), SHARE_DONE);
}

enum share_io say(int fd, const struct wire_message *message)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    return share_send(fd, bytes, wire_encode(message, bytes), -1);
}

bool hear(int fd, struct wire_message *message)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    struct pollfd readable = { .fd = fd, .events = POLLIN };
    size_t len;
    int passed = -1;
    ck_assert_msg(poll(&readable, 1, 30000) == 1, "the exporter says nothing");
    enum share_io io = share_receive(fd, bytes, sizeof bytes, &len, &passed);
    if (passed >= 0)
        close(passed);
    if (io != SHARE_DONE)
        return false;
    ck_assert_int_eq(wire_decode(bytes, len, message, NULL), WIRE_GOOD);
    return true;
}

bool is_closed(int fd)
{
    struct wire_message message;
    bool closed = !hear(fd, &message);
    close(fd);
    return closed;
}

const struct wire_message *hello(enum wire_role role)
{
    static struct wire_message message = { .type = WIRE_HELLO, .request = 1, .u.hello.name = "stranger" };
    message.u.hello.role = (uint16_t)role;
    return &message;
}

int connect_as(enum wire_role role)
{
    struct wire_message message;
    int fd = stage_connect();
    ck_assert_int_eq(say(fd, hello(role)), SHARE_DONE);
    ck_assert(hear(fd, &message));
    ck_assert_int_eq(message.type, WIRE_WELCOME);
    return fd;
}

void leave(int fd)
{
    struct wire_message message = { .type = WIRE_GOODBYE };
    say(fd, &message);
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
