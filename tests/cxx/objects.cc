/* SPDX-License-Identifier: MIT */
/* What the objects of weir.hpp own, and what they say where a call fails, on the simulator; prints TAP. */
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory_resource>
#include <thread>
#include <type_traits>
#include <vector>

#define WEIR_NO_CUDA_MR
#include "include/weir.hpp"

static const std::size_t mib = std::size_t(1) << 20;
static unsigned number, logged;

static void is(bool good, const char *name)
{
    std::printf("%s %u - %s\n", good ? "ok" : "not ok", ++number, name);
}

static void count(void *, weir_log_level, const char *)
{
    logged++;
}

static const char two_pools[] =
    "weir: 1\npools:\n  work: { max_size: 1GiB, small_below: 0 }\n  other: {}\ndefaults: { pool: work }\n";

static weirpp::result<weirpp::weir> open(const char *policy = two_pools)
{
    weir_options options = WEIR_OPTIONS_INIT;
    options.policy_text = policy;
    options.gpu = "sim";
    options.log = count;
    return weirpp::weir::open(options);
}

/* Bytes that users have. */
static std::uint64_t live(const weirpp::weir &w)
{
    weir_stats *stats;
    std::uint64_t bytes = 0;
    if (weir_stats_take(w.get(), nullptr, &stats) != WEIR_OK)
        return UINT64_MAX;
    for (std::size_t i = 0; i < weir_stats_pool_count(stats); i++)
        bytes += weir_stats_pool(stats, i)->live;
    weir_stats_free(stats);
    return bytes;
}

template <class Function> static weir_status thrown(Function function)
{
    try {
        function();
    } catch (const weirpp::exception &error) {
        return error.what()[0] ? error.status() : WEIR_OK;
    }
    return WEIR_OK;
}

static_assert(!std::is_copy_constructible_v<weirpp::weir> && std::is_nothrow_move_constructible_v<weirpp::weir>);
static_assert(!std::is_copy_constructible_v<weirpp::stream> && std::is_nothrow_move_assignable_v<weirpp::stream>);
static_assert(!std::is_copy_constructible_v<weirpp::block> && std::is_nothrow_move_assignable_v<weirpp::block>);
static_assert(std::is_nothrow_copy_constructible_v<weirpp::exception> && std::is_nothrow_copy_constructible_v<weirpp::out_of_memory>);
static_assert(std::is_copy_constructible_v<weirpp::resource> && std::is_nothrow_move_constructible_v<weirpp::resource>);

static void figures()
{
    weirpp::weir w = open().value();
    std::unique_ptr<char[]> json = w.stats_json().value();
    std::string text(json.get());
    is(text.rfind("{\"version\": \"", 0) == 0 && text.back() == '}' && text.find("\"name\": \"other\"") != text.npos,
       "figures_are_a_line_of_json");
}

static void results()
{
    weirpp::result<weirpp::weir> bad = open("weir: 1\npools:\n  work: { size: 3 }\n");
    is(!bad && bad.status() == WEIR_BAD_POLICY && bad.error().line == 3 && std::strstr(bad.text(), "size"),
       "result_has_the_place_and_the_words_of_an_error");
    is(thrown([&] { bad.value(); }) == WEIR_BAD_POLICY, "value_of_a_failure_throws");
    is(thrown([] { open("pools").value(); }) == WEIR_BAD_POLICY, "value_of_a_failure_that_nobody_keeps_throws");
    weirpp::result<weirpp::weir> good = open();
    is(good && good.status() == WEIR_OK && good.error().status == WEIR_OK && !std::strcmp(good.text(), "success"),
       "result_of_a_success_says_so");
    weirpp::weir w = std::move(good).value();
    is(w.get() && w.create_stream(7).status() == WEIR_NOT_FOUND, "device_that_is_not_there_has_no_stream");
    is(w.pool("none", 0).status() == WEIR_NOT_FOUND && w.pool("other", 0)->name() == std::string("other"), "pool_is_found_by_its_name");
    is(w.allocate(2048 * mib, 0, nullptr).error().status == WEIR_OUT_OF_MEMORY, "calls_without_a_record_leave_theirs_in_the_result");
    is(thrown([&] { w.reload("/nonexistent/policy.yaml").value(); }) == WEIR_UNREADABLE, "value_of_a_call_that_gives_nothing_throws");
}

