/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "quant/kernels.h"
#include "tensor/float8.h"

#include <math.h>
#include <string.h>

/* What numbers are made is compared in test_dequant.c; here, that all processors make the same. */

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	return random_state ^= random_state << 17;
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)(next_random() >> 20) % n;
}

static const enum ckpt_dtype plain[] = { CKPT_DTYPE_FLOAT32, CKPT_DTYPE_FLOAT16,
					 CKPT_DTYPE_BFLOAT16 };

static float any_float(void)
{
	static const uint32_t odd[] = {
		0,	    0x80000000, 0x7F800000, 0xFF800000, 0x7FC00001,
		0x7F800001, 0xFFFFFFFF, 1,	    0x00400000, 0x7F7FFFFF
	};
	uint32_t bits = (uint32_t)next_random();
	float v;

	if (!below(4))
		bits = odd[below(COUNT(odd))];
	else if (below(8))
		bits = (bits & 0x807FFFFF) | (118 + below(12)) << 23;
	memcpy(&v, &bits, sizeof(v));
	return v;
}

/* What the codes of ITEM are; UNKNOWN: anything. */
static void set_values(struct ckpt_quant_math *m, enum ckpt_dtype item)
{
	m->item = item;
	for (unsigned i = 0; i < 256; i++) {
		uint32_t bits;

		switch (item) {
		case CKPT_DTYPE_UINT8: m->values[i] = (float)i; break;
		case CKPT_DTYPE_INT8: m->values[i] = (int8_t)i; break;
		case CKPT_DTYPE_UNKNOWN: m->values[i] = any_float(); break;
		default:
			bits = ckpt_float8_widen(item, (uint8_t)i);
			memcpy(&m->values[i], &bits, sizeof(bits));
		}
	}
}

enum { MOST = 700 };

static uint8_t codes[MOST + 32], found[MOST * 4 + 32], want[MOST * 4 + 32];
static float scales[MOST], zeros[MOST];

static void choose_math(struct ckpt_quant_math *m)
{
	static const enum ckpt_dtype items[] = { CKPT_DTYPE_FLOAT8_E4M3FN, CKPT_DTYPE_FLOAT8_E5M2,
						 CKPT_DTYPE_INT8, CKPT_DTYPE_UINT8,
						 CKPT_DTYPE_UNKNOWN };

	set_values(m, items[below(COUNT(items))]);
	m->difference = plain[below(3) ? 0 : below(3)];
	m->product = plain[below(3) ? 0 : below(3)];
	m->to = plain[below(3)];
	m->factor = below(4) ? 0 : any_float();
	m->adds_zeros = false; /* the plain set alone */
}

/* Scales that are numbers in one of two rounds: one that is none takes all of its group another way. */
static void choose_scales(unsigned round)
{
	for (unsigned i = 0; i < MOST; i++) {
		scales[i] = any_float();
		zeros[i] = any_float();
		if (round % 2 && !isfinite(scales[i]))
			scales[i] = 0.5F;
		if (round % 2)
			zeros[i] = (float)below(16);
	}
}

