/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors kept as their place in the pickle. The decoder tries it at each BINGET in front of which
 * the stack has a text, a key.
 *
 * What must stay true: whoever asks, a FOLDED stands for exactly the values that the machine would
 * have made of the same opcodes (but for ids, which are as unique). An unfolded tensor is made
 * from a second reading of these opcodes and from the mold, so read_tensor() must accept nothing
 * that the two do not determine.
 */
#include "pickle/fold.h"

#include <string.h>

/* ---- reading ---- */

struct opcode_cursor {
	const uint8_t *at, *end;
	uint32_t first_put, put_count;
	bool bad;
};

static uint8_t next_byte(struct opcode_cursor *c)
{
	if (c->at < c->end)
		return *c->at++;
	c->bad = true;
	return 0;
}

static void expect(struct opcode_cursor *c, uint8_t opcode)
{
	c->bad |= next_byte(c) != opcode;
}

/* Of 1, 2 or 4 bytes. */
static inline uint32_t read_little_endian(struct opcode_cursor *c, unsigned nbytes)
{
	const uint8_t *p = c->at;
	uint32_t v = 0;

	if (c->end - p < 4) { /* at the end of the pickle */
		for (unsigned i = 0; i < nbytes; i++)
			v |= (uint32_t)next_byte(c) << 8 * i;
		return v;
	}
	c->at += nbytes;
	v = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
	return v & UINT32_MAX >> (32 - 8 * nbytes);
}

/* BINGET or LONG_BINGET: the index. */
static uint32_t read_get(struct opcode_cursor *c)
{
	uint8_t opcode = next_byte(c);

	c->bad |= opcode != CKPT_OP_BINGET && opcode != CKPT_OP_LONG_BINGET;
	return read_little_endian(c, opcode == CKPT_OP_BINGET ? 1 : 4);
}

/* BINPUT or LONG_BINPUT of the index behind the last one. */
static void read_put(struct opcode_cursor *c)
{
	uint8_t opcode = next_byte(c);
	uint32_t index = read_little_endian(c, opcode == CKPT_OP_BINPUT ? 1 : 4);

	c->bad |= opcode != CKPT_OP_BINPUT && opcode != CKPT_OP_LONG_BINPUT;
	if (!c->put_count)
		c->first_put = index;
	c->bad |= index != c->first_put + c->put_count++;
}

static uint32_t position(const struct opcode_cursor *c, const uint8_t *pickle)
{
	return (uint32_t)(c->at - pickle);
}

/* BINUNICODE, with its PUT. */
static const char *read_text(struct opcode_cursor *c, uint32_t *len)
{
	const char *bytes;

	expect(c, CKPT_OP_BINUNICODE);
	*len = read_little_endian(c, 4);
	if (c->bad || *len > (size_t)(c->end - c->at)) {
		c->bad = true;
		return NULL;
	}
	bytes = (const char *)c->at;
	c->at += *len;
	read_put(c);
	return bytes;
}

static uint32_t read_integer(struct opcode_cursor *c)
{
	uint8_t opcode = next_byte(c);
	uint32_t v = read_little_endian(c, opcode == CKPT_OP_BININT1   ? 1
					   : opcode == CKPT_OP_BININT2 ? 2
								       : 4);

	c->bad |=
		opcode != CKPT_OP_BININT1 && opcode != CKPT_OP_BININT2 && opcode != CKPT_OP_BININT;
	c->bad |= v > INT32_MAX;
	return v;
}

static bool is_integer(uint8_t opcode)
{
	return opcode == CKPT_OP_BININT1 || opcode == CKPT_OP_BININT2 || opcode == CKPT_OP_BININT;
}

/* A tuple of integers, with its PUT: how many there are. *POS: of the opcode that makes it. */
static uint32_t read_dims(struct opcode_cursor *c, uint32_t out[CKPT_FOLD_MOST_DIMS],
			  const uint8_t *pickle, uint32_t *pos)
{
	static const uint8_t closing[] = { CKPT_OP_EMPTY_TUPLE, CKPT_OP_TUPLE1, CKPT_OP_TUPLE2,
					   CKPT_OP_TUPLE3 };
	bool marked = c->at < c->end && *c->at == CKPT_OP_MARK;
	uint32_t count = 0;

	c->at += marked;
	while (count < CKPT_FOLD_MOST_DIMS && c->at < c->end && is_integer(*c->at))
		out[count++] = read_integer(c);
	*pos = position(c, pickle);
	c->bad |= marked != (count > 3);
	expect(c, marked ? CKPT_OP_TUPLE : closing[count > 3 ? 0 : count]);
	if (count)
		read_put(c);
	return count;
}

