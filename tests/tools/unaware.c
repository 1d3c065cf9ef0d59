/* SPDX-License-Identifier: MIT */
/*
 * unaware.c - writes traces as of programs that call CUDA by themselves (doc/trace.md), by the encoder of Weir's own traces: what
 * `weir trace waits`, `weir replay` and `weir trace why` are tried on.
 *
 *     unaware waits|torch|full|host|managed|empty FILE
 *
 * waits: 212 frees that wait for kernels, 3 in 4 of them at one place, beside calls for host, managed and mapped memory. torch: the same, and
 * PyTorch's library is loaded. full: 60 GiB, a request of 70 GiB that the device of 80 GiB refuses, and once the first are freed, is served.
 * host, managed: 1 GiB of such memory is refused. empty: pools alone.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/record/modules.h"
#include "lib/trace/record.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define MS UINT64_C(1000000)
#define RUNTIME UINT64_C(0x700000000000) /* where CUDA's runtime is said to be loaded */
#define ROOM (UINT32_C(1) << 20)

enum { UNAWARE = 8, HOST = 2 };
enum { MALLOC = 1, DEFAULT, MAPPED, MANAGED, PINNED, MAPPED_HOST }; /* pools */
enum { FREE = 1, FREE_HOST, HOST_ALLOC };              /* calls that hold the host up */

static struct weir__trace_coder coder;
static uint64_t now, orders, stacks;
static int fd;

static void write_block(enum weir__trace_block kind, const struct weir__trace_bytes *content)
{
    uint8_t *bytes = malloc(weir__trace_block_bound(content->len));
    if (!bytes || content->is_full)
        exit(1);
    size_t len = weir__trace_block_write(kind, content->bytes, content->len, bytes);
    if (write(fd, bytes, len) != (ssize_t)len)
        exit(1);
    free(bytes);
}

static void write_header(void)
{
    static const char *const pairs[][2] = {
        {"weir", "0.2.0"},   {"pid", "7"},         {"program", "unaware"},        {"started.monotonic", "1"},    {"started.real", "1700000000000000000"},
        {"reason", "record"}, {"level", "pool"}, {"gpu.0.name", "simulated GPU 0"}, {"gpu.0.memory", "85899345920"},
    };
    struct weir__trace_bytes head = {.bytes = malloc(ROOM), .room = ROOM};
    uint8_t first[WEIR__TRACE_FILE_HEADER];
    weir__trace_file_header(first);
    if (!head.bytes || write(fd, first, sizeof first) != (ssize_t)sizeof first)
        exit(1);
    weir__trace_put_number(&head, sizeof pairs / sizeof pairs[0]);
    for (size_t i = 0; i < 2 * sizeof pairs / sizeof pairs[0]; i++)
        weir__trace_put_string(&head, pairs[i / 2][i % 2], WEIR__TRACE_STRING_MAX);
    write_block(WEIR__TRACE_BLOCK_HEAD, &head);
    free(head.bytes);
}

/* Definitions -------------------------------------------------------------------------------------------------------------------------- */

static void define(enum weir__trace_definition what, uint64_t id)
{
    weir__trace_put_code(&coder.content, what);
    weir__trace_put_number(&coder.content, id);
}

static void define_pools(void)
{
    static const char *const names[] = {[MALLOC] = "cudaMalloc", [DEFAULT] = "default", [MAPPED] = "mapped", [MANAGED] = "managed", [PINNED] = "host",
                                        [MAPPED_HOST] = "mapped host"};
    for (uint64_t pool = MALLOC; pool <= MAPPED_HOST; pool++) {
        define(WEIR__TRACE_POOL, pool);
        weir__trace_put_number(&coder.content, 0);
        weir__trace_put_number(&coder.content, UNAWARE | (pool >= PINNED ? HOST : 0));
        weir__trace_put_string(&coder.content, names[pool], WEIR__TRACE_STRING_MAX);
    }
}

static void define_module(uint64_t id, uint64_t start, uint64_t length, uint64_t offset, const char *build_id, const char *path)
{
    define(WEIR__TRACE_MODULE, id);
    weir__trace_put_number(&coder.content, start);
    weir__trace_put_number(&coder.content, length);
    weir__trace_put_number(&coder.content, offset);
    weir__trace_put_string(&coder.content, build_id, WEIR__TRACE_STRING_MAX);
    weir__trace_put_string(&coder.content, path, WEIR__TRACE_STRING_MAX);
}

static void define_modules(const char *more)
{
    struct weir__modules modules = {0};
    weir__modules_read(&modules);
    for (size_t i = 0; i < modules.count; i++)
        define_module(i + 1, modules.list[i].start, modules.list[i].length, modules.list[i].offset, modules.list[i].build_id, modules.list[i].path);
    define_module(modules.count + 1, RUNTIME, MIB, 0, "", "/usr/lib/libcudart.so.12");
    if (more)
        define_module(modules.count + 2, RUNTIME + GIB, MIB, 0, "", more);
    weir__modules_clear(&modules);
}

/* A stack whose innermost frame is in CUDA's runtime, and the next one where `place` returns to. */
static uint64_t define_stack(uint64_t place)
{
    define(WEIR__TRACE_STACK, ++stacks);
    weir__trace_put_number(&coder.content, 2);
    weir__trace_put_number(&coder.content, (RUNTIME + 64) << 2);
    uint64_t difference = place - (RUNTIME + 64);
    weir__trace_put_number(&coder.content, (difference << 1 ^ (0 - (difference >> 63))) << 1);
    return stacks;
}

