/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where rank 0 listens: "HOST:PORT", and which addresses that is.
 *
 * What must stay true: nobody waits for a server of names longer than until the deadline, although
 * getaddrinfo() has none: it runs in a thread of its own, which is left alone if it does not come
 * back. What it writes to belongs to both, and the last one frees it.
 */
#include "job/tcp_address.h"

#include "base/cancel.h"
#include "base/c_locale.h"
#include "base/clock.h"
#include "io/fault.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_NSEC = 50000000 };

static bool read_port(const char *text, uint16_t *out)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long n = digits && digits <= 5 && !text[digits] ? strtoul(text, NULL, 10) : 0;

	*out = (uint16_t)n;
	return n > 0 && n <= UINT16_MAX;
}

int ckpt_tcp_address_read(const char *text, struct ckpt_tcp_address *out, struct ckpt_error *err)
{
	bool has_brackets = *text == '[';
	const char *host = text + has_brackets;
	const char *end = has_brackets ? strchr(text, ']') : strrchr(text, ':');
	size_t len = end ? (size_t)(end - host) : 0;
	struct in6_addr v6;

	*out = (struct ckpt_tcp_address){ 0 };
	if (!end || (has_brackets && end[1] != ':'))
		return ckpt_fail(err, CKPT_E_ARG, "'%.200s' has no port, wanted HOST:PORT", text);
	if (!has_brackets && memchr(host, ':', len))
		return ckpt_fail(err, CKPT_E_ARG, "'%.200s': an address of IPv6 stands in brackets, [ADDRESS]:PORT", text);
	if (!len || len >= sizeof(out->host) || strlen(text) >= sizeof(out->text) ||
	    strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%") < len)
		return ckpt_fail(err, CKPT_E_ARG, "'%.200s' names no host, wanted HOST:PORT", text);
	memcpy(out->host, host, len);
	strcpy(out->text, text);
	if (inet_pton(AF_INET6, out->host, &v6) == 1 && IN6_IS_ADDR_LINKLOCAL(&v6))
		return ckpt_fail(err, CKPT_E_ARG,
				 "'%.200s' is an address of one link, wanted this host's interface behind it, as [fe80::1%%eth0]:29400",
				 text);
	if (!read_port(end + 1 + has_brackets, &out->port))
		return ckpt_fail(err, CKPT_E_ARG, "'%.200s': wanted a port from 1 to 65535", text);
	return 0;
}

/* ---- which addresses it is ---- */

struct request {
	pthread_mutex_t lock;
	pthread_cond_t done_or_left;
	bool is_done, is_left;
	struct ckpt_tcp_address address;
	int code; /* of getaddrinfo() */
	struct ckpt_tcp_resolved found;
};

static int look_up(const struct ckpt_tcp_address *a, int flags, struct ckpt_tcp_resolved *out)
{
	const struct addrinfo hints = { .ai_flags = flags | AI_NUMERICSERV,
					.ai_family = AF_UNSPEC,
					.ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL;
	char port[8];
	int code;

	out->count = 0;
	snprintf(port, sizeof(port), "%u", a->port);
	code = getaddrinfo(a->host, port, &hints, &list);
	if (code != 0)
		return code;
	for (struct addrinfo *i = list; i && out->count < CKPT_TCP_MOST_ADDRESSES; i = i->ai_next) {
		if (i->ai_addrlen > sizeof(out->list[0].address))
			continue;
		memcpy(&out->list[out->count].address, i->ai_addr, i->ai_addrlen);
		out->list[out->count++].len = i->ai_addrlen;
	}
	freeaddrinfo(list);
	return out->count ? 0 : EAI_NONAME;
}

static void free_request(struct request *r)
{
	pthread_cond_destroy(&r->done_or_left);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static void *run_request(void *arg)
{
	struct request *r = arg;
	struct ckpt_tcp_resolved found;
	int code = look_up(&r->address, 0, &found);
	bool is_left;

	pthread_mutex_lock(&r->lock);
	r->code = code;
	r->found = found;
	r->is_done = true;
	is_left = r->is_left;
	pthread_cond_signal(&r->done_or_left);
	pthread_mutex_unlock(&r->lock);
	if (is_left)
		free_request(r);
	return NULL;
}

static int start_request(const struct ckpt_tcp_address *a, struct request **out, struct ckpt_error *err)
{
	struct request *r = calloc(1, sizeof(*r));
	pthread_condattr_t attr;
	pthread_t thread;
	int code;

	*out = NULL;
	if (!r)
		return ckpt_fail_nomem(err);
	r->address = *a;
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->done_or_left, &attr);
	pthread_condattr_destroy(&attr);
	code = ckpt_io_thread(&thread, run_request, r);
	if (code) {
		free_request(r);
		return ckpt_fail(err, CKPT_E_NOMEM, "cannot start a thread: %s", ckpt_errno_text(code));
	}
	pthread_detach(thread);
	*out = r;
	return 0;
}

/* Until it is done, or it is left to itself. 1: it is done. */
static int wait_for_request(struct request *r, uint64_t deadline, const volatile int *cancel,
			    struct ckpt_error *err)
{
	int rc = 0;

	while (!r->is_done && rc == 0) {
		uint64_t until = ckpt_now_nsec() + STEP_NSEC;
		struct timespec t = { (time_t)(until / 1000000000), (long)(until % 1000000000) };

		pthread_cond_timedwait(&r->done_or_left, &r->lock, &t);
		if (!r->is_done && ckpt_cancelled(cancel))
			rc = ckpt_fail(err, CKPT_E_CANCELLED, "interrupted while the ranks met, nothing was written");
		else if (!r->is_done && ckpt_now_nsec() > deadline)
			rc = ckpt_fail(err, CKPT_E_PEER, "nobody says in time which address '%s' has", r->address.host);
	}
	return rc < 0 ? rc : 1;
}

int ckpt_tcp_address_resolve(const struct ckpt_tcp_address *a, uint64_t deadline,
			     const volatile int *cancel, struct ckpt_tcp_resolved *out,
			     char why[200], struct ckpt_error *err)
{
	struct request *r;
	int code, rc;

	if (look_up(a, AI_NUMERICHOST, out) == 0)
		return 1;
	rc = start_request(a, &r, err);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&r->lock);
	rc = wait_for_request(r, deadline, cancel, err);
	code = r->code;
	*out = r->found;
	r->is_left = rc < 0 && !r->is_done;
	pthread_mutex_unlock(&r->lock);
	if (rc < 0)
		return rc; /* the thread frees it */
	free_request(r);
	if (code == 0)
		return 1;
	snprintf(why, 200, "no address is known for '%.40s'%s", a->host,
		 code == EAI_AGAIN ? ", the server of names does not answer" : "");
	return 0;
}

char *ckpt_tcp_address_print(const struct sockaddr_storage *address, char out[CKPT_TCP_ADDRESS_TEXT])
{
	bool is_v6 = address->ss_family == AF_INET6;
	char host[64], port[8];

	if (getnameinfo((const struct sockaddr *)address,
			is_v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in), host,
			sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		snprintf(out, CKPT_TCP_ADDRESS_TEXT, "somewhere");
	else
		snprintf(out, CKPT_TCP_ADDRESS_TEXT, is_v6 ? "[%s]:%s" : "%s:%s", host, port);
	return out;
}

bool ckpt_tcp_address_is_loopback(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
	return address->ss_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

bool ckpt_tcp_address_is_any(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET)
		return ((const struct sockaddr_in *)address)->sin_addr.s_addr == htonl(INADDR_ANY);
	return address->ss_family == AF_INET6 &&
	       IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static bool is_on_link(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

uint32_t ckpt_tcp_address_scope(const struct sockaddr_storage *address)
{
	return is_on_link(address) ? ((const struct sockaddr_in6 *)address)->sin6_scope_id : 0;
}

void ckpt_tcp_address_set_scope(struct sockaddr_storage *address, uint32_t scope)
{
	if (is_on_link(address))
		((struct sockaddr_in6 *)address)->sin6_scope_id = scope;
}

void ckpt_tcp_address_set_port(struct sockaddr_storage *address, uint16_t port)
{
	if (address->ss_family == AF_INET6)
		((struct sockaddr_in6 *)address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)address)->sin_port = htons(port);
}

/* ---- told to others: 4 or 6, the address, the port ---- */

void ckpt_tcp_spot_write(const struct sockaddr_storage *address, uint8_t out[CKPT_TCP_SPOT])
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
	uint16_t port = 0;

	memset(out, 0, CKPT_TCP_SPOT);
	if (address->ss_family == AF_INET) {
		out[0] = 4;
		memcpy(out + 1, &v4->sin_addr, 4);
		port = ntohs(v4->sin_port);
	} else if (address->ss_family == AF_INET6) {
		out[0] = 6;
		memcpy(out + 1, &v6->sin6_addr, 16);
		port = ntohs(v6->sin6_port);
	}
	out[17] = (uint8_t)port;
	out[18] = (uint8_t)(port >> 8);
}

bool ckpt_tcp_spot_read(const uint8_t in[CKPT_TCP_SPOT], struct sockaddr_storage *out, socklen_t *len)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
	uint16_t port = (uint16_t)(in[17] | in[18] << 8);

	memset(out, 0, sizeof(*out));
	if (in[0] == 4) {
		out->ss_family = AF_INET;
		memcpy(&v4->sin_addr, in + 1, 4);
		*len = sizeof(*v4);
	} else if (in[0] == 6) {
		out->ss_family = AF_INET6;
		memcpy(&v6->sin6_addr, in + 1, 16);
		*len = sizeof(*v6);
	} else {
		return false;
	}
	ckpt_tcp_address_set_port(out, port);
	return port != 0;
}

/* ---- of this host ---- */

static bool is_usable(const struct ifaddrs *i)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)i->ifa_addr;

	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP))
		return false;
	return i->ifa_addr->sa_family == AF_INET ||
	       (i->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr));
}

