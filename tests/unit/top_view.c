/* SPDX-License-Identifier: MIT */
/* top_view.c - what `weir top` draws on screens of all sizes, and what its keys do. */
#include "config.h"

#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/top_data.h"
#include "tools/top/view.h"

enum { WIDTH_MAX = 300, HEIGHT_MAX = 60 };

static struct top_model model;
static struct top_view view;
/* What was drawn: characters of up to three bytes, and "" for those that none was drawn into. */
static char cells[HEIGHT_MAX][WIDTH_MAX][4];
static char screen[HEIGHT_MAX][WIDTH_MAX * 3 + 1];

static void put(void *data, int row, int column, enum style style, const char *text)
{
    (void)data, (void)style;
    for (int at = column; *text; at++) {
        size_t len = 1;
        while (((unsigned char)text[len] & 0xC0) == 0x80)
            len++;
        /* No ck_assert for each character: libcheck tells its parent of all of them. */
        if (row < 0 || row >= view.height || at < 0 || at >= view.width || len > 3)
            ck_abort_msg("'%s' is drawn at row %d, column %d of %d times %d", text, row, at, view.height, view.width);
        memcpy(cells[row][at], text, len);
        cells[row][at][len] = '\0';
        text += len;
    }
}

static void draw(void)
{
    memset(cells, 0, sizeof cells);
    top_view_draw(&view, &model, put, NULL);
    for (int row = 0; row < view.height; row++) {
        size_t len = 0;
        for (int column = 0; column < view.width; column++) {
            const char *cell = cells[row][column][0] ? cells[row][column] : " ";
            memcpy(screen[row] + len, cell, strlen(cell));
            len += strlen(cell);
        }
        while (len > 0 && screen[row][len - 1] == ' ')
            len--;
        screen[row][len] = '\0';
    }
}

/* The first line with the text; NULL if there is none. */
static const char *line_with(const char *text)
{
    for (int row = 0; row < view.height; row++)
        if (strstr(screen[row], text))
            return screen[row];
    return NULL;
}

static void expect_line(const char *wanted, const char *line)
{
    ck_assert_ptr_nonnull(line);
    ck_assert_str_eq(line, wanted);
}

static void look(void)
{
    static uint64_t now;
    now += UINT64_C(1000000000);
    top_model_look(&model, top_data_seen(), now);
}

static void open_view(void)
{
    model = (struct top_model){0};
    view = (struct top_view){.width = 150, .height = 24, .interval = 1};
    top_data_clear();
}

static void close_view(void)
{
    top_model_free(&model);
}

static struct process *add(int pid, const char *program, const char *pool, uint64_t reserved, uint64_t live)
{
    struct process *process = top_data_process(pid, program, "a");
    top_data_pool(process, pool, reserved, live);
    return process;
}

START_TEST(a_process_has_its_figures_in_one_line)
{
    struct process *process = add(4711, "trainer", "work", 256 * MIB, 192 * MIB);
    process->devices[0].rescues[0] = 3;
    process->devices[0].asks_sent = 4;
    process->devices[0].bytes_got = 5 * MIB;
    process->devices[0].asks_received = 6;
    process->devices[0].bytes_given = 7 * MIB;
    look();
    process->pools[0].mallocs = 2345;
    look();
    view.width = 200;
    draw();
    const char *line = line_with("4711"), *at = line;
    static const char *const parts[] = {"4711",  "trainer", "work", "256 MiB", "192 MiB", "0 B",  "64 MiB",
                                        "2,345", "3",       "4",    "5 MiB",   "6",       "7 MiB"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        ck_assert_msg(at && (at = strstr(at, parts[i])), "no %s in: %s", parts[i], line);
        at += strlen(parts[i]);
    }
}
END_TEST

START_TEST(process_and_device_are_named_once)
{
    struct process *process = add(4711, "trainer", "first", 256 * MIB, 0);
    process->devices[0].asks_received = 77;
    top_data_pool(process, "second", 128 * MIB, 0);
    look();
    draw();
    ck_assert_ptr_nonnull(strstr(line_with("first"), "4711"));
    ck_assert_ptr_nonnull(strstr(line_with("first"), "77"));
    ck_assert_ptr_null(strstr(line_with("second"), "4711"));
    ck_assert_ptr_null(strstr(line_with("second"), "77"));
}
END_TEST

START_TEST(the_first_line_on_the_screen_names_its_process)
{
    struct process *process = add(4711, "trainer", "first", 256 * MIB, 0);
    top_data_pool(process, "second", 128 * MIB, 0);
    look();
    view.height = 3;
    view.first = 1;
    draw();
    ck_assert_ptr_null(line_with("first"));
    ck_assert_ptr_nonnull(strstr(line_with("second"), "4711"));
}
END_TEST

