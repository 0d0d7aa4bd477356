/* SPDX-License-Identifier: Apache-2.0 */
#include "base/c_locale.h"
#include "base/error.h"
#include "base/text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum { MATCH_LIMIT = 1000000 };

struct ckpt_pattern {
	char *glob, *subtree; /* NULL for expressions */
	pcre2_code *code;
	pcre2_match_data *match;
	pcre2_match_context *limits;
};

static int compile(struct ckpt_pattern *p, const char *text, struct ckpt_error *err)
{
	char message[120], shown[160];
	PCRE2_SIZE where;
	int code;

	p->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
				PCRE2_UTF | PCRE2_MATCH_INVALID_UTF, &code, &where, NULL);
	if (!p->code) {
		pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof(message));
		return ckpt_fail(err, CKPT_E_ARG, "pattern 're:%s': %s",
				 ckpt_escape(shown, sizeof(shown), text, strlen(text)), message);
	}
	p->match = pcre2_match_data_create_from_pattern(p->code, NULL);
	p->limits = pcre2_match_context_create(NULL);
	if (!p->match || !p->limits)
		return ckpt_fail_nomem(err);
	pcre2_set_match_limit(p->limits, MATCH_LIMIT);
	return 0;
}

static int copy_glob(struct ckpt_pattern *p, const char *text, struct ckpt_error *err)
{
	size_t len = strlen(text);

	p->glob = strdup(text);
	p->subtree = malloc(len + 3);
	if (!p->glob || !p->subtree)
		return ckpt_fail_nomem(err);
	memcpy(p->subtree, text, len);
	memcpy(p->subtree + len, ".*", 3);
	return 0;
}

int ckpt_pattern_new(const char *text, struct ckpt_pattern **out, struct ckpt_error *err)
{
	struct ckpt_pattern *p = calloc(1, sizeof(*p));
	int rc;

	*out = NULL;
	if (!p)
		return ckpt_fail_nomem(err);
	rc = strncmp(text, "re:", 3) ? copy_glob(p, text, err) : compile(p, text + 3, err);
	if (rc < 0)
		ckpt_pattern_free(p);
	else
		*out = p;
	return rc;
}

void ckpt_pattern_free(struct ckpt_pattern *p)
{
	if (!p)
		return;
	free(p->glob);
	free(p->subtree);
	pcre2_code_free(p->code);
	pcre2_match_data_free(p->match);
	pcre2_match_context_free(p->limits);
	free(p);
}

int ckpt_pattern_matches(struct ckpt_pattern *p, const char *name, struct ckpt_error *err)
{
	char message[120], shown[160];
	int code;

	if (p->glob)
		return !strcmp(p->glob, name) || ckpt_glob_matches(p->glob, name, 0) ||
		       ckpt_glob_matches(p->subtree, name, 0);
	code = pcre2_match(p->code, (PCRE2_SPTR)name, PCRE2_ZERO_TERMINATED, 0, 0, p->match,
			   p->limits);
	if (code >= 0 || code == PCRE2_ERROR_NOMATCH)
		return code >= 0;
	pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof(message));
	return ckpt_fail(err, CKPT_E_LIMIT, "a pattern cannot be compared with '%s': %s",
			 ckpt_escape(shown, sizeof(shown), name, strlen(name)), message);
}
