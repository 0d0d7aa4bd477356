/* SPDX-License-Identifier: Apache-2.0 */
#include "io/network.h"

#include <linux/tcp.h> /* has more of struct tcp_info than netinet/tcp.h */
#include <netinet/in.h>
#include <stddef.h>

int ckpt_io_socket(int family)
{
	const int on = 1, idle_s = 10, pause_s = 5, times = 3;
	int fd = ckpt_io_fails(CKPT_IO_SOCKET) ? -1 : socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return fd;
	/* what cannot be set is not needed: those that accept or connect have deadlines */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause_s, sizeof(pause_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

void ckpt_io_set_no_keepalive(int fd)
{
	const int off = 0;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &off, sizeof(off));
}

int ckpt_io_listen(int fd, const struct sockaddr *address, socklen_t len)
{
	const int on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (ckpt_io_fails(CKPT_IO_BIND) || bind(fd, address, len) < 0)
		return -1;
	return ckpt_io_fails(CKPT_IO_LISTEN) ? -1 : listen(fd, SOMAXCONN);
}

int ckpt_io_accept(int fd, struct sockaddr_storage *from)
{
	socklen_t len = sizeof(*from);

	/* options are those of the listening socket */
	return ckpt_io_fails(CKPT_IO_ACCEPT) ? -1 : accept4(fd, (struct sockaddr *)from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

int ckpt_io_connect(int fd, const struct sockaddr *address, socklen_t len)
{
	return ckpt_io_fails(CKPT_IO_CONNECT) ? -1 : connect(fd, address, len);
}

ssize_t ckpt_io_send(int fd, const void *buf, size_t len)
{
	return ckpt_io_fails(CKPT_IO_SEND) ? -1 : send(fd, buf, len, MSG_NOSIGNAL);
}

ssize_t ckpt_io_recv(int fd, void *buf, size_t len)
{
	return ckpt_io_fails(CKPT_IO_RECV) ? -1 : recv(fd, buf, len, 0);
}

bool ckpt_io_sent(int fd, uint64_t *nbytes, uint64_t *nsec)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
	    len < offsetof(struct tcp_info, tcpi_rwnd_limited) + sizeof(info.tcpi_rwnd_limited) ||
	    info.tcpi_busy_time < info.tcpi_rwnd_limited)
		return false;
	*nbytes = info.tcpi_bytes_acked;
	*nsec = (info.tcpi_busy_time - info.tcpi_rwnd_limited) * 1000;
	return true;
}

int ckpt_io_poll(struct pollfd *fds, nfds_t count, int msec)
{
	return ckpt_io_fails(CKPT_IO_POLL) ? -1 : poll(fds, count, msec);
}
