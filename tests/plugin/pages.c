/* SPDX-License-Identifier: MIT */
/* Tensors that go to another process: what the sender shares, what the receiver maps, and what is left when either dies. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "include/weir_sleep.h"
#include "tests/plugin/pages_scene.h"

/* Coming and going --------------------------------------------------------------------------------------------------------------------- */

START_TEST(tensor_has_its_bytes_in_both_processes_and_for_peers)
{
    static const size_t sizes[] = {512, 5000, MIB, 5 * MIB, 70 * MIB + 512};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct tensor tensor = scene_send(0, sizes[i], 7);
        unsigned char *base = scene_receive(&tensor);
        scene_expect_byte(&tensor, base, 7);
        for (int device = 0; device < 2; device++) {
            scene_ask((struct question){.order = WRITE, .device = device, .ptr = base + tensor.offset, .size = tensor.size, .value = 9 + device});
            ck_assert(plug_all(tensor.ptr, 9 + device, tensor.size));
        }
        scene_end(base);
        scene_take_back(&tensor);
    }
}
END_TEST

START_TEST(nothing_is_left_of_many_tensors)
{
    struct tensor warm = scene_send(0, 1000, 1); /* the socket is open from now on */
    scene_take_back(&warm);
    plug_expect_empty(0);
    int fds = suite_count_fds();
    size_t before = 0;
    weir_torch_stats first = {0};
    for (int i = 0; i < 300; i++) {
        struct tensor small = scene_send(0, 1000, i & 127), large = scene_send(0, 3 * MIB, i & 127);
        unsigned char *bases[] = {scene_receive(&small), scene_receive(&large)};
        scene_expect_byte(&small, bases[0], i & 127);
        scene_expect_byte(&large, bases[1], i & 127);
        scene_end(bases[i & 1]);
        scene_end(bases[!(i & 1)]);
        scene_take_back(&small);
        scene_take_back(&large);
        if (i == 0) {
            before = scene_census();
            first = plug_stats(0);
        }
    }
    ck_assert_uint_eq(scene_census(), before);
    ck_assert_uint_eq(plug_stats(0).allocated, first.allocated);
    plug_expect_empty(0);
    ck_assert_int_eq(suite_await_fds(fds), fds);
}
END_TEST

START_TEST(tensors_in_the_same_pages_have_the_same_handle)
{
    struct tensor a = scene_send(0, 4096, 1), b = scene_send(0, 8192, 2), again = a;
    scene_share(&again);
    ck_assert_mem_eq(&a.handle, &again.handle, sizeof a.handle);
    ck_assert_mem_eq(&a.handle, &b.handle, sizeof a.handle);
    ck_assert_uint_ne(a.offset, b.offset);
    unsigned char *base = scene_receive(&a);
    scene_expect_byte(&b, base, 2);
    scene_take_back(&a);
    scene_expect_byte(&b, base, 2);
    scene_end(base);
    /* The handle is that of the other tensor as long as that one is shared. */
    a = scene_send(0, 4096, 3);
    ck_assert_mem_eq(&a.handle, &b.handle, sizeof a.handle);
    scene_take_back(&a);
    scene_take_back(&b);
    /* And new once the pages were nobody's: another tensor lies there. */
    struct tensor c = scene_send(0, 4096, 4);
    ck_assert_int_ne(memcmp(&c.handle, &b.handle, sizeof c.handle), 0);
    scene_take_back(&c);
}
END_TEST

START_TEST(tensors_of_two_devices_stay_apart)
{
    struct tensor zero = scene_send(0, 3 * MIB, 5), one = scene_send(1, 3 * MIB, 6), wrong = one;
    unsigned char *bases[] = {scene_receive(&zero), scene_receive(&one)};
    scene_expect_byte(&zero, bases[0], 5);
    scene_expect_byte(&one, bases[1], 6);
    wrong.device = 0;
    scene_expect_refusal(&wrong, WEIR_INVALID, "CUDA_VISIBLE_DEVICES");
    scene_end(bases[0]);
    scene_end(bases[1]);
    scene_take_back(&zero);
    scene_take_back(&one);
}
END_TEST

START_TEST(memory_of_a_graph_can_be_sent)
{
    plug_capture_begin(0, 3, scene.stream[0]);
    struct tensor tensor = {.ptr = plug_malloc(3 * MIB, 0, scene.stream[0]), .size = 3 * MIB};
    plug_capture_end(0, 3, scene.stream[0]);
    scene_share(&tensor);
    memset(tensor.ptr, 8, tensor.size);
    unsigned char *base = scene_receive(&tensor);
    scene_expect_byte(&tensor, base, 8);
    scene_end(base);
    scene_take_back(&tensor);
    weir_torch_release_pool(0, plug_id(3));
}
END_TEST

