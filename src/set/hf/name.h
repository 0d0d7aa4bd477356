/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SET_HF_NAME_H
#define CKPT_SET_HF_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The name of one of several files: "model-00001-of-00003.safetensors",
 * "pytorch_model.fp16-00001-of-00003.bin", "model-00001-of-00003.fp16.safetensors".
 */
struct ckpt_hf_name {
	size_t stem_len;	/* of what is in front of the numbers: "model" */
	const char *rest;	/* what is behind them: ".safetensors" */
	uint32_t number, count; /* NUMBER counts from 1, or whatever the name says */
};

/* False: it has no such numbers. */
bool ckpt_hf_name_parse(const char *name, struct ckpt_hf_name *out);

/* Are both of one set, by their names? */
bool ckpt_hf_name_is_like(const char *a, const struct ckpt_hf_name *in_a, const char *b,
			  const struct ckpt_hf_name *in_b);

#endif