static void add_own(const struct ifaddrs *list, const char *name, int family, bool loopback,
		    struct ckpt_tcp_resolved *out)
{
	size_t len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

	for (const struct ifaddrs *i = list; i && out->count < CKPT_TCP_MOST_ADDRESSES; i = i->ifa_next) {
		if (!is_usable(i) || i->ifa_addr->sa_family != family ||
		    (name ? strcmp(i->ifa_name, name) != 0 : !(i->ifa_flags & IFF_LOOPBACK) != !loopback))
			continue;
		memset(&out->list[out->count].address, 0, sizeof(out->list[0].address));
		memcpy(&out->list[out->count].address, i->ifa_addr, len);
		out->list[out->count++].len = (socklen_t)len;
	}
}

static int fail_interface(const struct ifaddrs *list, const char *name, struct ckpt_error *err)
{
	char text[300] = "";

	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		size_t len = strlen(text);

		if (is_usable(i) && !strstr(text, i->ifa_name))
			snprintf(text + len, sizeof(text) - len, "%s%s", len ? ", " : "", i->ifa_name);
	}
	return ckpt_fail(err, CKPT_E_ARG, "this host has no interface '%.40s' with an address, it has: %s", name,
			 text);
}

int ckpt_tcp_find_own(const char *name, struct ckpt_tcp_resolved *out, struct ckpt_error *err)
{
	struct ifaddrs *list = NULL;
	int rc = 0;

	out->count = 0;
	if (getifaddrs(&list) < 0)
		return ckpt_fail_errno(err, "cannot list the interfaces of this host");
	for (int loopback = 0; loopback < 2 && out->count == 0; loopback++) {
		add_own(list, name, AF_INET, loopback, out);
		add_own(list, name, AF_INET6, loopback, out);
	}
	if (out->count == 0)
		rc = name ? fail_interface(list, name, err)
			  : ckpt_fail(err, CKPT_E_UNSUPPORTED, "this host has no address");
	freeifaddrs(list);
	return rc;
}

/* Without ports, and scopes, which both have if they lie on a link. */
static bool is_same_host(const struct sockaddr *a, const struct sockaddr_storage *b)
{
	if (a->sa_family != b->ss_family)
		return false;
	if (a->sa_family == AF_INET6)
		return !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr));
	return ((const struct sockaddr_in *)a)->sin_addr.s_addr == ((const struct sockaddr_in *)b)->sin_addr.s_addr;
}

bool ckpt_tcp_interface_of(int socket, char out[CKPT_TCP_INTERFACE_NAME])
{
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);
	struct ifaddrs *list = NULL;
	bool found = false;

	if (getsockname(socket, (struct sockaddr *)&own, &len) < 0 || ckpt_tcp_address_is_loopback(&own) || getifaddrs(&list) < 0)
		return false;
	for (const struct ifaddrs *i = list; i && !found; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_flags & IFF_LOOPBACK || !is_same_host(i->ifa_addr, &own))
			continue;
		snprintf(out, CKPT_TCP_INTERFACE_NAME, "%.*s", (int)strcspn(i->ifa_name, ":"), i->ifa_name); /* "eth0:1" is a label */
		found = *out;
	}
	freeifaddrs(list);
	return found;
}
