/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_ZERO_READ_H
#define CKPT_SET_ZERO_READ_H

#include "set/zero/zero.h"

/* While a directory of DeepSpeed is opened: what its files say, in values of their pickles. */
struct ckpt_zero_reader {
	struct ckpt_zero *zero;
	const struct ckpt_model *model; /* the file at hand */
	uint64_t left;			/* items that may be read of it: its lists can be shared */
	struct ckpt_error *err;
};

/* Open file I, NAME in the folder, and take it to hand. */
int ckpt_zero_open_file(struct ckpt_zero_reader *reader, uint32_t i, const char *name);

/* Take file I, which is open, to hand again. */
void ckpt_zero_select_file(struct ckpt_zero_reader *reader, uint32_t i);

/*
 * All that its pickle says was read. It stays open if its bytes are not simply stretches of the
 * file.
 */
void ckpt_zero_release_file(struct ckpt_zero_reader *reader, uint32_t i);

/* The value under KEY of a mapping; NULL: there is none, or it is None. */
const struct ckpt_value *ckpt_zero_field(const struct ckpt_zero_reader *reader,
					 const struct ckpt_value *mapping, const char *key);

/*
 * The items of a list or tuple; key and value in turn of a mapping. Each counts as one that is
 * left.
 */
int ckpt_zero_list(struct ckpt_zero_reader *reader, const struct ckpt_value *v, const char *what,
		   const struct ckpt_seq **out);
int ckpt_zero_mapping(struct ckpt_zero_reader *reader, const struct ckpt_value *v, const char *what,
		      const struct ckpt_seq **out);

/* An integer that is not negative. */
int ckpt_zero_number(struct ckpt_zero_reader *reader, const struct ckpt_value *v, const char *what,
		     uint64_t *out);

/* Which tensor is cut, and among which streams. */
struct ckpt_zero_cut {
	const struct ckpt_zero_stream *streams;
	uint32_t stream_count, ndim;
	const uint64_t *shape;
	uint64_t numel;
};

/* A torch.Size, or a tuple in its place: all but the streams. */
int ckpt_zero_shape(struct ckpt_zero_reader *reader, const struct ckpt_value *v,
		    struct ckpt_zero_cut *out);

/* A plain tensor and the bytes of its storage. */
int ckpt_zero_tensor(struct ckpt_zero_reader *reader, const struct ckpt_value *v,
		     struct ckpt_tensor *out, struct ckpt_recipe *bytes);

/* A tensor of one dimension without gaps, at the end of STREAM. */
int ckpt_zero_add_flat(struct ckpt_zero_reader *reader, const struct ckpt_value *v,
		       struct ckpt_zero_stream *stream);

/* "WHAT 'NAME': " in front of what was said. Returns RC. */
int ckpt_zero_fail_named(struct ckpt_zero_reader *reader, int rc, const char *what,
			 const char *name, size_t len);

/* Another entry, number *NUMBER. NULL: no memory. */
struct ckpt_zero_entry *ckpt_zero_new_entry(struct ckpt_zero_reader *reader, uint32_t *number);

/*
 * Let a name, a str of the file, stand for ENTRY. As in a dict of Python, one that is there keeps
 * its place.
 */
int ckpt_zero_set_name(struct ckpt_zero_reader *reader, const struct ckpt_value *key,
		       uint32_t entry);
const struct ckpt_zero_name *ckpt_zero_find_name(const struct ckpt_zero *zero,
						 const struct ckpt_value *key);

/* CKPT_E_FORMAT: KEY, in WHAT, is no str. */
int ckpt_zero_check_key(struct ckpt_zero_reader *reader, const struct ckpt_value *key,
			const char *what);

/* An entry that begins at item *FIRST of each of the streams, and *FIRST moved behind it. */
int ckpt_zero_add_cut(struct ckpt_zero_reader *reader, const struct ckpt_value *key,
		      const struct ckpt_zero_cut *cut, uint64_t *first);

/*
 * Stage, number of ranks and vectors of the optimizer of RANK, whose file is at hand; rank 0 goes
 * first.
 */
int ckpt_zero_read_optim(struct ckpt_zero_reader *reader, uint32_t rank);

/*
 * The entries of the result, in its order, from the model states of rank 0, the file at hand. The
 * vectors were read, and rank 0's optimizer is still open.
 */
int ckpt_zero_read_model(struct ckpt_zero_reader *reader);

/* Those of the optimizer's parameters. PARAM_SHAPES NULL: always fails. */
int ckpt_zero_read_params(struct ckpt_zero_reader *reader, const struct ckpt_value *param_shapes);

/*
 * What RANK has of frozen parameters, in stage 3; its file is at hand, rank 0's model states were
 * read.
 */
int ckpt_zero_read_frozen(struct ckpt_zero_reader *reader, uint32_t rank);

/* The vectors are all there: find out which dtype each entry has. */
int ckpt_zero_choose_dtypes(struct ckpt_zero_reader *reader);

#endif
