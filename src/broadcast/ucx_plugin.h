/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_BROADCAST_UCX_PLUGIN_H
#define CKPT_BROADCAST_UCX_PLUGIN_H

#include "broadcast/transport.h"

#include <stdbool.h>

/*
 * UCX is not on every machine, so a separate library calls it: ckpt-ucx.so, built where its headers are
 * and loaded only when it is needed. This is its interface: one worker, which receives from anybody
 * who knows the tag, and one endpoint, to the next rank. For one thread at a time. Nothing waits but
 * quiesce().
 */
enum {
	CKPT_UCX_PLUGIN_VERSION = 2,
	CKPT_UCX_MOST_ADDRESS = 16 << 10,
	CKPT_UCX_SLOTS = CKPT_MOST_FLYING + 1, /* of operations that were begun */
};

struct ckpt_ucx; /* the plug-in's */

struct ckpt_ucx_ops {
	/*
	 * INTERFACES: the networks that the bytes may go over, "eth0,ib0", and the devices for RDMA behind
	 * them; or, with ANY_RDMA, all that this host has, unless $UCX_NET_DEVICES says otherwise. NULL: what
	 * UCX chooses.
	 */
	int (*open)(const char *interfaces, bool any_rdma, struct ckpt_ucx **out, struct ckpt_error *err);

	/* What the rank before this one has to know to connect; the worker's. */
	const void *(*address)(const struct ckpt_ucx *u, size_t *len);

	/*
	 * To the one whose ADDRESS that is. SHARES_HOST: it runs on this host, where memory is shared; UCX
	 * does not notice there that it has died.
	 */
	int (*connect)(struct ckpt_ucx *u, const void *address, size_t len, bool shares_host,
		       struct ckpt_error *err);

	/* Begin it in SLOT, which is free. BYTES must stay until test() says 1 or quiesce() true. */
	int (*send)(struct ckpt_ucx *u, unsigned slot, const void *bytes, size_t len, uint64_t tag,
		    struct ckpt_error *err);
	int (*receive)(struct ckpt_ucx *u, unsigned slot, void *bytes, size_t len, uint64_t tag,
		       struct ckpt_error *err);
	/* That nothing is left here which others wait for. */
	int (*flush)(struct ckpt_ucx *u, unsigned slot, struct ckpt_error *err);

	/* Work that is due. True: there was some. */
	bool (*progress)(struct ckpt_ucx *u);

	/* 1: it is done, and the slot is free; 0: not yet. */
	int (*test)(struct ckpt_ucx *u, unsigned slot, struct ckpt_error *err);

	/* The transports and devices to the next rank: "tcp/eth0", "rc_mlx5/mlx5_0:1". */
	void (*describe)(const struct ckpt_ucx *u, char *out, size_t size);

	/* End what was begun, for up to NSEC. True: UCX touches no memory of others any more. */
	bool (*quiesce)(struct ckpt_ucx *u, uint64_t nsec);

	/*
	 * If it is not quiet, or the connection was lost, what UCX has is left alone: UCX 1.13 may end the
	 * process where it takes down what has failed.
	 */
	void (*close)(struct ckpt_ucx *u);
};

/* VERSION: the caller's CKPT_UCX_PLUGIN_VERSION. */
typedef int ckpt_ucx_get(int version, const struct ckpt_ucx_ops **out, struct ckpt_error *err);
#define CKPT_UCX_GET_NAME "ckpt_ucx_get"

#endif
