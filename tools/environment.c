/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAME = 80 };

/* CKPT_BROADCAST_IO_THREADS is --io-threads of broadcast. */
static void variable_name(const struct command *cmd, const char *option, char *out)
{
	snprintf(out, MOST_NAME, "CKPT_%s_%s", cmd->name, option);
	for (char *p = out; *p; p++)
		*p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
}

static int store_flag(const struct command *cmd, const struct opt *o, const char *name,
		      const char *value)
{
	if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return wrong_usage(cmd, "%s: %s=%.40s: wanted 1 or 0", cmd->name, name, value);
	*(bool *)o->target |= *value == '1';
	return EXIT_FINE;
}

int read_option_variables(const struct command *cmd)
{
	int code = EXIT_FINE;

	for (const struct opt *o = cmd->opts; o->kind && code == EXIT_FINE; o++) {
		char name[MOST_NAME];
		const char *value;

		variable_name(cmd, o->name, name);
		value = getenv(name);
		if (!value || !*value)
			continue;
		if (o->kind == OPT_KIND_FLAG)
			code = store_flag(cmd, o, name, value);
		else if (!*(const char **)o->target)
			*(const char **)o->target = value;
	}
	return code;
}

const char *option_text(const struct command *cmd, const char *option, const char *value)
{
	static char text[2 * MOST_NAME];
	char name[MOST_NAME];

	variable_name(cmd, option, name);
	if (value == getenv(name))
		snprintf(text, sizeof(text), "%s: %s=%.40s", cmd->name, name, value);
	else
		snprintf(text, sizeof(text), "%s: --%s %.40s", cmd->name, option, value);
	return text;
}
