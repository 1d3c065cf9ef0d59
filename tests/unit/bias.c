/* SPDX-License-Identifier: MIT */
/* The biased lock: who earns the bias, what ends it, and that in all its changes only one thread is ever inside. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "lib/base/bias.h"
#include "tests/support/suite.h"

#define VISITS 300
#define FEW (WEIR__BIAS_NEED + 1) /* the first only makes the thread known */

/* What the lock guards is plain, so that an update is lost, and a sanitizer complains, if two threads are inside. */
static struct {
    weir__bias lock;
    uint64_t count;
    atomic_bool over;
} guarded;

static void setup(void)
{
    weir__bias_init(&guarded.lock);
    guarded.count = 0;
    atomic_store(&guarded.over, false);
}

/* Where the kernel or a sandbox has no such fence there is no bias to test. */
static bool prepare(void)
{
    weir__fence_prepare();
    return weir__fence_is_ready();
}

static bool is_biased(void)
{
    return atomic_load(&guarded.lock.is_biased);
}

static void use(unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        weir__bias_lock(&guarded.lock);
        guarded.count++;
        weir__bias_unlock(&guarded.lock);
    }
}

static void visit(void)
{
    weir__bias_visit(&guarded.lock);
    guarded.count++;
    weir__bias_unlock(&guarded.lock);
}

static void *use_few(void *unused)
{
    (void)unused;
    use(FEW);
    return NULL;
}

static void *use_one(void *unused)
{
    (void)unused;
    use(1);
    return NULL;
}

static void *visit_once(void *unused)
{
    (void)unused;
    visit();
    return NULL;
}

static void in_thread(void *(*run)(void *))
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* Earning and losing it ---------------------------------------------------------------------------------------------------------------- */

START_TEST(only_user_of_a_lock_earns_its_bias)
{
    if (!prepare())
        return;
    use(FEW - 1);
    ck_assert(!is_biased());
    use(1);
    ck_assert(is_biased());
}
END_TEST

START_TEST(without_the_fence_no_bias_is_earned)
{
    /* Nobody has asked the kernel. */
    ck_assert(!weir__fence_is_ready());
    use(10 * FEW);
    ck_assert(!is_biased());
    ck_assert_int_eq(weir__bias_way(&guarded.lock), WEIR__BIAS_PLAIN);
}
END_TEST

START_TEST(barred_lock_is_not_biased_until_the_bar_is_lifted)
{
    if (!prepare())
        return;
    weir__bias_visit(&guarded.lock);
    weir__bias_bar(&guarded.lock, true);
    weir__bias_unlock(&guarded.lock);
    use(10 * FEW);
    ck_assert(!is_biased());
    weir__bias_lock(&guarded.lock);
    weir__bias_bar(&guarded.lock, false);
    weir__bias_unlock(&guarded.lock);
    use(FEW);
    ck_assert(is_biased());
}
END_TEST

START_TEST(visits_earn_no_bias)
{
    if (!prepare())
        return;
    for (unsigned i = 0; i < 10 * FEW; i++)
        visit();
    ck_assert(!is_biased());
}
END_TEST

START_TEST(another_user_ends_the_bias)
{
    if (!prepare())
        return;
    use(FEW);
    in_thread(use_one);
    ck_assert(!is_biased());
}
END_TEST

START_TEST(visitor_ends_the_bias_of_its_own_thread_too)
{
    if (!prepare())
        return;
    use(FEW);
    visit();
    ck_assert(!is_biased());
    use(FEW);
    ck_assert(is_biased());
}
END_TEST

START_TEST(each_revocation_doubles_what_the_bias_takes)
{
    if (!prepare())
        return;
    use(FEW);
    in_thread(visit_once);
    use(2 * WEIR__BIAS_NEED - 1);
    ck_assert(!is_biased());
    use(1);
    ck_assert(is_biased());
}
END_TEST

