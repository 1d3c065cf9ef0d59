/* SPDX-License-Identifier: MIT */
/* What the calls on pages cost for each GiB, on an empty device and where 120 GiB are mapped: what an arena grows and shrinks by. */
#include "bench/section.h"

enum { CREATE, MAP, ACCESS, UNMAP, RELEASE, CALL_COUNT };
static const char *const calls[CALL_COUNT] = {"create", "map", "access", "unmap", "release"};

#define PAGES_MAX 512 /* of 1 GiB in pages of 2 MiB */
#define FILL_PAGE (256 * MIB)

static void map(const struct gpu *gpu, char *at, uint64_t size, gpu_page page)
{
    BENCH_GPU(gpu, page_map(at, size, page));
    BENCH_GPU(gpu, page_set_access(at, size, (const int[]){0}, 1));
    BENCH_GPU(gpu, page_release(page));
}

/* The five calls, each for a GiB, at the address. */
static void measure_once(const struct gpu *gpu, char *at, uint64_t size, struct bench_series series[CALL_COUNT])
{
    static gpu_page pages[PAGES_MAX];
    size_t count = (size_t)(GIB / size);
    uint64_t times[CALL_COUNT + 1] = {bench_now()};
    for (size_t i = 0; i < count; i++)
        BENCH_GPU(gpu, page_create(0, size, &pages[i]));
    times[1] = bench_now();
    for (size_t i = 0; i < count; i++)
        BENCH_GPU(gpu, page_map(at + i * size, size, pages[i]));
    times[2] = bench_now();
    for (size_t i = 0; i < count; i++)
        BENCH_GPU(gpu, page_set_access(at + i * size, size, (const int[]){0}, 1));
    times[3] = bench_now();
    for (size_t i = 0; i < count; i++)
        BENCH_GPU(gpu, page_unmap(at + i * size, size));
    times[4] = bench_now();
    for (size_t i = 0; i < count; i++)
        BENCH_GPU(gpu, page_release(pages[i]));
    times[5] = bench_now();
    for (size_t i = 0; i < CALL_COUNT; i++)
        bench_add(&series[i], (double)(times[i + 1] - times[i]));
}

static void measure(struct bench *bench, char *at, uint64_t mapped)
{
    static const uint64_t sizes[] = {2 * MIB, 32 * MIB, 64 * MIB, 256 * MIB};
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        struct bench_series series[CALL_COUNT] = {{0}};
        char name[96], size[32], beside[32];
        for (size_t i = 0; i < bench->repetitions; i++)
            measure_once(bench->gpu, at, sizes[s], series);
        snprintf(name, sizeof(name), "1 GiB in pages of %s, %s mapped", bench_size_name(sizes[s], size), bench_size_name(mapped, beside));
        struct bench_figure *figure = bench_figure_new(&bench->report, "pages", name);
        double sum = 0;
        for (size_t i = 0; i < CALL_COUNT; i++) {
            series[i].name = calls[i];
            *bench_series_new(figure, calls[i]) = series[i];
            sum += i <= ACCESS ? bench_median(&series[i]) : 0;
        }
        bench_show(figure, sum, "ns", BENCH_SHOWN, 0);
    }
}

void section_pages(struct bench *bench)
{
    uint64_t fill = shared_big_size(bench->memory, 120 * GIB, 85) / FILL_PAGE * FILL_PAGE;
    void *range;
    BENCH_GPU(bench->gpu, range_reserve(0, fill + GIB, &range));
    char *at = range;
    measure(bench, at + fill, 0);
    for (uint64_t done = 0; done < fill; done += FILL_PAGE) {
        gpu_page page;
        BENCH_GPU(bench->gpu, page_create(0, FILL_PAGE, &page));
        map(bench->gpu, at + done, FILL_PAGE, page);
    }
    measure(bench, at + fill, fill);
    BENCH_GPU(bench->gpu, page_unmap(at, fill));
    BENCH_GPU(bench->gpu, range_free(range, fill + GIB));
}
