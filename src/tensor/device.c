/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/device.h"

#include "base/ascii.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What torch and its well-known backends call their devices. */
static const struct {
	const char *type;
	bool indexed; /* the tag has an index */
} types[] = {
	{ "cpu", false }, { "mps", false }, { "meta", false }, { "cuda", true },
	{ "xpu", true },  { "hpu", true },  { "mtia", true },  { "privateuseone", true },
	{ "npu", true },  { "mlu", true },  { "musa", true },
};

/* What people write, and what they mean. */
static const struct {
	const char *wrong, *right;
} mistakes[] = {
	{ "gpu", "cuda" },  { "rocm", "cuda" }, { "hip", "cuda" }, { "metal", "mps" },
	{ "gaudi", "hpu" }, { "CUDA", "cuda" }, { "CPU", "cpu" },
};

static bool is_index(const char *text)
{
	/* torch keeps it in a signed byte */
	return text[0] && strspn(text, "0123456789") == strlen(text) && strlen(text) <= 3 &&
	       (text[0] != '0' || !text[1]) && atoi(text) <= 127;
}

static int no_such(const char *text, const char *right, const char *index, struct ckpt_error *err)
{
	return ckpt_fail(err, CKPT_E_ARG, "torch has no device '%.40s', wanted '%s%s%.8s'", text,
			 right, index[0] ? ":" : "", index);
}

static int unknown_type(const char *text, size_t len, const char *index, struct ckpt_error *err)
{
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
		if (strlen(mistakes[i].wrong) == len && !strncmp(mistakes[i].wrong, text, len))
			return no_such(text, mistakes[i].right, is_index(index) ? index : "0", err);
	return ckpt_fail(
		err, CKPT_E_ARG,
		"torch has no device '%.40s', wanted cpu, cuda:N, mps, xpu:N, hpu:N, mtia:N or meta",
		text);
}

int ckpt_device_tag(const char *text, bool any_type, char out[CKPT_MOST_DEVICE_TAG],
		    struct ckpt_error *err)
{
	size_t len = strcspn(text, ":");
	const char *index = text[len] ? text + len + 1 : "";

	for (size_t i = 0; i < strlen(text); i++)
		if (text[i] == ' ' || !ckpt_is_print((unsigned char)text[i]) || strlen(text) >= CKPT_MOST_DEVICE_TAG - 2)
			return ckpt_fail(err, CKPT_E_ARG, "'%.40s' is no device", text);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (strlen(types[i].type) != len || strncmp(types[i].type, text, len))
			continue;
		if (text[len] && !is_index(index))
			return no_such(text, types[i].type, types[i].indexed ? "0" : "", err);
		if (!types[i].indexed && text[len] && strcmp(types[i].type, "mps"))
			return no_such(text, types[i].type, "", err);
		snprintf(out, CKPT_MOST_DEVICE_TAG, "%s%s%.3s", types[i].type,
			 types[i].indexed ? ":" : "",
			 types[i].indexed ? (index[0] ? index : "0") : "");
		return 0;
	}
	if (!any_type || !len || (text[len] && !is_index(index)))
		return unknown_type(text, len, index, err);
	snprintf(out, CKPT_MOST_DEVICE_TAG, "%s", text);
	return 0;
}