/* As by a program that looks at its statistics now and then. */
START_TEST(bias_that_lasted_is_earned_again_as_easily_as_the_first)
{
    if (!prepare())
        return;
    use(FEW);
    in_thread(visit_once);
    in_thread(visit_once);
    use(2 * WEIR__BIAS_NEED + WEIR__BIAS_NEED_MAX);
    in_thread(visit_once);
    use(WEIR__BIAS_NEED - 1);
    ck_assert(!is_biased());
    use(1);
    ck_assert(is_biased());
}
END_TEST

START_TEST(bias_is_earned_however_often_it_was_lost)
{
    if (!prepare())
        return;
    for (unsigned i = 0; i < 20; i++) {
        use(WEIR__BIAS_NEED_MAX + 1);
        ck_assert(is_biased());
        in_thread(visit_once);
    }
}
END_TEST

START_TEST(bias_has_only_one_home_ever)
{
    if (!prepare())
        return;
    use(FEW);
    in_thread(visit_once);
    in_thread(use_few);
    in_thread(use_few);
    in_thread(use_few);
    ck_assert(!is_biased());
    use(2 * FEW);
    ck_assert(is_biased());
}
END_TEST

START_TEST(lock_of_a_thread_that_ended_can_be_taken)
{
    if (!prepare())
        return;
    in_thread(use_few);
    ck_assert(is_biased());
    /* The next thread mostly has the address of the one that ended. */
    in_thread(use_few);
    use(1);
    ck_assert(!is_biased());
    ck_assert_uint_eq(guarded.count, 2 * FEW + 1);
}
END_TEST

START_TEST(home_thread_cannot_enter_twice)
{
    if (!prepare())
        return;
    use(FEW);
    ck_assert(weir__bias_enter(&guarded.lock));
    ck_assert(!weir__bias_enter(&guarded.lock));
    weir__bias_leave(&guarded.lock);
    ck_assert(weir__bias_enter(&guarded.lock));
    weir__bias_leave(&guarded.lock);
}
END_TEST

static void use_again(int signal)
{
    (void)signal;
    guarded.count += weir__bias_enter(&guarded.lock);
}

START_TEST(bias_cannot_be_entered_by_a_handler_inside_the_lock_that_earned_it)
{
    if (!prepare())
        return;
    use(FEW - 1);
    signal(SIGUSR1, use_again);
    weir__bias_lock(&guarded.lock);
    uint64_t before = guarded.count;
    raise(SIGUSR1);
    ck_assert_uint_eq(guarded.count, before);
    weir__bias_unlock(&guarded.lock);
    ck_assert(is_biased());
}
END_TEST

START_TEST(lock_that_threads_take_in_turn_becomes_plain)
{
    if (!prepare())
        return;
    for (unsigned i = 0; i < 500; i++) {
        use(1);
        in_thread(use_one);
    }
    ck_assert_int_eq(weir__bias_way(&guarded.lock), WEIR__BIAS_PLAIN);
    use(10 * FEW);
    ck_assert(!is_biased());
}
END_TEST

START_TEST(way_of_a_biased_lock_depends_on_who_asks)
{
    if (!prepare())
        return;
    ck_assert_int_eq(weir__bias_way(&guarded.lock), WEIR__BIAS_ANY);
    in_thread(use_few);
    ck_assert_int_eq(weir__bias_way(&guarded.lock), WEIR__BIAS_ANY);
    setup();
    use(FEW);
    ck_assert_int_eq(weir__bias_way(&guarded.lock), WEIR__BIAS_HOME);
}
END_TEST

/* Waiting ------------------------------------------------------------------------------------------------------------------------------ */

static void *visit_and_tell(void *was_inside)
{
    weir__bias_visit(&guarded.lock);
    *(bool *)was_inside = guarded.count % 2;
    weir__bias_unlock(&guarded.lock);
    return NULL;
}

