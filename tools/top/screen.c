/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/common/environment.h"
#include "tools/top/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* ncurses has a macro for everything; its functions do. */
#define NCURSES_NOMACROS 1
#include <curses.h>
#include <term.h>

static SCREEN *terminal;
static int signals = -1;
static attr_t attributes[STYLE_FAINT + 1];

static void choose_attributes(void)
{
    attributes[STYLE_STRONG] = A_BOLD;
    attributes[STYLE_BAD] = A_BOLD;
    attributes[STYLE_FAINT] = A_UNDERLINE;
    if (!terminal_is_coloured(stdout) || !has_colors() || start_color() == ERR)
        return;
    use_default_colors();
    init_pair(1, COLOR_RED, -1);
    attributes[STYLE_BAD] = (attr_t)COLOR_PAIR(1) | A_BOLD;
}

/* ncurses knows of the new size only what it is told: its own handler of SIGWINCH never runs, since the signal is read, not handled. */
static void take_size(struct top_view *view)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
        resizeterm(size.ws_row, size.ws_col);
    getmaxyx(stdscr, view->height, view->width);
}

/* Signals that would leave the terminal as it is wait to be read like keys. */
static bool take_signals(void)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaddset(&set, numbers[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) == 0)
        signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        complain("top: cannot receive signals: %s", strerror(errno));
    return signals >= 0;
}

static bool is_usable(void)
{
    const char *type = variable("TERM");
    int problem;
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)) {
        complain("top: it needs a terminal; 'weir ps' prints the same figures once, 'weir ps --json' for programs");
        return false;
    }
    if (!type || setupterm(type, STDOUT_FILENO, &problem) == ERR) {
        complain("top: TERM=%s: there is no such terminal type; set TERM to yours, as in TERM=xterm, or use 'weir ps'", type ? type : "");
        return false;
    }
    const char *move = tigetstr("cup");
    bool can_move = move && move != (const char *)-1;
    /* newterm() sets the terminal up once more, and forgets this one. */
    del_curterm(cur_term);
    if (!can_move) {
        complain("top: TERM=%s: such a terminal cannot be drawn on; set TERM to yours, as in TERM=xterm, or use 'weir ps'", type);
        return false;
    }
    return true;
}

bool top_screen_open(struct top_view *view)
{
    if (!is_usable() || !take_signals())
        return false;
    terminal = newterm(NULL, stdout, stdin);
    if (!terminal) {
        complain("top: the terminal cannot be taken over; 'weir ps' needs none");
        return false;
    }
    atexit(top_screen_close);
    cbreak();
    noecho();
    nonl();
    curs_set(0);
    set_escdelay(25);
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    choose_attributes();
    take_size(view);
    return true;
}

void top_screen_close(void)
{
    if (!terminal)
        return;
    endwin();
    delscreen(terminal);
    terminal = NULL;
}

static void put(void *data, int row, int column, enum style style, const char *text)
{
    (void)data;
    attrset((int)attributes[style]);
    mvaddstr(row, column, text);
}

void top_screen_draw(struct top_view *view, const struct top_model *model)
{
    erase();
    top_view_draw(view, model, put, NULL);
    refresh();
}

/* What the pending signals ask for. */
static enum top_event take_signal(struct top_view *view)
{
    struct signalfd_siginfo info;
    enum top_event event = TOP_EVENT_NONE;
    while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo != SIGWINCH)
            return TOP_EVENT_END;
        event = TOP_EVENT_RESIZE;
    }
    if (event == TOP_EVENT_RESIZE)
        take_size(view);
    return event;
}

static bool take_key(int *key)
{
    static const struct {
        int curses, ours;
    } names[] = {
        {KEY_UP, TOP_KEY_UP},           {KEY_DOWN, TOP_KEY_DOWN}, {KEY_PPAGE, TOP_KEY_PAGE_UP},
        {KEY_NPAGE, TOP_KEY_PAGE_DOWN}, {KEY_HOME, TOP_KEY_HOME}, {KEY_END, TOP_KEY_END},
        {KEY_ENTER, TOP_KEY_ENTER},     {'\r', TOP_KEY_ENTER},    {'\n', TOP_KEY_ENTER},
    };
    *key = getch();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (*key == names[i].curses)
            *key = names[i].ours;
    return *key != ERR;
}

enum top_event top_screen_wait(struct top_view *view, int fd, int timeout_ms, int *key)
{
    struct pollfd fds[] = {{.fd = signals, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    /* What ncurses has read ahead is in no descriptor any more. */
    if (take_key(key))
        return TOP_EVENT_KEY;
    if (poll(fds, 3, timeout_ms) <= 0)
        return TOP_EVENT_NONE;
    if (fds[0].revents)
        return take_signal(view);
    if (fds[1].revents & (POLLHUP | POLLERR | POLLNVAL))
        return TOP_EVENT_END;
    if (fds[1].revents)
        return take_key(key) ? TOP_EVENT_KEY : TOP_EVENT_NONE;
    return fds[2].revents ? TOP_EVENT_READY : TOP_EVENT_NONE;
}
