/* SPDX-License-Identifier: MIT */
/* Tensors that go to another process: what the sender shares, what the receiver maps, and what is left when either dies. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/attached.h"
#include "plugin/torch/device.h"
#include "share/base/wait.h"
#include "share/wire/query.h"
#include "tests/plugin/plug.h"

#define PAGE (2 * MIB)

static const char policy[] = "weir: 1\ndefaults: { pool: tensors }\npools:\n"
                             "  tensors: { backing: arena, cache: { largest: 64KiB }, on_oom: { deadline: 1s } }\n"
                             "  native: { small_below: 0 }\n";

/* The receiver is a process of its own, which obeys one order at a time. */
enum order { RECEIVE, END, LOOK, WRITE, CENSUS, LIMIT, FAULT, CALLS, FORK, LEAVE_USER, CAPTURE, CAPTURE_END };

struct question {
    enum order order;
    int device, value;
    size_t size;
    unsigned char *ptr;
    weir_torch_handle handle;
};

struct answer {
    weir_status status;
    unsigned char *ptr;
    size_t number;
    char text[512];
};

static struct {
    char runtime[64], machine[128];
    pid_t pid;
    int fd;
    gpu_stream stream[2];
} scene;

/* The receiver ------------------------------------------------------------------------------------------------------------------------- */

static size_t census(void)
{
    struct sim_census now;
    sim_census(&now);
    return now.ranges * 1000000 + now.pages * 1000 + (size_t)suite_count_fds();
}

/* Takes all descriptors that the process may have but `count`; or, with a count below 0, gives them back. */
static void leave_descriptors(int count)
{
    static int held[256], held_count;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = count < 0 ? limit.rlim_max : 200;
    setrlimit(RLIMIT_NOFILE, &limit);
    while (count >= 0 && held_count < 256 && (held[held_count] = dup(STDERR_FILENO)) >= 0)
        held_count++;
    for (; held_count && count != 0; count--)
        close(held[--held_count]);
}

static weir_status receive_in_child(const struct question *question)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        void *ptr;
        weir_torch_receive_end(question->ptr);
        weir_torch_unshare(question->ptr);
        _exit(weir_torch_receive(question->device, &question->handle, sizeof question->handle, NULL, &ptr));
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? (weir_status)WEXITSTATUS(status) : WEIR_PROTOCOL;
}

static void obey(const struct question *question, struct answer *answer)
{
    static gpu_stream captured;
    weir_error error = WEIR_ERROR_INIT;
    void *ptr = NULL;
    switch (question->order) {
    case RECEIVE:
        answer->status = weir_torch_receive(question->device, &question->handle, question->size, &error, &ptr);
        answer->ptr = ptr;
        snprintf(answer->text, sizeof answer->text, "%.500s", error.text);
        break;
    case END:
        weir_torch_receive_end(question->ptr);
        break;
    case LOOK:
        answer->number = plug_all(question->ptr, question->value, question->size);
        break;
    case WRITE:
        memset(question->ptr, question->value, question->size);
        break;
    case CENSUS:
        answer->number = census();
        break;
    case LIMIT:
        leave_descriptors(question->value);
        break;
    case FAULT:
        sim_fail(NULL, (unsigned)question->value, GPU_UNKNOWN);
        break;
    case CALLS:
        answer->number = sim_calls(NULL);
        break;
    case FORK:
        answer->status = receive_in_child(question);
        break;
    case LEAVE_USER:
        answer->number = setreuid(12345, 12345) == 0;
        break;
    case CAPTURE:
        captured = plug_stream(0);
        plug_capture_begin(0, 7, captured);
        break;
    case CAPTURE_END:
        plug_capture_end(0, 7, captured);
        break;
    }
}

static _Noreturn void be_receiver(int fd)
{
    struct question question;
    plug_set_up(scene.machine, policy);
    while (read(fd, &question, sizeof question) == (ssize_t)sizeof question) {
        struct answer answer = {.status = WEIR_OK};
        obey(&question, &answer);
        ck_assert_int_eq(write(fd, &answer, sizeof answer), sizeof answer);
    }
    _exit(0);
}

static struct answer ask(struct question question)
{
    struct answer answer;
    ck_assert_int_eq(send(scene.fd, &question, sizeof question, MSG_NOSIGNAL), sizeof question);
    ck_assert_int_eq(recv(scene.fd, &answer, sizeof answer, MSG_WAITALL), sizeof answer);
    return answer;
}

static void start_receiver(void)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    scene.pid = fork();
    if (scene.pid == 0) {
        close(pair[0]);
        be_receiver(pair[1]);
    }
    close(pair[1]);
    scene.fd = pair[0];
}

