/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_IO_NETWORK_H
#define CKPT_IO_NETWORK_H

#include "io/fault.h"

#include <poll.h>
#include <sys/socket.h>

/*
 * Sockets of TCP, behind the hook of tests. They never block, and no other program gets them. Sending to somebody who is gone
 * is an error and no signal. LISTEN: with SO_REUSEADDR, and for IPv6 not for IPv4 as well.
 */
int ckpt_io_socket(int family);
/* Who waits has a deadline of its own: a host that is cut off for a while is no reason to end. */
void ckpt_io_set_no_keepalive(int fd);
int ckpt_io_listen(int fd, const struct sockaddr *address, socklen_t len);
int ckpt_io_accept(int fd, struct sockaddr_storage *from);
int ckpt_io_connect(int fd, const struct sockaddr *address, socklen_t len);
ssize_t ckpt_io_send(int fd, const void *buf, size_t len);
ssize_t ckpt_io_recv(int fd, void *buf, size_t len);
/* What the other side has, and for how long some of it was on its way and there was room for it. False: Linux before 4.10. */
bool ckpt_io_sent(int fd, uint64_t *nbytes, uint64_t *nsec);
int ckpt_io_poll(struct pollfd *fds, nfds_t count, int msec);

#endif
