/* SPDX-License-Identifier: MIT */
/* top.c - `weir top`: live processes and their pools on a whole screen, again and again. */
#include "config.h"

#include "tools/common/command.h"
#include "tools/common/processes.h"

#ifdef HAVE_NCURSES
#include <errno.h>
#include <string.h>

#include "lib/base/service.h"
#include "tools/top/look.h"
#include "tools/top/screen.h"
#endif

enum { OPT_INTERVAL, OPT_TIMEOUT };

static const struct command_option options[] = {
    [OPT_INTERVAL] = {"interval", 'i', OPTION_SECONDS, "SECONDS", "from one look at the processes to the next (default: 1)", 0.1, 3600},
    [OPT_TIMEOUT] = PROCESSES_TIMEOUT_OPTION,
    {0},
};

#ifdef HAVE_NCURSES
/* Of one run. */
struct top {
    struct top_view view;
    struct top_model model;
    int fd;          /* of looks that are done */
    bool is_looking; /* one is under way */
    bool is_due;     /* the next one is, whenever it would be else */
    uint64_t begun;  /* when the latest look was begun, by weir__service_now() */
};

/* Milliseconds until the next look is due; -1: it is not. */
static int time_left(const struct top *top)
{
    if (top->is_looking)
        return -1;
    uint64_t due = top->begun + (uint64_t)(top->view.interval * 1e9), now = weir__service_now();
    return top->is_due || due <= now ? 0 : (int)((due - now) / 1000000 + 1);
}

static void take_look(struct top *top)
{
    struct processes processes;
    top_look_end(&processes);
    top->is_looking = false;
    top_model_look(&top->model, processes, weir__service_now());
}

static void begin_look(struct top *top)
{
    top->begun = weir__service_now();
    top->is_looking = true;
    top->is_due = false;
    top_look_begin();
}

/* One event; false: the end. */
static bool serve(struct top *top)
{
    int left = time_left(top), key;
    if (left == 0)
        begin_look(top);
    enum top_action action = TOP_DRAW;
    switch (top_screen_wait(&top->view, top->fd, left ? left : -1, &key)) {
    case TOP_EVENT_END:
        return false;
    case TOP_EVENT_NONE:
        return true;
    case TOP_EVENT_KEY:
        action = top_view_key(&top->view, &top->model, key);
        break;
    case TOP_EVENT_READY:
        take_look(top);
        break;
    case TOP_EVENT_RESIZE:
        break;
    }
    top->is_due |= action == TOP_LOOK;
    if (action == TOP_DRAW)
        top_screen_draw(&top->view, &top->model);
    return action != TOP_QUIT;
}

static int run(const struct command_call *call)
{
    const struct option_value *interval = &call->options[OPT_INTERVAL];
    struct top top = {.view = {.interval = interval->given ? interval->seconds : 1}, .is_due = true};
    if (!top_screen_open(&top.view))
        return EXIT_TROUBLE;
    if (!top_look_start(processes_timeout(&call->options[OPT_TIMEOUT]), &top.fd)) {
        int code = errno;
        top_screen_close();
        complain("top: cannot start a thread: %s", strerror(code));
        return EXIT_TROUBLE;
    }
    top_screen_draw(&top.view, &top.model);
    while (serve(&top))
        ;
    top_screen_close();
    top_model_free(&top.model);
    return EXIT_GOOD;
}
#else
static int run(const struct command_call *call)
{
    (void)call;
    complain("top: this weir was built without ncurses; 'weir ps' prints the same figures once");
    return EXIT_TROUBLE;
}
#endif

const struct command command_top = {
    .name = "top",
    .summary = "watch live processes and their pools on a whole screen",
    .operands = "",
    .details =
        "Shows what 'weir ps' shows, again and again, with the allocations a second of each pool. A process that ends is shown as gone\n"
        "once; one that does not answer is shown with the reason, and delays others by --timeout at most.\n"
        "Keys: r, l, i, a and p order by reserved, live and idle memory, allocations a second and process, arrows and page keys move,\n"
        "enter looks now, h explains, q quits.\n"
        "Processes are seen with 'control: true' in their policy, by their own user and root.",
    .example = "  weir top\n"
               "  weir top --interval=0.2\n",
    .options = options,
    .run = run,
};
