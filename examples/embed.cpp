/* SPDX-License-Identifier: MIT */
/*
 * embed.cpp - embed.c in C++: open, allocate on a stream, free, close, with every error reported.
 *
 *     c++ -std=c++17 embed.cpp -o embed $(pkg-config --cflags --libs weir)
 *     WEIR_POLICY=embed.yaml ./embed 64                 needs a GPU
 *     WEIR_GPU=sim WEIR_POLICY=embed.yaml ./embed 64    needs none
 *
 * The argument is the size in MiB; ask for too much to see the report of a request that recovery could not save.
 */
#include <cstdio>
#include <cstdlib>

#define WEIR_NO_CUDA_MR /* no memory resource here: CUDA's headers are not needed, even where they are found */
#include <weir.hpp>

/* Everything is freed and closed at the end, in the opposite order, whichever way out is taken. */
static void embed(std::size_t size)
{
    /* No options: the policy is searched for, and $WEIR_POLICY comes first. value() throws where there is none. */
    weirpp::weir w = weirpp::weir::open().value();
    weirpp::stream stream = w.create_stream(0, "work").value();
    weirpp::block frame = stream.allocate(size).value();
    std::printf("%zu MiB from pool '%s' of device %d\n", frame.size() >> 20, stream.pool().name(), stream.device());
    /* Here: kernels and copies on stream.handle(). They, and the free behind them, run in the order of the calls. */
    frame.free().value(); /* a destructor would free it as well, but could not tell of a failure */
    stream.synchronize().value();
}

int main(int argc, char **argv)
{
    try {
        embed(static_cast<std::size_t>(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 64) << 20);
    } catch (const weirpp::exception &error) {
        std::fprintf(stderr, "embed: %s\n%s\n", weir_status_text(error.status()), error.what());
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