static void end_receiver(int signal)
{
    if (signal)
        kill(scene.pid, signal);
    close(scene.fd);
    ck_assert_int_eq(waitpid(scene.pid, NULL, 0), scene.pid);
    scene.pid = 0;
}

/* The sender --------------------------------------------------------------------------------------------------------------------------- */

static void set_up(void)
{
    snprintf(scene.runtime, sizeof scene.runtime, "/tmp/weir-pages-%ld", (long)getpid());
    snprintf(scene.machine, sizeof scene.machine, "devices=2,memory=2GiB,name=pages-%ld", (long)getpid());
    ck_assert_int_eq(mkdir(scene.runtime, 0700), 0);
    ck_assert_int_eq(setenv("WEIR_CONTROL_DIR", scene.runtime, 1), 0);
    start_receiver();
    plug_set_up(scene.machine, policy);
    for (int device = 0; device < 2; device++)
        scene.stream[device] = plug_stream(device);
}

static void tear_down(void)
{
    char command[128];
    struct torch_device *device = NULL;
    /* The service thread would listen at a new path. */
    while ((device = torch_device_next(device ? device->index : -1)))
        weir__attached_close(device->w);
    if (scene.pid)
        end_receiver(0);
    snprintf(command, sizeof command, "rm -r %s", scene.runtime);
    ck_assert_int_eq(system(command), 0); /* NOLINT(cert-env33-c) */
}

struct tensor {
    unsigned char *ptr;
    size_t size;
    int device;
    weir_torch_handle handle;
    uint64_t offset;
};

static void share(struct tensor *tensor)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_status status = weir_torch_share(tensor->device, tensor->ptr, tensor->size, &error, &tensor->handle, &tensor->offset);
    ck_assert_msg(status == WEIR_OK, "%s", error.text);
}

static struct tensor send_on(int device, size_t size, int byte)
{
    struct tensor tensor = {.ptr = plug_malloc(size, device, scene.stream[device]), .size = size, .device = device};
    memset(tensor.ptr, byte, size);
    share(&tensor);
    return tensor;
}

static void take_back(const struct tensor *tensor)
{
    weir_torch_unshare(tensor->ptr);
    weir_torch_free(tensor->ptr, (ssize_t)tensor->size, tensor->device, scene.stream[tensor->device]);
}

static struct answer try_to_receive(const struct tensor *tensor)
{
    return ask((struct question){.order = RECEIVE, .device = tensor->device, .size = sizeof tensor->handle, .handle = tensor->handle});
}

static unsigned char *receive(const struct tensor *tensor)
{
    struct answer answer = try_to_receive(tensor);
    ck_assert_msg(answer.status == WEIR_OK, "%s", answer.text);
    return answer.ptr;
}

static void expect_refusal(const struct tensor *tensor, weir_status status, const char *text)
{
    struct answer answer = try_to_receive(tensor);
    ck_assert_msg(answer.status == status && strstr(answer.text, text), "%s: %s", weir_status_name(answer.status), answer.text);
}

static void end(unsigned char *ptr)
{
    ask((struct question){.order = END, .ptr = ptr});
}

static void expect_byte(const struct tensor *tensor, unsigned char *base, int byte)
{
    ck_assert_msg(ask((struct question){.order = LOOK, .ptr = base + tensor->offset, .size = tensor->size, .value = byte}).number,
                  "%zu bytes are not all %d", tensor->size, byte);
}

static size_t receivers_census(void)
{
    return ask((struct question){.order = CENSUS}).number;
}

/* Coming and going --------------------------------------------------------------------------------------------------------------------- */

START_TEST(tensor_has_its_bytes_in_both_processes)
{
    static const size_t sizes[] = {512, 5000, MIB, 5 * MIB, 70 * MIB + 512, 400 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct tensor tensor = send_on(0, sizes[i], 7);
        unsigned char *base = receive(&tensor);
        expect_byte(&tensor, base, 7);
        ask((struct question){.order = WRITE, .ptr = base + tensor.offset, .size = tensor.size, .value = 9});
        ck_assert(plug_all(tensor.ptr, 9, tensor.size));
        end(base);
        take_back(&tensor);
    }
}
END_TEST

