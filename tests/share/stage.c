/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/share/connect.h"
#include "tests/share/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PLAYERS_MAX 256
#define LINE_SIZE 8192
#define LOG_SHOWN 2000

struct player {
    char name[32];
    pid_t pid;
    int fd; /* both its standard input and output */
    bool is_dead;
    int fds; /* of its own, before it did anything */
    size_t len;
    char told[512];
    char line[LINE_SIZE]; /* its answer; and what has been read behind it */
    char rest[LINE_SIZE];
};

static struct {
    char directory[64];
    char machine[64]; /* the simulated one's name */
    unsigned count;
    struct player *players[PLAYERS_MAX];
} stage;

static double patience_s(void)
{
    return getenv("WEIR_TEST_SLOW") ? 300 : 120;
}

unsigned stage_long(void)
{
    return getenv("WEIR_TEST_SLOW") ? 20000 : 10000;
}

static double now_s(void)
{
    return (double)share_deadline(0) / 1e9;
}

bool stage_is_simulated(void)
{
    const char *gpu = getenv("WEIR_GPU");
    return !gpu || strcmp(gpu, "cuda") != 0;
}

/* In a child, as CUDA is not to be started in a process whose children are to use it. */
bool stage_supports(enum gpu_feature feature)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        const char *why;
        int count = 0;
        const struct gpu *gpu = gpu_find(getenv("WEIR_GPU"), &why);
        _exit(gpu && gpu->device_count(&count) == GPU_SUCCESS && gpu->supports(0, feature, NULL, 0) ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

const char *stage_directory(void)
{
    return stage.directory;
}

/* Failing: with what the player has logged --------------------------------------------------------------------------------------------- */

static const char *log_of(const struct player *player)
{
    static char text[LOG_SHOWN + 1];
    char path[128];
    snprintf(path, sizeof path, "%s/%s.log", stage.directory, player->name);
    FILE *file = fopen(path, "r");
    if (!file)
        return "";
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    fseek(file, size > LOG_SHOWN ? size - LOG_SHOWN : 0, SEEK_SET);
    text[fread(text, 1, LOG_SHOWN, file)] = '\0';
    fclose(file);
    return text;
}

__attribute__((noreturn, format(printf, 2, 3))) static void fail_with(const struct player *player, const char *format, ...)
{
    char text[LINE_SIZE + 256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    ck_abort_msg("%s: %s; its log: %s", player->name, text, log_of(player));
}

/* Lines -------------------------------------------------------------------------------------------------------------------------------- */

static void find_dead(struct player *player)
{
    if (!player->is_dead && waitpid(player->pid, NULL, 0) == player->pid)
        player->is_dead = true;
}

/* false: it is dead. */
static bool read_more(struct player *player, double deadline)
{
    struct pollfd readable = { .fd = player->fd, .events = POLLIN };
    double left = deadline - now_s();
    int ready = poll(&readable, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
    if (ready == 0)
        fail_with(player, "no answer to: %s", player->told);
    ssize_t got = read(player->fd, player->rest + player->len, sizeof player->rest - 1 - player->len);
    if (got <= 0) {
        find_dead(player);
        return false;
    }
    player->len += (size_t)got;
    player->rest[player->len] = '\0';
    return true;
}

const char *stage_listen(struct player *player)
{
    double deadline = now_s() + patience_s();
    char *end;
    if (player->is_dead)
        return NULL;
    while (!(end = memchr(player->rest, '\n', player->len)))
        if (!read_more(player, deadline))
            return NULL;
    size_t len = (size_t)(end - player->rest);
    memcpy(player->line, player->rest, len);
    player->line[len] = '\0';
    player->len -= len + 1;
    memmove(player->rest, end + 1, player->len);
    return player->line;
}

bool stage_has_answer(struct player *player)
{
    struct pollfd readable = { .fd = player->fd, .events = POLLIN };
    return player->len || poll(&readable, 1, 0) == 1;
}

__attribute__((format(printf, 2, 0))) static void tell(struct player *player, const char *format, va_list arguments)
{
    int len = vsnprintf(player->told, sizeof player->told, format, arguments);
    ck_assert_msg(len >= 0 && (size_t)len < sizeof player->told, "a line of %d characters", len);
    player->told[len] = '\n';
    if (send(player->fd, player->told, (size_t)len + 1, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
        fail_with(player, "cannot be told: %s", strerror(errno));
    player->told[len] = '\0';
}

void stage_tell(struct player *player, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tell(player, format, arguments);
    va_end(arguments);
}

/* Its answer behind the wanted words. */
static const char *hear_answer(struct player *player, const char *wanted)
{
    const char *answer = stage_listen(player);
    if (!answer)
        fail_with(player, "is dead, and was told: %s", player->told);
    if (strncmp(answer, wanted, strlen(wanted)) != 0)
        fail_with(player, "was told: %s; and says, instead of %s: %s", player->told, wanted, answer);
    return answer + strlen(wanted);
}

const char *stage_hear(struct player *player)
{
    return hear_answer(player, "ok");
}

const char *stage_hears(struct player *player, const char *status)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "fail %s ", status);
    return hear_answer(player, wanted);
}

const char *stage_say(struct player *player, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tell(player, format, arguments);
    va_end(arguments);
    return stage_hear(player);
}

const char *stage_refuses(struct player *player, const char *status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    tell(player, format, arguments);
    va_end(arguments);
    return stage_hears(player, status);
}

const char *stage_try(struct player *player, const char *format, ...)
{
    va_list arguments;
    if (player->is_dead)
        return NULL;
    va_start(arguments, format);
    tell(player, format, arguments);
    va_end(arguments);
    return stage_listen(player);
}

/* Who looks all the time takes it from those that are waited for. */
static long longer(long nap)
{
    return nap < 16 * (long)GPU_MILLISECOND ? 2 * nap : nap;
}

const char *stage_until(struct player *player, const char *wanted, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    double deadline = now_s() + patience_s();
    for (long nap = (long)GPU_MILLISECOND;; nap = longer(nap)) {
        const char *answer = stage_try(player, "%s", line);
        if (!answer)
            fail_with(player, "is dead, and was asked: %s", line);
        if (strstr(answer, wanted))
            return answer;
        if (now_s() > deadline)
            fail_with(player, "was asked: %s; and says to the end, instead of %s: %s", line, wanted, answer);
        nanosleep(&(struct timespec){.tv_nsec = nap}, NULL);
    }
}

void stage_wait(bool (*is_done)(void *data), void *data, const char *what)
{
    for (double deadline = now_s() + patience_s(); !is_done(data);) {
        ck_assert_msg(now_s() < deadline, "it never came to pass: %s", what);
        nanosleep(&(struct timespec){.tv_nsec = GPU_MILLISECOND}, NULL);
    }
}

unsigned long long stage_number(const char *answer, const char *key)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, " %s=", key);
    const char *found = strstr(answer, wanted);
    ck_assert_msg(found != NULL, "no %s in: %s", key, answer);
    return strtoull(found + strlen(wanted), NULL, 0);
}

/* Entering ----------------------------------------------------------------------------------------------------------------------------- */

static void become_actor(const struct player *player, const struct role *role, int fd)
{
    char program[PATH_MAX] = "", log[128], dies_at[16];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(log, sizeof log, "%s/%s.log", stage.directory, player->name);
    int log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(log_fd, STDERR_FILENO) < 0)
        _exit(126);
    if (role->dies_at) {
        snprintf(dies_at, sizeof dies_at, "%u", role->dies_at);
        setenv("ACTOR_DIES_AT", dies_at, 1);
    }
    if (role->sim)
        setenv("WEIR_SIM", role->sim, 1);
    /* Beside this program. */
    if (readlink("/proc/self/exe", program, sizeof program - 8) < 0)
        _exit(126);
    snprintf(strrchr(program, '/'), 8, "/actor");
    execl(program, program, (char *)NULL);
    _exit(127);
}

