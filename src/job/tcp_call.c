/* SPDX-License-Identifier: Apache-2.0 */
#include "job/tcp_call.h"

#include <string.h>

int ckpt_tcp_call_begin(struct ckpt_tcp_link *l, const struct ckpt_wire_join *me,
			struct ckpt_error *err)
{
	struct ckpt_wire_join join = *me;
	int rc = ckpt_tcp_draw(join.nonce, sizeof(join.nonce), err);

	if (rc < 0)
		return rc;
	ckpt_wire_write_join(&join, l->session.join);
	ckpt_tcp_link_put(l, l->session.join, CKPT_WIRE_JOIN);
	return 0;
}

static enum ckpt_tcp_call answer_challenge(struct ckpt_tcp_link *l,
					   const uint8_t secret[CKPT_WIRE_KEY],
					   struct ckpt_wire_challenge *challenge)
{
	uint8_t proof[CKPT_WIRE_PROOF];

	memcpy(l->session.challenge, l->in, CKPT_WIRE_CHALLENGE);
	if (!ckpt_wire_read_challenge(l->in, challenge))
		return CKPT_TCP_CALL_STRANGER;
	if (challenge->version != CKPT_WIRE_VERSION)
		return CKPT_TCP_CALL_OTHER_VERSION;
	memcpy(l->host0, challenge->host, sizeof(l->host0));
	l->pid0 = challenge->pid;
	ckpt_wire_make_proof(&l->session, secret, proof);
	ckpt_tcp_link_put(l, proof, sizeof(proof));
	ckpt_tcp_link_set_stage(l, CKPT_TCP_VERDICT);
	return CKPT_TCP_CALL_GOES_ON;
}

enum ckpt_tcp_call ckpt_tcp_call_go_on(struct ckpt_tcp_link *l, const uint8_t secret[CKPT_WIRE_KEY],
				       struct ckpt_wire_challenge *challenge)
{
	int verdict;

	if (l->stage == CKPT_TCP_CHALLENGE)
		return answer_challenge(l, secret, challenge);
	verdict = ckpt_wire_read_verdict(&l->session, secret, l->in);
	if (verdict == CKPT_WIRE_WRONG_TOKEN)
		return CKPT_TCP_CALL_WRONG_TOKEN;
	if (verdict != CKPT_WIRE_WELCOME)
		return CKPT_TCP_CALL_IMPOSTOR;
	ckpt_tcp_link_set_stage(l, CKPT_TCP_FRAMES);
	return CKPT_TCP_CALL_PROVEN;
}
