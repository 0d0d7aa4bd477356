/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_GPU_NUMA_H
#define CKPT_GPU_NUMA_H

#include <stddef.h>

/*
 * Memory near a GPU: on machines with several nodes of memory (NUMA) a GPU copies from that of its own at the full speed of
 * its link, and from another one's at a half or a third. Source of the call: mbind(2); of the file:
 * Documentation/ABI/testing/sysfs-bus-pci of Linux.
 */

/*
 * The node of the device at BUS ("0000:3b:00.0", letters in either case), as the folder DEVICES (NULL: /sys/bus/pci/devices)
 * has it; -1: it has none, or nobody knows.
 */
int ckpt_numa_node_of(const char *devices, const char *bus);

/*
 * Pages in MEMORY, a multiple of the page size, that are first touched from now on come from NODE if it has any left. -1: from
 * anywhere, as before. What the kernel refuses is passed over: it is about speed alone.
 */
void ckpt_numa_prefer(void *memory, size_t nbytes, int node);

#endif
