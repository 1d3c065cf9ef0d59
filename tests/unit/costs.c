/* SPDX-License-Identifier: MIT */
/* costs.c - cost tables: what is read and written, what is refused, and which of several is taken. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/gpu/sim.h"
#include "lib/trace/costs.h"
#include "tests/support/suite.h"
#include "tools/calibrate/fit.h"
#include "tools/common/complain.h"
#include "tools/common/costs_find.h"

#define MIB (UINT64_C(1) << 20)
#define HEAD "weir_costs: 1\ngpu: NVIDIA H200\n"

/* Texts -------------------------------------------------------------------------------------------------------------------------------- */

static struct costs read_good(const char *text)
{
    struct costs costs;
    char why[512] = "";
    ck_assert_msg(costs_read("table", text, strlen(text), &costs, why, sizeof why), "%s", why);
    return costs;
}

START_TEST(table_has_what_it_says_and_the_simulators_costs_for_the_rest)
{
    struct costs costs = read_good("# a comment\n\nweir_costs: 1\ngpu: NVIDIA H200 # the GPU\ndriver: 13.0\r\nuuid:\tGPU-1\n"
                                   "grow: 701us/GiB\nmalloc_async: 300ns #x\npair_16: 9us\npage_map: 1us+2us/GiB");
    ck_assert_str_eq(costs.gpu, "NVIDIA H200");
    ck_assert_str_eq(costs.driver, "13.0");
    ck_assert_str_eq(costs.uuid, "GPU-1");
    ck_assert_uint_eq(costs.values[COST_grow].gib, 701000);
    ck_assert_uint_eq(costs.values[COST_malloc_async].call, 300);
    ck_assert_uint_eq(costs.values[COST_page_map].call, 1000);
    ck_assert_uint_eq(costs.values[COST_page_map].gib, 2000);
    ck_assert_uint_eq(costs.values[COST_trim].gib, 930000);
    ck_assert(costs.is_measured[COST_grow] && !costs.is_measured[COST_trim]);
}
END_TEST

static const struct {
    const char *text, *named; /* what the message must have */
} bad[] = {
    { "", "weir_costs: 1" },
    { "# nothing\n", "weir_costs: 1" },
    { "gpu: NVIDIA H200\n", "table:1: 'gpu': a cost table begins with" },
    { "weir_costs: 2\n", "table:1: weir_costs: '2': this weir reads 1" },
    { "weir_costs: 1\n", "gpu: NAME" },
    { HEAD "malloc: 300ns\n", "table:3: 'malloc' is no cost that this weir knows: take the line out" },
    { HEAD "weir_costs: 1\n", "table:3: 'weir_costs'" },
    { HEAD "pair_16x: 300ns\n", "'pair_16x' is no cost" },
    { HEAD "malloc_async: 300\n", "table:3: malloc_async: '300': write" },
    { HEAD "malloc_async:\n", "malloc_async: ''" },
    { HEAD "malloc_async: -1ns\n", "'-1ns'" },
    { HEAD "malloc_async: 60001ms\n", "up to a minute" },
    { HEAD "malloc_async: 1us/GiB\n", "300ns, 7us or 1ms" },
    { HEAD "grow: 1us\n", "830us/GiB" },
    { HEAD "page_map: 1us+1us\n", "7us+10us/GiB" },
    { HEAD "grow: 1us/GiB\ngrow: 1us/GiB\n", "table:4: 'grow' stands there twice" },
    { HEAD "gpu: X\n", "table:3: 'gpu' stands there twice" },
    { "weir_costs: 1\ngpu:\n", "1 to 255 bytes" },
    { HEAD "driver: 1234567890123456\n", "1 to 15 bytes" },
    { HEAD "grow 1us/GiB\n", "write KEY: VALUE" },
    { HEAD "grow:1us/GiB\n", "write KEY: VALUE" },
    { HEAD " grow: 1us/GiB\n", "write KEY: VALUE" },
    { HEAD "grow: 1us/GiB\x1b[2J\n", "byte 0x1b" },
};

