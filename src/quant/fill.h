/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_QUANT_FILL_H
#define CKPT_QUANT_FILL_H

#include "quant/group.h"

/*
 * What the functions `fill` of formats have in common. All set members of G->weight; errors are
 * CKPT_E_FORMAT and name the tensor.
 */

/*
 * Items [.., M, N], each stored one of PER numbers along the last dimension: their bytes, matrices, rows, cols, and the
 * shape of the plain weight.
 */
int ckpt_fill_items(struct ckpt_quant_group *g, uint64_t per, struct ckpt_error *err);

/* Is the shape of ROLE that of the weight, but for the last two dimensions, which are ROWS and COLS? */
bool ckpt_fill_has_shape(const struct ckpt_quant_group *g, enum ckpt_part_role role, uint64_t rows,
			 uint64_t cols);

/* Is ROLE one number, or one for each matrix? One for each row, [.., M] or [.., M, 1]? */
bool ckpt_fill_is_single(const struct ckpt_quant_group *g, enum ckpt_part_role role);
bool ckpt_fill_is_by_row(const struct ckpt_quant_group *g);

/* The scales, of such a shape, or for blocks of BLOCK_ROWS x BLOCK_COLS, 0 being the whole side. */
int ckpt_fill_single(struct ckpt_quant_group *g, struct ckpt_error *err);
int ckpt_fill_by_row(struct ckpt_quant_group *g, struct ckpt_error *err);
int ckpt_fill_blocks(struct ckpt_quant_group *g, uint64_t block_rows, uint64_t block_cols,
		     struct ckpt_error *err);

/* NVFP4: scales of 16 numbers, and a global one by which they are multiplied or divided. */
int ckpt_fill_nvfp4(struct ckpt_quant_group *g, bool divides, struct ckpt_error *err);
int ckpt_fill_no_global(const struct ckpt_quant_group *g, struct ckpt_error *err);

void ckpt_fill_arithmetic(struct ckpt_quant_group *g, enum ckpt_dtype scale_in,
			  enum ckpt_dtype difference, enum ckpt_dtype product);

/* float32, float16, bfloat16 */
bool ckpt_fill_is_wide(enum ckpt_dtype dtype);

/* Formats that have files of their own. */
int ckpt_fill_compressed_tensors(struct ckpt_quant_group *g, struct ckpt_error *err);
int ckpt_fill_gptq(struct ckpt_quant_group *g, struct ckpt_error *err);
int ckpt_fill_awq(struct ckpt_quant_group *g, struct ckpt_error *err);
int ckpt_fill_bitsandbytes(struct ckpt_quant_group *g, struct ckpt_error *err);
int ckpt_fill_torchao(struct ckpt_quant_group *g, struct ckpt_error *err);

/* Does the configuration mean the modules that are quantized, and no others? CKPT_E_FORMAT. */
int ckpt_quant_check_modules(const struct ckpt_quant *q, struct ckpt_error *err);

/* Does the configuration say that weights are sparse or rotated as well? CKPT_E_UNSUPPORTED. */
int ckpt_quant_check_done(const struct ckpt_quant *q, struct ckpt_error *err);

/* Is there a weight that only another format would read? CKPT_E_FORMAT. */
int ckpt_quant_check_others(const struct ckpt_quant *q, struct ckpt_error *err);

/* Is there an entry in no group that has a name that only parts of quantized weights have? It is left over of one. */
int ckpt_quant_check_orphans(const struct ckpt_quant *q, struct ckpt_error *err);

/* Of a class of torchao, as SAYS, a text of the metadata, has it: its parts are known. */
int ckpt_fill_torchao_class(struct ckpt_quant_group *g, const json_t *says, struct ckpt_error *err);
int ckpt_check_torchao(struct ckpt_quant *q, struct ckpt_error *err);

/* torchao's AffineQuantizedTensor, which is G->whole. */
int ckpt_fill_affine(struct ckpt_quant_group *g, struct ckpt_error *err);

/* Add the tensors of Transformer Engine, which are no tensors to the model. */
int ckpt_quant_add_engine(struct ckpt_quant *q, struct ckpt_error *err);

/* The class of a tensor of a class of its own, or NULL. */
const struct ckpt_global *ckpt_quant_class(const struct ckpt_model *model,
					   const struct ckpt_value *v);

/* Is CLASS in a module that some version of torchao has? */
bool ckpt_quant_is_of_torchao(const struct ckpt_global *class);

/* What stands under NAME in the attributes of a tensor, or NULL if that is None or there is none. */
const struct ckpt_value *ckpt_quant_attribute(const struct ckpt_model *model,
					      const struct ckpt_value *attributes,
					      const char *name);

/* Let V, which has to be a plain tensor, be the part of ROLE; it is called NAME behind the name of the whole. */
int ckpt_quant_add_part(struct ckpt_quant_group *g, enum ckpt_part_role role, const char *name,
			const struct ckpt_value *v, struct ckpt_error *err);

#endif