START_TEST(a_private_pool_is_called_so)
{
    add(4711, "trainer", "work", 256 * MIB, 0)->pools[0].flags = WIRE_POOL_PRIVATE;
    look();
    draw();
    ck_assert_ptr_nonnull(strstr(line_with("4711"), " work (private) "));
}
END_TEST

START_TEST(the_head_has_the_device)
{
    add(4711, "trainer", "work", 256 * MIB, 192 * MIB);
    look();
    draw();
    expect_line("weir top: 1 process by reserved, every 1 s", screen[0]);
    expect_line("device 0: 512 MiB used, 512 MiB free; here reserved 256 MiB, live 192 MiB, idle 64 MiB  GPU-a", screen[1]);
}
END_TEST

START_TEST(the_device_has_a_column_where_there_are_several)
{
    add(10, "one", "work", 2 * MIB, 0);
    look();
    draw();
    ck_assert_ptr_null(line_with("DEVICE"));
    top_data_pool(top_data_process(20, "two", "b"), "work", MIB, 0);
    look();
    draw();
    ck_assert_ptr_nonnull(line_with("DEVICE"));
    ck_assert_ptr_nonnull(line_with("device 1: "));
}
END_TEST

START_TEST(automatic_thresholds_have_columns_where_there_are_some)
{
    struct process *process = add(10, "one", "work", 256 * MIB, 0);
    top_data_pool(process, "fixed", 64 * MIB, 0);
    view.width = 250;
    look();
    draw();
    ck_assert_ptr_null(line_with("USED AGAIN"));
    process_audit *audit = top_data_audit(process, "work");
    audit->kept_used = 11 * MIB;
    audit->kept_unused = 22 * MIB;
    audit->given_missed = 33 * MIB;
    audit->grown_ahead = 44 * MIB;
    look();
    draw();
    ck_assert_ptr_nonnull(strstr(line_with("USED AGAIN"), "USED AGAIN   UNUSED   MISSED    AHEAD"));
    ck_assert_ptr_nonnull(strstr(line_with("work"), "    11 MiB   22 MiB   33 MiB   44 MiB"));
    ck_assert_ptr_null(strstr(line_with("fixed"), "11 MiB"));
    audit->flags = 0;
    look();
    draw();
    ck_assert_msg(!line_with("USED AGAIN"), "it has columns where the threshold is fixed");
}
END_TEST

START_TEST(a_gone_process_is_called_so)
{
    add(4711, "trainer", "work", MIB, 0);
    look();
    top_data_clear();
    look();
    draw();
    expect_line("   4711 trainer: gone", line_with("4711"));
}
END_TEST

START_TEST(a_process_that_does_not_answer_is_shown_with_the_reason)
{
    top_data_hang(top_data_process(4711, "trainer", "a"));
    look();
    draw();
    expect_line("   4711 it hangs", line_with("4711"));
}
END_TEST

START_TEST(nobody_is_explained)
{
    look();
    draw();
    ck_assert_ptr_nonnull(line_with("No process can be seen here."));
    ck_assert_ptr_nonnull(line_with("control: true"));
}
END_TEST

START_TEST(nobody_was_asked_yet_is_not_nobody)
{
    draw();
    ck_assert_ptr_null(line_with("No process"));
}
END_TEST

START_TEST(every_size_is_drawn_within_its_bounds)
{
    for (int i = 0; i < 6; i++)
        add(10 + i, "a-program-with-a-name-that-is-long", "a-pool-with-a-name-that-is-long-as-well", MIB, MIB);
    top_data_hang(top_data_process(20, "hung", "a"));
    look();
    for (int helping = 0; helping < 2; helping++) {
        view.is_helping = helping;
        for (view.height = 1; view.height <= HEIGHT_MAX; view.height += view.height < 12 ? 1 : 12)
            for (view.width = 1; view.width <= WIDTH_MAX; view.width += view.width < 180 ? 1 : 40)
                draw();
    }
}
END_TEST

START_TEST(narrow_screens_keep_what_matters_most)
{
    add(4711, "trainer", "work", 256 * MIB, 192 * MIB);
    look();
    view.width = 80;
    draw();
    ck_assert_ptr_nonnull(strstr(line_with("PID"), "PROGRAM"));
    ck_assert_ptr_nonnull(strstr(line_with("PID"), "ALLOC/S"));
    view.width = 30;
    draw();
    expect_line("    PID POOL RESERVED     LIVE", line_with("PID"));
    expect_line("   4711 work  256 MiB  192 MiB", line_with("4711"));
}
END_TEST

START_TEST(figures_of_the_head_are_whole_or_left_out)
{
    add(4711, "trainer", "work", 256 * MIB, 192 * MIB);
    look();
    view.width = 80;
    draw();
    expect_line("device 0: 512 MiB used, 512 MiB free; here reserved 256 MiB, live 192 MiB", screen[1]);
}
END_TEST

