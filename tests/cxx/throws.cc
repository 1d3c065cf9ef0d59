/* SPDX-License-Identifier: MIT */
/* Exceptions out of the program's functions that Weir calls, on the simulator; prints TAP. A call that hangs ends by the alarm. */
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <thread>

#include "include/weir.h"

static unsigned number;
static bool throws;
static weir *w;
static weir_stream *s;
static void *spare;

static void is(bool good, const char *name)
{
    std::printf("%s %u - %s\n", good ? "ok" : "not ok", ++number, name);
    std::fflush(stdout);
}

static const std::size_t gib = std::size_t(1) << 30;
static const char policy[] = "weir: 1\npools: { main: { small_below: 0, on_oom: { deadline: 10s } } }\n";

static uint64_t callback(void *, int, uint64_t)
{
    if (throws)
        throw std::runtime_error("nothing to spare");
    if (!spare || weir_stream_free(s, spare) != WEIR_OK)
        return 0;
    spare = nullptr;
    return 4 * gib;
}

static weir *open(weir_log_fn log)
{
    weir_options options = WEIR_OPTIONS_INIT;
    weir *opened = nullptr;
    options.policy_text = policy;
    options.gpu = "sim";
    options.log = log;
    return weir_open(&options, nullptr, &opened) == WEIR_OK ? opened : nullptr;
}

/* Whether an exception comes through a call. */
template <class Call> static bool passes(Call call)
{
    try {
        call();
    } catch (const std::runtime_error &) {
        return true;
    }
    return false;
}

static void callbacks(weir_status (*request)(void **), const char *name)
{
    unsigned id = 0;
    void *ptr = nullptr;
    w = open(nullptr);
    bool good = w && weir_stream_create(w, 0, nullptr, nullptr, &s) == WEIR_OK && weir_oom_add(w, callback, nullptr, nullptr, &id) == WEIR_OK &&
                weir_stream_malloc(s, &spare, 4 * gib) == WEIR_OK;
    throws = true;
    good = good && passes([&] { (void)!request(&ptr); });
    throws = false;
    weir_status other = WEIR_INVALID;
    std::thread([&] { other = request(&ptr); }).join();
    is(good && other == WEIR_OK && weir_free(w, ptr, weir_stream_handle(s)) == WEIR_OK && weir_oom_remove(w, id, nullptr) == WEIR_OK &&
           weir_stream_close(s) == WEIR_OK && weir_close(w) == WEIR_OK,
       name);
}

static void throw_at_line(void *, weir_log_level, const char *)
{
    if (throws)
        throw std::runtime_error("nobody wants to know");
}

static void throw_at_leak(void *, const weir_leak *)
{
    throw std::runtime_error("too many");
}

int main()
{
    alarm(60);
    callbacks([](void **ptr) { return weir_stream_malloc(s, ptr, 6 * gib); }, "exception_of_a_callback_passes_through_a_request_on_a_stream");
    callbacks([](void **ptr) { return weir_malloc(w, ptr, 6 * gib, 0, weir_stream_handle(s)); },
              "exception_of_a_callback_passes_through_a_request_by_handle");
    callbacks([](void **ptr) { return weir_pool_malloc(weir_stream_pool(s), ptr, 6 * gib, weir_stream_handle(s)); },
              "exception_of_a_callback_passes_through_a_request_from_a_pool");

    void *ptr = nullptr;
    w = open(throw_at_line);
    bool good = weir_malloc(w, &ptr, gib, 0, nullptr) == WEIR_OK;
    throws = true;
    good = good && passes([] { weir_close(w); });
    throws = false;
    w = open(nullptr);
    is(good && w && weir_close(w) == WEIR_OK, "exception_of_a_log_function_leaves_the_call_done");

    w = open(nullptr);
    good = weir_malloc(w, &ptr, gib, 0, nullptr) == WEIR_OK && passes([] { weir_leaks(w, -1, throw_at_leak, nullptr, nullptr); });
    is(good && weir_free(w, ptr, nullptr) == WEIR_OK && weir_close(w) == WEIR_OK, "exception_ends_a_list_of_leaks");
    std::printf("1..%u\n", number);
    return 0;
}