/*
 * Of the tensor that begins at START. False: what is there is none, or written in another way. Of
 * very many tensors much of the time is spent here: flattened, the cursor stays in registers.
 */
__attribute__((flatten)) static bool read_tensor(const uint8_t *pickle, size_t len, size_t start, struct ckpt_fold *f)
{
	struct opcode_cursor c = { .at = pickle + start, .end = pickle + len };
	uint8_t opcode;

	f->func = read_get(&c);
	expect(&c, CKPT_OP_MARK);
	expect(&c, CKPT_OP_MARK);
	if (c.bad)
		return false;
	f->word = read_get(&c);
	f->storage_class = read_get(&c);
	f->key_pos = position(&c, pickle);
	f->key = read_text(&c, &f->key_len);
	f->device_pos = position(&c, pickle);
	f->device = NULL;
	if (c.at < c.end && *c.at == CKPT_OP_BINUNICODE)
		f->device = read_text(&c, &f->device_len);
	else
		f->device_get = read_get(&c);
	f->numel = read_integer(&c);
	f->pid_pos = position(&c, pickle);
	expect(&c, CKPT_OP_TUPLE);
	read_put(&c);
	f->persid_pos = position(&c, pickle);
	expect(&c, CKPT_OP_BINPERSID);
	f->offset = read_integer(&c);
	f->ndim = read_dims(&c, f->size, pickle, &f->size_pos);
	c.bad |= read_dims(&c, f->stride, pickle, &f->stride_pos) != f->ndim;
	opcode = next_byte(&c);
	c.bad |= opcode != CKPT_OP_NEWTRUE && opcode != CKPT_OP_NEWFALSE;
	f->requires_grad = opcode == CKPT_OP_NEWTRUE;
	f->hooks_class = read_get(&c);
	expect(&c, CKPT_OP_EMPTY_TUPLE);
	f->hooks_pos = position(&c, pickle);
	expect(&c, CKPT_OP_REDUCE);
	read_put(&c);
	f->args_pos = position(&c, pickle);
	expect(&c, CKPT_OP_TUPLE);
	read_put(&c);
	f->call_pos = position(&c, pickle);
	expect(&c, CKPT_OP_REDUCE);
	read_put(&c);
	f->end = position(&c, pickle);
	f->first_put = c.first_put;
	f->put_count = c.put_count;
	return !c.bad;
}

void ckpt_fold_read(const struct ckpt_value *folded, struct ckpt_fold *out)
{
	const struct ckpt_mold *mold = folded->u.folded.mold;

	/* as when it was folded */
	read_tensor(mold->pickle, mold->pickle_len, folded->u.folded.start, out);
}

/* How many of its values have an identity. */
static uint32_t count_identities(const struct ckpt_fold *f)
{
	return 6 + (f->device != NULL) + (f->ndim ? 2 : 0);
}

/* ---- unfolding ---- */

struct unfolded {
	struct ckpt_folded_id id;
	struct ckpt_value offset, size, stride, hooks, args, call;
	struct ckpt_call made;
	const struct ckpt_value *args_items[6], *dims[2 * CKPT_FOLD_MOST_DIMS];
	struct ckpt_value integers[]; /* of both tuples */
};

static void set_text(struct ckpt_value *v, const char *bytes, uint32_t len)
{
	v->u.bytes.ptr = bytes;
	v->u.bytes.len = len;
}

static void set_items(struct ckpt_value *v, const struct ckpt_value **items, uint32_t count)
{
	v->u.seq.items = items;
	v->u.seq.count = v->u.seq.cap = count;
}

void ckpt_unfold_id(const struct ckpt_mold *mold, const struct ckpt_fold *f,
		    struct ckpt_folded_id *out)
{
	out->key = (struct ckpt_value){ .kind = CKPT_STR, .pos = f->key_pos };
	set_text(&out->key, f->key, f->key_len);
	out->device = (struct ckpt_value){ .kind = CKPT_STR, .pos = f->device_pos };
	if (f->device)
		set_text(&out->device, f->device, f->device_len);
	out->numel =
		(struct ckpt_value){ .kind = CKPT_INT, .pos = f->pid_pos, .u.integer = f->numel };
	out->items[0] = mold->word;
	out->items[1] = mold->storage_class;
	out->items[2] = &out->key;
	out->items[3] = f->device ? &out->device : mold->device;
	out->items[4] = &out->numel;
	out->pid = (struct ckpt_value){ .kind = CKPT_TUPLE, .pos = f->pid_pos };
	set_items(&out->pid, out->items, 5);
	out->persid = (struct ckpt_value){ .kind = CKPT_PERSID, .pos = f->persid_pos };
	out->persid.u.persid.pid = &out->pid;
}