START_TEST(a_screen_of_80_columns_says_how_to_quit)
{
    add(4711, "trainer", "work", MIB, 0);
    look();
    view.width = 80;
    draw();
    ck_assert_ptr_nonnull(line_with("h help  q quit  r reserved"));
}
END_TEST

START_TEST(help_fits_into_80_columns_and_24_lines)
{
    add(4711, "trainer", "work", MIB, 0);
    look();
    view.is_helping = true;
    view.width = 80;
    view.height = 24;
    draw();
    ck_assert_ptr_nonnull(line_with("LIVE what the program uses of it,"));
    ck_assert_ptr_nonnull(line_with("weir(1)."));
}
END_TEST

START_TEST(low_screens_keep_the_list)
{
    add(4711, "trainer", "work", MIB, 0);
    look();
    view.height = 3;
    draw();
    ck_assert_ptr_nonnull(strstr(screen[1], "PID"));
    ck_assert_ptr_nonnull(strstr(screen[2], "4711"));
}
END_TEST

START_TEST(scrolling_ends_at_the_ends)
{
    for (int i = 0; i < 8; i++)
        add(10 + i, "one", "work", (uint64_t)(8 - i) * MIB, 0);
    look();
    view.height = 6;
    draw();
    ck_assert_int_eq(top_view_key(&view, &model, TOP_KEY_UP), TOP_DRAW);
    ck_assert_uint_eq(view.first, 0);
    top_view_key(&view, &model, TOP_KEY_END);
    draw();
    ck_assert_ptr_nonnull(line_with("     17 "));
    ck_assert_ptr_nonnull(strstr(screen[0], "to 8 of 8"));
    top_view_key(&view, &model, TOP_KEY_HOME);
    top_view_key(&view, &model, TOP_KEY_DOWN);
    draw();
    ck_assert_ptr_null(line_with("     10 "));
    ck_assert_ptr_nonnull(line_with("     11 "));
}
END_TEST

START_TEST(a_list_that_became_short_is_shown_from_its_start)
{
    for (int i = 0; i < 8; i++)
        add(10 + i, "one", "work", MIB, 0);
    look();
    view.height = 6;
    top_view_key(&view, &model, TOP_KEY_END);
    draw();
    ck_assert_uint_gt(view.first, 0);
    top_data_clear();
    add(10, "one", "work", MIB, 0);
    look();
    look();
    draw();
    ck_assert_uint_eq(view.first, 0);
}
END_TEST

START_TEST(every_key_of_the_footer_does_something)
{
    static const char letters[] = "hhrliapq";
    for (const char *key = letters; *key; key++)
        ck_assert_int_ne(top_view_key(&view, &model, *key), TOP_NOTHING);
    ck_assert_int_eq(top_view_key(&view, &model, 'x'), TOP_NOTHING);
}
END_TEST

START_TEST(enter_looks_and_q_quits)
{
    ck_assert_int_eq(top_view_key(&view, &model, TOP_KEY_ENTER), TOP_LOOK);
    ck_assert_int_eq(top_view_key(&view, &model, 'q'), TOP_QUIT);
    view.is_helping = true;
    ck_assert_int_eq(top_view_key(&view, &model, 'q'), TOP_QUIT);
}
END_TEST

START_TEST(any_other_key_leaves_the_help)
{
    top_view_key(&view, &model, '?');
    ck_assert(view.is_helping);
    draw();
    ck_assert_ptr_nonnull(line_with("order by idle memory"));
    top_view_key(&view, &model, 'p');
    ck_assert(!view.is_helping && model.sort == TOP_BY_RESERVED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("top_view");
    TCase *tcase = suite_case(suite, "view", 0);
    tcase_add_checked_fixture(tcase, open_view, close_view);
    suite_add(tcase, a_process_has_its_figures_in_one_line, process_and_device_are_named_once,
              the_first_line_on_the_screen_names_its_process, a_private_pool_is_called_so, the_head_has_the_device,
              the_device_has_a_column_where_there_are_several,
              automatic_thresholds_have_columns_where_there_are_some, a_gone_process_is_called_so,
              a_process_that_does_not_answer_is_shown_with_the_reason, nobody_is_explained, nobody_was_asked_yet_is_not_nobody,
              every_size_is_drawn_within_its_bounds, narrow_screens_keep_what_matters_most, figures_of_the_head_are_whole_or_left_out,
              a_screen_of_80_columns_says_how_to_quit, help_fits_into_80_columns_and_24_lines, low_screens_keep_the_list,
              scrolling_ends_at_the_ends, a_list_that_became_short_is_shown_from_its_start, every_key_of_the_footer_does_something,
              enter_looks_and_q_quits, any_other_key_leaves_the_help);
    return suite_run(suite);
}
