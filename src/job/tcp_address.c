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