static void start(struct player *player, const struct role *role)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    player->pid = fork();
    if (player->pid == 0)
        become_actor(player, role, pair[1]);
    close(pair[1]);
    player->fd = pair[0];
    ck_assert_msg(player->pid > 0, "fork: %s", strerror(errno));
}

struct player *stage_enter(struct role role)
{
    ck_assert_msg(stage.count < PLAYERS_MAX, "too many players");
    struct player *player = calloc(1, sizeof *player);
    ck_assert_ptr_nonnull(player);
    stage.players[stage.count++] = player;
    snprintf(player->name, sizeof player->name, "%s-%u", role.name, stage.count);
    start(player, &role);
    stage_say(player, "memory"); /* joins the machine, which has descriptors of its own */
    player->fds = (int)stage_number(stage_say(player, "counts"), "fds");
    if (role.policy)
        stage_say(player, "open %s; stream s", stage_policy_file(player->name, role.policy));
    return player;
}

const char *stage_policy_file(const char *name, const char *policy)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s.yaml", stage.directory, name);
    FILE *file = fopen(path, "w");
    ck_assert_msg(file && fputs(policy, file) >= 0 && fclose(file) == 0, "%s cannot be written", path);
    return path;
}

const char *stage_exporter_policy(const char *share)
{
    static char policy[512];
    snprintf(policy, sizeof policy, "weir: 1\npools:\n  frames: { devices: [0], ipc: posix_fd, share: { socket: frames%s } }\n",
             share ? share : "");
    return policy;
}

const char *stage_importer_policy(void)
{
    return "weir: 1\npools:\n  own: {}\n";
}

struct player *stage_exporter(const char *name, const char *share)
{
    struct player *player = stage_enter((struct role){ .name = name, .policy = stage_exporter_policy(share) });
    stage_say(player, "export frames");
    return player;
}

struct player *stage_guest(const char *name)
{
    return stage_enter((struct role){ .name = name, .policy = stage_importer_policy() });
}

struct player *stage_importer(const char *name)
{
    struct player *player = stage_guest(name);
    stage_say(player, "import i frames");
    return player;
}

