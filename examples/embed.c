/* SPDX-License-Identifier: MIT */
/*
 * embed.c - the smallest complete use of Weir: open, allocate on a stream, free, close, with every error reported.
 *
 *     cc embed.c -o embed $(pkg-config --cflags --libs weir)
 *     WEIR_POLICY=embed.yaml ./embed 64                 needs a GPU
 *     WEIR_GPU=sim WEIR_POLICY=embed.yaml ./embed 64    needs none
 *
 * The argument is the size in MiB; ask for too much to see the report of a request that recovery could not save.
 */
#include <stdio.h>
#include <stdlib.h>
#include <weir.h>

int main(int argc, char **argv)
{
    size_t size = (argc > 1 ? strtoull(argv[1], NULL, 10) : 64) << 20;
    weir_error error = WEIR_ERROR_INIT;
    weir *w = NULL;
    weir_stream *stream = NULL;
    void *frame = NULL;

    /* No options: the policy is searched for, and $WEIR_POLICY comes first. */
    weir_status status = weir_open(NULL, &error, &w);
    if (!status)
        status = weir_stream_create(w, 0, "work", &error, &stream);
    if (!status && (status = weir_stream_malloc(stream, &frame, size)))
        weir_last_error(&error); /* the calls that must be fast take no record; the thread keeps it */
    if (!status) {
        printf("%zu MiB from pool '%s' of device %d\n", size >> 20, weir_pool_name(weir_stream_pool(stream)), weir_stream_device(stream));
        /* Here: kernels and copies on weir_stream_handle(stream). They, and the free behind them, run in the order of the calls. */
        if ((status = weir_stream_free(stream, frame)))
            weir_last_error(&error);
    }
    if (!status)
        status = weir_stream_synchronize(stream, &error);
    if (status)
        fprintf(stderr, "embed: %s\n%s\n", weir_status_text(status), error.text);

    weir_stream_close(stream); /* both accept NULL, so that one way out serves every case */
    weir_close(w);
    return status ? EXIT_FAILURE : EXIT_SUCCESS;
}