START_TEST(nothing_is_left_of_many_tensors)
{
    size_t before = 0;
    int fds = 0;
    weir_torch_stats first = {0};
    for (int i = 0; i < 300; i++) {
        struct tensor small = send_on(0, 1000, i & 127), large = send_on(0, 3 * MIB, i & 127);
        unsigned char *bases[] = {receive(&small), receive(&large)};
        expect_byte(&small, bases[0], i & 127);
        expect_byte(&large, bases[1], i & 127);
        end(bases[i & 1]);
        end(bases[!(i & 1)]);
        take_back(&small);
        take_back(&large);
        if (i == 0) {
            before = receivers_census();
            fds = suite_await_fds(suite_count_fds());
            first = plug_stats(0);
        }
    }
    ck_assert_uint_eq(receivers_census(), before);
    ck_assert_int_eq(suite_await_fds(fds), fds);
    ck_assert_uint_eq(plug_stats(0).allocated, first.allocated);
    plug_expect_empty(0);
}
END_TEST

START_TEST(tensors_in_the_same_pages_are_mapped_once)
{
    struct tensor a = send_on(0, 4096, 1), b = send_on(0, 8192, 2), again = a;
    share(&again);
    ck_assert_mem_eq(&a.handle, &again.handle, sizeof a.handle);
    ck_assert_mem_eq(&a.handle, &b.handle, sizeof a.handle);
    ck_assert_uint_ne(a.offset, b.offset);
    unsigned char *base = receive(&a);
    ck_assert_ptr_eq(receive(&b), base);
    end(base);
    take_back(&a);
    expect_byte(&b, base, 2);
    end(base);
    /* The handle is that of the other tensor as long as that one is shared. */
    a = send_on(0, 4096, 3);
    ck_assert_mem_eq(&a.handle, &b.handle, sizeof a.handle);
    take_back(&a);
    take_back(&b);
    /* And new once the pages were nobody's: another tensor lies there. */
    struct tensor c = send_on(0, 4096, 4);
    ck_assert_int_ne(memcmp(&c.handle, &b.handle, sizeof c.handle), 0);
    take_back(&c);
}
END_TEST

START_TEST(tensors_of_two_devices_stay_apart)
{
    struct tensor zero = send_on(0, 3 * MIB, 5), one = send_on(1, 3 * MIB, 6), wrong = one;
    unsigned char *bases[] = {receive(&zero), receive(&one)};
    expect_byte(&zero, bases[0], 5);
    expect_byte(&one, bases[1], 6);
    wrong.device = 0;
    expect_refusal(&wrong, WEIR_INVALID, "CUDA_VISIBLE_DEVICES");
    end(bases[0]);
    end(bases[1]);
    take_back(&zero);
    take_back(&one);
}
END_TEST

START_TEST(memory_of_a_graph_can_be_sent)
{
    plug_capture_begin(0, 3, scene.stream[0]);
    struct tensor tensor = {.ptr = plug_malloc(3 * MIB, 0, scene.stream[0]), .size = 3 * MIB};
    plug_capture_end(0, 3, scene.stream[0]);
    share(&tensor);
    memset(tensor.ptr, 8, tensor.size);
    unsigned char *base = receive(&tensor);
    expect_byte(&tensor, base, 8);
    end(base);
    take_back(&tensor);
    weir_torch_release_pool(0, plug_id(3));
}
END_TEST

START_TEST(mapping_that_ends_during_a_capture_goes_after_it)
{
    struct tensor tensor = send_on(0, 3 * MIB, 5);
    unsigned char *base = receive(&tensor);
    size_t mapped = receivers_census();
    ask((struct question){.order = CAPTURE});
    end(base);
    ck_assert_uint_ge(receivers_census() / 1000, mapped / 1000);
    ask((struct question){.order = CAPTURE_END});
    base = receive(&tensor);
    end(base);
    ck_assert_uint_lt(receivers_census() / 1000000, mapped / 1000000);
    take_back(&tensor);
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
    ck_assert_ptr_nonnull(strstr(error.text, "write backing: arena for pool 'native'"));
    ck_assert_int_eq(weir_torch_share(0, &error, sizeof error, &error, &handle, &offset), WEIR_NOT_SUPPORTED);
    ck_assert_int_eq(weir_torch_share(0, NULL, 1, &error, &handle, &offset), WEIR_INVALID);
    ck_assert_int_eq(weir_torch_share(5, ptr, 1, &error, &handle, &offset), WEIR_INVALID);
    weir_torch_free(ptr, 3 * MIB, 0, scene.stream[0]);
}
END_TEST

