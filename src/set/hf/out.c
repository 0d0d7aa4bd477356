/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the files of a shard set that is written, and its index, byte for byte as Python's
 * json.dump(indent=2) writes it. Source: save_torch_state_dict() in
 * huggingface_hub/serialization/_torch.py, of 2.4.
 *
 * A set that is edited keeps the names of the input. JSON is in ASCII alone, with surrogate
 * pairs, since json.dump() escapes everything else; the names are sound UTF-8 when they get here.
 */
#include "set/hf/out.h"

#include "base/text.h"
#include "set/hf/hf.h"
#include "set/hf/name.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ckpt_hf_out_clear(struct ckpt_hf_out *out)
{
	ckpt_safetensors_list_clear(&out->list);
	ckpt_hf_packing_clear(&out->packing);
	free(out->tensors);
	free(out->items);
}

/* ---- names ---- */

char *ckpt_hf_out_name(const struct ckpt_hf_out *out, uint32_t shard)
{
	char *name;
	int len;

	if (out->packing.shard_count == 1)
		len = asprintf(&name, "%s%s", out->stem, out->rest);
	else
		len = asprintf(&name, "%s-%05" PRIu32 "-of-%05" PRIu32 "%s", out->stem, shard + 1,
			       out->packing.shard_count, out->rest);
	return len < 0 ? NULL : name;
}

/* The names of the input go on, "diffusion_pytorch_model" or "model.fp16". */
static bool keep_input_names(struct ckpt_hf_out *out, const char *kind)
{
	const struct ckpt_hf *hf;
	struct ckpt_hf_name parts;
	const char *name;

	if (out->model->doc->format != &ckpt_format_hf)
		return false;
	hf = ckpt_hf_of(out->model);
	name = hf->index.files[0].name;
	if (hf->is_sharded || strchr(name, '/') || !ckpt_hf_name_parse(name, &parts) ||
	    !strstr(parts.rest, kind) || parts.stem_len >= sizeof(out->stem) ||
	    strlen(parts.rest) >= sizeof(out->rest))
		return false;
	snprintf(out->stem, sizeof(out->stem), "%.*s", (int)parts.stem_len, name);
	snprintf(out->rest, sizeof(out->rest), "%s", parts.rest);
	if (hf->index_name && strlen(hf->index_name) < sizeof(out->index_name))
		snprintf(out->index_name, sizeof(out->index_name), "%s", hf->index_name);
	return true;
}

void ckpt_hf_out_choose_names(struct ckpt_hf_out *out)
{
	const char *kind = out->safetensors ? ".safetensors" : ".bin";

	if (!keep_input_names(out, kind)) {
		snprintf(out->stem, sizeof(out->stem), "%s",
			 out->safetensors ? "model" : "pytorch_model");
		snprintf(out->rest, sizeof(out->rest), "%s", kind);
	}
	if (!out->index_name[0])
		snprintf(out->index_name, sizeof(out->index_name), "%s%s.index.json", out->stem,
			 out->rest);
}

uint64_t ckpt_hf_out_limit(const struct ckpt_model *model)
{
	const struct ckpt_hf *hf = ckpt_hf_of(model);
	uint64_t most = 0, single = 0;

	for (uint32_t i = 0, end; i < hf->place_count; i = end) { /* file by file */
		uint64_t sum = 0;

		for (end = i; end < hf->place_count && hf->places[end].shard == hf->places[i].shard;
		     end++)
			sum += model->doc->storages[end].nbytes;
		if (end - i == 1 && sum > single)
			single = sum;
		if (end - i > 1 && sum > most)
			most = sum;
	}
	return most ? most : single;
}

/* ---- the index ---- */

