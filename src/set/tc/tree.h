/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_TC_TREE_H
#define CKPT_SET_TC_TREE_H

#include "base/buf.h"
#include "model/model.h"
#include "model/path.h"

/*
 * What the ranks have of one item, laid over each other: a value of the lowest rank that has it
 * stays as it is, dicts and lists get what other ranks have beyond it, and of every tensor all
 * ranks' parts are noted. Paths go as torch_checkpointing's: through dicts, lists, tuples and what
 * is filled like them.
 */

enum { CKPT_TC_NONE = UINT32_MAX };

/* What one file has of a tensor. */
struct ckpt_tc_part {
	const struct ckpt_value *value;
	uint32_t file, next; /* NEXT: the part of a higher rank, or CKPT_TC_NONE */
};

/* A container, or a tensor. */
struct ckpt_tc_node {
	const struct ckpt_value *value; /* of the first file that has it */
	uint32_t file;
	uint32_t parent;
	const char *key; /* in the parent, as text, of KEY_LEN bytes; NULL: the root of an item */
	uint32_t key_len;
	uint32_t first_part, last_part; /* of a tensor, else CKPT_TC_NONE */
	uint32_t place;			/* for the user; CKPT_TC_NONE at first */
	bool open; /* a container that was entered here, not under another name before */
	struct ckpt_seq extra; /* what other files have beyond it: as its own items */
};

struct ckpt_tc_tree {
	struct ckpt_model *to;	    /* the model being made */
	struct ckpt_tc_node *nodes; /* malloc */
	uint32_t node_count, node_cap;
	struct ckpt_tc_part *parts; /* malloc */
	uint32_t part_count, part_cap;
	struct ckpt_strmap children; /* node and key, to a node */
	uint8_t *entered;	     /* malloc: bitmap by id */
	struct ckpt_buf key;
};

/* All values of files have ids below TO's next. */
int ckpt_tc_tree_init(struct ckpt_tc_tree *tree, struct ckpt_model *to, struct ckpt_error *err);
void ckpt_tc_tree_clear(struct ckpt_tc_tree *tree);

/*
 * Lay VALUE, the root of FILE, over node *ROOT, which is made if it is CKPT_TC_NONE. Lower ranks go
 * first.
 */
int ckpt_tc_tree_add(struct ckpt_tc_tree *tree, uint32_t *root, uint32_t file,
		     const struct ckpt_value *value, struct ckpt_error *err);

/* Put what files have beyond the first one into containers that stand for the first one's. */
int ckpt_tc_tree_finish(struct ckpt_tc_tree *tree, struct ckpt_error *err);

/*
 * The node at the end of a path, or CKPT_TC_NONE. *SHARED: the way leads through a value of two
 * names.
 */
uint32_t ckpt_tc_tree_find(struct ckpt_tc_tree *tree, uint32_t root,
			   const struct ckpt_path_step *steps, uint32_t count, bool *shared);

#endif
