/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tools/observe.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/error.h"

#define TIMEOUT_DEFAULT_MS 5000

/* Where the sockets are ------------------------------------------------------------------------------------------------------------------ */

static void add_socket(struct observed_sockets *sockets, const char *path)
{
    if (sockets->count == sockets->room) {
        sockets->room = sockets->room ? 2 * sockets->room : 16;
        sockets->items = must(realloc(sockets->items, sockets->room * sizeof sockets->items[0]));
    }
    snprintf(sockets->items[sockets->count++].path, SHARE_PATH_SIZE, "%s", path);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct observed_socket *)a)->path, ((const struct observed_socket *)b)->path);
}

/* Adds every socket of the directory, if it is there. */
static void add_directory(struct observed_sockets *sockets, const char *directory)
{
    DIR *listing = opendir(directory);
    size_t first = sockets->count;
    if (!listing && errno != ENOENT && errno != ENOTDIR) {
        struct observed_denial *denial = &sockets->denials[sockets->denial_count++];
        snprintf(denial->path, sizeof denial->path, "%s", directory);
        denial->why = strerror(errno);
    }
    if (!listing)
        return;
    for (const struct dirent *entry; (entry = readdir(listing));) {
        char path[SHARE_PATH_SIZE];
        struct stat info;
        int len = snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        /* No socket has a longer path: nobody could connect to it. */
        if (len > 0 && (size_t)len < sizeof path && lstat(path, &info) == 0 && S_ISSOCK(info.st_mode))
            add_socket(sockets, path);
    }
    closedir(listing);
    if (sockets->count > first)
        qsort(sockets->items + first, sockets->count - first, sizeof sockets->items[0], by_path);
}

weir_status observe_sockets(int count, char *const *operands, weir_error *error, struct observed_sockets *sockets)
{
    struct observed_sockets found = {0};
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char path[SHARE_PATH_SIZE];
    for (int i = 0; i < count; i++) {
        weir_status status = share_path(operands[i], false, false, error, path);
        if (status != WEIR_OK) {
            observe_sockets_free(&found);
            return status;
        }
        add_socket(&found, path);
    }
    if (count == 0) {
        int len = runtime && runtime[0] == '/' ? snprintf(path, sizeof path, "%s/weir/share", runtime) : 0;
        if (len > 0 && (size_t)len < sizeof path)
            add_directory(&found, path);
        add_directory(&found, SHARE_SYSTEM_DIRECTORY);
    }
    *sockets = found;
    return WEIR_OK;
}

void observe_sockets_free(struct observed_sockets *sockets)
{
    free(sockets->items);
    *sockets = (struct observed_sockets){0};
}

/* One conversation ----------------------------------------------------------------------------------------------------------------------- */

struct conversation {
    const char *path;
    int fd;
    uint64_t deadline; /* CLOCK_MONOTONIC, milliseconds */
    weir_error *error;
};

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Waits for one packet. Observers are sent no descriptors. */
static weir_status receive_packet(const struct conversation *with, unsigned char bytes[WIRE_SIZE_MAX], size_t *len)
{
    for (;;) {
        int passed = -1;
        enum share_io io = share_receive(with->fd, bytes, WIRE_SIZE_MAX, len, &passed);
        if (passed >= 0) {
            close(passed);
            io = SHARE_BROKEN;
        }
        if (io == SHARE_DONE && now_ms() < with->deadline)
            return WEIR_OK;
        if (io == SHARE_CLOSED)
            return weir__fail(with->error, WEIR_GONE, "%s: the exporter closed the connection", with->path);
        if (io == SHARE_BROKEN)
            return weir__fail(with->error, WEIR_PROTOCOL, "%s: what listens there is no exporter of Weir", with->path);
        struct pollfd readable = {.fd = with->fd, .events = POLLIN};
        uint64_t now = now_ms();
        if (now >= with->deadline || poll(&readable, 1, (int)(with->deadline - now)) == 0)
            return weir__fail(with->error, WEIR_TIMEOUT, "%s: the exporter does not answer: is it stopped? --timeout gives it more time",
                              with->path);
    }
}

