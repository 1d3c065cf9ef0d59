/* SPDX-License-Identifier: MIT */
#include "tests/plugin/pages_scene.h"

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

struct pages_scene scene;

static const char policy[] = "weir: 1\ndefaults: { pool: tensors }\npools:\n"
                             "  tensors: { backing: arena, peer_access: all, cache: { largest: 64KiB }, on_oom: { deadline: 1s } }\n"
                             "  native: { small_below: 0 }\n";

/* The receiver ------------------------------------------------------------------------------------------------------------------------- */

static size_t count_all(void)
{
    struct sim_census now;
    sim_census(&now);
    return now.ranges * SCENE_RANGES + now.pages * SCENE_PAGES + (size_t)suite_count_fds();
}

/* Through a stream of the device, which has to have access. */
static void write_on(const struct question *question)
{
    gpu_stream stream = plug_external(question->device);
    ck_assert_int_eq(plug_gpu->set_async(question->ptr, question->value, question->size, stream), GPU_SUCCESS);
    ck_assert_int_eq(plug_gpu->stream_synchronize(stream), GPU_SUCCESS);
    plug_gpu->stream_destroy(stream);
}

/* What the receiver has mapped. */
static struct {
    int device;
    weir_torch_received *received;
    unsigned char *ptr;
} held[8];

static void hold(int device, weir_torch_received *received, void *ptr)
{
    int i = 0;
    while (held[i].ptr)
        i++;
    held[i].device = device;
    held[i].received = received;
    held[i].ptr = ptr;
}

static void drop(const unsigned char *ptr)
{
    int i = 0;
    while (held[i].ptr != ptr)
        i++;
    held[i].ptr = NULL;
    weir_torch_receive_end(held[i].device, held[i].received);
}

/* Takes all descriptors that the process may have but `count`; or, with a count below 0, gives them back. */
static void leave_descriptors(int count)
{
    static int taken[256], count_taken;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = count < 0 ? limit.rlim_max : 200;
    setrlimit(RLIMIT_NOFILE, &limit);
    while (count >= 0 && count_taken < 256 && (taken[count_taken] = dup(STDERR_FILENO)) >= 0)
        count_taken++;
    for (; count_taken && count != 0; count--)
        close(taken[--count_taken]);
}

static weir_status receive_in_child(const struct question *question)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        weir_torch_received *received;
        void *ptr;
        drop(question->ptr);
        weir_torch_unshare(0, question->ptr, 1);
        _exit(weir_torch_receive(question->device, &question->handle, sizeof question->handle, NULL, &received, &ptr));
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? (weir_status)WEXITSTATUS(status) : WEIR_PROTOCOL;
}

