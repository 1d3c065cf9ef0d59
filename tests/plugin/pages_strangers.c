/* SPDX-License-Identifier: MIT */
/* Strangers at the socket of a process that sends tensors, in the place of such a process, and many threads at it. */
#include "config.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/service.h"
#include "share/base/wait.h"
#include "share/window.h"
#include "share/wire/directory.h"
#include "share/wire/query.h"
#include "tests/plugin/pages_scene.h"

#define UNIT (2 * MIB)

/* What the handle of a tensor says. */
static struct share_window window_of(const struct tensor *tensor)
{
    struct share_window window;
    memcpy(&window, tensor->handle.bytes, sizeof window);
    return window;
}

static struct share_query question_for(const struct share_window *window, uint64_t offset)
{
    struct share_query query = {.path = window->path, .question.type = WIRE_PAGE};
    query.question.u.page.address = window->window.address;
    query.question.u.page.bytes = window->window.bytes;
    query.question.u.page.number = window->window.number;
    query.question.u.page.offset = offset;
    return query;
}

static weir_status run(struct share_query *query)
{
    share_queries_run(query, 1, share_deadline(20000));
    if (query->pool_fd >= 0)
        close(query->pool_fd);
    return query->status;
}

START_TEST(questions_for_other_pages_are_denied)
{
    struct tensor tensor = scene_send(0, 70 * MIB, 5);
    const struct share_window window = window_of(&tensor);
    const uint64_t bytes = window.window.bytes;
    const struct {
        uint64_t address, bytes, number, offset;
        weir_status status;
    } rows[] = {
        {0, 0, 0, 0, WEIR_OK},
        {0, 0, 0, 4096, WEIR_INVALID},
        {0, 0, 0, UNIT, WEIR_INVALID},
        {0, 0, 0, bytes, WEIR_INVALID},
        {0, 0, 0, -UNIT, WEIR_INVALID},
        {0, 0, 1, 0, WEIR_GONE},
        {0, UNIT, 0, 0, WEIR_GONE},
        {UNIT, 0, 0, 0, WEIR_GONE},
        {(uint64_t)1 << 62, 0, 0, 0, WEIR_GONE},
    };
    int fds = suite_count_fds() + 1; /* that of the page stays for the next receiver */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct share_query query = question_for(&window, rows[i].offset);
        query.question.u.page.address += rows[i].address;
        query.question.u.page.bytes += rows[i].bytes;
        query.question.u.page.number += rows[i].number;
        weir_status status = run(&query);
        ck_assert_msg(status == rows[i].status, "row %zu: %s %s", i, weir_status_name(status), query.text);
    }
    ck_assert_int_eq(suite_await_fds(fds), fds);
    scene_take_back(&tensor);
}
END_TEST

START_TEST(socket_without_control_only_hands_out_pages_and_is_not_listed)
{
    struct tensor tensor = scene_send(0, 3 * MIB, 5);
    const struct share_window window = window_of(&tensor);
    static const enum wire_type types[] = {WIRE_FIGURES, WIRE_RELOAD};
    char (*paths)[SHARE_PATH_SIZE];
    size_t count;
    for (int i = 0; i < 2; i++) {
        struct share_query query = {.path = window.path, .question.type = types[i]};
        ck_assert_int_eq(run(&query), WEIR_GONE);
        ck_assert_ptr_nonnull(strstr(query.text, "closed the connection"));
    }
    share_control_sockets(false, share_deadline(10000), &paths, &count);
    ck_assert_uint_eq(count, 0);
    free(paths);
    scene_take_back(&tensor);
}
END_TEST

/* Answers of a process that plays the sender. */
enum lie { NO_DESCRIPTOR, ANOTHER_FILE, NOTHING_OF_A_FILE, TOO_LARGE, NO_UNIT, ANOTHER_TYPE, TWO_ANSWERS, THE_END, NOISE, LIES };

static void answer_with(int fd, enum lie lie, const struct share_window *window)
{
    struct wire_message message = {.type = lie == ANOTHER_TYPE ? WIRE_READY : WIRE_PAGED, .request = 1};
    unsigned char bytes[WIRE_SIZE_MAX] = "noise";
    weir_error error = WEIR_ERROR_INIT;
    uint64_t size = 0;
    int page, borrowed;
    ck_assert_int_eq(weir__window_page(&window->window, 0, 0, &error, &borrowed, &size), WEIR_OK);
    page = dup(borrowed);
    weir__window_page_end(borrowed);
    if (lie == ANOTHER_FILE || lie == NOTHING_OF_A_FILE) {
        close(page);
        page = lie == ANOTHER_FILE ? open("/dev/null", O_RDWR | O_CLOEXEC) : memfd_create("empty", MFD_CLOEXEC);
    }
    message.u.paged.bytes = lie == TOO_LARGE ? UINT64_MAX - UNIT + 1 : lie == NO_UNIT ? 4096 : size;
    for (int i = 0; lie != THE_END && i < (lie == TWO_ANSWERS ? 3 : 1); i++)
        share_send(fd, bytes, lie == NOISE ? 5 : wire_encode(&message, bytes), lie == NO_DESCRIPTOR ? -1 : page);
    close(page);
}

