/* SPDX-License-Identifier: MIT */
/* hold.c - what is shared, and the streams behind which it ends. */
#include "config.h"

#include "tests/plugin/plug.h"

static gpu_stream home, other;
static weir_torch_hold *hold;

static void set_up(void)
{
    weir *w;
    plug_set_up(NULL, NULL);
    home = plug_stream(0);
    other = plug_stream(0);
    ck_assert_int_eq(weir_torch_get(0, NULL, &w), WEIR_OK);
    hold = weir_torch_hold_new(WEIR_TORCH_SLOT, NULL, w, 0, home, 0, NULL);
    ck_assert_ptr_nonnull(hold);
}

static bool is_behind_work(gpu_stream stream)
{
    gpu_event event;
    ck_assert_int_eq(plug_gpu->event_create(0, &event), GPU_SUCCESS);
    ck_assert_int_eq(plug_gpu->event_record(event, stream), GPU_SUCCESS);
    int code = plug_gpu->event_query(event);
    plug_gpu->event_destroy(event);
    return code == GPU_NOT_READY;
}

static void work_on(gpu_stream stream)
{
    ck_assert_int_eq(plug_gpu->delay(stream, 1000 * MILLISECOND), GPU_SUCCESS);
}

START_TEST(stream_that_uses_it_waits_for_its_home)
{
    work_on(home);
    ck_assert_int_eq(weir_torch_hold_use(hold, other, 1, NULL), WEIR_OK);
    ck_assert(is_behind_work(other));
}
END_TEST

/* A tensor was used on its own stream, and is given back on another one. */
START_TEST(stream_that_gives_it_back_waits_for_a_home_that_used_it)
{
    ck_assert_int_eq(weir_torch_hold_use(hold, home, 1, NULL), WEIR_OK);
    work_on(home);
    ck_assert_int_eq(weir_torch_hold_join(hold, other, NULL), WEIR_OK);
    ck_assert(is_behind_work(other));
}
END_TEST

START_TEST(home_that_did_not_use_it_is_not_waited_for)
{
    work_on(home);
    ck_assert_int_eq(weir_torch_hold_join(hold, other, NULL), WEIR_OK);
    ck_assert(!is_behind_work(other));
}
END_TEST

START_TEST(home_waits_for_all_that_used_it)
{
    ck_assert_int_eq(weir_torch_hold_use(hold, home, 1, NULL), WEIR_OK);
    ck_assert_int_eq(weir_torch_hold_use(hold, other, 1, NULL), WEIR_OK);
    work_on(other);
    ck_assert_int_eq(weir_torch_hold_join(hold, home, NULL), WEIR_OK);
    ck_assert(is_behind_work(home));
}
END_TEST

START_TEST(last_holder_ends_it)
{
    weir_torch_hold_keep(hold);
    ck_assert_uint_eq(weir_torch_hold_holders(hold), 2);
    weir_torch_hold_drop(hold);
    ck_assert_uint_eq(weir_torch_hold_holders(hold), 1);
    weir_torch_hold_drop(hold);
    weir_torch_hold_drop(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hold");
    TCase *tcase = suite_case(suite, "hold", 0);
    tcase_add_checked_fixture(tcase, set_up, NULL);
    suite_add(tcase, stream_that_uses_it_waits_for_its_home, stream_that_gives_it_back_waits_for_a_home_that_used_it,
              home_that_did_not_use_it_is_not_waited_for, home_waits_for_all_that_used_it, last_holder_ends_it);
    return suite_run(suite);
}
