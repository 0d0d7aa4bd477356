/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_TCP_LINK_H
#define CKPT_JOB_TCP_LINK_H

#include "base/error.h"
#include "job/failure_notice.h"
#include "job/tcp_wire.h"

#include <sys/socket.h>

/*
 * One connection, which never blocks: what has come of the next message, and what is still to be
 * sent. Bounded memory, whatever the other side does: nothing is read behind the message that is
 * waited for, and what does not fit into OUT is not taken.
 */
struct ckpt_tcp_link {
	int fd; /* -1: it is closed */
	struct sockaddr_storage peer;
	uint64_t since; /* when it was made */
	struct ckpt_wire_session session;
	struct ckpt_wire_join join; /* what the other side says that it is; or who rank 0 is */
	char host0[CKPT_WIRE_HOST];
	uint32_t pid0;
	enum ckpt_tcp_stage {
		CKPT_TCP_JOIN,	    /* rank 0 waits for a JOIN */
		CKPT_TCP_CHALLENGE, /* the rank waits for one */
		CKPT_TCP_PROOF,
		CKPT_TCP_VERDICT,
		CKPT_TCP_FRAMES, /* both are proven */
		CKPT_TCP_LEAVING /* the rest is sent, and what comes is not looked at */
	} stage;
	bool said_bye, has_ended; /* no byte will come any more */
	bool is_ready;		  /* something has come, or it has ended: for who polls many */
	uint64_t last_heard;

	size_t wanted, in_len; /* bytes of the message that is waited for */
	size_t out_pos, out_len;
	uint8_t in[CKPT_WIRE_MOST_FRAME];
	uint8_t out[2 * CKPT_WIRE_MOST_FRAME];
};

/* Takes FD. */
struct ckpt_tcp_link *ckpt_tcp_link_new(int fd, enum ckpt_tcp_stage stage);
void ckpt_tcp_link_free(struct ckpt_tcp_link *link);
void ckpt_tcp_link_set_stage(struct ckpt_tcp_link *link, enum ckpt_tcp_stage stage);

/* Read what is there of the message. 1: it is whole, in link->in; 0: not yet; -1: the connection has ended. */
int ckpt_tcp_link_read(struct ckpt_tcp_link *link);
/* Read and forget what is there. False: the connection has ended. */
bool ckpt_tcp_link_drain(struct ckpt_tcp_link *link);
/* It was used: wait for the next. */
void ckpt_tcp_link_next(struct ckpt_tcp_link *link);

/* False: there is no room, as the other side does not read. */
bool ckpt_tcp_link_put(struct ckpt_tcp_link *link, const void *bytes, size_t len);
bool ckpt_tcp_link_put_frame(struct ckpt_tcp_link *link, enum ckpt_wire_kind kind,
			     const void *bytes, size_t len);
/* Send as much as goes. False: the connection has ended. */
bool ckpt_tcp_link_flush(struct ckpt_tcp_link *link);
static inline bool ckpt_tcp_link_has_more(const struct ckpt_tcp_link *link)
{
	return link->out_pos < link->out_len;
}

/* What to poll for. */
short ckpt_tcp_link_events(const struct ckpt_tcp_link *link);
/* Put that all end, and why: to a rank KIND is REFUSED, to rank 0 STOP. */
void ckpt_tcp_link_put_failure(struct ckpt_tcp_link *link, enum ckpt_wire_kind kind,
			       const struct ckpt_failure_notice *why);
/* Send what is to be sent, and read nothing more. */
void ckpt_tcp_link_dismiss(struct ckpt_tcp_link *link);

/*
 * Say goodbye, if both are proven and WITH_BYE, and close. Who closes while something of the other
 * side is not read would take back what it has just sent, so that is read first, as far as it is there.
 */
void ckpt_tcp_link_close(struct ckpt_tcp_link *link, bool with_bye);

/* Random bytes that nobody can guess. */
int ckpt_tcp_draw(void *bytes, size_t len, struct ckpt_error *err);

#endif
