/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantized weights: which tensors of a checkpoint are the parts of one, and the checkpoint with plain
 * weights in their place.
 *
 * Packages write a quantized weight as several tensors: items of few bits, scales for blocks of them,
 * zero points and more. What belongs together is said by `quantization_config` in config.json (or
 * hf_quant_config.json) beside the weights, and proven by names, dtypes and shapes. What is missing, left
 * over, of another shape, or can be read in two ways, is an error that names the tensor, never a guess.
 *
 * Formats, with the words of <ckpt/quant.h>: "fp8" (blocks or whole tensors, `weight_scale_inv`; also
 * DeepSeek V4's FP4 experts), "compressed-tensors", "modelopt", "mxfp4" (gpt-oss), "gptq", "gptq_v2",
 * "awq", "bitsandbytes", "torchao", and "transformer-engine" and "torch" for tensors that say all on their
 * own, which need no parts and are taken beside weights of any format. "torchao_0.17" is "torchao" that multiplies the two scales of
 * NVFP4 as its versions up to 0.17 do, and "auto_gptq_0.6" is "gptq" whose highest zero point is 2 to the power of the bits, as in
 * auto_gptq up to 0.6. docs/quantized.md says what each is, and where its arithmetic is from.
 */
#ifndef CKPT_QUANT_H
#define CKPT_QUANT_H

#include <ckpt/edit.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ckpt_quant_options {
	size_t size;
	unsigned flags;	   /* 0 */
	uint32_t reserved; /* 0 */
	const char
		*as; /* one of the words above, whatever a configuration says; NULL: as it says */
	/*
	 * The text of config.json, or of hf_quant_config.json; NULL: what lies beside the weights, if any.
	 * Length 0 and not NULL: there is none.
	 */
	const char *config;
	size_t config_len;
};
#define CKPT_QUANT_OPTIONS_INIT \
	{ \
		.size = sizeof(struct ckpt_quant_options) \
	}

/* A quantized weight. Strings and arrays live as long as the list. */
struct ckpt_quant_weight_info {
	size_t size;
	const char *name;	/* that the plain weight has: "model.layers.0.mlp.up_proj.weight" */
	const char *scheme;	/* "FP8, blocks of 128 x 128" */
	const uint64_t *shape;	/* of the plain weight */
	uint32_t ndim, parts;	/* PARTS: tensors of the checkpoint that it consists of */
	uint64_t numel, nbytes; /* NBYTES: of all its parts */
	const char
		*items; /* the part with the numbers: "model.layers.0.mlp.up_proj.weight_packed"; of one tensor: that */
};
#define CKPT_QUANT_WEIGHT_INFO_INIT \
	{ \
		.size = sizeof(struct ckpt_quant_weight_info) \
	}

/* The quantized weights of a checkpoint, in its order. */
struct ckpt_quant;

/*
 * Find them. MODEL has to live as long as the list. CKPT_E_NOTFOUND: it has none. CKPT_E_FORMAT: what
 * says to be one is none, see above. CKPT_E_UNSUPPORTED: a form that ckpt does not know, or that can be
 * read in two ways. CKPT_E_ARG: OPTIONS->as is none of the words.
 */
CKPT_API int ckpt_quant_open(const struct ckpt_model *model,
			     const struct ckpt_quant_options *options, struct ckpt_quant **out,
			     struct ckpt_error *err);
CKPT_API void ckpt_quant_close(struct ckpt_quant *quant);

/* One of the words above. */
CKPT_API const char *ckpt_quant_format(const struct ckpt_quant *quant);
CKPT_API uint64_t ckpt_quant_count(const struct ckpt_quant *quant);
/* CKPT_E_ARG: there are not so many, or INFO was not initialised. */
CKPT_API int ckpt_quant_get(const struct ckpt_quant *quant, uint64_t i,
			     struct ckpt_quant_weight_info *info);

/*
 * Tensors that are of use only beside quantized weights, scales of activations: how many, and the name
 * of number I.
 */
CKPT_API uint64_t ckpt_quant_dropped_count(const struct ckpt_quant *quant);
CKPT_API const char *ckpt_quant_dropped(const struct ckpt_quant *quant, uint64_t i);

/*
 * Which member of TEXT, that of config.json, says how weights are quantized: *ENTRY is "quantization_config" or "compression_config",
 * in the root or up to two objects below it, or NULL where none does. The text is read as ckpt_quant_open() reads it, with the numbers
 * that Python writes and JSON has not. CKPT_E_FORMAT: it is no JSON object.
 */
CKPT_API int ckpt_quant_config_entry(const char *text, size_t len, const char **entry,
				     struct ckpt_error *err);

/*
 * The checkpoint with plain weights of DTYPE ("bfloat16", "float16", "float32", or short: "bf16", "f16",
 * "fp16", "f32", "fp32") in the place of quantized ones, of the names and shapes that the list says. Their
 * parts and the scales of activations are left out; all other tensors stay as they are. The numbers are, bit for
 * bit, those of the package that made the format, see docs/quantized.md; they are made while the result is
 * saved. What says how the weights lie (shapes, states, at most 64 KiB of each; g_idx, where desc_act is false) is read here.
 *
 * Returns what ckpt_quant_open() does, but 0 where nothing is quantized; CKPT_E_ARG for another dtype; CKPT_E_CLASH if a name is taken. The report counts
 * tensors_dequantized and scales_dropped.
 */
CKPT_API int ckpt_dequantize(const struct ckpt_model *model, const char *dtype,
			     const struct ckpt_quant_options *options, struct ckpt_model **out,
			     struct ckpt_edit_report *report, struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
