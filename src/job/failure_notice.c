/* SPDX-License-Identifier: Apache-2.0 */
#include "job/failure_notice.h"

#include "base/buf.h"
#include "base/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { HEAD = 12, MOST_SIGNAL = 127 };

void ckpt_failure_notice_make(uint32_t rank, const char *host, const struct ckpt_error *why, int signal,
			      struct ckpt_failure_notice *out)
{
	char who[100] = "", said[sizeof(why->text)];

	*out = (struct ckpt_failure_notice){ .status = why->status < 0 ? why->status : CKPT_E_PEER,
					     .rank = rank };
	if (out->status == CKPT_E_CANCELLED)
		out->signal = signal;
	if (out->status != CKPT_E_PEER)
		snprintf(who, sizeof(who), "rank %" PRIu32 " (%.64s): ", rank, host);
	snprintf(out->text, sizeof(out->text), "%s%s%s%s", who, why->path, why->path[0] ? ": " : "",
		 ckpt_error_text(why, said, sizeof(said)));
}

static void write_u32(uint8_t *out, uint32_t value)
{
	for (unsigned i = 0; i < 4; i++)
		out[i] = (uint8_t)(value >> 8 * i);
}

size_t ckpt_failure_notice_write(const struct ckpt_failure_notice *notice,
				 uint8_t out[CKPT_MOST_FAILURE_NOTICE])
{
	size_t len = strlen(notice->text);

	write_u32(out, (uint32_t)-notice->status);
	write_u32(out + 4, (uint32_t)notice->signal);
	write_u32(out + 8, notice->rank);
	memcpy(out + HEAD, notice->text, len);
	return HEAD + len;
}

void ckpt_failure_notice_read(const uint8_t *bytes, size_t len, struct ckpt_failure_notice *out)
{
	struct ckpt_reader r = { .data = bytes, .len = len };
	uint32_t status = ckpt_read_u32(&r), signal = ckpt_read_u32(&r);
	size_t n = len < HEAD ? 0 : len - HEAD;

	*out = (struct ckpt_failure_notice){ .rank = ckpt_read_u32(&r), .status = CKPT_E_PEER };
	if (!r.bad && status > 0 && status <= (uint32_t)-CKPT_E_SYSTEM)
		out->status = -(int)status;
	if (out->status == CKPT_E_CANCELLED)
		out->signal = signal > 0 && signal <= MOST_SIGNAL ? (int)signal : 1;
	if (n >= sizeof(out->text))
		n = sizeof(out->text) - 1;
	if (n)
		memcpy(out->text, bytes + HEAD, n);
	for (char *p = out->text; *p; p++)
		if (*p < 0x20 && *p > 0)
			*p = '?';
	if (!*out->text)
		snprintf(out->text, sizeof(out->text), "another rank has failed, and did not say why");
}

int ckpt_failure_notice_fail(const struct ckpt_failure_notice *notice, struct ckpt_error *err)
{
	return ckpt_fail(err, notice->status, "%s", notice->text);
}
