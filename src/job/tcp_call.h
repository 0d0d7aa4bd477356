/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_TCP_CALL_H
#define CKPT_JOB_TCP_CALL_H

#include "base/error.h"
#include "job/tcp_link.h"

/*
 * The side that connects to a door: both sides prove that they know the secret. Nothing of the other
 * side is believed before its proof, except that the secret is another one.
 */
enum ckpt_tcp_call {
	CKPT_TCP_CALL_GOES_ON,
	CKPT_TCP_CALL_PROVEN,
	CKPT_TCP_CALL_STRANGER,	     /* it is something else */
	CKPT_TCP_CALL_OTHER_VERSION, /* CHALLENGE->version */
	CKPT_TCP_CALL_WRONG_TOKEN,   /* it says that its secret is another one */
	CKPT_TCP_CALL_IMPOSTOR,	     /* it does not know the secret itself */
};

/* LINK is connected, at CKPT_TCP_CHALLENGE: say who this is. A fresh nonce is drawn for it. */
int ckpt_tcp_call_begin(struct ckpt_tcp_link *link, const struct ckpt_wire_join *me,
			struct ckpt_error *err);

/* A message is whole in LINK->in. */
enum ckpt_tcp_call ckpt_tcp_call_go_on(struct ckpt_tcp_link *link,
				       const uint8_t secret[CKPT_WIRE_KEY],
				       struct ckpt_wire_challenge *challenge);

#endif
