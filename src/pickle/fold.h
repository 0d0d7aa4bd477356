/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_PICKLE_FOLD_H
#define CKPT_PICKLE_FOLD_H

#include "pickle/machine.h"

/*
 * torch.save writes the same opcodes for each tensor in a dict, except for a key, a device and some
 * numbers:
 *
 *	torch._utils._rebuild_tensor_v2(pid('storage', CLASS, KEY, DEVICE, numel), offset, size,
 *					stride, requires_grad, OrderedDict())
 *
 * As values, that is ten objects and 480 bytes. FOLDED is one of 32 bytes, which says where these
 * opcodes are, and from which the ten can be made again. A tensor is folded only in a dict, if its
 * storage has bytes, and if every opcode is the one that torch writes in protocol 2; so a folded
 * tensor never hides anything unusual.
 */
enum { CKPT_FOLD_MOST_DIMS = 8 };

/* What many tensors have in common: values that the pickle has elsewhere. */
struct ckpt_mold {
	const uint8_t *pickle; /* its bytes */
	size_t pickle_len;
	const struct ckpt_value *func, *word, *storage_class, *hooks_class; /* WORD: 'storage' */
	const struct ckpt_value *device; /* NULL: spelled out in each */
	struct ckpt_call *hooks;	 /* that of every OrderedDict() */
	struct ckpt_mold *next;
};

/* The numbers and texts of one tensor, which are checked when it is folded. */
struct ckpt_fold {
	const char *key, *device; /* DEVICE: NULL if it is that of the mold */
	uint32_t key_len, device_len;
	uint32_t numel, offset, ndim;
	uint32_t size[CKPT_FOLD_MOST_DIMS], stride[CKPT_FOLD_MOST_DIMS];
	bool requires_grad;
	/* where which opcode is: of values that have an identity */
	uint32_t key_pos, device_pos, pid_pos, persid_pos, size_pos, stride_pos, hooks_pos,
		args_pos, call_pos;
	uint32_t end; /* behind all of it */
	/* indices into the memo; DEVICE_GET if DEVICE is NULL */
	uint32_t func, word, storage_class, device_get, hooks_class;
	/* indices that it takes in the memo; the last is that of the tensor */
	uint32_t first_put, put_count;
};

/* What a FOLDED says. */
void ckpt_fold_read(const struct ckpt_value *folded, struct ckpt_fold *out);

/* The persistent id of its storage alone. Values point into the struct. */
struct ckpt_folded_id {
	struct ckpt_value key, device, numel, pid, persid;
	const struct ckpt_value *items[5];
};
void ckpt_unfold_id(const struct ckpt_mold *mold, const struct ckpt_fold *f,
		    struct ckpt_folded_id *out);

/* The CALL that V, a FOLDED, stands for, with its id and position; NULL: no memory in ARENA. */
struct ckpt_value *ckpt_unfold(const struct ckpt_value *v, struct ckpt_arena *arena);

/* ---- inside of the decoder ---- */

/*
 * 1: the next opcodes were a tensor, which is on the stack now, folded. 0: the machine has to carry
 * them out. <0: a failure.
 */
int ckpt_fold_next(struct ckpt_machine *m);

/* Turn V, if it is FOLDED, into a CALL, before the machine looks into a value or changes it. */
int ckpt_machine_unfold(struct ckpt_machine *m, const struct ckpt_value *v);

/* The same for the value that entry INDEX of the memo lies inside of. */
int ckpt_machine_unfold_entry(struct ckpt_machine *m, uint64_t index);

/* Entries of the memo for what is inside of a folded tensor: not the address of a value. */
static inline bool ckpt_is_inside_folded(const struct ckpt_value *entry)
{
	return (uintptr_t)entry & 1;
}

#endif