START_TEST(bad_table_is_refused_with_place_value_and_remedy)
{
    struct costs costs;
    char why[512] = "";
    ck_assert(!costs_read("table", bad[_i].text, strlen(bad[_i].text), &costs, why, sizeof why));
    ck_assert_msg(strstr(why, bad[_i].named) != NULL, "%s", why);
}
END_TEST

START_TEST(zero_byte_and_long_line_are_refused)
{
    struct costs costs;
    char why[512] = "", text[2048] = HEAD;
    memset(text + strlen(text), '#', 1000);
    ck_assert(!costs_read("table", text, strlen(text), &costs, why, sizeof why));
    ck_assert_ptr_nonnull(strstr(why, "table:3: a long line"));
    ck_assert(!costs_read("table", HEAD "grow\0: 1us/GiB\n", sizeof HEAD + 14, &costs, why, sizeof why));
    ck_assert_ptr_nonnull(strstr(why, "byte 0x00"));
}
END_TEST

START_TEST(table_above_its_bound_is_refused)
{
    struct costs costs;
    char why[512] = "", *text = calloc(1, COSTS_TEXT_MAX + 1);
    memset(text, '\n', COSTS_TEXT_MAX + 1);
    ck_assert(!costs_read("table", text, COSTS_TEXT_MAX + 1, &costs, why, sizeof why));
    ck_assert_ptr_nonnull(strstr(why, "65536 bytes"));
    free(text);
}
END_TEST

static struct costs make_costs(const char *gpu, const char *driver, const char *uuid, uint64_t malloc_time)
{
    struct costs costs;
    costs_init(&costs);
    snprintf(costs.gpu, sizeof costs.gpu, "%s", gpu);
    snprintf(costs.driver, sizeof costs.driver, "%s", driver);
    snprintf(costs.uuid, sizeof costs.uuid, "%s", uuid);
    costs.values[COST_malloc_async].call = malloc_time;
    costs.is_measured[COST_malloc_async] = true;
    return costs;
}

START_TEST(what_is_written_is_read_again)
{
    struct costs costs = make_costs("NVIDIA H200", "13.0", "GPU-1", 300);
    for (int i = 0; i < COST_COUNT; i++) {
        uint64_t number = (uint64_t)i * 1001;
        costs.is_measured[i] = true;
        costs.values[i] = (struct gpu_cost){ .call = cost_rows[i].form == COST_RATE ? 0 : number,
                                             .gib = cost_rows[i].form == COST_TIME ? 0 : number + 1 };
    }
    char *text = costs_write(&costs);
    struct costs again = read_good(text);
    free(text);
    ck_assert_str_eq(again.gpu, costs.gpu);
    ck_assert_str_eq(again.driver, costs.driver);
    ck_assert_str_eq(again.uuid, costs.uuid);
    ck_assert_mem_eq(again.values, costs.values, sizeof costs.values);
    ck_assert_mem_eq(again.is_measured, costs.is_measured, sizeof costs.is_measured);
}
END_TEST

START_TEST(name_that_would_be_read_otherwise_is_made_harmless)
{
    struct costs costs = make_costs("X # y\nmalloc_async: 1ns", "13.0", "GPU-1", 300);
    char *text = costs_write(&costs);
    struct costs again = read_good(text);
    free(text);
    ck_assert_str_eq(again.gpu, "X ? y?malloc_async? 1ns");
    ck_assert_uint_eq(again.values[COST_malloc_async].call, 300);
}
END_TEST

START_TEST(every_cost_but_that_of_an_arena_is_a_setting_of_the_simulator)
{
    struct costs costs = make_costs("X", "1.0", "", 0);
    char why[256] = "";
    for (int i = 0; i < COST_COUNT; i++)
        costs.is_measured[i] = true;
    char *text = costs_to_sim(&costs);
    ck_assert_msg(sim_configure(text, why, sizeof why) == 0, "%s", why);
    ck_assert_ptr_null(strstr(text, "pair"));
    for (int i = 0; i < COST_COUNT; i++)
        ck_assert(strstr(text, cost_rows[i].key) || i == COST_pair_arena);
    free(text);
}
END_TEST

START_TEST(free_growth_is_a_rate_for_the_simulator)
{
    struct costs costs = read_good(HEAD "grow: 0ns\ntrim: 0ns/GiB\n");
    char *text = costs_to_sim(&costs), why[256] = "";
    ck_assert_str_eq(text, "grow=0ns/GiB,trim=0ns/GiB");
    ck_assert_msg(sim_configure(text, why, sizeof why) == 0, "%s", why);
    free(text);
}
END_TEST

