/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes, counts and shapes as texts, columns of a table, sizes that a user wrote, and the end of
 * every command.
 *
 * What must stay true: fractions go through number_text(), for a library that is loaded later may
 * set a locale. Commands that succeed end with finish_output(): that notices a full disk behind
 * stdout, and turns EXIT_FINE into EXIT_NO after answer_is_no().
 */
#include "command.h"
#include "json.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
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
		number_text(buf, 16, v < 9.95 ? "%.1f%c" : "%.0f%c", v, units[unit]);
	return buf;
}

const char *size_phrase(uint64_t nbytes, char *buf)
{
	human_size(nbytes, buf);
	if (nbytes < 1000)
		snprintf(buf, 16, "%u byte%s", (unsigned)nbytes, nbytes == 1 ? "" : "s");
	return buf;
}

const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

uint64_t sum(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
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

bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len >= end_len && !strcmp(text + len - end_len, end);
}

const char *shape_text(const struct ckpt_tensor_info *t, char *buf, size_t size)
{
	size_t used = (size_t)snprintf(buf, size, "[");
	uint32_t i;

	for (i = 0; i < t->ndim && used + 32 < size; i++)
		used += (size_t)snprintf(buf + used, size - used, "%s%" PRIu64, i ? ", " : "",
					 t->shape[i]);
	snprintf(buf + used, size - used, i < t->ndim ? ", ...]" : "]");
	return buf;
}

static bool answered_no;

void answer_is_no(void)
{
	answered_no = true;
}

/* Of a pipe. */
static bool has_no_reader(FILE *out)
{
	struct pollfd p = { .fd = fileno(out) };

	return poll(&p, 1, 0) > 0 && (p.revents & POLLERR);
}

int finish_stream(FILE *out, int code)
{
	static const FILE *told; /* of which this was said */
	bool was_bad = ferror(out), is_bad = fflush(out) != 0;

	if (is_bad ? errno == EPIPE : was_bad && has_no_reader(out))
		return code; /* "ckpt ls x | head": the reader had enough */
	if (told == out)
		return EXIT_ERROR;
	if (is_bad || was_bad) {
		told = out;
		if (is_bad)
			complain("cannot write to standard output: %s", errno_text(errno));
		else
			complain("cannot write to standard output");
		return EXIT_ERROR;
	}
	return code == EXIT_FINE && answered_no ? EXIT_NO : code;
}

int finish_output(int code)
{
	return finish_stream(stdout, code);
}

/* UTF-8 continuation bytes take no column. */
size_t text_columns(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xC0) != 0x80;
	return n;
}

void print_padded(const char *text, int width)
{
	int pad = width - (int)text_columns(text);

	printf("%s%*s  ", text, pad > 0 ? pad : 0, "");
}

int wider(int have, size_t want, int most)
{
	int w = want > (size_t)most ? most : (int)want;

	return w > have ? w : have;
}

bool parse_size(const char *text, uint64_t *out)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);
	unsigned shift = 0;

	if (*end == 'K' || *end == 'k')
		shift = 10;
	else if (*end == 'M' || *end == 'm')
		shift = 20;
	else if (*end == 'G' || *end == 'g')
		shift = 30;
	*out = n << shift;
	return *text >= '0' && *text <= '9' && !end[shift > 0] && n <= (1ull << 60) >> shift;
}

bool parse_depth(const char *text, uint64_t *out)
{
	if (!text)
		return true;
	if (!strcmp(text, "module")) {
		*out = CKPT_DEPTH_MODULE;
		return true;
	}
	return parse_size(text, out) && *out;
}

/*
 * Like parse_size_to_int() of huggingface_hub, which wants the unit in full: 1.5GB is 1500000000.
 */
bool parse_decimal_size(const char *text, uint64_t *out)
{
	static const char units[] = "KMGT";
	char *end;
	double n = number_of(text, &end);
	const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;

	if (text + strspn(text, "0123456789.") != end || !isdigit((unsigned char)*text))
		return false; /* hexadecimal, 1e3: numbers, but no sizes */
	for (const char *u = units; unit && u <= unit; u++)
		n *= 1000;
	end += unit != NULL;
	end += toupper((unsigned char)*end) == 'B';
	*out = n < 1e18 ? (uint64_t)n : 0;
	return !*end && *out;
}

int set_error(struct ckpt_error *err, enum ckpt_status status, const char *fmt, ...)
{
	va_list ap;

	*err = (struct ckpt_error)CKPT_ERROR_INIT;
	err->status = status;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
#ifdef CKPT_SCRAMBLE_TEXTS /* what ckpt_error_format() undoes: ROT13 */
	for (char *c = err->text; *c; c++) {
		char small = (char)(*c | 0x20), rotated = (char)(small + (small < 'n' ? 13 : -13));

		if (small >= 'a' && small <= 'z')
			*c = (char)(rotated ^ small ^ *c);
	}
#endif
	return status;
}

char *shell_word(const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_-./=,:@%+";
	size_t len = strlen(word), size = 4 * len + 8;
	char *shown = malloc(size), *out = malloc(4 * size + 3), *to = out;

	if (!shown || !out)
		no_memory();
	ckpt_escape(shown, size, word, len);
	if (*shown && shown[strspn(shown, plain)] == '\0') {
		free(out);
		return shown;
	}
	*to++ = '\'';
	for (const char *at = shown; *at; at++)
		to = stpcpy(to, *at == '\'' ? "'\\''" : (char[]){ *at, '\0' });
	strcpy(to, "'");
	free(shown);
	return out;
}
