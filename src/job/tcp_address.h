/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_JOB_TCP_ADDRESS_H
#define CKPT_JOB_TCP_ADDRESS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Where rank 0 listens: a name or an address, and a port. */
struct ckpt_tcp_address {
	char host[256]; /* without the brackets of IPv6 */
	char text[272]; /* as it was given, with the brackets and the port */
	uint16_t port;
};

/* "HOST:PORT", "[ADDRESS]:PORT". CKPT_E_ARG: it is none. */
int ckpt_tcp_address_read(const char *text, struct ckpt_tcp_address *out, struct ckpt_error *err);

enum { CKPT_TCP_MOST_ADDRESSES = 8, CKPT_TCP_ADDRESS_TEXT = 80 };

struct ckpt_tcp_resolved {
	unsigned count;
	struct {
		struct sockaddr_storage address;
		socklen_t len;
	} list[CKPT_TCP_MOST_ADDRESSES];
};

/*
 * What HOST is now. 1: *OUT is filled; 0: the name is not known, and WHY says so, maybe it is later;
 * CKPT_E_PEER: the DEADLINE is over, as a server for names may be silent; CKPT_E_CANCELLED.
 */
int ckpt_tcp_address_resolve(const struct ckpt_tcp_address *address, uint64_t deadline,
			     const volatile int *cancel, struct ckpt_tcp_resolved *out,
			     char why[200], struct ckpt_error *err);

/* "10.0.0.7:29400", "[fe80::1]:29400". Returns OUT. */
char *ckpt_tcp_address_print(const struct sockaddr_storage *address,
			     char out[CKPT_TCP_ADDRESS_TEXT]);
/*
 * An address and port as bytes, to tell them to others. False: it is none. What lies on a link only
 * (fe80::) loses which link that is, which every host calls by a name of its own: set_scope().
 */
enum { CKPT_TCP_SPOT = 19 };
void ckpt_tcp_spot_write(const struct sockaddr_storage *address, uint8_t out[CKPT_TCP_SPOT]);
bool ckpt_tcp_spot_read(const uint8_t in[CKPT_TCP_SPOT], struct sockaddr_storage *out, socklen_t *len);

/*
 * The addresses of this host's interfaces, or of the one with NAME, for others to connect to, with
 * port 0. Without NAME those of the loopback only if there are no others. CKPT_E_ARG: NAME has none.
 */
int ckpt_tcp_find_own(const char *name, struct ckpt_tcp_resolved *out, struct ckpt_error *err);

/*
 * The interface of this host whose address SOCKET has at this end, as "eth0". False: it is the loopback's, or
 * none that this host knows.
 */
enum { CKPT_TCP_INTERFACE_NAME = 16 };
bool ckpt_tcp_interface_of(int socket, char out[CKPT_TCP_INTERFACE_NAME]);

/* 0.0.0.0, [::] */
bool ckpt_tcp_address_is_any(const struct sockaddr_storage *address);
void ckpt_tcp_address_set_port(struct sockaddr_storage *address, uint16_t port);
/* Of an address that lies on a link only, by which interface this host reaches it; 0: of none. */
uint32_t ckpt_tcp_address_scope(const struct sockaddr_storage *address);
/* Other addresses stay as they are. */
void ckpt_tcp_address_set_scope(struct sockaddr_storage *address, uint32_t scope);
bool ckpt_tcp_address_is_loopback(const struct sockaddr_storage *address);

#endif
