/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/verifier.h"

#include <byteswap.h>
#include <string.h>

/* In 8 bits. Source: OCP 8-bit floating point; c10/util/Float8_*.h. */
static void count8(enum ckpt_dtype dtype, const uint8_t *bytes, size_t len, uint64_t *nans,
		   uint64_t *infinities)
{
	uint64_t nan = 0, inf = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned magnitude = bytes[i] & 0x7F;

		switch (dtype) {
		case CKPT_DTYPE_FLOAT8_E5M2:
			inf += magnitude == 0x7C;
			nan += magnitude > 0x7C;
			break;
		case CKPT_DTYPE_FLOAT8_E4M3FN: nan += magnitude == 0x7F; break;
		case CKPT_DTYPE_FLOAT8_E8M0FNU: nan += bytes[i] == 0xFF; break;
		default: nan += bytes[i] == 0x80; break; /* fnuz */
		}
	}
	*nans += nan;
	*infinities += inf;
}

/* In more: INFINITE is what infinity is, without its sign, which is the first bit. */
#define COUNT(bits) \
	static void count##bits(uint##bits##_t infinite, bool swapped, const uint8_t *bytes, \
				size_t len, uint64_t *nans, uint64_t *infinities) \
	{ \
		uint64_t nan = 0, inf = 0; \
\
		for (size_t i = 0; i + sizeof(infinite) <= len; i += sizeof(infinite)) { \
			uint##bits##_t v; \
\
			memcpy(&v, bytes + i, sizeof(v)); \
			v = (swapped ? bswap_##bits(v) : v) & INT##bits##_MAX; \
			nan += v > infinite; \
			inf += v == infinite; \
		} \
		*nans += nan; \
		*infinities += inf; \
	}

COUNT(16)
COUNT(32)
COUNT(64)

static const uint16_t infinite_float16 = 0x7C00, infinite_bfloat16 = 0x7F80;
static const uint32_t infinite_float32 = 0x7F800000;
static const uint64_t infinite_float64 = (uint64_t)0x7FF << 52;

bool ckpt_dtype_may_be_infinite(enum ckpt_dtype dtype)
{
	switch (dtype) {
	case CKPT_DTYPE_FLOAT16:
	case CKPT_DTYPE_BFLOAT16:
	case CKPT_DTYPE_FLOAT32:
	case CKPT_DTYPE_FLOAT64:
	case CKPT_DTYPE_COMPLEX32:
	case CKPT_DTYPE_BCOMPLEX32:
	case CKPT_DTYPE_COMPLEX64:
	case CKPT_DTYPE_COMPLEX128:
	case CKPT_DTYPE_FLOAT8_E5M2:
	case CKPT_DTYPE_FLOAT8_E4M3FN:
	case CKPT_DTYPE_FLOAT8_E5M2FNUZ:
	case CKPT_DTYPE_FLOAT8_E4M3FNUZ:
	case CKPT_DTYPE_FLOAT8_E8M0FNU: return true;
	default: return false;
	}
}

void ckpt_count_not_finite(enum ckpt_dtype dtype, bool swapped, const uint8_t *bytes, size_t len,
			   uint64_t *nans, uint64_t *infinities)
{
	switch (dtype) {
	case CKPT_DTYPE_FLOAT16:
	case CKPT_DTYPE_COMPLEX32:
		count16(infinite_float16, swapped, bytes, len, nans, infinities);
		break;
	case CKPT_DTYPE_BFLOAT16:
	case CKPT_DTYPE_BCOMPLEX32:
		count16(infinite_bfloat16, swapped, bytes, len, nans, infinities);
		break;
	case CKPT_DTYPE_FLOAT32:
	case CKPT_DTYPE_COMPLEX64:
		count32(infinite_float32, swapped, bytes, len, nans, infinities);
		break;
	case CKPT_DTYPE_FLOAT64:
	case CKPT_DTYPE_COMPLEX128:
		count64(infinite_float64, swapped, bytes, len, nans, infinities);
		break;
	default:
		if (ckpt_dtype_may_be_infinite(dtype))
			count8(dtype, bytes, len, nans, infinities);
	}
}

/* Its extent was checked when the file was opened: nothing overflows. */
void ckpt_shown_add(struct ckpt_shown *shown, const struct ckpt_tensor *t)
{
	uint64_t size = ckpt_dtype_size(t->dtype), first = t->offset * size, last = t->offset;

	if (!ckpt_dtype_may_be_infinite(t->dtype))
		return;
	for (uint32_t i = 0; i < t->ndim; i++) {
		if (!t->shape[i])
			return;
		last += (t->shape[i] - 1) * t->stride[i];
	}
	if (shown->dtype == CKPT_DTYPE_UNKNOWN)
		*shown = (struct ckpt_shown){ t->dtype, first, first, t->name };
	if (first < shown->from)
		shown->from = first;
	if ((last + 1) * size > shown->to)
		shown->to = (last + 1) * size;
}

void ckpt_shown_copy(const struct ckpt_shown *shown, struct ckpt_subject *subject)
{
	subject->dtype = shown->dtype;
	subject->shown_from = shown->from;
	subject->shown_to = shown->to;
	subject->tensor = shown->tensor;
}
