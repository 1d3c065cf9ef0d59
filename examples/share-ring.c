/* SPDX-License-Identifier: MIT */
/*
 * share-ring.c - one ring and four consumers, of which one is killed while it holds a frame; the others go on unharmed.
 *
 *     cc share-ring.c frames.c -o share-ring $(pkg-config --cflags --libs weir) -DWITH_CUDA -lcudart   (and CUDA's -I and -L)
 *     WEIR_POLICY=share.yaml ./share-ring                                        on the GPU
 *     WEIR_GPU=sim WEIR_SIM=name=demo WEIR_POLICY=share.yaml ./share-ring        without one
 *
 * The program starts itself four more times, with the consumer's number as its argument. They are started by posix_spawn(), since CUDA does
 * not work in the child of a mere fork(). Consumer 3 kills itself while it has leased frame 20, as an operator or the kernel would. Weir
 * learns of that from the kernel (a pidfd), ends the lease, and the slot goes round again.
 */
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir.h>

#include "frames.h"

enum { CONSUMERS = 4, VICTIM = 3, FRAMES = 100, LAST_OF_VICTIM = 20 };
enum { WIDTH = 320, HEIGHT = 240, SLOTS = 6, PATIENCE = 60000 /* milliseconds */ };

extern char **environ;

/* The consumer ---------------------------------------------------------------------------------------------------------------------------- */

static weir_status read_frames(weir_reader *reader, weir_stream *stream, int number, weir_error *error)
{
    uint64_t frames = 0, wrong = 0;
    weir_lease *lease;
    weir_status status;
    while ((status = weir_reader_next(reader, PATIENCE, weir_stream_handle(stream), error, &lease)) == WEIR_OK) {
        const weir_lease_info *got = weir_lease_get_info(lease);
        struct frame_info info;
        memcpy(&info, got->metadata, sizeof info);
        if (number == VICTIM && info.number == LAST_OF_VICTIM)
            raise(SIGKILL);
        wrong += frame_check(got->ptr, &info, stream) != 0;
        frames++;
        status = weir_lease_release(lease, weir_stream_handle(stream), error);
        if (status)
            return status;
    }
    if (status != WEIR_ENDED) /* which is how it ends: the producer closed the ring */
        return status;
    printf("consumer %d: %" PRIu64 " frames, %" PRIu64 " wrong\n", number, frames, wrong);
    return frames == FRAMES && wrong == 0 ? WEIR_OK : WEIR_INVALID;
}

static weir_status consume(weir *w, weir_stream *stream, int number, weir_error *error)
{
    weir_import *import;
    weir_reader *reader;
    weir_import_options options = WEIR_IMPORT_OPTIONS_INIT;
    options.timeout_ms = PATIENCE;
    weir_status status = weir_import_open(w, "frames", &options, error, &import);
    if (status)
        return status;
    status = weir_reader_open(import, "camera", 2, error, &reader);
    if (status == WEIR_OK) {
        status = read_frames(reader, stream, number, error);
        weir_reader_close(reader);
    }
    weir_import_close(import);
    return status;
}

/* The producer ---------------------------------------------------------------------------------------------------------------------------- */

static int start_consumers(char *program, pid_t pids[CONSUMERS])
{
    for (int i = 0; i < CONSUMERS; i++) {
        char number[2] = { (char)('1' + i), '\0' };
        char *arguments[] = { program, number, NULL };
        if (posix_spawn(&pids[i], "/proc/self/exe", NULL, NULL, arguments, environ) != 0)
            return -1;
    }
    return 0;
}

/* Returns how many ended as they should. */
static int wait_for_consumers(const pid_t pids[CONSUMERS])
{
    int good = 0, how;
    for (int i = 0; i < CONSUMERS && pids[i]; i++) {
        if (waitpid(pids[i], &how, 0) != pids[i])
            continue;
        if (i + 1 == VICTIM && WIFSIGNALED(how))
            printf("consumer %d: was killed while it held frame %d\n", VICTIM, LAST_OF_VICTIM);
        good += i + 1 == VICTIM ? WIFSIGNALED(how) : WIFEXITED(how) && WEXITSTATUS(how) == 0;
    }
    return good;
}

static weir_status push_frames(weir_ring *ring, weir_stream *stream, weir_error *error)
{
    weir_cuda_stream handle = weir_stream_handle(stream);
    weir_status status = WEIR_OK;
    for (uint64_t number = 1; number <= FRAMES && status == WEIR_OK; number++) {
        struct frame_info info = { WIDTH, HEIGHT, number };
        void *frame;
        status = weir_ring_take(ring, PATIENCE, handle, error, &frame);
        if (status == WEIR_OK && frame_paint(frame, &info, stream))
            status = WEIR_CUDA_ERROR;
        if (status == WEIR_OK)
            status = weir_ring_push(ring, frame, 0, &info, sizeof info, handle, error);
    }
    return status;
}

static weir_status serve(weir_ring *ring, weir_stream *stream, char *program, weir_error *error)
{
    pid_t pids[CONSUMERS] = { 0 };
    weir_status status = start_consumers(program, pids) ? WEIR_NO_HOST_MEMORY : WEIR_OK;
    for (int ms = 0; status == WEIR_OK && weir_ring_readers(ring) < CONSUMERS; ms++) {
        usleep(1000);
        if (ms == PATIENCE)
            status = WEIR_TIMEOUT;
    }
    if (status == WEIR_OK)
        status = push_frames(ring, stream, error);
    if (status == WEIR_OK)
        printf("producer: %d frames; %u readers are left\n", FRAMES, weir_ring_readers(ring));
    fflush(stdout);
    weir_ring_close(ring); /* which ends the readers, behind the last frame */
    if (wait_for_consumers(pids) != CONSUMERS && status == WEIR_OK)
        status = WEIR_INVALID;
    return status;
}

static weir_status produce(weir *w, weir_stream *stream, char *program, weir_error *error)
{
    weir_ring_options options = { .size = sizeof options, .slot_size = (size_t)WIDTH * HEIGHT, .depth = SLOTS };
    weir_export *shared;
    weir_pool *pool;
    weir_ring *ring;
    weir_status status = weir_pool_get(w, "frames", 0, error, &pool);
    if (status || (status = weir_export_open(pool, error, &shared)))
        return status;
    status = weir_ring_open(shared, "camera", &options, weir_stream_handle(stream), error, &ring);
    if (status == WEIR_OK)
        status = serve(ring, stream, program, error);
    weir_export_close(shared, PATIENCE);
    return status;
}

int main(int argc, char **argv)
{
    int number = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0; /* of a consumer; 0: the producer */
    weir_error error = WEIR_ERROR_INIT;
    weir_stream *stream = NULL;
    weir *w = NULL;

    weir_status status = weir_open(NULL, &error, &w);
    if (!status)
        status = weir_stream_create(w, 0, "camera", &error, &stream);
    if (!status)
        status = number ? consume(w, stream, number, &error) : produce(w, stream, argv[0], &error);
    if (status)
        fprintf(stderr, "share-ring: %s\n%s\n", weir_status_text(status), error.text);

    weir_stream_close(stream);
    weir_close(w);
    return status ? EXIT_FAILURE : EXIT_SUCCESS;
}