static const struct ckpt_value *set_dims(struct ckpt_value *tuple, const struct ckpt_value **items,
					 struct ckpt_value *integers, const uint32_t *numbers,
					 uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		integers[i] = (struct ckpt_value){ .kind = CKPT_INT,
						   .pos = tuple->pos,
						   .u.integer = numbers[i] };
		items[i] = &integers[i];
	}
	set_items(tuple, items, count);
	return count ? tuple : &ckpt_value_empty_tuple;
}

/* The value that the memo has under F's entry I. */
static const struct ckpt_value *find_entry_value(const struct unfolded *u,
						 const struct ckpt_fold *f, uint32_t i)
{
	const struct ckpt_value *in_order[9];
	uint32_t count = 0;

	in_order[count++] = &u->id.key;
	if (f->device)
		in_order[count++] = &u->id.device;
	in_order[count++] = &u->id.pid;
	if (f->ndim) {
		in_order[count++] = &u->size;
		in_order[count++] = &u->stride;
	}
	in_order[count++] = &u->hooks;
	in_order[count++] = &u->args;
	in_order[count++] = &u->call;
	return in_order[i];
}

static struct unfolded *unfold(const struct ckpt_value *v, struct ckpt_fold *f,
			       struct ckpt_arena *arena)
{
	const struct ckpt_mold *mold = v->u.folded.mold;
	struct unfolded *u;
	uint32_t id;

	ckpt_fold_read(v, f);
	u = ckpt_arena_alloc(arena, sizeof(*u) + 2 * f->ndim * sizeof(*u->integers));
	if (!u)
		return NULL;
	id = v->id - count_identities(f) + 1;
	ckpt_unfold_id(mold, f, &u->id);
	u->id.key.id = id++;
	if (f->device)
		u->id.device.id = id++;
	u->id.pid.id = id++;
	u->id.persid.id = id++;
	u->id.persid.u.persid.meaning = v->u.folded.meaning;
	u->offset = (struct ckpt_value){ .kind = CKPT_INT,
					 .pos = f->persid_pos + 1u,
					 .u.integer = f->offset };
	u->size = (struct ckpt_value){ .kind = CKPT_TUPLE, .pos = f->size_pos };
	u->stride = (struct ckpt_value){ .kind = CKPT_TUPLE, .pos = f->stride_pos };
	if (f->ndim) {
		u->size.id = id++;
		u->stride.id = id++;
	}
	u->hooks = (struct ckpt_value){
		.kind = CKPT_CALL, .id = id++, .pos = f->hooks_pos, .u.call = mold->hooks
	};
	u->args_items[0] = &u->id.persid;
	u->args_items[1] = &u->offset;
	u->args_items[2] = set_dims(&u->size, u->dims, u->integers, f->size, f->ndim);
	u->args_items[3] =
		set_dims(&u->stride, u->dims + f->ndim, u->integers + f->ndim, f->stride, f->ndim);
	u->args_items[4] = f->requires_grad ? &ckpt_value_true : &ckpt_value_false;
	u->args_items[5] = &u->hooks;
	u->args = (struct ckpt_value){ .kind = CKPT_TUPLE, .id = id++, .pos = f->args_pos };
	set_items(&u->args, u->args_items, 6);
	u->made = (struct ckpt_call){ .func = mold->func,
				      .args = &u->args,
				      .kind = CKPT_CALL_REDUCE };
	u->call = (struct ckpt_value){
		.kind = CKPT_CALL, .flags = v->flags, .id = v->id, .pos = v->pos
	};
	u->call.u.call = &u->made;
	return u;
}

struct ckpt_value *ckpt_unfold(const struct ckpt_value *v, struct ckpt_arena *arena)
{
	struct ckpt_fold f;
	struct unfolded *u = unfold(v, &f, arena);

	return u ? &u->call : NULL;
}

/* ---- in the decoder ---- */

static const struct ckpt_value *find_remembered(const struct ckpt_machine *m, uint32_t index,
						uint8_t kind)
{
	const struct ckpt_value *v = index < m->memo_cap ? m->memo[index] : NULL;

	return v && !ckpt_is_inside_folded(v) && v->kind == kind ? v : NULL;
}

/*
 * Many tensors have the same; nobody has many. NULL: this one fits none, or there is no memory for
 * it.
 */
