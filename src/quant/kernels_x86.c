/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of quantized weights with AVX2 and F16C, chosen at run time; without FMA, which would
 * round once where plain C rounds twice.
 *
 * Codes of 4 bits have 16 numbers in a group, however many there are of them: these are made first,
 * as a table in two registers, and then looked up.
 *
 * What must stay true: every number has the bits that plain C gives. Where one of a block is none
 * (NaN), plain C makes the block, so that here nothing has to be known about what NaN become.
 */
#include "quant/kernels.h"

#include "quant/kernel_steps.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define WITH_AVX2 __attribute__((target("avx2,f16c")))
#define INLINE WITH_AVX2 static inline __attribute__((always_inline))
#define NEAREST (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

/*
 * How numbers are made. Where a field is known when a kernel is compiled, its branches are not
 * there.
 */
struct way {
	enum ckpt_dtype difference, product, to;
	bool has_zeros, has_factor;
};

INLINE __m256i round_bits_to_bfloat16(__m256 v)
{
	__m256i bits = _mm256_castps_si256(v),
		odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));

	return _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
}

INLINE __m256 round8(enum ckpt_dtype dtype, __m256 v)
{
	if (dtype == CKPT_DTYPE_FLOAT16)
		return _mm256_cvtph_ps(_mm256_cvtps_ph(v, NEAREST));
	if (dtype == CKPT_DTYPE_BFLOAT16) { /* adding may carry NaN on to numbers: they stay NaN */
		__m256i bits = _mm256_and_si256(round_bits_to_bfloat16(v),
						_mm256_set1_epi32((int)0xFFFF0000));

		return _mm256_or_ps(_mm256_castsi256_ps(bits), _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
	}
	return v;
}

INLINE __m256 finish8(const struct ckpt_quant_math *m, struct way w, __m256 v, __m256 scale,
		      __m256 zero)
{
	if (w.has_zeros)
		v = _mm256_sub_ps(v, zero);
	v = _mm256_mul_ps(round8(w.difference, v), scale);
	if (w.has_factor)
		v = _mm256_mul_ps(round8(w.product, v), _mm256_set1_ps(m->factor));
	return w.product == w.to ? v : round8(w.product, v); /* else the last step rounds */
}

INLINE bool has_nan(__m256 low, __m256 high)
{
	return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(low, low, _CMP_UNORD_Q),
					       _mm256_cmp_ps(high, high, _CMP_UNORD_Q)));
}

/* 16 numbers of 16 bits. */
INLINE __m256i narrow16(enum ckpt_dtype to, __m256 low, __m256 high)
{
	if (to == CKPT_DTYPE_FLOAT16)
		return _mm256_set_m128i(_mm256_cvtps_ph(high, NEAREST),
					_mm256_cvtps_ph(low, NEAREST));
	return _mm256_permute4x64_epi64(
		_mm256_packus_epi32(_mm256_srli_epi32(round_bits_to_bfloat16(low), 16),
				    _mm256_srli_epi32(round_bits_to_bfloat16(high), 16)),
		0xD8);
}

static struct way way_of(const struct ckpt_quant_math *m, const struct ckpt_quant_codes *in)
{
	return (struct way){ m->difference, m->product, m->to, in->zeros != NULL, m->factor != 0 };
}

/* The numbers of 16 codes: as float32; as those of 16 bits, their lower and their upper bytes. */
struct table {
	__m256 low, high;
	__m128i lower, upper;
};

INLINE __m256 look_up8(const struct table *t, __m128i codes)
{
	__m256i i = _mm256_cvtepu8_epi32(codes);

	return _mm256_blendv_ps(_mm256_permutevar8x32_ps(t->low, i),
				_mm256_permutevar8x32_ps(t->high, i),
				_mm256_castsi256_ps(_mm256_slli_epi32(i, 28)));
}

INLINE __m128i load8(const uint8_t *bytes)
{
	return _mm_loadl_epi64((const __m128i *)(const void *)bytes);
}

/* ---- codes of a byte ---- */

/*
 * Eight numbers of float8_e4m3fn in the upper bytes, by 1 / 256: a float16 has all their bits, and
 * one more of the exponent. NaN are numbers here.
 */
INLINE __m256 widen_e4m3fn(__m128i upper)
{
	return _mm256_cvtph_ps(
		_mm_or_si128(_mm_and_si128(upper, _mm_set1_epi16((short)0x8000)),
			     _mm_and_si128(_mm_srli_epi16(upper, 1), _mm_set1_epi16(0x3F80))));
}

