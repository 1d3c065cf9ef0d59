/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "share/wire/other_end.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* A union, so that the bytes are aligned like a netlink header. */
union answer {
    struct nlmsghdr header;
    char bytes[1024];
};

/* The kernel's number (the inode) of the socket at the other end, from the kernel's answer; 0 if the answer does not have it. */
static uint32_t peer_in(const union answer *answer, size_t len)
{
    if (len < NLMSG_LENGTH(sizeof(struct unix_diag_msg)) || !NLMSG_OK(&answer->header, len) ||
        answer->header.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return 0;
    const struct unix_diag_msg *message = NLMSG_DATA(&answer->header);
    const struct rtattr *attribute = (const struct rtattr *)(message + 1);
    unsigned left = answer->header.nlmsg_len - NLMSG_LENGTH(sizeof *message);
    for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
        if (attribute->rta_type == UNIX_DIAG_PEER && RTA_PAYLOAD(attribute) >= sizeof(uint32_t)) {
            uint32_t number;
            memcpy(&number, RTA_DATA(attribute), sizeof number);
            return number;
        }
    return 0;
}

static uint32_t find_peer(int socket_fd)
{
    struct {
        struct nlmsghdr header;
        struct unix_diag_req question;
    } packet = { .header = { .nlmsg_len = sizeof packet, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST } };
    union answer answer;
    struct stat info;
    uint32_t peer = 0;
    if (fstat(socket_fd, &info) != 0)
        return 0;
    packet.question = (struct unix_diag_req){ .sdiag_family = AF_UNIX, .udiag_states = UINT32_MAX, .udiag_ino = (uint32_t)info.st_ino,
                                              .udiag_show = UDIAG_SHOW_PEER, .udiag_cookie = { UINT32_MAX, UINT32_MAX } };
    int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0)
        return 0;
    /* The kernel puts its answer into the queue before send() returns. */
    if (send(fd, &packet, sizeof packet, 0) == (ssize_t)sizeof packet) {
        ssize_t len = recv(fd, &answer, sizeof answer, MSG_DONTWAIT);
        peer = len > 0 ? peer_in(&answer, (size_t)len) : 0;
    }
    close(fd);
    return peer;
}

bool share_lacks_other_end(pid_t pid, int socket_fd)
{
    char path[64], wanted[32], link[PATH_MAX];
    uint32_t peer = find_peer(socket_fd);
    bool is_there = false, is_hidden = false;
    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    snprintf(wanted, sizeof wanted, "socket:[%u]", (unsigned)peer);
    DIR *listing = peer ? opendir(path) : NULL;
    if (!listing)
        return false;
    for (const struct dirent *entry; !is_there && (entry = readdir(listing));) {
        ssize_t len = readlinkat(dirfd(listing), entry->d_name, link, sizeof link - 1);
        link[len > 0 ? len : 0] = '\0';
        is_there = strcmp(link, wanted) == 0;
        is_hidden = is_hidden || (len < 0 && errno == EACCES);
    }
    closedir(listing);
    return !is_there && !is_hidden;
}
