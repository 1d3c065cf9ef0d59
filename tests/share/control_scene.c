/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/share/connect.h"
#include "tests/share/control_scene.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "share/base/wait.h"
#include "tests/support/suite.h"

/* What is idle stays, and every block is CUDA's, so that figures can be counted. */
const char scene_policy[] = "weir: 1\ncontrol: true\ndefaults: { pool: main }\n"
                            "pools:\n"
                            "  main: { devices: [0], release_threshold: all, cache: off, keep: 32MiB }\n"
                            "  other: { devices: [0], release_threshold: all, cache: off }\n";

struct scene scene;

void scene_open(void)
{
    snprintf(scene.runtime, sizeof scene.runtime, "/tmp/weir-control-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scene.runtime));
    ck_assert_int_eq(setenv("WEIR_CONTROL_DIR", scene.runtime, 1), 0);
    fixture_machine("devices=2");
    scene.w = fixture_open(scene_policy);
    scene.stream = fixture_stream(scene.w, 0, NULL);
}

static void remove_runtime(void)
{
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf %s", scene.runtime);
    ck_assert_int_eq(system(command), 0);
}

void scene_close(void)
{
    fixture_gpu()->device_synchronize(0); /* else closing polls through whatever time of the simulator's is left, a millisecond at a time */
    weir_close(scene.w);
    fixture_expect_empty();
    remove_runtime();
}

const char *scene_path(unsigned n)
{
    static char path[SHARE_PATH_SIZE];
    snprintf(path, sizeof path, "%s/weir/control/%ld.%u", scene.runtime, (long)getpid(), n);
    return path;
}

void scene_leave_idle(uint64_t bytes)
{
    void *ptr = fixture_malloc(scene.stream, bytes);
    ck_assert_int_eq(weir_stream_free(scene.stream, ptr), WEIR_OK);
    fixture_synchronize(scene.stream);
}

void scene_nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* Asking ------------------------------------------------------------------------------------------------------------------------------- */

static bool keep_answer(struct share_query *query, const struct wire_message *answer)
{
    struct answers *answers = query->data;
    ck_assert_uint_lt(answers->count, ANSWERS_MAX);
    answers->items[answers->count++] = *answer;
    return true;
}

struct share_query scene_ask(struct wire_message question, struct answers *answers)
{
    struct share_query query = { .path = scene_path(1), .question = question, .take = keep_answer, .data = answers };
    answers->count = 0;
    share_queries_run(&query, 1, share_deadline(PATIENCE_MS));
    return query;
}

const char *scene_figures(void)
{
    static char json[ANSWERS_MAX * WIRE_PIECE_SIZE];
    struct answers answers;
    struct share_query query = scene_ask((struct wire_message){ .type = WIRE_FIGURES }, &answers);
    ck_assert_msg(query.status == WEIR_OK, "%s: %s", weir_status_name(query.status), query.text);
    ck_assert_int_eq(answers.items[answers.count - 1].type, WIRE_READY);
    json[0] = '\0';
    for (size_t i = 0; i + 1 < answers.count; i++) {
        ck_assert_int_eq(answers.items[i].type, WIRE_TEXT);
        strcat(json, answers.items[i].u.piece.text);
    }
    return json;
}

uint64_t scene_figure(const char *name)
{
    char member[64];
    snprintf(member, sizeof member, "\"%s\": ", name);
    const char *at = strstr(scene_figures(), member);
    ck_assert_msg(at != NULL, "no %s", name);
    return strtoull(at + strlen(member), NULL, 10);
}

struct wire_message scene_answer_to(struct wire_message question)
{
    struct answers answers;
    struct share_query query = scene_ask(question, &answers);
    ck_assert_msg(query.status == WEIR_OK, "%s: %s", weir_status_name(query.status), query.text);
    ck_assert_uint_eq(answers.count, 1);
    return answers.items[0];
}

void scene_expect_denial(struct wire_message question, weir_status status, const char *what)
{
    struct answers answers;
    struct share_query query = scene_ask(question, &answers);
    ck_assert_msg(query.status == status, "%s: %s", weir_status_name(query.status), query.text);
    ck_assert_msg(strstr(query.text, what), "'%s' without '%s'", query.text, what);
    ck_assert_uint_eq(answers.count, 0);
}

struct wire_message scene_offer(const char *uuid)
{
    struct wire_message question = { .type = WIRE_OFFER };
    snprintf(question.u.offer.uuid, sizeof question.u.offer.uuid, "%s", uuid);
    return question;
}

struct wire_message scene_give(uint64_t bytes, const char *uuid, uint32_t deadline_ms)
{
    struct wire_message question = { .type = WIRE_GIVE, .request = 1, .u.give = { .bytes = bytes, .deadline_ms = deadline_ms } };
    snprintf(question.u.give.uuid, sizeof question.u.give.uuid, "%s", uuid);
    return question;
}

/* Packets of one's own ------------------------------------------------------------------------------------------------------------------ */

int scene_connect(void)
{
    weir_error error = WEIR_ERROR_INIT;
    int fd = -1;
    ck_assert_msg(connect_within(scene_path(1), PATIENCE_MS, &error, &fd) == WEIR_OK, "%s", error.text);
    return fd;
}

void scene_expect_no_harm(void)
{
    ck_assert_int_eq(scene_answer_to(scene_offer(GPU_0)).type, WIRE_OFFERED);
}
