/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_TC_TC_H
#define CKPT_SET_TC_TC_H

#include "format/member.h"
#include "set/tc/index.h"
#include "set/tc/tree.h"

/*
 * Directories of torch_checkpointing ("DCP v2"): `metadata.pkl`, and for every item and rank a
 * torch.save file with the rank's part of it.
 */

/* Hangs on the document; models over it keep it. */
struct ckpt_tc {
	char *path;		     /* owned: the directory */
	struct ckpt_tc_index index;  /* and: */
	struct ckpt_member *members; /* malloc: the files of the index, open */
	const char **names;	     /* malloc: theirs */
	/* for those who ask in what state it is */
	uint32_t absent; /* parts that the metadata names and no file has, but others do as well */
	char first_absent[256]; /* the first of them */
	uint32_t differing;	/* tensors whose copies are not equal */
	char first_differing[256];
};

extern const struct ckpt_format ckpt_format_tc;

/* The directory PATH, in which there is a metadata.pkl. */
int ckpt_tc_open(const char *path, const struct ckpt_listing *listing, struct ckpt_model **out,
		 struct ckpt_error *err);

/* Put the tensors of TREE together, as the metadata say. ROOTS: the node of each item. */
int ckpt_tc_join(struct ckpt_tc *tc, struct ckpt_tc_tree *tree, const uint32_t *roots,
		 struct ckpt_error *err);

/*
 * Keep those storages of TO, which are its own, that its values mention: not those of parts that
 * were joined.
 */
int ckpt_tc_drop_storages(struct ckpt_model *to, struct ckpt_error *err);

/* What is odd about the directory (ckpt_format.notes). */
int ckpt_tc_check_directory(const struct ckpt_model *model,
			    void (*note)(void *ctx, const char *text), void *ctx,
			    struct ckpt_error *err);

#endif
