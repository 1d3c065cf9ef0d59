/* SPDX-License-Identifier: MIT */
/*
 * control_scene.h - what the tests of control sockets share: one weir of this process that has one, on a simulated machine of two devices,
 * and ways to ask it.
 *
 * The test's own process has the weir, whose service thread answers, and asks it. One scene for each process.
 */
#ifndef WEIR_TESTS_CONTROL_SCENE_H
#define WEIR_TESTS_CONTROL_SCENE_H

#include "share/wire/query.h"
#include "tests/api/fixture.h"
#include "tests/share/connect.h"

#define PATIENCE_MS 20000
#define GPU_0 "GPU-00000000-0000-0000-0000-000000000000"
#define GPU_1 "GPU-00000000-0000-0000-0000-000000000001"
#define ANSWERS_MAX 64

extern struct scene {
    char runtime[64];
    weir *w; /* NULL: closed by the test */
    weir_stream *stream;
} scene;
extern const char scene_policy[];

/* Checked fixture of every test. */
void scene_open(void);
void scene_close(void);

/* The path of the n-th weir of this process. Good until the next call. */
const char *scene_path(unsigned n);
/* Leaves this much of the pool `main` reserved and used by nobody. */
void scene_leave_idle(uint64_t bytes);
/* A millisecond, between two looks at a condition. */
void scene_nap(void);

/* Questions of tools, by share_queries_run(). */
struct answers {
    size_t count;
    struct wire_message items[ANSWERS_MAX];
};
struct share_query scene_ask(struct wire_message question, struct answers *answers);
/* The document of FIGURES. Good until the next call. */
const char *scene_figures(void);
/* The first figure of that name in it. */
uint64_t scene_figure(const char *name);
/* The one answer to a question that is not refused. */
struct wire_message scene_answer_to(struct wire_message question);
void scene_expect_denial(struct wire_message question, weir_status status, const char *what);
void scene_expect_no_harm(void);
struct wire_message scene_offer(const char *uuid);
struct wire_message scene_give(uint64_t bytes, const char *uuid, uint32_t deadline_ms);

/* For packets of one's own. */
int scene_connect(void);

#endif
