/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_TOOLS_WHOLE_H
#define CKPT_TOOLS_WHOLE_H

#include "command.h"

/* What ckpt_repair_open() gave back as lost, filled or not: how many tensors, and the first names. Begins as { .count = 0 }. */
struct lost_tensors {
	uint64_t count, of_optimizer;
	char names[240]; /* quoted, with commas */
	uint64_t named;
};

/* For each finding; others than CKPT_REPAIR_LOST do not count. */
void lost_tensors_add(struct lost_tensors *lost, const struct ckpt_repair_finding *finding);

/*
 * "all 38 tensors are whole", "4 of 38 tensors are lost, all of them of an optimizer: 'a', 'b', 'c' and 1 more":
 * is what a repair saves the whole model?
 */
const char *whole_text(const struct ckpt_repair_report *r, const struct lost_tensors *lost, char *buf, size_t size);

#endif
