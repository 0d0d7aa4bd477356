/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pickles alone: disassemble, decode, encode in every protocol. What the encoder wrote must decode,
 * and must come out the same when it is encoded again.
 */
#include "fuzz.h"

#include "pickle/decode.h"
#include "pickle/dis.h"
#include "pickle/encode.h"
#include "pickle/fold.h"

#include <string.h>

static const uint64_t BUDGET = 64 << 20, MOST_OUTPUT = 2 << 20;

static int take_line(void *ctx, const char *line)
{
	size_t *left = ctx;

	REQUIRE(strlen(line) < 2000);
	return (*left)-- ? 0 : CKPT_E_CANCELLED;
}

static int encode(const struct ckpt_pickle *pickle, uint8_t protocol, bool python_batches,
		  struct ckpt_buf *out)
{
	const struct ckpt_pickle_options options = {
		.protocol = protocol,
		.python_batches = python_batches,
		.most_bytes = MOST_OUTPUT,
	};
	struct ckpt_error err = CKPT_ERROR_INIT;
	int rc = ckpt_pickle_encode(pickle->root, &options, out, &err);

	fuzz_check_error(rc, &err);
	return rc;
}

/* Decode what was written, and write it again. */
static struct ckpt_buf write_again(const struct ckpt_buf *first, uint8_t protocol, bool batches)
{
	struct ckpt_pickle again = { 0 };
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_buf second = { 0 };

	REQUIRE(ckpt_pickle_decode(first->data, first->len, 4 * BUDGET, &again, &err) == 0);
	REQUIRE(again.nbytes == first->len);
	REQUIRE(encode(&again, protocol, batches, &second) == 0);
	ckpt_pickle_clear(&again);
	return second;
}

/*
 * Writing again changes nothing. It may the first time: up to protocol 3 a set is written as a call
 * with a new list, once per mention while it is not complete; read again, these are lists like others.
 */
static void round_trip(const struct ckpt_pickle *pickle, uint8_t protocol)
{
	struct ckpt_buf first = { 0 }, second, third;
	bool batches = pickle->python_batches;

	if (encode(pickle, protocol, batches, &first) == 0) {
		second = write_again(&first, protocol, batches);
		third = write_again(&second, protocol, batches);
		REQUIRE(protocol < 4 ||
			(first.len == second.len && !memcmp(first.data, second.data, first.len)));
		REQUIRE(second.len == third.len && !memcmp(second.data, third.data, second.len));
		ckpt_buf_clear(&second);
		ckpt_buf_clear(&third);
	}
	ckpt_buf_clear(&first);
}

static const struct ckpt_value *unfolded(void *ctx, const struct ckpt_value *v, struct ckpt_arena *scratch, struct ckpt_error *err)
{
	(void)ctx;
	(void)err;
	return v->kind == CKPT_FOLDED ? ckpt_unfold(v, scratch) : v;
}

/* Tensors that are kept as their place in the pickle stand for what PICKLE has. */
static void check_folded(const struct ckpt_pickle *pickle, const uint8_t *data, size_t size)
{
	struct ckpt_pickle_options options = { .protocol = 2, .most_bytes = MOST_OUTPUT };
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_buf one = { 0 }, other = { 0 };
	struct ckpt_pickle folded;
	int rc;

	REQUIRE(ckpt_pickle_decode_folded(1, data, size, 4 * BUDGET, &folded, &err) == 0);
	if (folded.has_folded) {
		rc = ckpt_pickle_encode(pickle->root, &options, &one, NULL);
		options.resolve = unfolded;
		REQUIRE(ckpt_pickle_encode(folded.root, &options, &other, NULL) == rc);
		REQUIRE(rc < 0 || (one.len == other.len && !memcmp(one.data, other.data, one.len)));
	}
	ckpt_buf_clear(&one);
	ckpt_buf_clear(&other);
	ckpt_pickle_clear(&folded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ckpt_error err = CKPT_ERROR_INIT, dis_err = CKPT_ERROR_INIT;
	struct ckpt_pickle pickle;
	size_t lines = 100000;
	int rc = ckpt_pickle_disassemble(data, size, take_line, &lines, &dis_err);

	if (rc != CKPT_E_CANCELLED)
		fuzz_check_error(rc, &dis_err);
	rc = ckpt_pickle_decode(data, size, BUDGET, &pickle, &err);
	fuzz_check_error(rc, &err);
	if (rc < 0)
		return 0;
	REQUIRE(pickle.root && pickle.nbytes <= size);
	for (uint8_t protocol = 1; protocol <= 5; protocol++)
		round_trip(&pickle, protocol);
	check_folded(&pickle, data, size);
	ckpt_pickle_clear(&pickle);
	return 0;
}