static void all_sets_make_the_same(void **state)
{
	static const size_t groups[] = { 1, 2, 3, 8, 15, 16, 17, 32, 48, 128, MOST };
	const struct ckpt_quant_kernels *k = ckpt_quant_best();

	(void)state;
	for (unsigned round = 0; round < unit_rounds(20000, 2000000); round++) {
		size_t group = groups[below(COUNT(groups))], count = 1 + below(MOST - 1),
		       off = below(16), to = below(16), size;
		const float *z = below(2) ? zeros : NULL;
		bool upper_first = below(2);
		struct ckpt_quant_codes in;
		struct ckpt_quant_math m;

		choose_math(&m);
		size = ckpt_dtype_size(m.to);
		if (round % 16 == 0)
			choose_scales(round / 16);
		for (size_t i = 0; i < sizeof(codes); i += 8)
			memcpy(codes + i, &(uint64_t){ next_random() },
			       sizeof(codes) - i < 8 ? sizeof(codes) - i : 8);
		m.few = !below(3);
		for (size_t i = 0; m.few && round % 3 && i < sizeof(codes); i++)
			codes[i] &= 15;
		memset(found, 0x5A, sizeof(found));
		memset(want, 0x5A, sizeof(want));
		in = (struct ckpt_quant_codes){ codes + off, count, group, scales, z };
		if (round % 3) {
			k->bytes(&m, &in, found + to);
			ckpt_quant_plain.bytes(&m, &in, want + to);
		} else {
			k->nibbles(&m, upper_first, &in, found + to);
			ckpt_quant_plain.nibbles(&m, upper_first, &in, want + to);
		}
		if (memcmp(found, want, sizeof(found)) != 0)
			for (size_t i = 0; i < count; i++)
				if (memcmp(found + to + i * size, want + to + i * size, size) != 0)
					fail_msg(
						"number %d of %d in groups of %d, of %s by %s, %s to %s: %a, scale %a, zero %a, factor %a",
						(int)i, (int)count, (int)group,
						ckpt_dtype_name(m.item),
						ckpt_dtype_name(m.difference),
						ckpt_dtype_name(m.product), ckpt_dtype_name(m.to),
						(double)m.values[codes[off + i]],
						(double)scales[i / group],
						z ? (double)z[i / group] : 0, (double)m.factor);
		assert_memory_equal(found, want, sizeof(found)); /* and nothing beside them */
	}
}

/* All 256 codes by many scales, of what is common. */
static void every_code_by_every_exponent(void **state)
{
	static const enum ckpt_dtype items[] = { CKPT_DTYPE_FLOAT8_E4M3FN, CKPT_DTYPE_FLOAT8_E5M2,
						 CKPT_DTYPE_INT8, CKPT_DTYPE_UINT8 };
	const struct ckpt_quant_kernels *k = ckpt_quant_best();
	uint8_t all[256];

	(void)state;
	for (unsigned i = 0; i < 256; i++)
		all[i] = (uint8_t)i;
	for (size_t t = 0; t < COUNT(items) * 3; t++) {
		struct ckpt_quant_math m = { .to = plain[t % 3],
					     .difference = CKPT_DTYPE_FLOAT32,
					     .product = CKPT_DTYPE_FLOAT32 };

		set_values(&m, items[t / 3]);
		for (uint32_t exponent = 0; exponent < 512; exponent++) {
			struct ckpt_quant_codes in;
			uint32_t bits = exponent << 23 | (uint32_t)(next_random() & 0x7FFFFF);
			float scale;

			memcpy(&scale, &bits, sizeof(scale));
			in = (struct ckpt_quant_codes){ all, 256, 256, &scale, NULL };
			k->bytes(&m, &in, found);
			ckpt_quant_plain.bytes(&m, &in, want);
			assert_memory_equal(found, want, (size_t)256 * ckpt_dtype_size(m.to));
		}
	}
}

static void rows_become_columns(void **state)
{
	static uint32_t in[100 * 100], out[2][100 * 100];
	const struct ckpt_quant_kernels *k = ckpt_quant_best();

	(void)state;
	for (unsigned i = 0; i < COUNT(in); i++)
		in[i] = (uint32_t)next_random();
	for (unsigned round = 0; round < 500; round++) {
		uint32_t size = 1u << below(3);
		size_t rows = 1 + below(70), cols = 1 + below(70), stride = cols + below(9),
		       out_stride = rows + below(9);
		const uint8_t *from = (const uint8_t *)in + 2 * below(8);

		memset(out, 0, sizeof(out));
		k->transpose(size, from, rows, cols, stride, out[0], out_stride);
		for (size_t row = 0; row < rows; row++)
			for (size_t col = 0; col < cols; col++)
				memcpy((uint8_t *)out[1] + (col * out_stride + row) * size,
				       from + (row * stride + col) * size, size);
		assert_memory_equal(out[0], out[1], sizeof(out[0]));
		memset(out[0], 0, sizeof(out[0]));
		ckpt_quant_plain.transpose(size, from, rows, cols, stride, out[0], out_stride);
		assert_memory_equal(out[0], out[1], sizeof(out[0]));
	}
}

UNIT_SUITE(test_quant_kernels)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_sets_make_the_same),
		cmocka_unit_test(every_code_by_every_exponent),
		cmocka_unit_test(rows_become_columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
