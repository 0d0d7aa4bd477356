/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files through the public functions. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_exercise_file(data, size);
	return 0;
}