START_TEST(mapping_that_ends_during_a_capture_goes_after_it)
{
    struct tensor tensor = scene_send(0, 3 * MIB, 5);
    unsigned char *base = scene_receive(&tensor);
    size_t mapped = scene_census();
    scene_ask((struct question){.order = CAPTURE});
    scene_end(base);
    ck_assert_uint_ge(scene_census() / 1000, mapped / 1000);
    scene_ask((struct question){.order = CAPTURE_END});
    base = scene_receive(&tensor);
    scene_end(base);
    ck_assert_uint_lt(scene_census() / 1000000, mapped / 1000000);
    scene_take_back(&tensor);
}
END_TEST

/* Refusals ----------------------------------------------------------------------------------------------------------------------------- */

START_TEST(memory_of_cudas_pools_is_refused_with_the_key_that_helps)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_torch_handle handle;
    uint64_t offset;
    ck_assert_int_eq(weir_torch_region_begin("native", 0, &error), WEIR_OK);
    void *ptr = plug_malloc(3 * MIB, 0, scene.stream[0]);
    weir_torch_region_end();
    ck_assert_int_eq(weir_torch_share(0, ptr, 3 * MIB, &error, &handle, &offset), WEIR_NOT_SUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "of pool 'native' cannot be sent to other processes, as its memory is no arena of Weir's: write backing: arena"));
    ck_assert_int_eq(weir_torch_share(0, &error, sizeof error, &error, &handle, &offset), WEIR_NOT_SUPPORTED);
    ck_assert_int_eq(weir_torch_share(0, NULL, 1, &error, &handle, &offset), WEIR_INVALID);
    ck_assert_int_eq(weir_torch_share(5, ptr, 1, &error, &handle, &offset), WEIR_INVALID);
    weir_torch_free(ptr, 3 * MIB, 0, scene.stream[0]);
}
END_TEST

START_TEST(tensor_that_was_freed_is_not_received)
{
    struct tensor tensor = scene_send(0, 3 * MIB, 5);
    scene_take_back(&tensor);
    scene_expect_refusal(&tensor, WEIR_GONE, "freed before it was received");
    /* Nor what lies there by now, whose handle has another number. */
    struct tensor other = scene_send(0, 3 * MIB, 6);
    ck_assert_ptr_eq(other.ptr, tensor.ptr);
    scene_expect_refusal(&tensor, WEIR_GONE, "freed before it was received");
    scene_take_back(&other);
    weir_torch_unshare(0, other.ptr, other.size);
}
END_TEST

START_TEST(damaged_handles_are_refused)
{
    struct tensor tensor = scene_send(0, 3 * MIB, 5), damaged;
    struct question question = {.order = RECEIVE, .handle = tensor.handle};
    for (question.size = 0; question.size < sizeof tensor.handle; question.size += 64)
        ck_assert_int_eq(scene_ask(question).status, WEIR_INVALID);
    scene_end(scene_receive(&tensor));
    size_t before = scene_census();
    /* In the path a changed byte names another socket. */
    for (size_t i = 0; i < 80 + strlen((const char *)tensor.handle.bytes + 80); i++) {
        damaged = tensor;
        damaged.handle.bytes[i] ^= 0x41;
        if (!tensor.handle.bytes[i])
            continue;
        struct answer answer = scene_try(&damaged);
        ck_assert_msg(answer.status != WEIR_OK, "byte %zu is ignored", i);
        ck_assert_int_ne(answer.status, WEIR_PROTOCOL);
    }
    ck_assert_uint_eq(scene_census(), before);
    memset(damaged.handle.bytes + 80, 'x', 112);
    scene_expect_refusal(&damaged, WEIR_INVALID, "no release of Weir that this one knows");
    scene_take_back(&tensor);
}
END_TEST

START_TEST(another_user_gets_nothing)
{
    struct tensor tensor = scene_send(0, 3 * MIB, 5);
    if (geteuid() == 0) {
        ck_assert_uint_eq(scene_ask((struct question){.order = LEAVE_USER}).number, 1);
        scene_expect_refusal(&tensor, WEIR_REFUSED, "only its user and root may");
        ck_assert_int_eq(chmod(scene.runtime, 0755), 0);
    }
    scene_take_back(&tensor);
}
END_TEST

START_TEST(child_of_a_fork_shares_and_receives_nothing)
{
    struct tensor tensor = scene_send(0, 3 * MIB, 5);
    unsigned char *base = scene_receive(&tensor);
    ck_assert_int_eq(scene_ask((struct question){.order = FORK, .handle = tensor.handle, .ptr = base}).status, WEIR_FORKED);
    scene_expect_byte(&tensor, base, 5);
    scene_end(base);
    scene_take_back(&tensor);
}
END_TEST