INLINE bool has_e4m3fn_nan(__m128i codes)
{
	const __m128i most = _mm_set1_epi8(0x7F);

	return _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_and_si128(codes, most), most));
}

/* What the codes of one dtype are. */
WITH_AVX2 static void decode(const struct ckpt_quant_math *m, const uint8_t *codes, size_t count,
			     float *values)
{
	struct table few = { .low = _mm256_loadu_ps(m->values),
			     .high = _mm256_loadu_ps(m->values + 8) };
	size_t i = 0;

	switch (m->item) {
	case CKPT_DTYPE_UINT8:
		for (; i < count; i++)
			values[i] = codes[i];
		break;
	case CKPT_DTYPE_INT8:
		for (; i < count; i++)
			values[i] = (int8_t)codes[i];
		break;
	case CKPT_DTYPE_FLOAT8_E4M3FN:
		for (; i + 8 <= count; i += 8) {
			__m128i in = load8(codes + i);

			if (has_e4m3fn_nan(in))
				break;
			_mm256_storeu_ps(values + i,
					 _mm256_mul_ps(widen_e4m3fn(_mm_unpacklo_epi8(in, in)),
						       _mm256_set1_ps(256)));
		}
		break;
	default:
		for (; m->few && i + 8 <= count; i += 8)
			_mm256_storeu_ps(values + i, look_up8(&few, load8(codes + i)));
	}
	for (; i < count; i++)
		values[i] = m->values[codes[i]];
}

/*
 * What is most often wanted: float8_e4m3fn of one group to bfloat16. How many were done; it ends
 * before a NaN.
 */
INLINE size_t e4m3fn_to_bfloat16(const uint8_t *codes, size_t count, float scale, uint16_t *out)
{
	__m256 s = _mm256_set1_ps(scale * 256);
	size_t i = 0;

	for (; i + 16 <= count; i += 16) {
		__m128i in = _mm_loadu_si128((const __m128i *)(const void *)(codes + i));
		__m256i even, odd;

		if (has_e4m3fn_nan(in))
			break;
		even = round_bits_to_bfloat16(
			_mm256_mul_ps(widen_e4m3fn(_mm_slli_epi16(in, 8)), s));
		odd = round_bits_to_bfloat16(_mm256_mul_ps(widen_e4m3fn(in), s));
		_mm256_storeu_si256((__m256i *)(void *)(out + i),
				    _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xAA));
	}
	return i;
}

WITH_AVX2 static void bytes_in_steps(const struct ckpt_quant_math *m,
				     const struct ckpt_quant_codes *in, void *out)
{
	ckpt_quant_bytes(ckpt_cast_best(), decode, m, in, out);
}

/*
 * All of one group. Where vectors cannot be used, 16 numbers go another way: with NaN, or the last
 * ones.
 */
WITH_AVX2 static void e4m3fn_group(const struct ckpt_quant_math *m,
				   const struct ckpt_quant_codes *in, uint16_t *out)
{
	bool is_usual = *in->scales > -0x1p119F && *in->scales < 0x1p119F;
	struct ckpt_quant_codes few = *in;
	size_t done = 0;

	while (done < in->count) {
		if (is_usual)
			done += e4m3fn_to_bfloat16(in->codes + done, in->count - done, *in->scales,
						   out + done);
		few.codes = in->codes + done;
		few.count = in->count - done < 16 ? in->count - done : 16;
		if (few.count)
			bytes_in_steps(m, &few, out + done);
		done += few.count;
	}
}

/* ---- codes of less than 16 ---- */

/* False: one is none. */
INLINE bool make_table(const struct ckpt_quant_math *m, struct way w, float scale, float zero,
		       struct table *t)
{
	__m256 s = _mm256_set1_ps(scale), z = _mm256_set1_ps(zero);
	__m256i narrow, lower, upper;

