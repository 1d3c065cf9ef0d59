/* SPDX-License-Identifier: MIT */
/* What the objects of weir.hpp for sharing own: an exporter here, an importer in a process of its own, on the simulator; prints TAP. */
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <type_traits>

#define WEIR_NO_CUDA_MR
#include "include/weir.hpp"

static const std::size_t mib = std::size_t(1) << 20;
static unsigned number;

static void is(bool good, const char *name)
{
    std::printf("%s %u - %s\n", good ? "ok" : "not ok", ++number, name);
}

static weirpp::result<weirpp::weir> open(const char *policy)
{
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = policy;
    options.gpu = "sim";
    return weirpp::weir::open(options);
}

static_assert(!std::is_copy_constructible_v<weirpp::exporter> && std::is_nothrow_move_assignable_v<weirpp::exporter>);
static_assert(!std::is_copy_constructible_v<weirpp::slot> && std::is_nothrow_move_assignable_v<weirpp::slot>);
static_assert(!std::is_copy_constructible_v<weirpp::lease> && std::is_nothrow_move_assignable_v<weirpp::lease>);

/* The consumer: a process of its own, which reads one frame and the block. Returns how many checks failed. */
static int consume()
{
    weir_import_options options = WEIR_IMPORT_OPTIONS_INIT;
    options.wait_ms = 60000;
    weirpp::weir w = open("weir: 1\npools: { work: {} }\n").value();
    weirpp::stream s = w.create_stream(0).value();
    weirpp::importer from = w.open_import("cxx", &options).value();
    weirpp::lease block = from.acquire("weights", 60000, s.handle()).value();
    weirpp::result<weirpp::reader> frames = from.open_reader("camera", 1);
    while (!frames) /* the ring is made behind the block */
        frames = from.open_reader("camera", 1);
    int wrong = block.size() != 1000 || block.info().sequence != 0;
    for (std::uint64_t sequence = 1; sequence <= 2; sequence++) {
        weirpp::lease frame = frames->next(60000, s.handle()).value();
        wrong += frame.info().sequence != sequence || frame.size() != (sequence == 1 ? 10 : 0);
        wrong += std::strcmp(static_cast<const char *>(frame.info().metadata), "shape") != 0;
    }
    weirpp::lease moved = std::move(block);
    wrong += bool(block) || !moved || !moved.end() || bool(moved) || frames->fd().value() < 0;
    wrong += frames->next(60000, s.handle()).status() != WEIR_ENDED;
    return wrong;
}

static void sharing()
{
    char directory[] = "/tmp/weir-cxx-XXXXXX";
    if (!mkdtemp(directory) || setenv("XDG_RUNTIME_DIR", directory, 1))
        std::exit(EXIT_FAILURE);
    std::string machine = std::string("name=") + (directory + 5);
    setenv("WEIR_SIM", machine.c_str(), 1);
    pid_t child = fork();
    if (child == 0)
        _exit(consume());
    weirpp::weir w = open("weir: 1\ndefaults: { pool: work }\npools:\n  work: {}\n  cxx: { devices: [0], ipc: posix_fd, share: { socket: cxx } }\n")
                         .value();
    weirpp::stream s = w.create_stream(0).value();
    weirpp::pool pool = w.pool("cxx", 0).value();
    weirpp::exporter shared = pool.open_export().value();
    weirpp::block weights = pool.allocate(mib, s.handle()).value();
    is(shared.publish("weights", std::move(weights), s.handle(), 1000) && !weights, "block_that_is_published_is_the_export_s");
    weir_ring_options options = {};
    options.size = sizeof options;
    options.slot_size = mib;
    options.depth = 2;
    {
        weirpp::ring ring = shared.open_ring("camera", options, s.handle()).value();
        while (!ring.readers())
            std::this_thread::yield();
        weirpp::slot one = ring.take(60000, s.handle()).value(), two = ring.take(60000, s.handle()).value();
        is(ring.take(60000, s.handle()).status() == WEIR_BUSY && ring.wait(60000).status() == WEIR_BUSY, "slots_are_owned_until_they_end");
        two = weirpp::slot();
        is(bool(ring.wait(60000)), "slot_that_goes_is_dropped");
        weirpp::slot moved = std::move(one);
        is(!one && moved.push(10, "shape", 6) && !moved && moved.push().status() == WEIR_INVALID, "slot_is_pushed_once");
        is(bool(ring.take(60000, s.handle()).value().push(WEIR_EMPTY, "shape", 6)), "frame_may_be_empty");
    }
    int status = -1;
    is(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "consumer_reads_what_was_shared");
    is(bool(shared.withdraw("weights")) && shared.withdraw("weights").status() == WEIR_NOT_FOUND, "block_is_withdrawn_once");
    shared.close(60000);
    is(!shared && bool(pool.open_export()), "pool_is_exported_again_after_the_end");
    s.close();
    w.close();
    std::string clean = std::string("rm -rf ") + directory;
    is(std::system(clean.c_str()) == 0, "nothing_is_left");
}

int main()
{
    sharing();
    std::printf("1..%u\n", number);
    return EXIT_SUCCESS;
}
