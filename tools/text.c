/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool quiet, verbose;

const char *human_size(uint64_t nbytes, char *buf)
{
	static const char units[] = " KMGTPE";
	double v = (double)nbytes;
	int unit = 0;

	while (v >= 999.5 && unit < 6) {
		v /= 1000;
		unit++;
	}
	if (!unit)
		snprintf(buf, 16, "%" PRIu64, nbytes);
	else
		snprintf(buf, 16, v < 9.95 ? "%.1f%c" : "%.0f%c", v, units[unit]);
	return buf;
}

const char *grouped(uint64_t n, char *buf)
{
	char digits[24];
	size_t len = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, n), used = 0;

	for (size_t i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf[used++] = ',';
		buf[used++] = digits[i];
	}
	buf[used] = '\0';
	return buf;
}

const char *shape_text(const struct ckpt_tensor_info *t, char *buf, size_t size)
{
	size_t used = (size_t)snprintf(buf, size, "[");

	for (uint32_t i = 0; i < t->ndim && used + 24 < size; i++)
		used += (size_t)snprintf(buf + used, size - used, "%s%" PRIu64, i ? ", " : "",
					 t->shape[i]);
	snprintf(buf + used, size - used, "]");
	return buf;
}

int finish_output(int code)
{
	bool bad = ferror(stdout);

	if (fflush(stdout) != 0 || bad) {
		if (errno == EPIPE)
			return code; /* "ckpt ls x | head": the reader had enough */
		complain("cannot write to standard output: %s", strerror(errno));
		return EXIT_ERROR;
	}
	return code;
}
