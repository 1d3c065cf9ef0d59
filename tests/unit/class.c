/* SPDX-License-Identifier: MIT */
/* Size classes: their bytes, how they are found, and how little they waste. */
#include "lib/base/class.h"
#include "tests/support/suite.h"

#define FIRST_EIGHTHS 9 /* the first class above 4 KiB */

static void expect_class(uint64_t size, unsigned class)
{
    ck_assert_msg(weir__class_of(size) == class, "%llu bytes are of class %u instead of %u", (unsigned long long)size, weir__class_of(size),
                  class);
}

START_TEST(class_0_has_no_bytes)
{
    ck_assert_uint_eq(WEIR__CLASS_NONE, 0);
    ck_assert_uint_eq(weir__class_bytes[WEIR__CLASS_NONE], 0);
}
END_TEST

START_TEST(classes_up_to_4_kib_are_the_multiples_of_512)
{
    for (unsigned class = 1; class < FIRST_EIGHTHS; class++)
        ck_assert_uint_eq(weir__class_bytes[class], class * UINT64_C(512));
}
END_TEST

START_TEST(eight_classes_divide_each_doubling_above_4_kib)
{
    unsigned class = FIRST_EIGHTHS;
    for (uint64_t base = 4096; base < WEIR__CLASS_LARGEST; base *= 2)
        for (uint64_t eighth = 1; eighth <= 8; eighth++)
            ck_assert_uint_eq(weir__class_bytes[class++], base + base / 8 * eighth);
    ck_assert_uint_eq(class, WEIR__CLASS_COUNT);
}
END_TEST

START_TEST(every_class_is_larger_than_the_one_before)
{
    for (unsigned class = 1; class < WEIR__CLASS_COUNT; class++)
        ck_assert_uint_gt(weir__class_bytes[class], weir__class_bytes[class - 1]);
}
END_TEST

START_TEST(every_class_is_a_multiple_of_cudas_alignment)
{
    for (unsigned class = 1; class < WEIR__CLASS_COUNT; class++)
        ck_assert_uint_eq(weir__class_bytes[class] % 512, 0);
}
END_TEST

START_TEST(last_class_is_the_largest)
{
    ck_assert_uint_eq(weir__class_bytes[WEIR__CLASS_COUNT - 1], WEIR__CLASS_LARGEST);
}
END_TEST

START_TEST(bytes_of_a_class_are_of_that_class)
{
    for (unsigned class = 1; class < WEIR__CLASS_COUNT; class++)
        expect_class(weir__class_bytes[class], class);
}
END_TEST

START_TEST(one_byte_more_is_of_the_next_class)
{
    for (unsigned class = 0; class + 1 < WEIR__CLASS_COUNT; class++)
        expect_class(weir__class_bytes[class] + 1, class + 1);
}
END_TEST

START_TEST(every_size_up_to_a_mebibyte_fits_its_class_and_not_the_one_before)
{
    for (uint64_t size = 1; size <= UINT64_C(1) << 20; size++) {
        unsigned class = weir__class_of(size);
        if (size > weir__class_bytes[class] || size <= weir__class_bytes[class - 1])
            ck_abort_msg("%llu bytes are of class %u", (unsigned long long)size, class);
    }
}
END_TEST

START_TEST(no_class_above_4_kib_wastes_an_eighth)
{
    for (unsigned class = FIRST_EIGHTHS; class < WEIR__CLASS_COUNT; class++) {
        uint64_t smallest = weir__class_bytes[class - 1] + 1;
        ck_assert_uint_lt((weir__class_bytes[class] - smallest) * 8, smallest);
    }
}
END_TEST

START_TEST(nothing_is_of_no_class)
{
    ck_assert_uint_ge(weir__class_of(0), WEIR__CLASS_COUNT);
}
END_TEST

START_TEST(what_is_above_the_last_class_is_of_none)
{
    for (uint64_t size = WEIR__CLASS_LARGEST + 1; size > WEIR__CLASS_LARGEST; size *= 2)
        ck_assert_uint_ge(weir__class_of(size), WEIR__CLASS_COUNT);
    ck_assert_uint_ge(weir__class_of(UINT64_MAX), WEIR__CLASS_COUNT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("class");
    TCase *classes = suite_case(suite, "classes", 0);
    suite_add(classes, class_0_has_no_bytes, classes_up_to_4_kib_are_the_multiples_of_512, eight_classes_divide_each_doubling_above_4_kib,
              every_class_is_larger_than_the_one_before, every_class_is_a_multiple_of_cudas_alignment, last_class_is_the_largest,
              bytes_of_a_class_are_of_that_class, one_byte_more_is_of_the_next_class,
              every_size_up_to_a_mebibyte_fits_its_class_and_not_the_one_before, no_class_above_4_kib_wastes_an_eighth,
              nothing_is_of_no_class, what_is_above_the_last_class_is_of_none);
    return suite_run(suite);
}