static void obey(const struct question *question, struct answer *answer)
{
    static gpu_stream captured;
    weir_error error = WEIR_ERROR_INIT;
    weir_torch_received *received;
    void *ptr = NULL;
    switch (question->order) {
    case RECEIVE:
        answer->status = weir_torch_receive(question->device, &question->handle, question->size, &error, &received, &ptr);
        answer->ptr = ptr;
        if (answer->status == WEIR_OK)
            hold(question->device, received, ptr);
        snprintf(answer->text, sizeof answer->text, "%.500s", error.text);
        break;
    case END:
        drop(question->ptr);
        break;
    case LOOK:
        answer->number = plug_all(question->ptr, question->value, question->size);
        break;
    case WRITE:
        write_on(question);
        break;
    case CENSUS:
        answer->number = count_all();
        break;
    case LIMIT:
        leave_descriptors(question->value);
        break;
    case FAULT:
        sim_fail(NULL, (unsigned)question->value, GPU_UNKNOWN);
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

void scene_tell(struct question question)
{
    ck_assert_int_eq(send(scene.fd, &question, sizeof question, MSG_NOSIGNAL), sizeof question);
}

struct answer scene_hear(void)
{
    struct answer answer;
    ck_assert_int_eq(recv(scene.fd, &answer, sizeof answer, MSG_WAITALL), sizeof answer);
    return answer;
}

struct answer scene_ask(struct question question)
{
    scene_tell(question);
    return scene_hear();
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

void scene_end_receiver(int signal)
{
    if (signal)
        kill(scene.pid, signal);
    close(scene.fd);
    ck_assert_int_eq(waitpid(scene.pid, NULL, 0), scene.pid);
    scene.pid = 0;
}

/* The sender --------------------------------------------------------------------------------------------------------------------------- */

void scene_set_up_receiver(void)
{
    snprintf(scene.runtime, sizeof scene.runtime, "/tmp/weir-pages-%ld", (long)getpid());
    snprintf(scene.machine, sizeof scene.machine, "devices=2,memory=2GiB,name=pages-%ld", (long)getpid());
    ck_assert_int_eq(mkdir(scene.runtime, 0700), 0);
    ck_assert_int_eq(setenv("WEIR_CONTROL_DIR", scene.runtime, 1), 0);
    start_receiver();
}

void scene_set_up_sender(void)
{
    plug_set_up(scene.machine, policy);
    for (int device = 0; device < 2; device++)
        scene.stream[device] = plug_stream(device);
}

void scene_set_up(void)
{
    scene_set_up_receiver();
    scene_set_up_sender();
}

void scene_tear_down(void)
{
    char command[128];
    struct torch_device *device = NULL;
    /* The service thread would listen at a new path. */
    while ((device = torch_device_next(device ? device->index : -1)))
        weir__attached_close(device->w);
    if (scene.pid)
        scene_end_receiver(0);
    snprintf(command, sizeof command, "rm -r %s", scene.runtime);
    ck_assert_int_eq(system(command), 0); /* NOLINT(cert-env33-c) */
}

void scene_share(struct tensor *tensor)
{
    weir_error error = WEIR_ERROR_INIT;
    weir_status status = weir_torch_share(tensor->device, tensor->ptr, tensor->size, &error, &tensor->handle, &tensor->offset);
    ck_assert_msg(status == WEIR_OK, "%s", error.text);
}

struct tensor scene_send(int device, size_t size, int byte)
{
    struct tensor tensor = {.ptr = plug_malloc(size, device, scene.stream[device]), .size = size, .device = device};
    memset(tensor.ptr, byte, size);
    scene_share(&tensor);
    return tensor;
}

void scene_take_back(const struct tensor *tensor)
{
    weir_torch_unshare(tensor->device, tensor->ptr, tensor->size);
    weir_torch_free(tensor->ptr, (ssize_t)tensor->size, tensor->device, scene.stream[tensor->device]);
}

struct answer scene_try(const struct tensor *tensor)
{
    return scene_ask((struct question){.order = RECEIVE, .device = tensor->device, .size = sizeof tensor->handle, .handle = tensor->handle});
}

unsigned char *scene_receive(const struct tensor *tensor)
{
    struct answer answer = scene_try(tensor);
    ck_assert_msg(answer.status == WEIR_OK, "%s", answer.text);
    return answer.ptr;
}

void scene_expect_refusal(const struct tensor *tensor, weir_status status, const char *text)
{
    struct answer answer = scene_try(tensor);
    ck_assert_msg(answer.status == status && strstr(answer.text, text), "%s: %s", weir_status_name(answer.status), answer.text);
}

void scene_end(unsigned char *ptr)
{
    scene_ask((struct question){.order = END, .ptr = ptr});
}

void scene_expect_byte(const struct tensor *tensor, unsigned char *base, int byte)
{
    ck_assert_msg(scene_ask((struct question){.order = LOOK, .ptr = base + tensor->offset, .size = tensor->size, .value = byte}).number,
                  "%zu bytes are not all %d", tensor->size, byte);
}

size_t scene_census(void)
{
    return scene_ask((struct question){.order = CENSUS}).number;
}