static void blocks()
{
    weirpp::weir w = open().value();
    weirpp::stream s = w.create_stream(0).value();
    {
        weirpp::block one = s.allocate(mib).value();
        is(one && one.get() && one.size() == mib && live(w) == mib, "block_is_live_in_its_scope");
    }
    is(live(w) == 0, "block_goes_back_at_the_end_of_its_scope");
    weirpp::block one = s.allocate(mib).value(), two = s.allocate(2 * mib).value();
    void *ptr = one.get();
    weirpp::block moved = std::move(one);
    is(moved.get() == ptr && moved.size() == mib && !one && one.size() == 0 && live(w) == 3 * mib, "move_hands_the_block_over");
    moved = std::move(two);
    is(moved.size() == 2 * mib && live(w) == 2 * mib, "block_that_is_assigned_to_frees_what_it_had");
    weirpp::block &same = moved;
    moved = std::move(same);
    is(moved.size() == 2 * mib && live(w) == 2 * mib, "block_that_is_assigned_to_itself_stays");
    is(moved.free() && !moved && live(w) == 0 && moved.free(), "free_empties_the_block_and_can_be_repeated");

    weirpp::block given = s.allocate(mib).value();
    weirpp::block taken(w.get(), given.release(), mib, s.get());
    is(!given && live(w) == mib, "released_block_is_its_callers");
    weirpp::block stranger(w.get(), &number, 4, s.get());
    is(stranger.free().status() == WEIR_NOT_A_BLOCK && stranger.get() == &number, "block_that_cannot_be_freed_stays_owned");
    stranger.release();
    weirpp::stream other = w.create_stream(0).value();
    is(taken.free_on(other.handle()) && live(w) == 0, "block_is_freed_on_another_stream");

    weirpp::block plain = w.allocate(mib, 0, nullptr).value();
    weirpp::block pooled = w.pool("other", 0)->allocate(mib, nullptr).value();
    is(plain && pooled && live(w) == 2 * mib, "blocks_come_without_an_opened_stream");
    weirpp::block none = s.allocate(0).value();
    is(!none && none.size() == 0 && none.free(), "block_of_size_0_is_none");
    weirpp::result<weirpp::block> much = s.allocate(2048 * mib);
    is(much.status() == WEIR_OUT_OF_MEMORY && std::strstr(much.text(), "work"), "failed_request_has_its_report");
    std::vector<weirpp::block> many;
    for (int i = 0; i < 100; i++)
        many.push_back(s.allocate(4096).value());
    std::thread([&] { many.clear(); }).join();
    is(live(w) == 2 * mib, "blocks_in_a_container_go_back_by_another_thread");
}

static void streams()
{
    weirpp::weir w = open().value();
    weirpp::stream s = w.create_stream(0).value();
    is(s.device() == 0 && s.pool().name() == std::string("work") && s.pool().device() == 0 && s.synchronize(), "stream_has_its_pool");
    weirpp::stream legacy = w.open_stream(0, nullptr).value();
    is(w.open_stream(0, nullptr).status() == WEIR_BUSY, "stream_is_opened_once");
    legacy.close();
    is(!legacy.get() && w.open_stream(0, nullptr), "closed_stream_can_be_opened_again");
    weirpp::stream moved = std::move(s);
    is(!s.get() && moved.get(), "move_hands_the_stream_over");
    moved = w.create_stream(0).value();
    is(moved.allocate(mib) && moved.pool().trim(), "stream_that_is_assigned_to_closes_what_it_had");
    weirpp::stream taken(w.get(), moved.release());
    is(taken.synchronize() && !moved.get(), "released_stream_is_its_callers");
}