__attribute__((noinline)) static uint64_t stack_here(void)
{
    return define_stack((uint64_t)(uintptr_t)__builtin_return_address(0));
}

/* Two places of the program. What follows the calls keeps them from being the last ones, whose frames a compiler leaves out. */
__attribute__((noinline)) static uint64_t train_step(void)
{
    uint64_t stack = stack_here();
    now++;
    return stack;
}

__attribute__((noinline)) static uint64_t load_data(void)
{
    uint64_t stack = stack_here();
    now += 2;
    return stack;
}

/* Events ------------------------------------------------------------------------------------------------------------------------------- */

static void put(enum weir__kind kind, uint64_t pool, uint64_t address, uint64_t size, uint64_t stack, uint64_t a, uint64_t b)
{
    const struct weir__trace_record record = {.kind = kind, .time = now, .order = ++orders, .stream = pool == DEFAULT ? 0x10 : 0, .pool = pool,
                                              .address = address, .size = size, .given = size, .stack = stack, .a = a, .b = b};
    if (!weir__trace_coder_put(&coder, &record))
        exit(1);
}

static void get(uint64_t pool, uint64_t address, uint64_t size, uint64_t stack)
{
    now += MS;
    put(WEIR__KIND_MALLOC, pool, address, size, stack, 0, 0);
}

/* The event of the free has the time at which the call returned, as a recorder may write it. */
static void give(uint64_t pool, uint64_t address, uint64_t size, uint64_t stack, uint64_t call, uint64_t ns)
{
    now += MS + ns;
    put(WEIR__KIND_FREE, pool, address, size, stack, 0, 0);
    if (ns)
        put(WEIR__KIND_HELD, pool, address, size, stack, call, ns);
}

static void play_waits(void)
{
    const uint64_t step = train_step(), other = load_data();
    for (uint64_t i = 0; i < 40; i++)
        get(MALLOC, GIB + i * 64 * KIB, 60 * KIB, other);
    get(DEFAULT, 2 * GIB, 8 * MIB, other);
    put(WEIR__KIND_FIGURES, DEFAULT, 0, 0, 0, 8 * MIB, 32 * MIB);
    for (uint64_t i = 0; i < 212; i++) {
        get(MALLOC, 4 * GIB, 3 * MIB, step);
        give(MALLOC, 4 * GIB, 3 * MIB, i % 4 ? step : other, FREE, 19 * MS);
    }
    now += 30 * MS;
    put(WEIR__KIND_SYNCHRONISE, 0, 0, 0, 0, MS, 0); /* the device's */
    get(PINNED, 5 * GIB, MIB, other);
    put(WEIR__KIND_HELD, PINNED, 5 * GIB, MIB, other, HOST_ALLOC, 30 * MS);
    get(MANAGED, 6 * GIB, GIB, other);
    get(MAPPED, 7 * GIB, 256 * MIB, other);
    get(MAPPED_HOST, 8 * GIB, 64 * MIB, other);
    give(MANAGED, 6 * GIB, GIB, other, FREE, 20 * MS);
}

static void play_full(void)
{
    const uint64_t step = train_step();
    get(MALLOC, GIB, 60 * GIB, step);
    now += MS;
    put(WEIR__KIND_OUT_OF_MEMORY, MALLOC, 0, 0, 0, 70 * GIB, 0);
    give(MALLOC, GIB, 60 * GIB, step, FREE, 300 * MS);
    get(MALLOC, 100 * GIB, 70 * GIB, step);
}

static void refuse(uint64_t pool)
{
    now += MS;
    put(WEIR__KIND_OUT_OF_MEMORY, pool, 0, 0, 0, GIB, 0);
}

int main(int count, char **arguments)
{
    const char *what = count == 3 ? arguments[1] : "";
    const bool is_torch = strcmp(what, "torch") == 0, is_waits = is_torch || strcmp(what, "waits") == 0, is_full = strcmp(what, "full") == 0;
    const bool is_host = strcmp(what, "host") == 0, is_managed = strcmp(what, "managed") == 0;
    if (!is_waits && !is_full && !is_host && !is_managed && strcmp(what, "empty") != 0) {
        fputs("usage: unaware waits|torch|full|host|managed|empty FILE\n", stderr);
        return 2;
    }
    fd = open(arguments[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    coder.content = (struct weir__trace_bytes){.bytes = malloc(ROOM), .room = ROOM};
    if (fd < 0 || !coder.content.bytes)
        return 1;
    write_header();
    weir__trace_coder_begin(&coder, 7, 0, 0);
    define_pools();
    define_modules(is_torch ? "/opt/torch/lib/libc10_cuda.so" : NULL);
    if (is_waits)
        play_waits();
    if (is_full)
        play_full();
    if (is_host || is_managed)
        refuse(is_host ? PINNED : MANAGED);
    write_block(WEIR__TRACE_BLOCK_EVENTS, &coder.content);
    coder.content.len = 0;
    weir__trace_put_number(&coder.content, 0);
    write_block(WEIR__TRACE_BLOCK_END, &coder.content);
    free(coder.content.bytes);
    return close(fd) != 0;
}