static weir_status receive(const struct conversation *with, uint32_t request, struct wire_message *message)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    uint16_t version = 0;
    size_t len;
    weir_status status = receive_packet(with, bytes, &len);
    if (status != WEIR_OK)
        return status;
    enum wire_fault fault = wire_decode(bytes, len, message, &version);
    if (fault == WIRE_OTHER_VERSION)
        return weir__fail(with->error, WEIR_REFUSED, "%s: the exporter speaks version %u of the protocol, this command version %d: use "
                                                     "the weir of its release",
                          with->path, version, WIRE_VERSION);
    if (fault == WIRE_GOOD && message->type == WIRE_REFUSED)
        return weir__fail(with->error, (weir_status)message->u.refused.status, "%s: %s", with->path, message->u.refused.text);
    if (fault != WIRE_GOOD || wire_sender(message->type) != WIRE_EXPORTER_SENDS || message->request != request)
        return weir__fail(with->error, WEIR_PROTOCOL, "%s: what listens there does not keep to the protocol of Weir", with->path);
    return WEIR_OK;
}

static weir_status ask(const struct conversation *with, const struct wire_message *question, struct wire_message *answer)
{
    unsigned char bytes[WIRE_SIZE_MAX];
    /* Two small packets always fit, and who refuses us may have closed before he read: what he said is still to be received. */
    share_send(with->fd, bytes, wire_encode(question, bytes), -1);
    return receive(with, question->request, answer);
}

/* Connects and says hello. *with: its fd is to be closed. */
static weir_status begin(const char *path, unsigned timeout_ms, weir_error *error, struct conversation *with, struct observed_export *seen)
{
    struct wire_message hello = {.type = WIRE_HELLO, .request = 1, .u.hello = {WIRE_ROLE_OBSERVER, "weir"}}, welcome = {0};
    *with = (struct conversation){.path = path, .fd = -1, .deadline = now_ms() + timeout_ms, .error = error};
    weir_status status = share_connect(path, timeout_ms, error, &with->fd);
    if (status == WEIR_OK)
        status = ask(with, &hello, &welcome);
    if (status == WEIR_OK && welcome.type != WIRE_WELCOME)
        status = weir__fail(error, WEIR_PROTOCOL, "%s: what listens there answered HELLO with %s", path, wire_type_name(welcome.type));
    if (status != WEIR_OK)
        return status;
    *seen = (struct observed_export){.pid = welcome.u.welcome.pid, .epoch = welcome.u.welcome.epoch};
    memcpy(seen->pool, welcome.u.welcome.pool, sizeof seen->pool);
    memcpy(seen->uuid, welcome.u.welcome.uuid, sizeof seen->uuid);
    return WEIR_OK;
}

static void end(struct conversation *with)
{
    if (with->fd >= 0)
        close(with->fd);
}

/* Who holds what ------------------------------------------------------------------------------------------------------------------------- */

static void add_importer(struct observed_export *seen, const struct wire_message *message)
{
    if (seen->count == seen->room) {
        seen->room = seen->room ? 2 * seen->room : 8;
        seen->importers = must(realloc(seen->importers, seen->room * sizeof seen->importers[0]));
    }
    struct observed_importer *importer = &seen->importers[seen->count++];
    *importer = (struct observed_importer){
        .pid = message->u.importer.pid,
        .uid = message->u.importer.uid,
        .state = (enum wire_state)message->u.importer.state,
        .leases = message->u.importer.leases,
        .mappings = message->u.importer.mappings,
        .idle_ms = message->u.importer.idle_ms,
    };
    memcpy(importer->name, message->u.importer.name, sizeof importer->name);
}