static void weirs()
{
    logged = 0;
    weirpp::weir w = open().value(), other = open().value();
    ::weir *handle = w.get();
    other = std::move(w);
    is(other.get() == handle && !w.get(), "move_hands_the_weir_over");
    weirpp::weir taken(other.release());
    taken.close();
    is(!taken.get() && !other.get() && logged == 0, "weir_is_closed_once_and_without_complaint");

    weirpp::weir parent = open().value();
    weirpp::stream s = parent.create_stream(0).value();
    weirpp::block block = s.allocate(mib).value();
    std::fflush(stdout); /* under the thread sanitizer _exit() writes what is buffered, too */
    pid_t child = fork();
    if (child == 0) {
        bool good = s.allocate(mib).status() == WEIR_FORKED && block.free().status() == WEIR_FORKED;
        {
            weirpp::block dropped = std::move(block);
            weirpp::stream closed = std::move(s);
            weirpp::weir gone = std::move(parent);
        }
        _exit(good ? 0 : 1);
    }
    int status = 1;
    is(child > 0 && waitpid(child, &status, 0) == child && status == 0, "destructors_touch_nothing_in_a_forked_child");
    is(live(parent) == mib && block.free(), "parent_has_what_its_child_destroyed");
}

template <class Resource> static bool throws_bad_alloc(Resource &resource, std::size_t size)
{
    try {
        resource.allocate(nullptr, size);
    } catch (const std::bad_alloc &error) {
        return std::strstr(error.what(), "work");
    }
    return false;
}

/* An exception of another library's, as rmm::out_of_memory is. */
struct theirs : std::bad_alloc {
    explicit theirs(const std::string &)
    {
    }
};

