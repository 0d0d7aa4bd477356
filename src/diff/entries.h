/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_DIFF_ENTRIES_H
#define CKPT_DIFF_ENTRIES_H

#include "model/model.h"
#include "model/patterns.h"

#include <ckpt/diff.h>

/*
 * All that a checkpoint holds, by name. What is referred to from several places is under each of
 * its names, so that it can be compared with a checkpoint where these are different things.
 */
enum ckpt_entry_kind {
	CKPT_ENTRY_TENSOR,
	CKPT_ENTRY_ARRAY,   /* of numpy */
	CKPT_ENTRY_STORAGE, /* on its own */
	CKPT_ENTRY_VALUE,   /* holds no entries; sets are values, too */
	CKPT_ENTRY_CONTAINER,
};

struct ckpt_entry {
	const char *name;
	uint32_t name_len;
	uint8_t kind;
	bool is_empty;	  /* a container that holds nothing */
	bool in_metadata; /* `_metadata`, or below it */
	bool is_renamed;  /* the other side has it under another name */
	bool is_whole;	  /* a tensor that is compared by the entries below it */
	bool of_optimizer;
	uint32_t number;  /* in the order of the file */
	uint32_t way;	  /* see ckpt_walk_step */
	const struct ckpt_value *value;
	const struct ckpt_tensor *t; /* of a tensor */
};

struct ckpt_entries {
	const struct ckpt_model *model;
	struct ckpt_arena *arena;
	struct ckpt_entry *items; /* malloc */
	uint32_t count, cap;
};

/* List them in the order of the file. To be cleared in any case. */
int ckpt_entries_init(struct ckpt_entries *entries, const struct ckpt_model *model,
		      struct ckpt_error *err);
/* Leave those that OPTIONS->takes takes and whose names match KEEP, if it has any, and not DROP. Before they are sorted. */
int ckpt_entries_filter(struct ckpt_entries *entries, const struct ckpt_diff_options *options,
			struct ckpt_patterns *keep, struct ckpt_patterns *drop,
			struct ckpt_error *err);
/* Sort by name, then by way, then by number. */
void ckpt_entries_sort(struct ckpt_entries *entries);
void ckpt_entries_clear(struct ckpt_entries *entries);

static inline bool ckpt_entry_has_numbers(const struct ckpt_entry *e)
{
	return e->kind <= CKPT_ENTRY_STORAGE;
}

/* By name. */
int ckpt_entry_compare(const struct ckpt_entry *a, const struct ckpt_entry *b);

#endif