static void add_hold(struct observed_importer *importer, const struct wire_message *message)
{
    if (importer->hold_count == importer->hold_room) {
        importer->hold_room = importer->hold_room ? 2 * importer->hold_room : 8;
        importer->holds = must(realloc(importer->holds, importer->hold_room * sizeof importer->holds[0]));
    }
    struct observed_hold *hold = &importer->holds[importer->hold_count++];
    *hold = (struct observed_hold){
        .hold = (enum wire_hold)message->u.holds.hold,
        .ring = message->u.holds.ring,
        .sequence = message->u.holds.sequence,
        .block = message->u.holds.block,
        .size = message->u.holds.size,
        .held_ms = message->u.holds.held_ms,
    };
    memcpy(hold->name, message->u.holds.name, sizeof hold->name);
}

/* One message of the answer to LIST. false: it does not belong there. */
static bool take_answer(struct observed_export *seen, const struct wire_message *message)
{
    struct observed_importer *latest = seen->count ? &seen->importers[seen->count - 1] : NULL;
    if (message->type == WIRE_IMPORTER) {
        add_importer(seen, message);
        return true;
    }
    if (message->type != WIRE_HOLDS || !latest || message->u.holds.pid != latest->pid)
        return false;
    add_hold(latest, message);
    return true;
}

static weir_status list(const struct conversation *with, struct observed_export *seen)
{
    struct wire_message question = {.type = WIRE_LIST, .request = 2}, answer = {0};
    weir_status status = ask(with, &question, &answer);
    while (status == WEIR_OK && answer.type != WIRE_DONE) {
        if (!take_answer(seen, &answer))
            return weir__fail(with->error, WEIR_PROTOCOL, "%s: what listens there answered LIST with %s", with->path,
                              wire_type_name(answer.type));
        status = receive(with, question.request, &answer);
    }
    return status;
}

weir_status observe_export(const char *path, unsigned timeout_ms, weir_error *error, struct observed_export *seen)
{
    struct conversation with;
    struct observed_export found = {0};
    weir_status status = begin(path, timeout_ms, error, &with, &found);
    if (status == WEIR_OK)
        status = list(&with, &found);
    end(&with);
    if (status == WEIR_OK)
        *seen = found;
    else
        observe_free(&found);
    return status;
}

void observe_free(struct observed_export *seen)
{
    for (size_t i = 0; i < seen->count; i++)
        free(seen->importers[i].holds);
    free(seen->importers);
    *seen = (struct observed_export){0};
}

weir_status observe_evict(const char *path, int pid, unsigned timeout_ms, weir_error *error, struct observed_export *seen)
{
    struct wire_message question = {.type = WIRE_EVICT, .request = 2, .u.evict.pid = pid}, answer = {0};
    struct conversation with;
    struct observed_export found = {0};
    weir_status status = begin(path, timeout_ms, error, &with, &found);
    if (status == WEIR_OK)
        status = ask(&with, &question, &answer);
    if (status == WEIR_OK && answer.type != WIRE_DONE)
        status = weir__fail(error, WEIR_PROTOCOL, "%s: what listens there answered EVICT with %s", path, wire_type_name(answer.type));
    end(&with);
    if (status == WEIR_OK)
        *seen = found;
    return status;
}

/* What both subcommands do --------------------------------------------------------------------------------------------------------------- */

int observe_exit(weir_status status)
{
    if (status == WEIR_OK)
        return EXIT_GOOD;
    return status == WEIR_GONE || status == WEIR_NOT_FOUND ? EXIT_FAILED : EXIT_TROUBLE;
}

unsigned observe_timeout(const struct option_value *option)
{
    return option->given ? (unsigned)(option->seconds * 1000) : TIMEOUT_DEFAULT_MS;
}

void observe_complain_denials(const char *subcommand, const struct observed_sockets *sockets)
{
    for (size_t i = 0; i < sockets->denial_count; i++)
        complain("%s: %s cannot be listed (%s): name the sockets there, or ask as root", subcommand, sockets->denials[i].path,
                 sockets->denials[i].why);
}
