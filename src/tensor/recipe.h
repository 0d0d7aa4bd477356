/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TENSOR_RECIPE_H
#define CKPT_TENSOR_RECIPE_H

#include "io/source.h"
#include "io/stream.h"

#include <stdbool.h>

/*
 * How to get bytes, without getting them: nothing is read until the mover asks. Borrowed by
 * whoever holds it; the source outlives it.
 */
enum ckpt_recipe_kind {
	CKPT_RECIPE_EXTENT, /* LEN bytes at OFF of SRC */
	CKPT_RECIPE_MEMORY, /* LEN bytes at MEMORY */
	CKPT_RECIPE_STREAM, /* what OPEN gives, front to back: compressed records */
	CKPT_RECIPE_JOINED, /* PARTS, one behind the other; none of them is joined itself */
	CKPT_RECIPE_MAP,    /* the bytes of another, changed: tensor/map.h */
	CKPT_RECIPE_MEAN,   /* the mean of several, number by number: tensor/mean.h */
	CKPT_RECIPE_MADE,   /* made in bands, from bytes in another order: tensor/made.h */
};

/* The record that bytes are a part of, if it has a checksum. LEN 0: none, or they are all of it. */
struct ckpt_recipe_whole {
	uint64_t off, len; /* in SRC */
	uint32_t crc32;
};

struct ckpt_recipe {
	enum ckpt_recipe_kind kind;
	uint64_t len;
	const struct ckpt_source *src;
	uint64_t off;
	const void *memory;
	int (*open)(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		    struct ckpt_error *err);
	void *ctx; /* for OPEN; OFF is its second argument */
	const struct ckpt_recipe *parts;
	size_t part_count;
	bool has_crc; /* CRC32 of all the bytes is recorded; they may be damaged all the same */
	uint32_t crc32;
	struct ckpt_recipe_whole whole; /* of an EXTENT */
	/* reading all of it compares the checksums that INNER has */
	bool checks_inner;
	bool is_one_way; /* compressed: bytes in the middle cost all that are in front of them */
	/*
	 * Of a STREAM, MAP, MEAN or MADE: recipe I of those it takes its bytes from, NULL behind the last. The
	 * pointer is NULL if there are none.
	 */
	const struct ckpt_recipe *(*inner)(const struct ckpt_recipe *recipe, size_t i);
};

/* Compare CRC32, of all bytes, with the recorded one, if any: CKPT_E_DAMAGED if they differ. */
int ckpt_recipe_check(const struct ckpt_recipe *recipe, uint32_t crc32, struct ckpt_error *err);

/*
 * Forget the recorded checksums of RECIPE and all that it takes its bytes from, which nobody reads
 * yet.
 */
void ckpt_recipe_forget_crc(struct ckpt_recipe *recipe);

/* Can it be read at any offset, as one stretch? Streams cannot, and joined parts lie apart. */
bool ckpt_recipe_is_random(const struct ckpt_recipe *recipe);

/* LEN bytes at OFF of RECIPE, which must be random. */
struct ckpt_recipe ckpt_recipe_part(const struct ckpt_recipe *recipe, uint64_t off, uint64_t len);

/* Read LEN bytes at OFF of RECIPE, which must be random. */
int ckpt_recipe_read(const struct ckpt_recipe *recipe, uint64_t off, void *buf, size_t len,
		     struct ckpt_error *err);

/* LEN bytes at OFF of any recipe. */
struct ckpt_skip {
	struct ckpt_recipe inner;
	uint64_t off, len;
	bool may_seek; /* to OFF, if INNER can: then what is read is not compared with any checksum */
};

/*
 * As a stream that reads and drops what is before OFF, or seeks. Borrows SKIP, which must live as long as the
 * recipe.
 */
struct ckpt_recipe ckpt_skip_recipe(const struct ckpt_skip *skip);

/* The bytes of any recipe as a stream, to be closed by the caller. Borrows RECIPE. */
int ckpt_recipe_stream(const struct ckpt_recipe *recipe, struct ckpt_stream **out,
		       struct ckpt_error *err);

/* Read and drop NBYTES of STREAM. */
int ckpt_stream_skip(struct ckpt_stream *stream, uint64_t nbytes, struct ckpt_error *err);

#endif
