/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks items of 1 to 8 bits, in bytes and in words of 32 bits, in the orders of the packages that pack them. */
#include "quant/codes.h"

#include <string.h>

struct ckpt_quant_layout ckpt_quant_layout_of_bytes(uint32_t bits, bool upper_first,
						    bool along_rows)
{
	return (struct ckpt_quant_layout){ .bits = bits,
					   .unit = bits == 6 ? 3 : 1,
					   .per = bits == 6 ? 4 : 8 / bits,
					   .along_rows = along_rows && bits < 8,
					   .upper_first = upper_first };
}

struct ckpt_quant_layout ckpt_quant_layout_of_words(uint32_t bits, bool dense, bool awq,
						    bool along_rows)
{
	bool cross = dense && 32 % bits != 0;
	uint32_t words = !cross ? 1 : bits % 2 ? bits : bits / 2; /* 32 or 16 codes */

	return (struct ckpt_quant_layout){ .bits = bits,
					   .unit = words * 4,
					   .per = words * 32 / bits,
					   .along_rows = along_rows,
					   .awq = awq };
}

uint32_t ckpt_quant_word(const struct ckpt_quant_layout *l)
{
	return l->unit % 4 ? 1 : 4;
}

/* Words of 4 bytes, or bytes, that COUNT codes take: the last unit may be cut off behind one. */
static uint64_t words_for(const struct ckpt_quant_layout *l, uint64_t count)
{
	uint32_t word = ckpt_quant_word(l), rest = (uint32_t)(count % l->per);

	return count / l->per * (l->unit / word) + (rest * l->bits + word * 8 - 1) / (word * 8);
}

bool ckpt_quant_packed_shape(const struct ckpt_quant_layout *l, uint64_t rows, uint64_t cols,
			     uint64_t *packed_rows, uint64_t *row_bytes)
{
	uint64_t word = ckpt_quant_word(l);

	*packed_rows = l->along_rows ? words_for(l, rows) : rows;
	return !__builtin_mul_overflow(l->along_rows ? cols : words_for(l, cols), word, row_bytes);
}

static uint32_t load32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void unpack_bytes(const struct ckpt_quant_layout *l, const uint8_t *row, uint32_t first,
			 size_t count, uint8_t *codes)
{
	if (l->per == 1) {
		memcpy(codes, row, count);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		size_t at = first + i;

		codes[i] = row[at / 2] >> (at % 2 != l->upper_first ? 4 : 0) & 15;
	}
}

/* Bits AT to AT + BITS of a string of words, or of one word. */
static uint8_t code_at(const struct ckpt_quant_layout *l, const uint8_t *words, size_t at)
{
	uint32_t shift = (uint32_t)(at % 32), code = load32(words + at / 32 * 4) >> shift;

	if (shift + l->bits > 32)
		code |= load32(words + (at / 32 + 1) * 4) << (32 - shift);
	return (uint8_t)(code & ((1u << l->bits) - 1));
}

/* Where code I of a unit begins. */
static uint32_t bit_of(const struct ckpt_quant_layout *l, uint32_t i)
{
	static const uint8_t awq[] = { 0, 16, 4, 20, 8, 24, 12, 28 };

	if (l->unit == 1 && l->per == 2)
		return (i != 0) != l->upper_first ? 4 : 0;
	return l->awq ? awq[i] : i * l->bits;
}

/* Four codes of 4 bits, APART bits apart, 8 or 16, the first lowest. */
static uint64_t spread4(uint32_t codes, unsigned apart)
{
	uint64_t spread = codes & 0xFFFF, step = apart - 4;

	spread = (spread | spread << 2 * step) & (apart == 8 ? 0x00FF00FF : 0xFF000000FF);
	return (spread | spread << step) & (apart == 8 ? 0x0F0F0F0F : 0xF000F000F000F);
}

/* Codes of 6 bits, four to three bytes, from one of the first three bytes on. */
static void unpack_triples(const uint8_t *row, uint32_t first, size_t count, uint8_t *codes)
{
	for (size_t i = 0; i < count; i++) {
		size_t bit = (first + i) * 6;
		const uint8_t *at = row + bit / 8;
		uint32_t both = bit % 8 > 2 ? at[0] | (uint32_t)at[1] << 8 : at[0];

		codes[i] = both >> bit % 8 & 63;
	}
}

/* Eight codes of 4 bits at once. */
static void unpack_words4(const uint8_t *words, bool awq, size_t count, uint8_t *codes)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t word = load32(words + i * 4);
		uint64_t spread = awq ? spread4(word, 16) | spread4(word >> 16, 16) << 8
				      : spread4(word, 8) | spread4(word >> 16, 8) << 32;

		memcpy(codes + i * 8, &spread, sizeof(spread));
	}
}

void ckpt_quant_unpack(const struct ckpt_quant_layout *l, const uint8_t *row, uint32_t first,
		       size_t count, uint8_t *codes)
{
	size_t i = 0;

	first %= l->per;
	if (l->unit == 1) {
		unpack_bytes(l, row, first, count, codes);
		return;
	}
	if (l->unit == 3) {
		unpack_triples(row, first, count, codes);
		return;
	}
	if (l->bits == 8) {
		memcpy(codes, row + first, count);
		return;
	}
	if (l->bits == 4 && !first) {
		unpack_words4(row, l->awq, count / 8, codes);
		i = count / 8 * 8;
	}
	for (; i < count; i++) {
		size_t at = first + i;

		codes[i] =
			code_at(l, row + at / l->per * l->unit, bit_of(l, (uint32_t)(at % l->per)));
	}
}

uint64_t ckpt_quant_word_row(const struct ckpt_quant_layout *l, uint64_t row, bool *crosses)
{
	uint32_t word = ckpt_quant_word(l), bit = bit_of(l, (uint32_t)(row % l->per));

	*crosses = bit % (word * 8) + l->bits > word * 8;
	return row / l->per * (l->unit / word) + bit / (word * 8);
}

void ckpt_quant_unpack_rows(const struct ckpt_quant_layout *l, uint64_t row, const uint8_t *low,
			    const uint8_t *high, size_t count, uint8_t *codes)
{
	uint32_t word = ckpt_quant_word(l), mask = (1u << l->bits) - 1,
		 shift = bit_of(l, (uint32_t)(row % l->per)) % (word * 8);

	for (size_t i = 0; word == 1 && i < count; i++)
		codes[i] = (uint8_t)(low[i] >> shift & mask);
	for (size_t i = 0; word == 1 && high && i < count; i++)
		codes[i] |= (uint8_t)(high[i] << (8 - shift) & mask);
	for (size_t i = 0; word == 4 && i < count; i++)
		codes[i] = (uint8_t)(load32(low + i * 4) >> shift & mask);
	for (size_t i = 0; word == 4 && high && i < count; i++)
		codes[i] |= (uint8_t)(load32(high + i * 4) << (32 - shift) & mask);
}