/* Small and the same in every run. */
static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

/* Changes up to four bytes into what tables are made of, or anything. Returns the length. */
static size_t mutate(char *text, size_t len, uint32_t *state)
{
    static const char bytes[] = "0123456789nsumGiB/+:# \n\t_";
    for (uint32_t left = next_random(state) % 4 + 1; left > 0; left--) {
        uint32_t random = next_random(state);
        text[random % len] = random >> 30 ? bytes[random / 4096 % (sizeof bytes - 1)] : (char)(random >> 8);
    }
    return next_random(state) % 8 ? len : next_random(state) % len;
}

START_TEST(mutated_table_is_refused_with_a_reason_or_says_what_it_would_be_written_as)
{
    static const char good[] = HEAD "driver: 13.0\nuuid: GPU-1\ngrow: 701us/GiB # so\nfirst: 5ms\npage_map: 7us+3us/GiB\npair_arena: 1ns\n";
    uint32_t state = 1, rounds = suite_rounds(20000, 1000000), accepted = 0;
    for (uint32_t i = 0; i < rounds; i++) {
        char text[sizeof good], why[512] = "";
        struct costs costs, again;
        memcpy(text, good, sizeof good);
        size_t len = mutate(text, sizeof good - 1, &state);
        if (!costs_read("table", text, len, &costs, why, sizeof why)) {
            ck_assert_msg(strncmp(why, "table:", 6) == 0 && strlen(why) > 12, "%s", why);
            continue;
        }
        char *written = costs_write(&costs);
        ck_assert_msg(costs_read("again", written, strlen(written), &again, why, sizeof why), "%s", why);
        ck_assert_mem_eq(again.values, costs.values, sizeof costs.values);
        ck_assert_mem_eq(again.is_measured, costs.is_measured, sizeof costs.is_measured);
        free(written);
        accepted++;
    }
    ck_assert_uint_gt(accepted, rounds / 100);
    ck_assert_uint_lt(accepted, rounds);
}
END_TEST

/* Files -------------------------------------------------------------------------------------------------------------------------------- */

static char home[64], cache[80], folder[96], shipped[80];