static void resources()
{
    weirpp::weir w = open().value();
    weirpp::stream s = w.create_stream(0).value();
    {
        weirpp::resource one(w, 0), copy(one), pooled(w, w.pool("other", 0).value());
        is(one == copy && one == weirpp::resource(w, 0) && one != pooled, "resources_are_equal_by_weir_pool_and_device");
        void *ptr = one.allocate(s.handle(), mib, 256);
        is(ptr && live(w) == mib, "resource_allocates_on_a_stream");
        copy.deallocate(s.handle(), ptr, mib, 256);
        is(live(w) == 0, "copy_frees_what_the_original_allocated");
        ptr = pooled.allocate_sync(mib);
        is(ptr && live(w) == mib, "resource_allocates_without_a_stream");
        pooled.deallocate_sync(ptr, mib);
        is(live(w) == 0, "resource_frees_without_a_stream");
        is(!one.allocate(nullptr, 0) && !one.allocate_sync(0), "resource_gives_nothing_for_size_0");
        one.deallocate(nullptr, nullptr, 0);
        one.deallocate_sync(nullptr, 0);
        is(throws_bad_alloc(one, 2048 * mib), "resource_without_memory_throws_a_bad_alloc_with_the_report");
        weirpp::basic_resource<theirs> other(w, 0);
        bool caught = false;
        try {
            other.allocate_sync(2048 * mib);
        } catch (const theirs &) {
            caught = true;
        }
        is(caught, "resource_throws_the_exception_that_was_asked_for");
        is(one.try_allocate(nullptr, 2048 * mib).status() == WEIR_OUT_OF_MEMORY &&
               one.try_allocate_sync(2048 * mib).status() == WEIR_OUT_OF_MEMORY,
           "resource_has_calls_that_do_not_throw");
        is(thrown([&] { one.allocate(nullptr, mib, 1024); }) == WEIR_INVALID &&
               thrown([&] { one.allocate(nullptr, mib, 3); }) == WEIR_INVALID &&
               one.try_allocate_sync(mib, 0).status() == WEIR_INVALID,
           "alignment_that_blocks_do_not_have_is_refused");
        {
            weir_options options = WEIR_OPTIONS_INIT;
            options.policy_text = "weir: 1\ndefaults: { pool: a }\npools: { a: { align: 4KiB }, b: { align: 64KiB, backing: arena } }\n";
            weirpp::weir coarse = weirpp::weir::open(options).value();
            weirpp::resource any(coarse, 0), finer(coarse, coarse.pool("b", 0).value());
            void *page = any.allocate(nullptr, 5000, 4096), *wide = finer.allocate_sync(70000, 65536);
            is(reinterpret_cast<std::uintptr_t>(page) % 4096 == 0 && reinterpret_cast<std::uintptr_t>(wide) % 65536 == 0,
               "alignment_of_the_pool_is_served");
            any.deallocate(nullptr, page, 5000, 4096);
            finer.deallocate_sync(wide, 70000, 65536);
            is(any.try_allocate(nullptr, 5000, 8192).status() == WEIR_INVALID && finer.try_allocate_sync(1, 131072).status() == WEIR_INVALID,
               "alignment_that_some_pool_does_not_have_is_refused");
            weirpp::pool arena = coarse.pool("b", 0).value();
            void *kept = finer.allocate_sync(70000);
            is(arena.sleep(0, 10000).value() > 0 && finer.try_allocate_sync(1).status() == WEIR_BUSY && arena.wake().value() &&
                   coarse.pool("a", 0).value().sleep(0, 0).status() == WEIR_NOT_SUPPORTED,
               "pool_sleeps_and_wakes");
            finer.deallocate_sync(kept, 70000);
        }
        weirpp::resource nowhere(w, 9);
        is(thrown([&] { nowhere.allocate_sync(mib); }) == WEIR_NOT_FOUND &&
               thrown([&] { nowhere.allocate(nullptr, mib); }) == WEIR_NOT_FOUND,
           "resource_of_a_device_that_is_not_there_throws");
        nowhere.deallocate_sync(nullptr, 0);

        std::vector<std::thread> threads;
        for (int i = 0; i < 8; i++)
            threads.emplace_back([mine = weirpp::resource(one)]() mutable {
                for (int j = 0; j < 100; j++)
                    mine.deallocate_sync(mine.allocate_sync(4096), 4096);
            });
        for (std::thread &thread : threads)
            thread.join();
        is(live(w) == 0, "threads_share_one_resource");
    }
    logged = 0;
    std::shared_ptr<const weirpp::weir> shared = std::make_shared<const weirpp::weir>(open().value());
    std::optional<weirpp::resource> keeper(std::in_place, shared, 0);
    std::weak_ptr<const weirpp::weir> watch = shared;
    shared.reset();
    void *ptr = keeper->allocate_sync(mib);
    is(ptr && !watch.expired(), "resource_keeps_a_shared_weir_open");
    keeper->deallocate_sync(ptr, mib);
    keeper.reset();
    is(watch.expired() && logged == 0, "last_resource_closes_a_shared_weir");
}

/* What a program's own objects hold, before there is anything to hold. */
struct engine {
    weirpp::weir w;
    weirpp::stream s;
    weirpp::oom_callback spill;
    weirpp::tag phase;
};

static void members()
{
    engine e;
    is(!e.w.get() && !e.s.get() && e.s.close() == WEIR_OK && e.spill.remove(), "objects_without_a_value_own_nothing");
    e.w = open().value();
    e.s = e.w.create_stream(0).value();
    const weirpp::result<weirpp::pool> found = e.w.pool("work", 0);
    is(!std::strcmp(found->name(), "work") && (*found).device() == 0 && found.value().get(), "constant_result_can_be_read");
}