START_TEST(tensor_that_was_freed_is_not_received)
{
    struct tensor tensor = send_on(0, 3 * MIB, 5);
    take_back(&tensor);
    expect_refusal(&tensor, WEIR_GONE, "freed before it was received");
    /* Nor what lies there by now, whose handle has another number. */
    struct tensor other = send_on(0, 3 * MIB, 6);
    ck_assert_ptr_eq(other.ptr, tensor.ptr);
    expect_refusal(&tensor, WEIR_GONE, "freed before it was received");
    take_back(&other);
    weir_torch_unshare(other.ptr);
}
END_TEST

START_TEST(damaged_handles_are_refused)
{
    struct tensor tensor = send_on(0, 3 * MIB, 5), damaged;
    struct question question = {.order = RECEIVE, .handle = tensor.handle};
    for (question.size = 0; question.size < sizeof tensor.handle; question.size += 64)
        ck_assert_int_eq(ask(question).status, WEIR_INVALID);
    end(receive(&tensor));
    size_t before = receivers_census();
    /* In the path a changed byte names another socket. */
    for (size_t i = 0; i < 80 + strlen((const char *)tensor.handle.bytes + 80); i++) {
        damaged = tensor;
        damaged.handle.bytes[i] ^= 0x41;
        if (!tensor.handle.bytes[i])
            continue;
        struct answer answer = try_to_receive(&damaged);
        ck_assert_msg(answer.status != WEIR_OK, "byte %zu is ignored", i);
        ck_assert_int_ne(answer.status, WEIR_PROTOCOL);
    }
    ck_assert_uint_eq(receivers_census(), before);
    memset(damaged.handle.bytes + 80, 'x', 112);
    expect_refusal(&damaged, WEIR_INVALID, "damaged");
    take_back(&tensor);
}
END_TEST

START_TEST(another_user_gets_nothing)
{
    struct tensor tensor = send_on(0, 3 * MIB, 5);
    if (geteuid() == 0) {
        ck_assert_uint_eq(ask((struct question){.order = LEAVE_USER}).number, 1);
        expect_refusal(&tensor, WEIR_REFUSED, "only its user and root may");
        ck_assert_int_eq(chmod(scene.runtime, 0755), 0);
    }
    take_back(&tensor);
}
END_TEST

START_TEST(child_of_a_fork_shares_and_receives_nothing)
{
    struct tensor tensor = send_on(0, 3 * MIB, 5);
    unsigned char *base = receive(&tensor);
    ck_assert_int_eq(ask((struct question){.order = FORK, .handle = tensor.handle, .ptr = base}).status, WEIR_FORKED);
    expect_byte(&tensor, base, 5);
    end(base);
    take_back(&tensor);
}
END_TEST

START_TEST(receiver_without_descriptors_says_so)
{
    struct tensor tensor = send_on(0, 30 * MIB, 5);
    size_t before = (end(receive(&tensor)), receivers_census());
    for (int left = 0; left < 6; left++) {
        ask((struct question){.order = LIMIT, .value = left});
        struct answer answer = try_to_receive(&tensor);
        ask((struct question){.order = LIMIT, .value = -1});
        if (answer.status == WEIR_OK)
            end(answer.ptr);
        else
            ck_assert_msg(strstr(answer.text, left < 2 ? "raise `ulimit -n`" : "could not be mapped"), "%d left: %s", left, answer.text);
        ck_assert_uint_eq(receivers_census(), before);
    }
    end(receive(&tensor));
    take_back(&tensor);
}
END_TEST

START_TEST(call_of_the_driver_that_fails_leaves_nothing)
{
    struct tensor tensor = send_on(0, 70 * MIB + 512, 5);
    unsigned char *base = receive(&tensor);
    end(base);
    size_t before = receivers_census();
    bool is_over = false;
    for (int nth = 1; !is_over; nth++) {
        ask((struct question){.order = FAULT, .value = nth});
        struct answer answer = try_to_receive(&tensor);
        if (answer.status == WEIR_OK) {
            expect_byte(&tensor, answer.ptr, 5);
            end(answer.ptr);
        }
        ask((struct question){.order = FAULT});
        end(receive(&tensor)); /* and what could not be unmapped */
        is_over = answer.status == WEIR_OK && nth > 40;
        ck_assert_msg(receivers_census() == before, "call %d: %zu, not %zu: %s", nth, receivers_census(), before, answer.text);
    }
    take_back(&tensor);
}
END_TEST

