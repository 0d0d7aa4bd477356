/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/numa.h"

#include <limits.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_NODES = 1024 };

int ckpt_numa_node_of(const char *devices, const char *bus)
{
	char path[PATH_MAX];
	int len = snprintf(path, sizeof(path), "%s/", devices ? devices : "/sys/bus/pci/devices"), node = -1;
	FILE *stream;

	for (; *bus && len >= 0 && len < PATH_MAX - 16; bus++, len++) {
		if (!strchr("0123456789abcdefABCDEF:.", *bus))
			return -1;
		path[len] = (char)(*bus >= 'A' && *bus <= 'F' ? *bus | 0x20 : *bus); /* as the kernel writes it */
	}
	if (len < 0 || len >= PATH_MAX - 16 || path[len - 1] == '/')
		return -1;
	snprintf(path + len, sizeof(path) - (size_t)len, "/numa_node");
	stream = fopen(path, "re");
	if (!stream)
		return -1;
	if (fscanf(stream, "%d", &node) != 1 || node < 0 || node >= MOST_NODES)
		node = -1;
	fclose(stream);
	return node;
}

void ckpt_numa_prefer(void *memory, size_t nbytes, int node)
{
	enum { BITS = 8 * sizeof(unsigned long) };
	unsigned long nodes[MOST_NODES / BITS] = { 0 };

	if (node >= 0 && node < MOST_NODES)
		nodes[(unsigned)node / BITS] |= 1UL << (unsigned)node % BITS;
	(void)syscall(SYS_mbind, memory, nbytes, node >= 0 ? MPOL_PREFERRED : MPOL_DEFAULT, node >= 0 ? nodes : NULL,
		      node >= 0 ? MOST_NODES + 1UL : 0UL, 0U);
}
