/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection of two ranks, which never blocks.
 *
 * What must stay true: no more is read than the message that is waited for, so whoever uses the connection
 * next finds the rest. A frame has its number as soon as it is put, so it is put only where it fits.
 */
#include "job/tcp_link.h"

#include "base/clock.h"
#include "io/network.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { MOST_DRAINED = 64 }; /* reads before it is closed */

static size_t size_at(enum ckpt_tcp_stage stage)
{
	static const size_t sizes[] = {
		[CKPT_TCP_JOIN] = CKPT_WIRE_JOIN,	[CKPT_TCP_CHALLENGE] = CKPT_WIRE_CHALLENGE,
		[CKPT_TCP_PROOF] = CKPT_WIRE_PROOF,	[CKPT_TCP_VERDICT] = CKPT_WIRE_VERDICT,
		[CKPT_TCP_FRAMES] = CKPT_WIRE_HEAD,	[CKPT_TCP_LEAVING] = 0,
	};

	return sizes[stage];
}

struct ckpt_tcp_link *ckpt_tcp_link_new(int fd, enum ckpt_tcp_stage stage)
{
	struct ckpt_tcp_link *l = malloc(sizeof(*l));

	if (!l) {
		close(fd);
		return NULL;
	}
	memset(l, 0, offsetof(struct ckpt_tcp_link, in)); /* the rest is large, and mostly not used */
	l->fd = fd;
	l->since = l->last_heard = ckpt_now_nsec();
	l->is_ready = true;
	ckpt_tcp_link_set_stage(l, stage);
	return l;
}

void ckpt_tcp_link_free(struct ckpt_tcp_link *l)
{
	if (!l)
		return;
	if (l->fd >= 0)
		close(l->fd);
	free(l);
}

void ckpt_tcp_link_set_stage(struct ckpt_tcp_link *l, enum ckpt_tcp_stage stage)
{
	l->stage = stage;
	ckpt_tcp_link_next(l);
}

void ckpt_tcp_link_next(struct ckpt_tcp_link *l)
{
	l->wanted = size_at(l->stage);
	l->in_len = 0;
}

static int end_link(struct ckpt_tcp_link *l)
{
	l->has_ended = true;
	return -1;
}

int ckpt_tcp_link_read(struct ckpt_tcp_link *l)
{
	while (!l->has_ended && l->in_len < l->wanted) {
		ssize_t n = ckpt_io_recv(l->fd, l->in + l->in_len, l->wanted - l->in_len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (n <= 0)
			return end_link(l);
		l->in_len += (size_t)n;
		l->last_heard = ckpt_now_nsec();
		if (l->stage != CKPT_TCP_FRAMES || l->in_len != CKPT_WIRE_HEAD || l->wanted != CKPT_WIRE_HEAD)
			continue;
		l->wanted = ckpt_wire_frame_size(l->in);
		if (!l->wanted)
			return end_link(l);
	}
	return l->has_ended ? -1 : l->wanted > 0;
}

bool ckpt_tcp_link_drain(struct ckpt_tcp_link *l)
{
	ssize_t n = -1;

	for (int i = 0; !l->has_ended && i < MOST_DRAINED; i++) {
		n = ckpt_io_recv(l->fd, l->in, sizeof(l->in));
		if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK))
			l->has_ended = true;
		if (n < 0 && errno != EINTR)
			break;
	}
	return !l->has_ended;
}

bool ckpt_tcp_link_put(struct ckpt_tcp_link *l, const void *bytes, size_t len)
{
	if (l->out_pos == l->out_len)
		l->out_pos = l->out_len = 0;
	if (len > sizeof(l->out) - l->out_len)
		return false;
	memcpy(l->out + l->out_len, bytes, len);
	l->out_len += len;
	return true;
}

bool ckpt_tcp_link_put_frame(struct ckpt_tcp_link *l, enum ckpt_wire_kind kind, const void *bytes,
			     size_t len)
{
	if (l->out_pos == l->out_len)
		l->out_pos = l->out_len = 0;
	if (sizeof(l->out) - l->out_len < CKPT_WIRE_HEAD + len + CKPT_WIRE_KEY)
		return false; /* before it has got a number */
	l->out_len += ckpt_wire_write_frame(&l->session, kind, bytes, len, l->out + l->out_len);
	return true;
}

bool ckpt_tcp_link_flush(struct ckpt_tcp_link *l)
{
	while (!l->has_ended && ckpt_tcp_link_has_more(l)) {
		ssize_t n = ckpt_io_send(l->fd, l->out + l->out_pos, l->out_len - l->out_pos);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return true;
		if (n < 0)
			return false; /* what it has sent before can still be read */
		l->out_pos += (size_t)n;
	}
	return !l->has_ended;
}

short ckpt_tcp_link_events(const struct ckpt_tcp_link *l)
{
	return (short)(POLLIN | (ckpt_tcp_link_has_more(l) ? POLLOUT : 0));
}

void ckpt_tcp_link_put_failure(struct ckpt_tcp_link *l, enum ckpt_wire_kind kind,
			       const struct ckpt_failure_notice *why)
{
	uint8_t bytes[CKPT_MOST_FAILURE_NOTICE];

	ckpt_tcp_link_put_frame(l, kind, bytes, ckpt_failure_notice_write(why, bytes));
}

void ckpt_tcp_link_dismiss(struct ckpt_tcp_link *l)
{
	ckpt_tcp_link_set_stage(l, CKPT_TCP_LEAVING);
}

void ckpt_tcp_link_close(struct ckpt_tcp_link *l, bool with_bye)
{
	if (!l || l->fd < 0)
		return;
	if (with_bye && l->stage == CKPT_TCP_FRAMES && ckpt_tcp_link_put_frame(l, CKPT_WIRE_BYE, NULL, 0))
		ckpt_tcp_link_flush(l);
	shutdown(l->fd, SHUT_WR);
	ckpt_tcp_link_drain(l);
	close(l->fd);
	l->fd = -1;
	l->has_ended = true;
}

int ckpt_tcp_draw(void *bytes, size_t len, struct ckpt_error *err)
{
	uint8_t *p = bytes;

	while (len > 0) {
		ssize_t n = getrandom(p, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ckpt_fail_errno(err, "cannot get random numbers");
		p += n;
		len -= (size_t)n;
	}
	return 0;
}