START_TEST(pool_with_shared_tensors_does_not_sleep)
{
    struct tensor tensor = send_on(0, 3 * MIB, 5);
    weir_error error = WEIR_ERROR_INIT;
    char pid[32];
    weir *w;
    weir_pool *pool;
    uint64_t given;
    ck_assert_int_eq(weir_torch_get(0, &error, &w), WEIR_OK);
    ck_assert_int_eq(weir_pool_get(w, "tensors", 0, &error, &pool), WEIR_OK);
    ck_assert_int_eq(weir_pool_sleep(pool, 0, 1000, &error, &given), WEIR_BUSY);
    ck_assert_ptr_nonnull(strstr(error.text, "1 of its blocks are shared"));
    unsigned char *base = receive(&tensor);
    snprintf(pid, sizeof pid, "(%ld was", (long)scene.pid);
    weir_error_clear(&error);
    ck_assert_int_eq(weir_pool_sleep(pool, 0, 1000, &error, &given), WEIR_BUSY);
    ck_assert_msg(strstr(error.text, pid), "%s", error.text);
    expect_byte(&tensor, base, 5);
    end(base);
    weir_torch_unshare(tensor.ptr);
    weir_error_clear(&error);
    ck_assert_msg(weir_pool_sleep(pool, 0, 1000, &error, &given) == WEIR_OK, "%s", error.text);
    ck_assert_int_eq(weir_torch_share(0, tensor.ptr, tensor.size, &error, &tensor.handle, &tensor.offset), WEIR_BUSY);
    ck_assert_ptr_nonnull(strstr(error.text, "wake the pool"));
    ck_assert_int_eq(weir_pool_wake(pool, 1000, &error, NULL), WEIR_OK);
    share(&tensor);
    base = receive(&tensor);
    expect_byte(&tensor, base, 5);
    end(base);
    take_back(&tensor);
}
END_TEST

/* Deaths ------------------------------------------------------------------------------------------------------------------------------- */

START_TEST(sender_goes_on_after_its_receiver_was_killed)
{
    struct tensor tensor = send_on(0, 70 * MIB, 5);
    receive(&tensor);
    end_receiver(SIGKILL);
    ck_assert(plug_all(tensor.ptr, 5, tensor.size));
    take_back(&tensor);
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
        plug_set_up(scene.machine, policy);
        scene.stream[0] = plug_stream(0);
        struct tensor tensor = send_on(0, 40 * MIB, 77);
        ck_assert_int_eq(write(pair[1], &tensor, sizeof tensor), sizeof tensor);
        pause();
        _exit(1);
    }
    struct tensor tensor;
    ck_assert_int_eq(read(pair[0], &tensor, sizeof tensor), sizeof tensor);
    sent = &tensor;
    plug_set_up(scene.machine, policy);
    for (int device = 0; device < 2; device++)
        scene.stream[device] = plug_stream(device);
    unsigned char *base = receive(sent);
    kill(sender, SIGKILL);
    ck_assert_int_eq(waitpid(sender, NULL, 0), sender);
    expect_byte(sent, base, 77);
    ck_assert_ptr_eq(receive(sent), base); /* no question is asked, as the mapping is there */
    end(base);
    end(base);
    expect_refusal(sent, WEIR_GONE, "nobody listens");
    close(pair[0]);
    close(pair[1]);
}
END_TEST

static void set_up_without_sender(void)
{
    snprintf(scene.runtime, sizeof scene.runtime, "/tmp/weir-pages-%ld", (long)getpid());
    snprintf(scene.machine, sizeof scene.machine, "devices=2,memory=2GiB,name=pages-%ld", (long)getpid());
    ck_assert_int_eq(mkdir(scene.runtime, 0700), 0);
    ck_assert_int_eq(setenv("WEIR_CONTROL_DIR", scene.runtime, 1), 0);
    start_receiver();
}

int main(void)
{
    Suite *suite = suite_create("pages");
    /* The plug-in keeps its descriptors until the process ends, so these are not counted around each test. */
    TCase *tcase = tcase_create("pages");
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    suite_add(tcase, tensor_has_its_bytes_in_both_processes, nothing_is_left_of_many_tensors, tensors_in_the_same_pages_are_mapped_once,
              tensors_of_two_devices_stay_apart, memory_of_a_graph_can_be_sent, mapping_that_ends_during_a_capture_goes_after_it,
              memory_of_cudas_pools_is_refused_with_the_key_that_helps, tensor_that_was_freed_is_not_received, damaged_handles_are_refused,
              another_user_gets_nothing, child_of_a_fork_shares_and_receives_nothing, receiver_without_descriptors_says_so,
              call_of_the_driver_that_fails_leaves_nothing, pool_with_shared_tensors_does_not_sleep,
              sender_goes_on_after_its_receiver_was_killed);
    tcase = tcase_create("deaths");
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, set_up_without_sender, tear_down);
    suite_add(tcase, tensor_of_a_dead_sender_stays_readable);
    return suite_run(suite);
}