static const struct ckpt_mold *find_mold(struct ckpt_machine *m, const struct ckpt_fold *f)
{
	enum { MOST_MOLDS = 64 };
	struct ckpt_mold want = { .pickle = m->r.data, .pickle_len = m->r.len };

	want.func = find_remembered(m, f->func, CKPT_GLOBAL);
	want.word = find_remembered(m, f->word, CKPT_STR);
	want.storage_class = find_remembered(m, f->storage_class, CKPT_GLOBAL);
	want.hooks_class = find_remembered(m, f->hooks_class, CKPT_GLOBAL);
	want.device = f->device ? NULL : find_remembered(m, f->device_get, CKPT_STR);
	want.hooks = m->empty_ordered;
	if (!want.func || !want.word || !want.storage_class || !want.hooks_class || !want.hooks ||
	    (!f->device && !want.device))
		return NULL;
	for (struct ckpt_mold *mold = m->mold; mold; mold = mold->next)
		if (mold->func == want.func && mold->word == want.word &&
		    mold->storage_class == want.storage_class &&
		    mold->hooks_class == want.hooks_class && mold->device == want.device)
			return mold;
	if (m->mold_count == MOST_MOLDS ||
	    !ckpt_value_is_global(want.func, "torch._utils", "_rebuild_tensor_v2") ||
	    !ckpt_value_is_str(want.word, "storage") || want.hooks->func != want.hooks_class)
		return NULL;
	want.next = m->mold;
	m->mold = ckpt_arena_alloc(m->arena, sizeof(*m->mold));
	if (!m->mold) {
		m->mold = want.next;
		return NULL;
	}
	*m->mold = want;
	m->mold_count++;
	return m->mold;
}

/* Entries of the memo that F would take: are they there, and free? */
static bool takes_free_entries(struct ckpt_machine *m, const struct ckpt_fold *f)
{
	uint64_t last = f->first_put + (uint64_t)f->put_count - 1;

	if (last > m->r.len || ckpt_machine_memo_reserve(m, last) < 0)
		return false;
	for (uint32_t i = 0; i < f->put_count; i++)
		if (m->memo[f->first_put + i])
			return false;
	return true;
}

int ckpt_fold_next(struct ckpt_machine *m)
{
	size_t start = m->r.pos;
	const struct ckpt_mold *mold;
	struct ckpt_value *v;
	struct ckpt_fold f;

	if (m->depth == ckpt_machine_floor(m) || m->stack[m->depth - 1]->kind != CKPT_STR ||
	    m->persistent || m->doc->protocol > 3 || !read_tensor(m->r.data, m->r.len, start, &f) ||
	    !f.numel || !takes_free_entries(m, &f))
		return 0;
	mold = find_mold(m, &f);
	if (!mold)
		return 0;
	m->op = (struct ckpt_op){ .pos = f.call_pos, .code = CKPT_OP_REDUCE };
	m->doc->next_id += count_identities(&f) - 1;
	v = ckpt_machine_new(m, CKPT_FOLDED);
	if (!v || !ckpt_seq_add(m->arena, &m->doc->persids, v))
		return ckpt_machine_nomem(m);
	v->u.folded.mold = mold;
	v->u.folded.start = (uint32_t)start;
	for (uint32_t i = 0; i + 1 < f.put_count; i++)
		m->memo[f.first_put + i] = (const struct ckpt_value *)((uintptr_t)v | 1);
	m->memo[f.first_put + f.put_count - 1] = v;
	m->memo_count += f.put_count;
	m->doc->has_folded = true;
	m->r.pos = f.end;
	return ckpt_machine_push(m, v) < 0 ? CKPT_E_NOMEM : 1;
}

/* Where V is in the list of persistent ids, which is in the order of the stream. */
static const struct ckpt_value **find_persid(const struct ckpt_machine *m,
					     const struct ckpt_value *v)
{
	const struct ckpt_value **items = m->doc->persids.items;
	uint32_t from = 0, to = m->doc->persids.count;

	while (to - from > 1) {
		uint32_t middle = from + (to - from) / 2;

		if (items[middle]->pos <= v->pos)
			from = middle;
		else
			to = middle;
	}
	return &items[from];
}

int ckpt_machine_unfold(struct ckpt_machine *m, const struct ckpt_value *v)
{
	/* the decoder made every value and may still change it */
	struct ckpt_value *in_place = (struct ckpt_value *)v;
	const struct ckpt_value *tag = (const struct ckpt_value *)((uintptr_t)v | 1);
	struct unfolded *u;
	struct ckpt_fold f;

	if (v->kind != CKPT_FOLDED)
		return 0;
	u = unfold(v, &f, m->arena);
	if (!u)
		return ckpt_machine_nomem(m);
	*find_persid(m, v) = &u->id.persid;
	*in_place = u->call;
	for (uint32_t i = 0; i + 1 < f.put_count; i++)
		if (m->memo[f.first_put + i] == tag)
			m->memo[f.first_put + i] = find_entry_value(u, &f, i);
	return 0;
}

int ckpt_machine_unfold_entry(struct ckpt_machine *m, uint64_t index)
{
	return ckpt_machine_unfold(m, (const struct ckpt_value *)((uintptr_t)m->memo[index] &
								  ~(uintptr_t)1));
}
