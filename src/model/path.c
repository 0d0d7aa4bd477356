/* SPDX-License-Identifier: Apache-2.0 */
#include "model/path.h"

#include "base/text.h"
#include "model/repr.h"

#include <string.h>

/*
 * Names are C strings: a zero byte in a key is shown as its symbol, or "a\0b" would be taken for
 * "a".
 */
void ckpt_path_add_key(struct ckpt_buf *out, const struct ckpt_value *key)
{
	static const char symbol[] = "\u2400";
	const char *text = key->u.bytes.ptr, *nul;
	uint64_t len = key->u.bytes.len;

	if (!ckpt_value_is_text(key)) {
		ckpt_value_repr(key, out);
		return;
	}
	while (len && (nul = memchr(text, 0, len))) {
		ckpt_buf_add(out, text, (size_t)(nul - text));
		ckpt_buf_add(out, symbol, strlen(symbol));
		len -= (uint64_t)(nul + 1 - text);
		text = nul + 1;
	}
	ckpt_buf_add(out, text, len);
}

void ckpt_path_add_raw_key(struct ckpt_buf *out, const struct ckpt_value *key)
{
	if (ckpt_value_is_text(key))
		ckpt_buf_add(out, key->u.bytes.ptr, key->u.bytes.len);
	else
		ckpt_value_repr(key, out);
}

/* Long lists have very many positions: no printf. */
void ckpt_path_add_position(struct ckpt_buf *out, uint32_t position)
{
	char digits[10];
	size_t n = sizeof(digits);

	do {
		digits[--n] = (char)('0' + position % 10);
		position /= 10;
	} while (position);
	ckpt_buf_add(out, digits + n, sizeof(digits) - n);
}

void ckpt_path_add_exact_key(struct ckpt_buf *out, const struct ckpt_value *key)
{
	char one[24];

	if (!ckpt_value_is_text(key)) {
		ckpt_value_repr(key, out);
		return;
	}
	ckpt_buf_add_u8(out, '"');
	for (uint64_t i = 0; i < key->u.bytes.len;) {
		const char *at = key->u.bytes.ptr + i;
		size_t n = ckpt_utf8_len(at, key->u.bytes.len - i);

		if (*at == '"')
			ckpt_buf_add_u8(out, '\\');
		ckpt_escape(one, sizeof(one), at, n ? n : 1);
		ckpt_buf_add(out, one, strlen(one));
		i += n ? n : 1;
	}
	ckpt_buf_add_u8(out, '"');
}
