/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

#include <stdio.h>
#include <string.h>

enum { MOST_NAMES = 3 };

void lost_tensors_add(struct lost_tensors *lost, const struct ckpt_repair_finding *f)
{
	size_t used = strlen(lost->names), left = sizeof(lost->names) - used;
	char name[200];
	int len;

	if (f->kind != CKPT_REPAIR_LOST)
		return;
	lost->count++;
	lost->of_optimizer += f->of_optimizer;
	if (!f->name || lost->named == MOST_NAMES || lost->named + 1 < lost->count)
		return;
	len = snprintf(lost->names + used, left, "%s'%s'", used ? ", " : "",
		       ckpt_escape(name, sizeof(name), f->name, strlen(f->name)));
	if (len < 0 || (size_t)len >= left)
		lost->names[used] = '\0'; /* half a name would be another one */
	else
		lost->named++;
}

const char *whole_text(const struct ckpt_repair_report *r, const struct lost_tensors *lost, char *buf, size_t size)
{
	char all[32], some[32], few[32], names[320] = "";

	grouped(r->tensors, all);
	if (!r->lost && !r->unproven) {
		snprintf(buf, size, r->tensors == 1 ? "the only tensor is whole" : "all %s tensors are whole", all);
		return buf;
	}
	if (!r->lost) {
		snprintf(buf, size, r->tensors == 1 ? "the only tensor is there, without a checksum that proves it"
						    : "all %s tensors are there, %s of them without a checksum that proves it",
			 all, r->unproven == r->tensors ? "all" : grouped(r->unproven, some));
		return buf;
	}
	if (lost->named)
		snprintf(names, sizeof(names), ": %s%s%s%s", lost->names, lost->named < r->lost ? " and " : "",
			 lost->named < r->lost ? grouped(r->lost - lost->named, few) : "",
			 lost->named < r->lost ? " more" : "");
	if (!lost->of_optimizer)
		few[0] = '\0';
	else if (lost->of_optimizer == lost->count)
		snprintf(few, sizeof(few), ", all of them of an optimizer");
	else
		snprintf(few, sizeof(few), ", %s", grouped(lost->of_optimizer, some));
	snprintf(buf, size, "%s of %s tensor%s %s lost%s%s%s", grouped(r->lost, some), all, plural(r->tensors),
		 r->lost == 1 ? "is" : "are", few,
		 lost->of_optimizer && lost->of_optimizer < lost->count ? " of them of an optimizer" : "", names);
	return buf;
}