static void begin(void)
{
    snprintf(home, sizeof home, "/tmp/weir-costs-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(home));
    snprintf(cache, sizeof cache, "%s/cache", home);
    snprintf(folder, sizeof folder, "%s/weir", cache);
    snprintf(shipped, sizeof shipped, "%s/shipped", home);
    mkdir(shipped, 0700);
    setenv("XDG_CACHE_HOME", cache, 1);
    setenv("HOME", home, 1);
    setenv("WEIR_COSTS_DIR", shipped, 1);
    complaints_begin();
}

static void end(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", home);
    ck_assert_int_eq(system(command), 0);
}

static void put(const char *directory, const char *name, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void save(const char *gpu, const char *driver, const char *uuid, uint64_t malloc_time)
{
    struct costs costs = make_costs(gpu, driver, uuid, malloc_time);
    char path[PATH_MAX];
    ck_assert_int_eq(costs_save(&costs, NULL, path), EXIT_GOOD);
}

/* What the table that is found says of malloc_async, which tells tables apart. */
static uint64_t find(const char *gpu, const char *driver, const char *uuid, int kind)
{
    struct costs costs;
    struct costs_origin origin;
    ck_assert_int_eq(costs_find(NULL, gpu, driver, uuid, &costs, &origin), EXIT_GOOD);
    ck_assert_int_eq((int)origin.kind, kind);
    return costs.values[COST_malloc_async].call;
}

static int try_to_find(const char *file, const char *gpu)
{
    struct costs costs;
    struct costs_origin origin;
    return costs_find(file, gpu, NULL, NULL, &costs, &origin);
}

START_TEST(without_any_table_the_costs_are_built_in)
{
    ck_assert_uint_eq(find("NVIDIA H200", "13.0", "GPU-1", COSTS_BUILT_IN), 0);
    ck_assert_uint_eq(find("../../etc/passwd", NULL, NULL, COSTS_BUILT_IN), 0);
    ck_assert_uint_eq(find("", NULL, NULL, COSTS_BUILT_IN), 0);
}
END_TEST

START_TEST(nearest_measured_table_is_taken)
{
    put(shipped, "nvidia-h200.yaml", HEAD "malloc_async: 1ns\n");
    ck_assert_uint_eq(find("NVIDIA H200", "13.0", "GPU-1", COSTS_SHIPPED), 1);
    save("NVIDIA H200", "12.0", "GPU-9", 2);
    ck_assert_uint_eq(find("NVIDIA H200", "13.0", "GPU-1", COSTS_CACHED), 2);
    save("NVIDIA H200", "12.0", "GPU-1", 3);
    ck_assert_uint_eq(find("NVIDIA H200", "13.0", "GPU-1", COSTS_CACHED), 3);
    save("NVIDIA H200", "13.0", "GPU-9", 4);
    ck_assert_uint_eq(find("NVIDIA H200", "13.0", "GPU-1", COSTS_CACHED), 4);
    save("NVIDIA H200", "13.0", "GPU-1", 5);
    ck_assert_uint_eq(find("NVIDIA H200", "13.0", "GPU-1", COSTS_CACHED), 5);
    save("NVIDIA H200 NVL", "13.0", "GPU-1", 6);
    ck_assert_uint_eq(find("NVIDIA H200", "13.0", "GPU-1", COSTS_CACHED), 5);
    ck_assert_uint_eq(find("NVIDIA H200 NVL", NULL, NULL, COSTS_CACHED), 6);
}
END_TEST

START_TEST(measured_again_replaces_the_table_and_leaves_nothing_beside_it)
{
    char path[PATH_MAX], command[PATH_MAX];
    struct stat status;
    save("NVIDIA H200", "13.0", "GPU-1", 1);
    save("NVIDIA H200", "13.0", "GPU-1", 2);
    ck_assert_uint_eq(find("NVIDIA H200", "13.0", "GPU-1", COSTS_CACHED), 2);
    snprintf(path, sizeof path, "%s/nvidia-h200-13.0-gpu-1.yaml", folder);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0600);
    snprintf(command, sizeof command, "test \"$(ls '%s' | wc -l)\" = 1", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(home_has_the_cache_where_no_other_is_set)
{
    char path[PATH_MAX];
    struct costs costs = make_costs("X", "1.0", "GPU-1", 1);
    setenv("XDG_CACHE_HOME", "relative", 1);
    ck_assert_int_eq(costs_save(&costs, NULL, path), EXIT_GOOD);
    ck_assert_ptr_nonnull(strstr(path, "/.cache/weir/x-1.0-gpu-1.yaml"));
    unsetenv("HOME");
    ck_assert_int_eq(costs_save(&costs, NULL, path), EXIT_TROUBLE);
}
END_TEST

START_TEST(bad_measured_table_is_no_reason_to_take_another)
{
    put(shipped, "nvidia-h200.yaml", HEAD);
    save("NVIDIA H200", "13.0", "GPU-1", 1);
    put(folder, "nvidia-h200-9.yaml", HEAD "nonsense: 1ns\n");
    ck_assert_int_eq(try_to_find(NULL, "NVIDIA H200"), EXIT_FAILED);
}
END_TEST

START_TEST(links_and_pipes_in_the_cache_are_not_read)
{
    char from[PATH_MAX], to[PATH_MAX];
    save("NVIDIA H200", "13.0", "GPU-1", 1);
    snprintf(from, sizeof from, "%s/nvidia-h200-13.0-gpu-1.yaml", folder);
    snprintf(to, sizeof to, "%s/nvidia-h200-link.yaml", folder);
    ck_assert_int_eq(symlink(from, to), 0);
    ck_assert_int_eq(try_to_find(NULL, "NVIDIA H200"), EXIT_TROUBLE);
    unlink(to);
    ck_assert_int_eq(mkfifo(to, 0600), 0);
    ck_assert_int_eq(try_to_find(NULL, "NVIDIA H200"), EXIT_TROUBLE);
}
END_TEST

START_TEST(folder_that_others_may_write_is_no_cache)
{
    struct costs costs = make_costs("X", "1.0", "GPU-1", 1);
    char path[PATH_MAX];
    mkdir(cache, 0700);
    mkdir(folder, 0700);
    ck_assert_int_eq(chmod(folder, 0777), 0);
    ck_assert_int_eq(costs_save(&costs, NULL, path), EXIT_TROUBLE);
    ck_assert_int_eq(try_to_find(NULL, "X"), EXIT_TROUBLE);
    ck_assert_int_eq(rmdir(folder), 0);
    ck_assert_int_eq(symlink(home, folder), 0);
    ck_assert_int_eq(costs_save(&costs, NULL, path), EXIT_TROUBLE);
}
END_TEST

#define DRIVER 13000 /* as CUDA has 13.0 */

/* The file that `weir calibrate` made for that GPU. */
static void own_file(char path[static PATH_MAX])
{
    save("NVIDIA H200", "13.0", "GPU-1", 1);
    snprintf(path, PATH_MAX, "%s/nvidia-h200-13.0-gpu-1.yaml", folder);
}

START_TEST(header_of_a_trace_gets_the_table_of_exactly_that_gpu_and_driver)
{
    char path[PATH_MAX];
    ck_assert_ptr_null(weir__costs_text("NVIDIA H200", DRIVER, "GPU-1"));
    own_file(path);
    char *text = weir__costs_text("NVIDIA H200", DRIVER, "GPU-1");
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(read_good(text).values[COST_malloc_async].call, 1);
    free(text);
    ck_assert_ptr_null(weir__costs_text("NVIDIA H200", DRIVER, "GPU-2"));
    ck_assert_ptr_null(weir__costs_text("NVIDIA H200", 12080, "GPU-1"));
    ck_assert_ptr_null(weir__costs_text("NVIDIA H100", DRIVER, "GPU-1"));
    setenv("XDG_CACHE_HOME", "relative", 1);
    ck_assert_ptr_null(weir__costs_text("NVIDIA H200", DRIVER, "GPU-1"));
}
END_TEST

static void make_link(const char *path)
{
    put(home, "mine.yaml", HEAD);
    char to[PATH_MAX];
    snprintf(to, sizeof to, "%s/mine.yaml", home);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink(to, path), 0);
}

static void make_pipe(const char *path)
{
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
}

static void make_folder(const char *path)
{
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void make_large(const char *path)
{
    ck_assert_int_eq(truncate(path, WEIR__COSTS_MAX + 1), 0);
}

static void make_binary(const char *path)
{
    ck_assert_int_eq(truncate(path, 1000), 0); /* zeros behind the text */
}

static void make_empty(const char *path)
{
    ck_assert_int_eq(truncate(path, 0), 0);
}

static void make_open_to_others(const char *path)
{
    (void)path;
    ck_assert_int_eq(chmod(folder, 0777), 0);
}

static void (*const unfit[])(const char *) = { make_link, make_pipe, make_folder, make_large, make_binary, make_empty, make_open_to_others };

START_TEST(file_that_is_no_table_of_this_users_comes_into_no_trace)
{
    char path[PATH_MAX];
    own_file(path);
    unfit[_i](path);
    ck_assert_ptr_null(weir__costs_text("NVIDIA H200", DRIVER, "GPU-1"));
}
END_TEST

START_TEST(file_that_is_named_may_be_of_another_gpu)
{
    char path[PATH_MAX];
    struct costs costs;
    struct costs_origin origin;
    save("NVIDIA H200", "13.0", "GPU-1", 1);
    put(home, "mine.yaml", "weir_costs: 1\ngpu: Y\nmalloc_async: 7ns\n");
    snprintf(path, sizeof path, "%s/mine.yaml", home);
    ck_assert_int_eq(costs_find(path, "NVIDIA H200", "13.0", "GPU-1", &costs, &origin), EXIT_GOOD);
    ck_assert_uint_eq(costs.values[COST_malloc_async].call, 7);
    ck_assert_int_eq((int)origin.kind, COSTS_NAMED);
    ck_assert_int_eq(try_to_find("/nowhere/costs.yaml", "X"), EXIT_TROUBLE);
}
END_TEST

START_TEST(table_that_is_shipped_is_good)
{
    char path[PATH_MAX];
    struct costs costs;
    struct costs_origin origin;
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/config/costs/nvidia-h200.yaml", top ? top : ".");
    ck_assert_int_eq(costs_find(path, "", NULL, NULL, &costs, &origin), EXIT_GOOD);
    ck_assert_str_eq(costs.gpu, "NVIDIA H200");
    ck_assert_uint_gt(costs.values[COST_grow].gib, 100000); /* nobody hands memory out faster than 10 TiB/s */
}
END_TEST

/* Fitting ------------------------------------------------------------------------------------------------------------------------------ */

static const struct gpu_cost exact[] = {
    { 0, 0 },       { 1, 0 },       { 0, 1 },          { 8201, 26117 },       { 10000, 305123 }, { 5, 10240 },
    { 60000, 512 }, { 7, 1000000 }, { 1000000, 1001 }, { 123, GPU_COST_MOST }
};

START_TEST(cost_that_gives_the_samples_is_found)
{
    static const uint64_t sizes[] = { 2 * MIB, 32 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB };
    struct sample samples[5];
    for (size_t i = 0; i < 5; i++)
        samples[i] = (struct sample){ .size = sizes[i], .time = gpu_cost_of(exact[_i], sizes[i]) };
    struct gpu_cost cost = fit_cost(samples, 5);
    for (size_t i = 0; i < 5; i++)
        ck_assert_uint_eq(gpu_cost_of(cost, sizes[i]), samples[i].time);
}
END_TEST

START_TEST(noise_moves_a_fit_no_further_than_itself)
{
    const struct sample samples[] = { { 2 * MIB, 10100 }, { 32 * MIB, 13000 }, { 256 * MIB, 36000 }, { 1024 * MIB, 109000 } };
    struct gpu_cost cost = fit_cost(samples, 4);
    ck_assert(cost.call > 9500 && cost.call < 10500);
    ck_assert(cost.gib > 95000 && cost.gib < 105000);
}
END_TEST

START_TEST(falling_times_are_no_negative_rate)
{
    const struct sample samples[] = { { 2 * MIB, 5400 }, { 256 * MIB, 5000 } };
    struct gpu_cost cost = fit_cost(samples, 2);
    ck_assert_uint_eq(cost.gib, 0);
    ck_assert(cost.call >= 5000 && cost.call <= 5400);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("costs");
    TCase *texts = suite_case(suite, "texts", 0), *files = suite_case(suite, "files", 0), *fits = suite_case(suite, "fits", 0);
    tcase_add_loop_test(texts, bad_table_is_refused_with_place_value_and_remedy, 0, sizeof bad / sizeof *bad);
    suite_add(texts, table_has_what_it_says_and_the_simulators_costs_for_the_rest, zero_byte_and_long_line_are_refused,
              table_above_its_bound_is_refused, what_is_written_is_read_again, name_that_would_be_read_otherwise_is_made_harmless,
              every_cost_but_that_of_an_arena_is_a_setting_of_the_simulator, free_growth_is_a_rate_for_the_simulator,
              mutated_table_is_refused_with_a_reason_or_says_what_it_would_be_written_as);
    tcase_add_checked_fixture(files, begin, end);
    suite_add(files, without_any_table_the_costs_are_built_in, nearest_measured_table_is_taken,
              measured_again_replaces_the_table_and_leaves_nothing_beside_it, home_has_the_cache_where_no_other_is_set,
              bad_measured_table_is_no_reason_to_take_another, links_and_pipes_in_the_cache_are_not_read,
              folder_that_others_may_write_is_no_cache, header_of_a_trace_gets_the_table_of_exactly_that_gpu_and_driver,
              file_that_is_named_may_be_of_another_gpu, table_that_is_shipped_is_good);
    tcase_add_loop_test(files, file_that_is_no_table_of_this_users_comes_into_no_trace, 0, sizeof unfit / sizeof *unfit);
    tcase_add_loop_test(fits, cost_that_gives_the_samples_is_found, 0, sizeof exact / sizeof *exact);
    suite_add(fits, noise_moves_a_fit_no_further_than_itself, falling_times_are_no_negative_rate);
    return suite_run(suite);
}
