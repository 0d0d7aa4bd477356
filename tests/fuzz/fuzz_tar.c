/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tar archives of torch 0.1. The checksums of headers are made right first: nothing else would get past them.
 */
#include "fuzz.h"

#include <string.h>

enum { BLOCK = 512, CHECKSUM = 148, CHECKSUM_LEN = 8, MAGIC = 257 };

/* Every block that could be a header is made one. */
static void mend(uint8_t *bytes, size_t size)
{
	for (size_t at = 0; at + BLOCK <= size; at += BLOCK) {
		unsigned sum = 0;
		char text[CHECKSUM_LEN];

		if (memcmp(bytes + at + MAGIC, "ustar", 5) != 0)
			continue;
		memset(bytes + at + CHECKSUM, ' ', CHECKSUM_LEN);
		for (size_t i = 0; i < BLOCK; i++)
			sum += bytes[at + i];
		snprintf(text, sizeof(text), "%06o", sum);
		memcpy(bytes + at + CHECKSUM, text, 7);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes = malloc(size + 1);

	REQUIRE(bytes);
	memcpy(bytes, data, size);
	mend(bytes, size);
	fuzz_exercise_file(bytes, size);
	free(bytes);
	return 0;
}