	t->lower = t->upper = _mm_setzero_si128();
	t->low = finish8(m, w, _mm256_loadu_ps(m->values), s, z);
	t->high = finish8(m, w, _mm256_loadu_ps(m->values + 8), s, z);
	if (has_nan(t->low, t->high))
		return false;
	if (w.to == CKPT_DTYPE_FLOAT32)
		return true;
	narrow = narrow16(w.to, t->low, t->high);
	lower = _mm256_and_si256(narrow, _mm256_set1_epi16(0xFF));
	upper = _mm256_srli_epi16(narrow, 8);
	t->lower =
		_mm_packus_epi16(_mm256_castsi256_si128(lower), _mm256_extracti128_si256(lower, 1));
	t->upper =
		_mm_packus_epi16(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
	return true;
}

/* 16 numbers of the codes of a byte each in CODES. */
INLINE void look_up16(struct way w, const struct table *t, __m128i codes, uint8_t *out)
{
	__m128i lower, upper;

	if (w.to == CKPT_DTYPE_FLOAT32) {
		_mm256_storeu_ps((float *)(void *)out, look_up8(t, codes));
		_mm256_storeu_ps((float *)(void *)(out + 32),
				 look_up8(t, _mm_srli_si128(codes, 8)));
		return;
	}
	lower = _mm_shuffle_epi8(t->lower, codes);
	upper = _mm_shuffle_epi8(t->upper, codes);
	_mm_storeu_si128((__m128i *)(void *)out, _mm_unpacklo_epi8(lower, upper));
	_mm_storeu_si128((__m128i *)(void *)(out + 16), _mm_unpackhi_epi8(lower, upper));
}

/* How codes of less than 16 lie: a byte each, or two to a byte. */
enum form { BYTES, LOWER_FIRST, UPPER_FIRST };

/* 16 codes, a byte each, from CODES on. */
INLINE __m128i load16(enum form form, const uint8_t *codes)
{
	const __m128i mask = _mm_set1_epi8(15);
	__m128i lower, upper;

	if (form == BYTES)
		return _mm_loadu_si128((const __m128i *)(const void *)codes);
	lower = _mm_and_si128(load8(codes), mask);
	upper = _mm_and_si128(_mm_srli_epi16(load8(codes), 4), mask);
	return form == UPPER_FIRST ? _mm_unpacklo_epi8(upper, lower)
				   : _mm_unpacklo_epi8(lower, upper);
}

/* Less than 16 numbers. */
INLINE void look_up_few(struct way w, const struct table *t, enum form form, const uint8_t *codes,
			size_t count, uint8_t *out)
{
	uint8_t in[16] = { 0 }, made[64];

	memcpy(in, codes, form == BYTES ? count : (count + 1) / 2);
	look_up16(w, t, load16(form, in), made);
	memcpy(out, made, count * (w.to == CKPT_DTYPE_FLOAT32 ? 4 : 2));
}

/* The numbers of IN, which are all of one group. */
INLINE void look_up_group(const struct ckpt_quant_math *m, struct way w, enum form form,
			  const struct ckpt_quant_codes *in, uint8_t *out)
{
	size_t size = w.to == CKPT_DTYPE_FLOAT32 ? 4 : 2, per = form == BYTES ? 1 : 2, i = 0;
	struct table t;

	if (!make_table(m, w, *in->scales, w.has_zeros ? *in->zeros : 0, &t)) {
		if (form == BYTES)
			ckpt_quant_plain.bytes(m, in, out);
		else
			ckpt_quant_plain.nibbles(m, form == UPPER_FIRST, in, out);
		return;
	}
	for (; i + 16 <= in->count; i += 16)
		look_up16(w, &t, load16(form, in->codes + i / per), out + i * size);
	if (i < in->count)
		look_up_few(w, &t, form, in->codes + i / per, in->count - i, out + i * size);
}

/* Two to a byte: the group is even, or all of IN. */
INLINE void look_up_groups(const struct ckpt_quant_math *m, struct way w, enum form form,
			   const struct ckpt_quant_codes *in, uint8_t *out)
{
	struct ckpt_quant_codes one = *in;

	for (size_t at = 0; at < in->count; at += one.count) {
		one.count = in->count - at < in->group ? in->count - at : in->group;
		look_up_group(m, w, form, &one, out);
		one.codes += form == BYTES ? one.count : one.count / 2;
		out += one.count * (w.to == CKPT_DTYPE_FLOAT32 ? 4 : 2);
		one.scales++;
		if (w.has_zeros)
			one.zeros++;
	}
}

INLINE void store16(enum ckpt_dtype to, __m256 low, __m256 high, uint8_t *out)
{
	if (to == CKPT_DTYPE_FLOAT32) {
		_mm256_storeu_ps((float *)(void *)out, low);
		_mm256_storeu_ps((float *)(void *)(out + 32), high);
	} else {
		_mm256_storeu_si256((__m256i *)(void *)out, narrow16(to, low, high));
	}
}

/* 16 numbers from AT on, each with its own scale. False: one is none, and nothing is stored. */
INLINE bool look_up_each16(const struct ckpt_quant_math *m, struct way w, const struct table *t,
			   const struct ckpt_quant_codes *in, size_t at, uint8_t *out)
{
	__m128i codes = load16(BYTES, in->codes + at);
	__m256 zero_low = _mm256_setzero_ps(), zero_high = zero_low, low, high;

	if (w.has_zeros) {
		zero_low = _mm256_loadu_ps(in->zeros + at);
		zero_high = _mm256_loadu_ps(in->zeros + at + 8);
	}
	low = finish8(m, w, look_up8(t, codes), _mm256_loadu_ps(in->scales + at), zero_low);
	high = finish8(m, w, look_up8(t, _mm_srli_si128(codes, 8)),
		       _mm256_loadu_ps(in->scales + at + 8), zero_high);
	if (has_nan(low, high))
		return false;
	store16(w.to, low, high, out);
	return true;
}

/* Codes of less than 16, each number with its own scale. */
INLINE void look_up_each(const struct ckpt_quant_math *m, struct way w,
			 const struct ckpt_quant_codes *in, uint8_t *out)
{
	struct table t = { .low = _mm256_loadu_ps(m->values),
			   .high = _mm256_loadu_ps(m->values + 8) };
	size_t size = w.to == CKPT_DTYPE_FLOAT32 ? 4 : 2;
	struct ckpt_quant_codes few = *in;

	for (size_t at = 0; at < in->count; at += 16) {
		few.count = in->count - at < 16 ? in->count - at : 16;
		if (few.count == 16 && look_up_each16(m, w, &t, in, at, out + at * size))
			continue;
		few.codes = in->codes + at;
		few.scales = in->scales + at;
		few.zeros = w.has_zeros ? in->zeros + at : NULL;
		ckpt_quant_plain.bytes(m, &few, out + at * size);
	}
}

/* What is usual has its own code. */
WITH_AVX2 static void bytes_each(const struct ckpt_quant_math *m, const struct ckpt_quant_codes *in,
				 void *out)
{
	const enum ckpt_dtype f32 = CKPT_DTYPE_FLOAT32, bf16 = CKPT_DTYPE_BFLOAT16;
	struct way w = way_of(m, in);

	if (w.difference != f32 || w.product != f32 || w.to != bf16 || w.has_zeros)
		look_up_each(m, w, in, out);
	else if (w.has_factor)
		look_up_each(m, (struct way){ f32, f32, bf16, false, true }, in, out);
	else
		look_up_each(m, (struct way){ f32, f32, bf16, false, false }, in, out);
}

WITH_AVX2 static void bytes(const struct ckpt_quant_math *m, const struct ckpt_quant_codes *in,
			    void *out)
{
	bool is_usual = m->item == CKPT_DTYPE_FLOAT8_E4M3FN &&
			m->difference == CKPT_DTYPE_FLOAT32 &&
			(m->product == CKPT_DTYPE_FLOAT32 || m->product == m->to) &&
			m->to == CKPT_DTYPE_BFLOAT16 && !in->zeros && m->factor == 0;
	struct ckpt_quant_codes one = *in;

	if (m->few && in->group >= 16) {
		look_up_groups(m, way_of(m, in), BYTES, in, out);
		return;
	}
	if (m->few && in->group == 1) {
		bytes_each(m, in, out);
		return;
	}
	if (!is_usual || in->group < 16) {
		bytes_in_steps(m, in, out);
		return;
	}
	for (size_t at = 0; at < in->count; at += one.count, one.scales++) {
		one.codes = in->codes + at;
		one.count = in->count - at < in->group ? in->count - at : in->group;
		e4m3fn_group(m, &one, (uint16_t *)out + at);
	}
}

WITH_AVX2 static void nibbles(const struct ckpt_quant_math *m, bool upper_first,
			      const struct ckpt_quant_codes *in, void *out)
{
	const enum ckpt_dtype f32 = CKPT_DTYPE_FLOAT32, bf16 = CKPT_DTYPE_BFLOAT16;
	struct way w = way_of(m, in);

	if (in->group % 2 && in->group < in->count)
		ckpt_quant_plain.nibbles(m, upper_first, in, out);
	else if (w.difference == f32 && (w.product == f32 || w.product == bf16) && w.to == bf16 &&
		 !w.has_factor && !w.has_zeros && !upper_first)
		look_up_groups(m, (struct way){ f32, bf16, bf16, false, false }, LOWER_FIRST, in,
			       out);
	else if (upper_first)
		look_up_groups(m, w, UPPER_FIRST, in, out);
	else
		look_up_groups(m, w, LOWER_FIRST, in, out);
}

/* ---- transposes ---- */

/* Eight rows of eight numbers of 16 bits. */
INLINE void transpose16(const uint16_t *in, size_t stride, uint16_t *out, size_t out_stride)
{
	__m128i a[8], b[8];

	for (size_t i = 0; i < 8; i++)
		a[i] = _mm_loadu_si128((const __m128i *)(const void *)(in + i * stride));
	for (size_t i = 0; i < 4; i++) {
		b[2 * i] = _mm_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
		b[2 * i + 1] = _mm_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
	}
	for (size_t i = 0; i < 2; i++)
		for (size_t k = 0; k < 2; k++) {
			a[4 * i + 2 * k] = _mm_unpacklo_epi32(b[4 * i + k], b[4 * i + k + 2]);
			a[4 * i + 2 * k + 1] = _mm_unpackhi_epi32(b[4 * i + k], b[4 * i + k + 2]);
		}
	for (size_t i = 0; i < 4; i++) {
		_mm_storeu_si128((__m128i *)(void *)(out + 2 * i * out_stride),
				 _mm_unpacklo_epi64(a[i], a[i + 4]));
		_mm_storeu_si128((__m128i *)(void *)(out + (2 * i + 1) * out_stride),
				 _mm_unpackhi_epi64(a[i], a[i + 4]));
	}
}

/* Four rows of four numbers of 32 bits. */
INLINE void transpose32(const uint32_t *in, size_t stride, uint32_t *out, size_t out_stride)
{
	__m128 row[4];

	for (size_t i = 0; i < 4; i++)
		row[i] = _mm_loadu_ps((const float *)(const void *)(in + i * stride));
	_MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
	for (size_t i = 0; i < 4; i++)
		_mm_storeu_ps((float *)(void *)(out + i * out_stride), row[i]);
}

/* Eight rows of eight bytes. */
INLINE void transpose8(const uint8_t *in, size_t stride, uint8_t *out, size_t out_stride)
{
	__m128i a[4], b[4];

	for (size_t i = 0; i < 4; i++)
		a[i] = _mm_unpacklo_epi8(load8(in + 2 * i * stride),
					 load8(in + (2 * i + 1) * stride));
	for (size_t i = 0; i < 2; i++) {
		b[2 * i] = _mm_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
		b[2 * i + 1] = _mm_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
	}
	for (size_t i = 0; i < 2; i++) {
		a[2 * i] = _mm_unpacklo_epi32(b[i], b[i + 2]);
		a[2 * i + 1] = _mm_unpackhi_epi32(b[i], b[i + 2]);
	}
	for (size_t i = 0; i < 4; i++) {
		_mm_storel_epi64((__m128i *)(void *)(out + 2 * i * out_stride), a[i]);
		_mm_storel_epi64((__m128i *)(void *)(out + (2 * i + 1) * out_stride),
				 _mm_srli_si128(a[i], 8));
	}
}

WITH_AVX2 static void transpose(uint32_t size, const void *in, size_t rows, size_t cols,
				size_t stride, void *out, size_t out_stride)
{
	size_t step = size == 4 ? 4 : 8, whole_rows = rows / step * step,
	       whole_cols = cols / step * step;
	const uint8_t *from = in;
	uint8_t *to = out;

	for (size_t col = 0; col < whole_cols; col += step)
		for (size_t row = 0; row < whole_rows; row += step) {
			const void *block = from + (row * stride + col) * size;
			void *turned = to + (col * out_stride + row) * size;

			if (size == 1)
				transpose8(block, stride, turned, out_stride);
			else if (size == 2)
				transpose16(block, stride, turned, out_stride);
			else
				transpose32(block, stride, turned, out_stride);
		}
	ckpt_quant_plain.transpose(size, from + whole_rows * stride * size, rows - whole_rows, cols,
				   stride, to + whole_rows * size, out_stride);
	ckpt_quant_plain.transpose(size, from + whole_cols * size, whole_rows, cols - whole_cols,
				   stride, to + whole_cols * out_stride * size, out_stride);
}

static const struct ckpt_quant_kernels avx2 = { bytes, nibbles, transpose };

const struct ckpt_quant_kernels *ckpt_quant_best(void)
{
	return ckpt_cast_best() == &ckpt_cast_plain ? &ckpt_quant_plain
						    : &avx2; /* it needs the same */
}

#else

const struct ckpt_quant_kernels *ckpt_quant_best(void)
{
	return &ckpt_quant_plain;
}

#endif
