/* SPDX-License-Identifier: Apache-2.0 */
#include "broadcast/meet.h"

#include <string.h>

/*
 * Hellos and plans as bytes. Writing and reading are one list of fields, so that they cannot come
 * apart.
 */

struct field_cursor {
	uint8_t *out;	   /* NULL: reading */
	const uint8_t *in; /* NULL: writing */
	size_t pos;
};

static uint64_t number(struct field_cursor *c, uint64_t value, size_t len)
{
	uint64_t read = 0;

	for (size_t i = 0; i < len; i++, c->pos++) {
		if (c->out)
			c->out[c->pos] = (uint8_t)(value >> (8 * i));
		else
			read |= (uint64_t)c->in[c->pos] << (8 * i);
	}
	return c->out ? value : read;
}

static void bytes(struct field_cursor *c, char *text, size_t size)
{
	if (c->out)
		memcpy(c->out + c->pos, text, size);
	else
		memcpy(text, c->in + c->pos, size);
	c->pos += size;
}

static void text(struct field_cursor *c, char *text_, size_t size)
{
	bytes(c, text_, size);
	text_[size - 1] = '\0';
}

#define NUMBER(field, len) ((field) = (__typeof__(field))number(c, (uint64_t)(field), len))
#define TEXT(field) text(c, field, sizeof(field))

static void go_through_hello(struct field_cursor *c, struct ckpt_meet_hello *h)
{
	TEXT(h->version);
	NUMBER(h->protocol, 4);
	TEXT(h->host);
	NUMBER(h->pid, 4);
	NUMBER(h->rank, 4);
	NUMBER(h->local_rank, 4);
	NUMBER(h->wishes, 8);
	NUMBER(h->gpu, 8);
	NUMBER(h->cuda.has_driver, 1);
	NUMBER(h->cuda.driver_version, 4);
	NUMBER(h->cuda.gpu_count, 4);
	TEXT(h->cuda.text);
	NUMBER(h->nccl.is_there, 1);
	NUMBER(h->nccl.version, 4);
	NUMBER(h->nccl.cuda_major, 4);
	TEXT(h->nccl.path);
	TEXT(h->nccl.text);
	NUMBER(h->has_mpi, 1);
	NUMBER(h->has_ucx, 1);
	TEXT(h->identity.uuid);
	TEXT(h->identity.bus);
	TEXT(h->machine);
	TEXT(h->nccl_host);
	NUMBER(h->shares, 1);
	for (int i = 0; i < CKPT_WISHES; i++)
		NUMBER(h->each_wish[i], 4);
	TEXT(h->no_tcp);
	NUMBER(h->flags, 4);
	TEXT(h->sources);
	TEXT(h->destination);
}

void ckpt_meet_write_hello(const struct ckpt_meet_hello *hello, uint8_t out[CKPT_MEET_HELLO])
{
	struct ckpt_meet_hello h = *hello;
	struct field_cursor c = { .out = out };

	memset(out, 0, CKPT_MEET_HELLO);
	go_through_hello(&c, &h);
}

void ckpt_meet_read_hello(const uint8_t in[CKPT_MEET_HELLO], struct ckpt_meet_hello *out)
{
	struct field_cursor c = { .in = in };

	*out = (struct ckpt_meet_hello){ 0 };
	go_through_hello(&c, out);
}

static void go_through_plan(struct field_cursor *c, struct ckpt_meet_plan *p)
{
	NUMBER(p->status, 4);
	NUMBER(p->failed_rank, 4);
	TEXT(p->transport);
	bytes(c, p->id.bytes, sizeof(p->id.bytes));
	TEXT(p->text);
	bytes(c, (char *)p->tcp.nonce, sizeof(p->tcp.nonce));
	NUMBER(p->tcp.count, 4);
	bytes(c, (char *)p->tcp.spots, sizeof(p->tcp.spots));
}

void ckpt_meet_write_plan(const struct ckpt_meet_plan *plan, uint8_t out[CKPT_MEET_PLAN])
{
	struct ckpt_meet_plan p = *plan;
	struct field_cursor c = { .out = out };

	memset(out, 0, CKPT_MEET_PLAN);
	go_through_plan(&c, &p);
}

void ckpt_meet_read_plan(const uint8_t in[CKPT_MEET_PLAN], struct ckpt_meet_plan *out)
{
	struct field_cursor c = { .in = in };

	*out = (struct ckpt_meet_plan){ 0 };
	go_through_plan(&c, out);
}
