/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_QUANT_CONFIG_H
#define CKPT_QUANT_CONFIG_H

#include "model/model.h"

#include <jansson.h>

/* What config.json or hf_quant_config.json says of quantization. All zero: there is none. */
struct ckpt_quant_config {
	json_t *root;	    /* owned */
	const json_t *says; /* the object that says how; NULL: nothing does */
	const char *format; /* of the words in <ckpt/quant.h>; "": one that ckpt does not know */
	char method[80];    /* as it is called there, escaped */
	char *path;	    /* owned: of the file; NULL: it was given as text */
	bool is_overruled;  /* the caller says the format: which modules it means does not count */
};

/*
 * The JSON of TEXT, to be released. Numbers that Python reads, and JSON or jansson has not, become 0; FLAGS: of json_loadb().
 * CKPT_E_FORMAT.
 */
int ckpt_quant_config_load(const char *text, size_t len, size_t flags, json_t **out,
			   struct ckpt_error *err);

/* Parse TEXT. CKPT_E_FORMAT. */
int ckpt_quant_config_parse(const char *text, size_t len, struct ckpt_quant_config *out,
			    struct ckpt_error *err);

/* Read the file beside the weights of MODEL; if there is none, OUT is all zero. */
int ckpt_quant_config_find(const struct ckpt_model *model, struct ckpt_quant_config *out,
			   struct ckpt_error *err);
void ckpt_quant_config_clear(struct ckpt_quant_config *config);

/* An integer of OBJECT, or OTHERWISE if it has none of that name; the same for texts and truths. */
int64_t ckpt_quant_config_int(const json_t *object, const char *key, int64_t otherwise);
const char *ckpt_quant_config_text(const json_t *object, const char *key);
bool ckpt_quant_config_true(const json_t *object, const char *key, bool otherwise);

/*
 * Of compressed-tensors: 1 if TARGET, a name, or re: and a pattern for the beginning of one, means MODULE. CKPT_E_FORMAT,
 * CKPT_E_LIMIT.
 */
int ckpt_quant_target_matches(const char *target, const char *module, struct ckpt_error *err);

/* But for capitals of ASCII: AWQ's own files say GEMM, those of transformers gemm. */
bool ckpt_quant_same_text(const char *one, const char *two);

/* 1 if PATTERN means MODULE from its start; errors call it AS_SAID. CKPT_E_FORMAT: it is none, CKPT_E_LIMIT. */
int ckpt_quant_pattern_matches(const char *pattern, const char *as_said, const char *module, struct ckpt_error *err);

/*
 * Of compressed-tensors: what is said of the weights of MODULE, an object with num_bits, type, strategy
 * ..., and *FORMAT, that of its group or of all. CKPT_E_UNSUPPORTED if groups contradict each other;
 * CKPT_E_FORMAT if there are some and none means it.
 * *OUT NULL: nothing is said of it.
 */
int ckpt_quant_config_weights(const struct ckpt_quant_config *config, const char *module,
			      const json_t **out, const char **format, struct ckpt_error *err);

#endif
