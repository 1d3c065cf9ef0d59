/* SPDX-License-Identifier: MIT */
/* pages_scene.h - two processes on a simulated machine, for tests of tensors that go from one to the other: this one sends. */
#ifndef WEIR_TESTS_PAGES_SCENE_H
#define WEIR_TESTS_PAGES_SCENE_H

#include <sys/types.h>

#include "tests/plugin/plug.h"

/* The receiver is a process of its own, which obeys one order at a time. */
enum order { RECEIVE, END, LOOK, WRITE, CENSUS, LIMIT, FAULT, FORK, LEAVE_USER, CAPTURE, CAPTURE_END };

/* LIMIT: `value` more descriptors than the process has; -1: no limit. FAULT: the call of the GPU that fails. */
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

struct pages_scene {
    char runtime[64], machine[128];
    pid_t pid; /* of the receiver */
    int fd;
    gpu_stream stream[2]; /* of this process, on each device */
};
extern struct pages_scene scene;

struct tensor {
    unsigned char *ptr;
    size_t size;
    int device;
    weir_torch_handle handle;
    uint64_t offset;
};

/* Fixtures: a directory of sockets, a machine and a receiver; this process as the sender; both; and the end of all. */
void scene_set_up_receiver(void);
void scene_set_up_sender(void);
void scene_set_up(void);
void scene_tear_down(void);
/* Ends the receiver, by a signal or 0. */
void scene_end_receiver(int signal);

/* Has the receiver do something. `tell` does not wait for the answer, which `hear` returns. */
void scene_tell(struct question question);
struct answer scene_hear(void);
struct answer scene_ask(struct question question);

/* A tensor of that byte, shared; the same again; and the end of it. */
struct tensor scene_send(int device, size_t size, int byte);
void scene_share(struct tensor *tensor);
void scene_take_back(const struct tensor *tensor);

/* The receiver maps it, at the address that is returned; may fail to; must fail to; and ends that. */
unsigned char *scene_receive(const struct tensor *tensor);
struct answer scene_try(const struct tensor *tensor);
void scene_expect_refusal(const struct tensor *tensor, weir_status status, const char *text);
void scene_end(unsigned char *ptr);
void scene_expect_byte(const struct tensor *tensor, unsigned char *base, int byte);
/* Of the receiver: its ranges of addresses, its pages and its descriptors in one number. */
size_t scene_census(void);
#define SCENE_RANGES 1000000
#define SCENE_PAGES 1000

#endif
