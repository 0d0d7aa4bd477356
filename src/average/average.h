/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_AVERAGE_AVERAGE_H
#define CKPT_AVERAGE_AVERAGE_H

#include "base/strmap.h"
#include "model/model.h"
#include "model/patterns.h"

#include <ckpt/edit.h>

/* A tensor that is averaged, in all checkpoints. */
struct ckpt_averaged {
	const char *name;		   /* borrowed from the base */
	const struct ckpt_tensor **stored; /* by checkpoint: what is stored of it; of the arena */
	uint32_t storage, number;	   /* of the base; NUMBER in its order */
	uint64_t offset;
};

/* One call of ckpt_average(). */
struct ckpt_averager {
	const struct ckpt_model *const *given; /* the caller's */
	const struct ckpt_model **models;      /* malloc: the same without FOLDED tensors */
	size_t count, base;		       /* BASE: the one that the result is made of */
	struct ckpt_average_options o;
	struct ckpt_patterns only;
	struct ckpt_model *to;
	struct ckpt_averaged *tensors; /* malloc; in the order of the base, later by its storages */
	uint32_t tensor_count, tensor_cap;
	struct ckpt_strmap by_name; /* of TENSORS, before they are sorted */
	struct ckpt_edit_report report;
};

/* The path of checkpoint I, escaped, for messages. BUF has 100 bytes. */
const char *ckpt_averager_path(const struct ckpt_averager *a, size_t i, char *buf);

/* Find the tensors that are averaged, in all checkpoints. CKPT_E_UNSUPPORTED if they do not match. (match.c) */
int ckpt_average_match(struct ckpt_averager *a, struct ckpt_error *err);

/* Is all else equal? CKPT_E_UNSUPPORTED if not. (others.c) */
int ckpt_average_check_others(struct ckpt_averager *a, struct ckpt_error *err);

/* Give the storages of these tensors recipes of their means. (means.c) */
int ckpt_average_make_means(struct ckpt_averager *a, struct ckpt_error *err);

/* The first of COUNT differences, which TEXT tells of, in checkpoint I. Sets ERR, returns its status. */
int ckpt_average_refuse(const struct ckpt_averager *a, size_t i, const char *text, uint64_t count,
			enum ckpt_reason reason, struct ckpt_error *err);

#endif
