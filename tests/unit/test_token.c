/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "job/tcp_address.h"
#include "job/token.h"

#include <string.h>
#include <sys/stat.h>

/* The token of a job, and where rank 0 listens. */

static const char *value;

static const char *look_up(void *ctx, const char *name)
{
	(void)ctx;
	return strcmp(name, "CKPT_TOKEN") ? NULL : value;
}

static int read_token(const char *file, uint8_t secret[CKPT_WIRE_KEY], struct ckpt_error *err)
{
	*err = (struct ckpt_error)CKPT_ERROR_INIT;
	return ckpt_token_read(file, look_up, NULL, secret, err);
}

static void a_token_is_that_of_the_file_or_the_variable(void **state)
{
	uint8_t by_variable[CKPT_WIRE_KEY], by_file[CKPT_WIRE_KEY];
	char *folder = unit_folder_new(), *path = unit_path(folder, "token");
	static const char *const same[] = { "0123456789abcdef", "0123456789abcdef\n", "0123456789abcdef\r\nmore\n" };
	struct ckpt_error err;

	(void)state;
	value = "0123456789abcdef";
	assert_int_equal(read_token(NULL, by_variable, &err), 0);
	for (size_t i = 0; i < COUNT(same); i++) {
		unit_write_file(path, same[i], strlen(same[i]));
		chmod(path, 0400);
		value = "another one, not looked at";
		assert_int_equal(read_token(path, by_file, &err), 0);
		assert_memory_equal(by_file, by_variable, CKPT_WIRE_KEY);
		chmod(path, 0600);
	}
	unit_write_file(path, "0123456789abcdeF", 16);
	assert_int_equal(read_token(path, by_file, &err), 0);
	assert_memory_not_equal(by_file, by_variable, CKPT_WIRE_KEY);
	free(path);
	unit_folder_remove(folder);
}

static void a_token_that_is_none_is_told(void **state)
{
	char *folder = unit_folder_new(), *path = unit_path(folder, "token"), long_one[1100];
	uint8_t secret[CKPT_WIRE_KEY];
	struct ckpt_error err;

	(void)state;
	value = NULL;
	assert_int_equal(read_token(NULL, secret, &err), CKPT_E_ARG);
	assert_string_equal(unit_text(&err), "ranks that meet by tcp:// prove to each other that they know a token: give all ranks the same CKPT_TOKEN, or a --token-file");
	value = "";
	assert_int_equal(read_token(NULL, secret, &err), CKPT_E_ARG);
	value = "too short";
	assert_int_equal(read_token(NULL, secret, &err), CKPT_E_ARG);
	assert_string_equal(unit_text(&err), "the token in CKPT_TOKEN has 9 bytes, wanted 16 to 1024: for example 32 random bytes in hex");
	memset(long_one, 'x', sizeof(long_one));
	unit_write_file(path, long_one, sizeof(long_one));
	chmod(path, 0600);
	assert_int_equal(read_token(path, secret, &err), CKPT_E_ARG);
	assert_non_null(strstr(unit_text(&err), "has more than 1024 bytes, wanted 16 to 1024"));
	unit_write_file(path, "\n0123456789abcdef", 17);
	assert_int_equal(read_token(path, secret, &err), CKPT_E_ARG);
	unit_write_file(path, long_one, 32);
	for (unsigned mode = 01; mode < 0100; mode <<= 1) {
		chmod(path, 0600 | mode);
		assert_int_equal(read_token(path, secret, &err), CKPT_E_ARG);
		assert_non_null(strstr(unit_message(&err), "/token: others than its owner may use the file of the token (mode 06"));
	}
	chmod(path, 0600);
	assert_int_equal(read_token(path, secret, &err), 0);
	assert_int_equal(read_token(folder, secret, &err), CKPT_E_ARG);
	assert_non_null(strstr(unit_message(&err), "is no file that could hold a token"));
	assert_int_equal(read_token("/no/such", secret, &err), CKPT_E_IO);
	assert_string_equal(unit_message(&err), "/no/such: cannot open the file of the token: No such file or directory");
	free(path);
	unit_folder_remove(folder);
}

static void addresses_are_read(void **state)
{
	static const struct {
		const char *text, *host;
		unsigned port; /* 0: it is refused */
		const char *says;
	} cases[] = {
		{ "node-1.cluster:29400", "node-1.cluster", 29400, NULL },
		{ "10.0.0.7:1", "10.0.0.7", 1, NULL },
		{ "[::1]:65535", "::1", 65535, NULL },
		{ "[fe80::1%eth0]:80", "fe80::1%eth0", 80, NULL },
		{ "[fe80::1]:80", NULL, 0,
		  "'[fe80::1]:80' is an address of one link, wanted this host's interface behind it, as [fe80::1%eth0]:29400" },
		{ "node", NULL, 0, "'node' has no port, wanted HOST:PORT" },
		{ "[::1]", NULL, 0, "'[::1]' has no port, wanted HOST:PORT" },
		{ "[::1]x:1", NULL, 0, "'[::1]x:1' has no port, wanted HOST:PORT" },
		{ "[::1", NULL, 0, "'[::1' has no port, wanted HOST:PORT" },
		{ "", NULL, 0, "'' has no port, wanted HOST:PORT" },
		{ ":80", NULL, 0, "':80' names no host, wanted HOST:PORT" },
		{ "[]:80", NULL, 0, "'[]:80' names no host, wanted HOST:PORT" },
		{ "a b:80", NULL, 0, "'a b:80' names no host, wanted HOST:PORT" },
		{ "a/b:80", NULL, 0, "'a/b:80' names no host, wanted HOST:PORT" },
		{ "::1:80", NULL, 0, "'::1:80': an address of IPv6 stands in brackets, [ADDRESS]:PORT" },
		{ "node:", NULL, 0, "'node:': wanted a port from 1 to 65535" },
		{ "node:0", NULL, 0, "'node:0': wanted a port from 1 to 65535" },
		{ "node:65536", NULL, 0, "'node:65536': wanted a port from 1 to 65535" },
		{ "node:80x", NULL, 0, "'node:80x': wanted a port from 1 to 65535" },
		{ "node:-1", NULL, 0, "'node:-1': wanted a port from 1 to 65535" },
		{ "node:000000080", NULL, 0, "'node:000000080': wanted a port from 1 to 65535" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct ckpt_error err = CKPT_ERROR_INIT;
		struct ckpt_tcp_address a;
		int rc = ckpt_tcp_address_read(cases[i].text, &a, &err);

		assert_int_equal(rc, cases[i].port ? 0 : CKPT_E_ARG);
		if (!cases[i].port) {
			assert_string_equal(unit_text(&err), cases[i].says);
			continue;
		}
		assert_string_equal(a.host, cases[i].host);
		assert_string_equal(a.text, cases[i].text);
		assert_int_equal(a.port, cases[i].port);
	}
}

static void names_that_nobody_knows_are_told(void **state)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_tcp_resolved found;
	struct ckpt_tcp_address a;
	char why[200] = "";

	(void)state;
	assert_int_equal(ckpt_tcp_address_read("no-such-host.invalid:80", &a, &err), 0);
	assert_int_equal(ckpt_tcp_address_resolve(&a, UINT64_MAX, NULL, &found, why, &err), 0);
	assert_non_null(strstr(why, "no address is known for 'no-such-host.invalid'"));
}

UNIT_SUITE(test_token)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_is_that_of_the_file_or_the_variable),
		cmocka_unit_test(a_token_that_is_none_is_told),
		cmocka_unit_test(addresses_are_read),
		cmocka_unit_test(names_that_nobody_knows_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
