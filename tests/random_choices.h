/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TESTS_RANDOM_CHOICES_H
#define CKPT_TESTS_RANDOM_CHOICES_H

#include <stdbool.h>
#include <stdint.h>

/* Choices that follow from RANDOM_STATE, a seed: splitmix64, by Steele, Lea and Flood, OOPSLA 2014. */
static uint64_t random_state;

static uint64_t next_random(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static unsigned below(unsigned n)
{
	return (unsigned)(next_random() % n);
}

static bool one_in(unsigned n)
{
	return below(n) == 0;
}

/* From 1 to MOST, small ones as often as large ones. */
static unsigned up_to(unsigned most)
{
	unsigned bits = 0;

	while (most >> bits)
		bits++;
	return below(1u << below(bits + 1)) % most + 1;
}

#endif