/* Waits for one of both. Returns whether it is the first. */
static bool await(int first, int second)
{
    struct pollfd polled[] = {{.fd = first, .events = POLLIN}, {.fd = second, .events = POLLIN}};
    ck_assert_int_gt(poll(polled, 2, 20000), 0);
    return polled[0].revents;
}

START_TEST(receiver_believes_no_wrong_answer)
{
    struct tensor tensor = scene_send(0, 70 * MIB, 5), false_one = tensor;
    const struct share_window window = window_of(&tensor);
    struct share_window false_window = window;
    weir_error error = WEIR_ERROR_INIT;
    struct share_listener listener;
    snprintf(false_window.path, sizeof false_window.path, "%s/liar", scene.runtime);
    memcpy(false_one.handle.bytes, &false_window, sizeof false_window);
    ck_assert_msg(share_listen_for_descriptors(false_window.path, &error, &listener) == WEIR_OK, "%s", error.text);
    scene_end(scene_receive(&tensor));
    size_t before = scene_census();
    for (enum lie what = 0; what < LIES; what++) {
        scene_tell((struct question){.order = RECEIVE, .size = sizeof tensor.handle, .handle = false_one.handle});
        for (int answers = 0; await(listener.fd, scene.fd); answers++) {
            int fd = share_accept(&listener);
            if (answers == 0 && await(fd, -1))
                answer_with(fd, what, &window);
            close(fd);
        }
        struct answer answer = scene_hear();
        ck_assert_msg(answer.status != WEIR_OK && answer.text[0], "lie %d is believed", what);
        /* What came behind a lie is closed by another thread. */
        for (uint64_t deadline = share_deadline(10000); scene_census() != before && weir__service_now() < deadline;)
            continue;
        ck_assert_msg(scene_census() == before, "lie %d leaves %zu, not %zu: %s", what, scene_census(), before, answer.text);
    }
    share_listener_close(&listener);
    scene_end(scene_receive(&tensor));
    scene_take_back(&tensor);
}
END_TEST

static void *share_and_free(void *data)
{
    size_t size = *(size_t *)data;
    for (unsigned round = suite_rounds(300, 3000); round; round--) {
        struct tensor tensor = {.ptr = plug_malloc(size, 0, scene.stream[0]), .size = size};
        weir_error error = WEIR_ERROR_INIT;
        ck_assert_int_eq(weir_torch_share(0, tensor.ptr, size, &error, &tensor.handle, &tensor.offset), WEIR_OK);
        scene_take_back(&tensor);
    }
    return NULL;
}

START_TEST(threads_share_and_free_while_others_receive)
{
    static size_t sizes[] = {700, 700, 3 * MIB, 3 * MIB};
    pthread_t threads[4];
    struct tensor tensor = scene_send(0, 3 * MIB, 5);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, share_and_free, &sizes[i]), 0);
    for (int i = 0; i < 50; i++) {
        unsigned char *base = scene_receive(&tensor);
        scene_expect_byte(&tensor, base, 5);
        scene_end(base);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    scene_take_back(&tensor);
    plug_expect_empty(0);
}
END_TEST

/* More threads than a process may have connections to one socket. */
static struct tensor common;
static atomic_int refused;

static void *receive_again_and_again(void *data)
{
    weir_torch_received *received;
    void *ptr;
    for (unsigned round = suite_rounds(20, 200); round; round--) {
        weir_error error = WEIR_ERROR_INIT;
        if (weir_torch_receive(0, &common.handle, sizeof common.handle, &error, &received, &ptr) == WEIR_OK)
            weir_torch_receive_end(0, received);
        else if (atomic_fetch_add(&refused, 1) == 0)
            fprintf(stderr, "%s\n", error.text);
    }
    return data;
}

START_TEST(crowd_of_threads_receives)
{
    enum { CROWD = 40 };
    pthread_t threads[CROWD];
    common = scene_send(0, 3 * MIB, 5);
    for (int i = 0; i < CROWD; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, receive_again_and_again, NULL), 0);
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(refused, 0);
    scene_take_back(&common);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pages_strangers");
    TCase *tcase = tcase_create("strangers");
    tcase_set_timeout(tcase, 120);
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, scene_set_up, scene_tear_down);
    suite_add(tcase, questions_for_other_pages_are_denied, socket_without_control_only_hands_out_pages_and_is_not_listed,
              receiver_believes_no_wrong_answer, threads_share_and_free_while_others_receive,
              crowd_of_threads_receives);
    return suite_run(suite);
}