START_TEST(visitor_waits_until_the_home_thread_is_out)
{
    if (!prepare())
        return;
    pthread_t visitor;
    bool was_inside = true;
    use(FEW);
    guarded.count = 0;
    ck_assert(weir__bias_enter(&guarded.lock));
    guarded.count = 1;
    ck_assert_int_eq(pthread_create(&visitor, NULL, visit_and_tell, &was_inside), 0);
    /* The visitor is past its fence, and can only be waiting. */
    while (is_biased())
        continue;
    guarded.count = 2;
    weir__bias_leave(&guarded.lock);
    ck_assert_int_eq(pthread_join(visitor, NULL), 0);
    ck_assert(!was_inside);
}
END_TEST

static void *use_until_over(void *used)
{
    while (!atomic_load_explicit(&guarded.over, memory_order_relaxed)) {
        use(100);
        *(uint64_t *)used += 100;
    }
    return NULL;
}

/* Users have the lock all the time, and a visitor comes in the middle of it, each time when it has just been biased, if it is. */
static void count_under_load(unsigned users)
{
    pthread_t threads[4];
    uint64_t used[4] = { 0 }, sum = 0;
    for (unsigned i = 0; i < users; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_until_over, &used[i]), 0);
    for (unsigned i = 0; i < VISITS; i++) {
        for (unsigned looks = 0; looks < 20000 && !is_biased(); looks++)
            continue;
        weir__bias_visit(&guarded.lock);
        guarded.count++;
        guarded.lock.need = WEIR__BIAS_NEED;
        weir__bias_unlock(&guarded.lock);
    }
    atomic_store(&guarded.over, true);
    for (unsigned i = 0; i < users; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        sum += used[i];
    }
    ck_assert_uint_eq(guarded.count, sum + VISITS);
}

START_TEST(no_update_is_lost_to_revocations_under_load)
{
    prepare();
    count_under_load(1);
}
END_TEST

START_TEST(no_update_is_lost_among_several_users)
{
    prepare();
    count_under_load(4);
}
END_TEST

START_TEST(no_update_is_lost_without_the_fence)
{
    count_under_load(3);
}
END_TEST

/* A sandbox that comes later ----------------------------------------------------------------------------------------------------------- */

/* From now on the kernel refuses this process the fence. false: it cannot be told so. */
static bool forbid_fence(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { sizeof program / sizeof program[0], program };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

START_TEST(fence_that_is_refused_later_ends_all_biases)
{
    if (!prepare())
        return;
    use(FEW);
    if (!forbid_fence())
        return;
    errno = 0;
    in_thread(visit_once);
    ck_assert_int_eq(errno, 0);
    ck_assert(!weir__fence_is_ready());
    use(10 * FEW);
    ck_assert(!is_biased());
    ck_assert_uint_eq(guarded.count, 11 * FEW + 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bias");
    TCase *tcase = suite_case(suite, "bias", 0);
    tcase_add_checked_fixture(tcase, setup, NULL);
    /* First, for runs in one process: those for which the kernel was not asked, and last, the one after which it is of no use. */
    suite_add(tcase, without_the_fence_no_bias_is_earned, no_update_is_lost_without_the_fence, only_user_of_a_lock_earns_its_bias,
              barred_lock_is_not_biased_until_the_bar_is_lifted, visits_earn_no_bias, another_user_ends_the_bias,
              visitor_ends_the_bias_of_its_own_thread_too, each_revocation_doubles_what_the_bias_takes,
              bias_that_lasted_is_earned_again_as_easily_as_the_first, bias_is_earned_however_often_it_was_lost,
              bias_has_only_one_home_ever, lock_of_a_thread_that_ended_can_be_taken, home_thread_cannot_enter_twice,
              bias_cannot_be_entered_by_a_handler_inside_the_lock_that_earned_it, lock_that_threads_take_in_turn_becomes_plain,
              way_of_a_biased_lock_depends_on_who_asks, visitor_waits_until_the_home_thread_is_out,
              no_update_is_lost_to_revocations_under_load, no_update_is_lost_among_several_users,
              fence_that_is_refused_later_ends_all_biases);
    return suite_run(suite);
}