static void add_escape(struct ckpt_buf *text, uint32_t code)
{
	static const char plain[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
	const char *at = code < 0x80 && code ? strchr(plain, (int)code) : NULL;

	if (at)
		ckpt_buf_printf(text, "\\%c", letters[at - plain]);
	else if (code > 0xFFFF)
		ckpt_buf_printf(text, "\\u%04x\\u%04x", 0xD800 + ((code - 0x10000) >> 10),
				0xDC00 + ((code - 0x10000) & 0x3FF));
	else
		ckpt_buf_printf(text, "\\u%04x", code);
}

/* The character at AT, which is sound UTF-8 of LEN bytes. */
static uint32_t decode_utf8(const char *at, size_t len)
{
	uint32_t code = (uint8_t)*at;

	if (len > 1)
		code &= 0x7FU >> len;
	for (size_t i = 1; i < len; i++)
		code = code << 6 | ((uint8_t)at[i] & 0x3F);
	return code;
}

void ckpt_hf_add_string(struct ckpt_buf *text, const char *s, size_t len)
{
	ckpt_buf_add_u8(text, '"');
	for (size_t i = 0, step; i < len; i += step) {
		uint32_t code;

		step = ckpt_utf8_len(s + i, len - i);
		step = step ? step : 1;
		code = decode_utf8(s + i, step);
		if (code >= 0x20 && code < 0x7F && code != '"' && code != '\\')
			ckpt_buf_add_u8(text, (uint8_t)code);
		else
			add_escape(text, code);
	}
	ckpt_buf_add_u8(text, '"');
}

static void add_pair(struct ckpt_buf *text, const char *key, size_t key_len, const char *value,
		     size_t value_len, bool first)
{
	ckpt_buf_printf(text, first ? "\n    " : ",\n    ");
	ckpt_hf_add_string(text, key, key_len);
	ckpt_buf_printf(text, ": ");
	ckpt_hf_add_string(text, value, value_len);
}

/* It as it was, in lines that begin below those of its key. */
static void add_other(struct ckpt_buf *text, const struct ckpt_hf_other *other)
{
	int indent = other->in_metadata ? 4 : 2;

	ckpt_buf_printf(text, ",\n%*s", indent, "");
	ckpt_hf_add_string(text, other->key, strlen(other->key));
	ckpt_buf_printf(text, ": ");
	for (const char *at = other->json; *at; at++) { /* in texts, ends of lines are escaped */
		ckpt_buf_add_u8(text, (uint8_t)*at);
		if (*at == '\n')
			ckpt_buf_printf(text, "%*s", indent, "");
	}
}

/* Names of tensors and aliases: metadata that have one say an alias. */
static int list_names(const struct ckpt_hf_out *out, struct ckpt_strmap *names, struct ckpt_error *err)
{
	bool fine = true, there;

	for (uint32_t i = 0; fine && i < out->count; i++)
		fine = ckpt_strmap_insert(names, out->tensors[i].name, out->tensors[i].len, i, &there);
	for (uint32_t i = 0; fine && i < out->list.count; i++)
		if (out->list.items[i].same)
			fine = ckpt_strmap_insert(names, out->list.items[i].name, out->list.items[i].name_len, i, &there);
	return fine ? 0 : ckpt_fail_nomem(err);
}

/* What the metadata of the input's index X say besides. */
static int add_other_metadata(const struct ckpt_hf_out *out, const struct ckpt_hf_index *x, struct ckpt_buf *text,
			      struct ckpt_error *err)
{
	struct ckpt_strmap names = { 0 };
	int rc = list_names(out, &names, err);

	for (uint32_t i = 0; rc == 0 && i < x->other_count; i++) {
		const struct ckpt_hf_other *other = &x->others[i];
		bool as_input = true;
		uint64_t count;

		if (!other->in_metadata || ckpt_strmap_find(&names, other->key, strlen(other->key)) ||
		    (other->text && ckpt_strmap_find(&names, other->text, strlen(other->text))))
			continue;
		count = !strcmp(other->key, "total_parameters") ? ckpt_hf_out_elements(out, &as_input) : 0;
		if (as_input)
			add_other(text, other);
		else
			ckpt_buf_printf(text, ",\n    \"total_parameters\": %" PRIu64, count);
	}
	ckpt_strmap_clear(&names);
	return rc;
}

int ckpt_hf_out_index(const struct ckpt_hf_out *out, struct ckpt_buf *text, struct ckpt_error *err)
{
	const struct ckpt_hf *hf = out->model->doc->format == &ckpt_format_hf ? ckpt_hf_of(out->model) : NULL;
	int rc = 0;

	ckpt_buf_printf(text, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64,
			out->packing.nbytes);
	if (hf && hf->index.other_count)
		rc = add_other_metadata(out, &hf->index, text, err);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < out->list.count; i++) {
		const struct ckpt_safetensors_item *item = &out->list.items[i];

		if (item->same && ckpt_hf_index_is_taken(item->name))
			return ckpt_safetensors_fail_taken(item, err);
		if (item->same)
			add_pair(text, item->name, item->name_len, item->same->name,
				 item->same->name_len, false);
	}
	ckpt_buf_printf(text, "\n  },\n  \"weight_map\": {");
	for (uint32_t s = 0; s < out->packing.shard_count; s++) {
		char *file = ckpt_hf_out_name(out, s);

		text->bad |= !file;
		for (uint64_t i = out->packing.starts[s]; file && i < out->packing.starts[s + 1];
		     i++) {
			const struct ckpt_hf_tensor *t = &out->tensors[out->packing.order[i]];

			add_pair(text, t->name, t->len, file, strlen(file), !i);
		}
		free(file);
	}
	ckpt_buf_printf(text, "\n  }");
	for (uint32_t i = 0; hf && i < hf->index.other_count; i++)
		if (!hf->index.others[i].in_metadata)
			add_other(text, &hf->index.others[i]);
	ckpt_buf_printf(text, "\n}");
	return text->bad ? ckpt_fail_nomem(err) : 0;
}