/* Descriptors of the simulator's pages. */
static int count_page_fds(void)
{
    char path[32], name[64] = "";
    int count = 0;
    for (int fd = 0; fd < 256; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        count += readlink(path, name, sizeof name - 1) > 0 && strstr(name, "weir-sim-pages");
    }
    return count;
}

START_TEST(descriptors_that_are_kept_are_few_and_hold_no_memory)
{
    struct tensor tensors[40], small = scene_send(0, 4096, 1);
    uint64_t exports = 0;
    scene_end(scene_receive(&small));
    for (int i = 0; i < 40; i++) {
        tensors[i] = scene_send(0, 33 * MIB, i);
        scene_end(scene_receive(&tensors[i]));
        exports = sim_calls("page_export");
        scene_end(scene_receive(&tensors[i]));
        ck_assert_uint_eq(sim_calls("page_export"), exports);
    }
    ck_assert_uint_ge(exports, 41);
    ck_assert_int_eq(count_page_fds(), 1 + 32);
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(count_page_fds());
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 1 << 8); /* of the simulator itself */
    for (int i = 0; i < 40; i++)
        scene_take_back(&tensors[i]);
    scene_take_back(&small);
    plug_expect_empty(0);
    ck_assert_int_eq(count_page_fds(), 0);
}
END_TEST

static struct tensor many[40];
static atomic_bool is_enough;

/* This process asks for what it has sent: more pages than it keeps descriptors of, so that each is exported anew. None is imported, as the
   simulator would keep a descriptor of its own. */
static void *receive_own(void *data)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_torch_received *received;
    void *ptr;
    for (size_t i = 0; !atomic_load(&is_enough); i = (i + 1) % (sizeof many / sizeof *many)) {
        sim_fail("page_import", 1, GPU_UNKNOWN);
        ck_assert_int_eq(weir_torch_receive(0, &many[i].handle, sizeof many[i].handle, &error, &received, &ptr), WEIR_CUDA_ERROR);
        weir_error_clear(&error);
    }
    return data;
}

START_TEST(child_of_a_fork_has_no_page_that_is_on_its_way)
{
    pthread_t thread;
    int status, with_pages = 0;
    for (int i = 0; i < 40; i++)
        many[i] = scene_send(0, 33 * MIB, i);
    ck_assert_int_eq(pthread_create(&thread, NULL, receive_own, NULL), 0);
    for (unsigned round = suite_rounds(100, 4000); round; round--) {
        pid_t child = fork();
        if (child == 0)
            _exit(count_page_fds());
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFEXITED(status));
        with_pages += WEXITSTATUS(status) != 1; /* of the simulator itself */
    }
    atomic_store(&is_enough, true);
    pthread_join(thread, NULL);
    ck_assert_int_eq(with_pages, 0);
    for (int i = 0; i < 40; i++)
        scene_take_back(&many[i]);
}
END_TEST

START_TEST(receiver_without_descriptors_says_so)
{
    struct tensor tensor = scene_send(0, 30 * MIB, 5);
    size_t before = (scene_end(scene_receive(&tensor)), scene_census());
    for (int left = 0; left < 6; left++) {
        scene_ask((struct question){.order = LIMIT, .value = left});
        struct answer answer = scene_try(&tensor);
        scene_ask((struct question){.order = LIMIT, .value = -1});
        if (answer.status == WEIR_OK)
            scene_end(answer.ptr);
        else
            ck_assert_msg(strstr(answer.text, left < 2 ? (left ? "raise `ulimit -n`" : "descriptor") : "of a tensor of another process"), "%d left: %s", left, answer.text);
        ck_assert_uint_eq(scene_census(), before);
    }
    scene_end(scene_receive(&tensor));
    scene_take_back(&tensor);
}
END_TEST

START_TEST(call_of_the_driver_that_fails_leaves_nothing)
{
    struct tensor tensor = scene_send(0, 70 * MIB + 512, 5);
    unsigned char *base = scene_receive(&tensor);
    scene_end(base);
    size_t before = scene_census();
    bool is_over = false;
    for (int nth = 1; !is_over; nth += (int)suite_lone_stride()) {
        scene_ask((struct question){.order = FAULT, .value = nth});
        struct answer answer = scene_try(&tensor);
        if (answer.status == WEIR_OK)
            scene_end(answer.ptr);
        scene_ask((struct question){.order = FAULT});
        scene_end(scene_receive(&tensor)); /* and what could not be unmapped */
        is_over = answer.status == WEIR_OK && nth > 40;
        ck_assert_msg(scene_census() == before, "call %d: %zu, not %zu: %s", nth, scene_census(), before, answer.text);
    }
    scene_take_back(&tensor);
}
END_TEST