int stage_connect(void)
{
    char path[SHARE_PATH_SIZE];
    weir_error error = WEIR_ERROR_INIT;
    int fd;
    weir_status status = share_path("frames", false, false, &error, path);
    if (status == WEIR_OK)
        status = connect_within(path, 5000, &error, &fd);
    ck_assert_msg(status == WEIR_OK, "%s", error.text);
    return fd;
}

/* Leaving ------------------------------------------------------------------------------------------------------------------------------ */

pid_t stage_pid(const struct player *player)
{
    return player->pid;
}

void stage_signal(struct player *player, int signal)
{
    int status;
    kill(player->pid, signal);
    if (signal == SIGKILL)
        find_dead(player);
    else
        ck_assert_int_eq(waitpid(player->pid, &status, WUNTRACED | WCONTINUED), player->pid);
}

struct stop {
    pid_t pid;
    int status;
};

static bool has_stopped(void *data)
{
    struct stop *stop = data;
    return waitpid(stop->pid, &stop->status, WUNTRACED | WNOHANG) == stop->pid;
}

void stage_await_stop(const struct player *player)
{
    struct stop stop = { .pid = player->pid };
    stage_wait(has_stopped, &stop, "an actor stops where it is to");
    ck_assert_msg(WIFSTOPPED(stop.status), "%s ended with status %#x", player->name, (unsigned)stop.status);
}

bool stage_is_dead(struct player *player)
{
    if (!player->is_dead && waitpid(player->pid, NULL, WNOHANG) == player->pid)
        player->is_dead = true;
    return player->is_dead;
}

static void check_nothing_left(struct player *player)
{
    const char *counts = stage_say(player, "counts");
    if (!stage_is_simulated())
        return;
    if (!strstr(counts, " blocks=0 pools=0 streams=0 events=0 "))
        fail_with(player, "has closed all, and still there are:%s", counts);
    /* What others sent it is closed by another thread. */
    for (unsigned naps = 0; (int)stage_number(counts, "fds") != player->fds && naps < 5000; naps++) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        counts = stage_say(player, "counts");
    }
    if ((int)stage_number(counts, "fds") != player->fds)
        fail_with(player, "had %d descriptors before, and has now:%s", player->fds, counts);
}

static void end(struct player *player)
{
    int status;
    stage_tell(player, "quit");
    if (waitpid(player->pid, &status, 0) != player->pid || status != 0)
        fail_with(player, "ended with status %#x", (unsigned)status);
    player->is_dead = true;
}

void stage_leave(struct player *player)
{
    stage_say(player, "close");
    check_nothing_left(player);
    end(player);
}

static void open_machine(unsigned mib)
{
    static unsigned machines;
    char settings[96];
    memset(&stage, 0, sizeof stage);
    snprintf(stage.directory, sizeof stage.directory, "/tmp/weir-stage-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(stage.directory));
    snprintf(stage.machine, sizeof stage.machine, "stage-%ld-%u", (long)getpid(), ++machines);
    snprintf(settings, sizeof settings, "memory=%uMiB,name=%s", mib, stage.machine);
    setenv("XDG_RUNTIME_DIR", stage.directory, 1);
    setenv("WEIR_CONTROL_DIR", stage.directory, 1); /* root would find those of others beside it */
    if (stage_is_simulated()) {
        setenv("WEIR_GPU", "sim", 1);
        setenv("WEIR_SIM", settings, 1);
    }
}

void stage_open(void)
{
    open_machine(1024);
}

void stage_open_small(void)
{
    open_machine(256);
}

/* The machine's file too, which only its last process removes, unless that is killed. */
static void remove_files(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s' '/dev/shm/weir-sim-%u-%s'", stage.directory, (unsigned)geteuid(), stage.machine);
    ck_assert_int_eq(system(command), 0);
}

static void check_memory(struct player *last)
{
    char all[64];
    unsigned long long total = stage_number(stage_say(last, "memory"), "total");
    snprintf(all, sizeof all, " free=%llu total=%llu", total, total);
    stage_until(last, all, "memory"); /* a child of who was killed may not be quite dead */
}

/* In the order in which they came, so that exporters close before their importers do. */
void stage_close(void)
{
    struct player *last = NULL;
    for (unsigned i = 0; i < stage.count; i++)
        if (!stage_is_dead(stage.players[i]))
            stage_say(last = stage.players[i], "close");
    for (unsigned i = 0; i < stage.count; i++)
        if (!stage.players[i]->is_dead)
            check_nothing_left(stage.players[i]);
    if (last && stage_is_simulated())
        check_memory(last);
    for (unsigned i = 0; i < stage.count; i++) {
        if (!stage.players[i]->is_dead)
            end(stage.players[i]);
        close(stage.players[i]->fd);
        free(stage.players[i]);
    }
    remove_files();
}

TCase *stage_case(Suite *suite, const char *name)
{
    TCase *tcase = suite_case(suite, name, 60); /* more than patience_s() by CK_TIMEOUT_MULTIPLIER, which is 4 at least */
    tcase_add_checked_fixture(tcase, stage_open, stage_close);
    return tcase;
}

TCase *stage_small_case(Suite *suite, const char *name)
{
    TCase *tcase = suite_case(suite, name, 60);
    tcase_add_checked_fixture(tcase, stage_open_small, stage_close);
    return tcase;
}
