/* SPDX-License-Identifier: MIT */
/* other_client.c - the client in Python, which knows the protocol from its document alone, against a real exporter. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/share/stage.h"

static FILE *start(const char *arguments)
{
    char command[1024];
    snprintf(command, sizeof command, "PYTHONDONTWRITEBYTECODE=1 exec python3 '%s/tests/share/client.py' frames %s 2>&1",
             getenv("top_srcdir"), arguments);
    FILE *client = popen(command, "r");
    ck_assert_ptr_nonnull(client);
    return client;
}

/* The next line that the client writes has to have all of `wanted`, which ends with NULL. */
static void read_line(FILE *client, const char *const *wanted)
{
    char line[4096] = "";
    ck_assert_ptr_nonnull(fgets(line, sizeof line, client));
    for (; *wanted; wanted++)
        ck_assert_msg(strstr(line, *wanted) != NULL, "no %s in: %s", *wanted, line);
}

static void end(FILE *client)
{
    char line[4096] = "";
    ck_assert_msg(!fgets(line, sizeof line, client), "it says more: %s", line);
    ck_assert_int_eq(pclose(client), 0);
}

static struct player *publish(void)
{
    struct player *exporter = stage_exporter("exporter", NULL);
    stage_say(exporter, "malloc a 64KiB s; publish a a s 1000 hello; forget a");
    return exporter;
}

START_TEST(it_leases_and_releases_a_block)
{
    struct player *exporter = publish();
    FILE *client = start("acquire a");
    read_line(client, (const char *const[]){ "\"size\": 1000,", "\"block_size\": 65536", "\"metadata\": \"68656c6c6f\"", NULL });
    end(client);
    stage_until(exporter, " importers=0 hung=0 evicted=0 blocks=1 leases=0 mappings=0", "info");
}
END_TEST

START_TEST(it_reads_a_ring)
{
    struct player *exporter = publish();
    stage_say(exporter, "ring r 64KiB 3 block s");
    FILE *client = start("read r 10 --leases 2 --wait 20");
    stage_until(exporter, " readers=1", "readers r");
    stage_say(exporter, "write r 1 10 64KiB s");
    for (unsigned frame = 1; frame <= 10; frame++) {
        char sequence[32];
        snprintf(sequence, sizeof sequence, "\"sequence\": %u,", frame);
        read_line(client, (const char *const[]){ sequence, "\"size\": 65536", NULL });
    }
    end(client);
    stage_until(exporter, " importers=0 hung=0 evicted=0 blocks=4 leases=0 mappings=0", "info");
}
END_TEST

/* It is of 0.1, as its HELLO does not say otherwise, and takes a size of 0 for an error. */
START_TEST(it_is_told_one_byte_of_an_empty_frame)
{
    struct player *exporter = publish();
    stage_say(exporter, "ring r 64KiB 3 drop_oldest s; take r slot 64KiB 0 s; push_empty r slot s");
    FILE *client = start("read r 1 --leases 2 --wait 20");
    read_line(client, (const char *const[]){ "\"sequence\": 1,", "\"size\": 1,", NULL });
    end(client);
}
END_TEST

START_TEST(it_sees_who_holds_what)
{
    char pid[32];
    publish();
    struct player *importer = stage_importer("importer");
    stage_say(importer, "acquire i a l 0 s");
    snprintf(pid, sizeof pid, "\"pid\": %d,", (int)stage_pid(importer));
    FILE *client = start("list");
    read_line(client, (const char *const[]){ pid, "\"leases\": 1,", "\"mappings\": 1,", "\"state\": \"connected\"",
                                             "\"hold\": \"leased\"", NULL });
    end(client);
}
END_TEST

START_TEST(it_evicts)
{
    char arguments[32];
    struct player *exporter = publish(), *importer = stage_importer("importer");
    snprintf(arguments, sizeof arguments, "evict %d", (int)stage_pid(importer));
    pclose(start(arguments));
    stage_until(exporter, " importers=1 hung=0 evicted=1 ", "info");
}
END_TEST

START_TEST(it_lets_go_of_a_pool_that_is_retired)
{
    struct player *exporter = stage_exporter("exporter", ", retire_after: 10ms");
    stage_say(exporter, "ring r 64KiB 2 block s");
    FILE *client = start("read r 1 --leases 1 --wait 20");
    stage_until(exporter, " readers=1", "readers r");
    stage_say(exporter, "ring_close r");
    stage_until(exporter, " epoch=2 importers=0 ", "info");
    pclose(client);
}
END_TEST

int main(void)
{
    if (!getenv("top_srcdir"))
        return suite_skip("top_srcdir is not set: run it by make check");
    if (system("python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null") != 0)
        return suite_skip("python3 is missing, or older than 3.9");
    Suite *suite = suite_create("other_client");
    TCase *tcase = stage_case(suite, "python");
    suite_add(tcase, it_leases_and_releases_a_block, it_reads_a_ring, it_is_told_one_byte_of_an_empty_frame, it_sees_who_holds_what, it_evicts,
              it_lets_go_of_a_pool_that_is_retired);
    return suite_run(suite);
}