START_TEST(pool_with_shared_tensors_does_not_sleep)
{
    struct tensor tensor = scene_send(0, 3 * MIB, 5);
    weir_error error = WEIR_ERROR_INIT;
    char pid[32];
    weir *w;
    weir_pool *pool;
    uint64_t given;
    ck_assert_int_eq(weir_torch_get(0, &error, &w), WEIR_OK);
    ck_assert_int_eq(weir_pool_get(w, "tensors", 0, &error, &pool), WEIR_OK);
    ck_assert_int_eq(weir_pool_sleep(pool, 0, 1000, &error, &given), WEIR_BUSY);
    ck_assert_ptr_nonnull(strstr(error.text, "1 of its blocks are shared, with process 0 "));
    unsigned char *base = scene_receive(&tensor);
    snprintf(pid, sizeof pid, "with process %ld ", (long)scene.pid);
    weir_error_clear(&error);
    ck_assert_int_eq(weir_pool_sleep(pool, 0, 1000, &error, &given), WEIR_BUSY);
    ck_assert_msg(strstr(error.text, pid), "%s", error.text);
    scene_expect_byte(&tensor, base, 5);
    scene_end(base);
    weir_torch_unshare(0, tensor.ptr, tensor.size);
    weir_error_clear(&error);
    ck_assert_msg(weir_pool_sleep(pool, 0, 1000, &error, &given) == WEIR_OK, "%s", error.text);
    ck_assert_int_eq(weir_torch_share(0, tensor.ptr, tensor.size, &error, &tensor.handle, &tensor.offset), WEIR_BUSY);
    ck_assert_ptr_nonnull(strstr(error.text, "wake the pool"));
    ck_assert_int_eq(weir_pool_wake(pool, 1000, &error, NULL), WEIR_OK);
    scene_share(&tensor);
    base = scene_receive(&tensor);
    scene_expect_byte(&tensor, base, 5);
    scene_end(base);
    scene_take_back(&tensor);
}
END_TEST

/* Deaths ------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(sender_goes_on_after_its_receiver_was_killed)
{
    struct tensor tensor = scene_send(0, 70 * MIB, 5);
    scene_receive(&tensor);
    scene_end_receiver(SIGKILL);
    ck_assert(plug_all(tensor.ptr, 5, tensor.size));
    scene_take_back(&tensor);
    plug_expect_empty(0);
}
END_TEST

/* Another process sends, holds nothing after that, and is killed. */
START_TEST(tensor_of_a_dead_sender_stays_readable)
{
    struct tensor *sent = NULL;
    int pair[2];
    ck_assert_int_eq(pipe(pair), 0);
    pid_t sender = fork();
    if (sender == 0) {
        scene_set_up_sender();
        struct tensor tensor = scene_send(0, 40 * MIB, 77);
        ck_assert_int_eq(write(pair[1], &tensor, sizeof tensor), sizeof tensor);
        pause();
        _exit(1);
    }
    struct tensor tensor;
    ck_assert_int_eq(read(pair[0], &tensor, sizeof tensor), sizeof tensor);
    sent = &tensor;
    scene_set_up_sender();
    unsigned char *base = scene_receive(sent);
    kill(sender, SIGKILL);
    ck_assert_int_eq(waitpid(sender, NULL, 0), sender);
    scene_expect_byte(sent, base, 77);
    scene_end(base);
    scene_expect_refusal(sent, WEIR_GONE, "nobody listens");
    close(pair[0]);
    close(pair[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pages");
    /* The plug-in keeps its descriptors until the process ends, so these are not counted around each test. */
    TCase *tcase = tcase_create("pages");
    tcase_set_timeout(tcase, 120);
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, scene_set_up, scene_tear_down);
    suite_add(tcase, tensor_has_its_bytes_in_both_processes_and_for_peers, nothing_is_left_of_many_tensors, tensors_in_the_same_pages_have_the_same_handle,
              tensors_of_two_devices_stay_apart, memory_of_a_graph_can_be_sent, mapping_that_ends_during_a_capture_goes_after_it,
              memory_of_cudas_pools_is_refused_with_the_key_that_helps, tensor_that_was_freed_is_not_received, damaged_handles_are_refused,
              another_user_gets_nothing, child_of_a_fork_shares_and_receives_nothing, receiver_without_descriptors_says_so, descriptors_that_are_kept_are_few_and_hold_no_memory, child_of_a_fork_has_no_page_that_is_on_its_way,
              call_of_the_driver_that_fails_leaves_nothing, pool_with_shared_tensors_does_not_sleep,
              sender_goes_on_after_its_receiver_was_killed);
    tcase = tcase_create("deaths");
    tcase_set_timeout(tcase, 120);
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, scene_set_up_receiver, scene_tear_down);
    suite_add(tcase, tensor_of_a_dead_sender_stays_readable);
    return suite_run(suite);
}