/* Those of one kind, whatever they throw or do. */
static void callbacks()
{
    engine e;
    e.w = open().value();
    e.s = e.w.create_stream(0).value();
    weirpp::block cold = e.s.allocate(600 * mib).value();
    bool is_well = false;
    unsigned asked = 0;
    weir_status closed = WEIR_OK, removed = WEIR_OK;
    weirpp::oom_callback closes = e.w.add_oom_callback([&](int, std::uint64_t) -> std::uint64_t {
                                         closed = e.s.close();
                                         removed = closes.remove().status();
                                         return 0;
                                     }).value();
    /* 1 GiB is the cap, at which callbacks may not be asked: the other pool has none. */
    weirpp::pool other = e.w.pool("other", 0).value();
    e.spill = e.w.add_oom_callback([&](int device, std::uint64_t needed) -> std::uint64_t {
                     asked++;
                     if (!is_well)
                         throw 1;
                     return device == 0 && needed == 1800 * mib && cold.free() ? 600 * mib : 0;
                 }).value();
    is(other.allocate(1800 * mib, e.s.handle()).status() == WEIR_OUT_OF_MEMORY, "callback_that_throws_has_freed_nothing");
    is(closed == WEIR_BUSY && e.s.get() && removed == WEIR_BUSY, "what_a_callback_cannot_close_stays_owned");
    is_well = true;
    is(bool(other.allocate(1800 * mib, e.s.handle())), "callback_is_asked_again");
    weirpp::block held = other.allocate(600 * mib, e.s.handle()).value();
    asked = 0;
    is(e.spill.remove() && other.allocate(1800 * mib, e.s.handle()).status() == WEIR_OUT_OF_MEMORY && !asked, "removed_callback_is_not_asked");
}

static void host_memory()
{
    weirpp::weir w = open("weir: 1\npools: { staging: { location: host, devices: [0] } }\n").value();
    weirpp::pool staging = w.pool("staging", 0).value();
    weirpp::host_resource pinned(w, staging), same(w, staging);
    {
        std::pmr::vector<int> numbers(&pinned);
        for (int i = 0; i < 100000; i++)
            numbers.push_back(i);
        is(numbers[99999] == 99999 && live(w) >= 100000 * sizeof(int), "containers_have_their_memory_from_a_pool_of_the_host");
    }
    is(live(w) == 0 && pinned == same && !(pinned == *std::pmr::new_delete_resource()), "containers_give_it_back");
    void *none = pinned.allocate(0, 1);
    is(none != nullptr, "no_bytes_have_an_address");
    pinned.deallocate(none, 0, 1);
}

static void marks()
{
    unsigned lines = 0, kinds = 0;
    weirpp::logger log([&](weir_log_level, const char *) {
        lines++;
        throw 1;
    });
    weir_options options = log.options();
    options.policy_text = two_pools;
    options.gpu = "sim";
    weirpp::weir w = weirpp::weir::open(options).value();
    weirpp::block ptr;
    {
        weirpp::result<weirpp::tag> tag = w.tag("weights");
        ptr = w.allocate(mib, 0, nullptr).value();
        is(tag && w.mark("step 1") && w.leaks([&](const weir_leak &leak) { kinds += leak.size == mib && !std::strcmp(leak.tag, "weights"); }),
           "blocks_have_the_tag_in_force");
    }
    is(kinds == 1 && weir_tag_pop(w.get(), nullptr) == WEIR_NOT_FOUND, "tag_ends_with_its_object");
    (void)ptr.release();
    is(w.close() == WEIR_OK && lines > 0, "log_function_may_throw");
}

int main()
{
    /* Enough for all requests here. Under valgrind there are no addresses for many pools of larger devices. */
    setenv("WEIR_SIM", "memory=2GiB", 1);
    results();
    figures();
    blocks();
    streams();
    weirs();
    resources();
    members();
    callbacks();
    marks();
    host_memory();
    std::printf("1..%u\n", number);
    return EXIT_SUCCESS;
}
