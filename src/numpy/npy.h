/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_NUMPY_NPY_H
#define CKPT_NUMPY_NPY_H

#include "array/array.h"
#include "base/buf.h"
#include "plan/mover.h"

/* A file of numpy.save(), or a member of one of numpy.savez(), that is about to be written. */
struct ckpt_npy {
	struct ckpt_buf header;
	struct ckpt_recipe items;
	uint8_t *dense; /* all items of a sparse tensor, or NULL */
	struct ckpt_arena *scratch;
};

/* Append the header of the file of A. CKPT_E_UNSUPPORTED: numpy has no such dtype. */
int ckpt_npy_put_header(const struct ckpt_array *a, struct ckpt_buf *out, struct ckpt_error *err);

/* The length of the file of A, without reading its values. SCRATCH is overwritten. */
int ckpt_npy_size(const struct ckpt_array *a, struct ckpt_buf *scratch, uint64_t *out,
		  struct ckpt_error *err);

/* A has to live as long as NPY, which is to be closed in any case. */
int ckpt_npy_open(const struct ckpt_array *a, struct ckpt_npy *npy, struct ckpt_error *err);
void ckpt_npy_close(struct ckpt_npy *npy);

/* Write the whole file. MOVED is of the items alone. */
int ckpt_npy_move(const struct ckpt_npy *npy, struct ckpt_mover *mover, struct ckpt_moved *moved,
		  struct ckpt_error *err);

/*
 * The checksum of the whole file, if ITEMS is that of the items; NPY->items.has_crc: it is known
 * before.
 */
uint32_t ckpt_npy_crc(const struct ckpt_npy *npy, uint32_t items);

#endif
