/* SPDX-License-Identifier: Apache-2.0 */
/* The zip container alone: the directory, the local headers, the bytes of every record. */
#include "fuzz.h"

#include "zipfmt/index.h"

static const uint64_t MOST_RECORD = 1 << 16;

static void read_records(struct ckpt_zip *zip)
{
	for (uint32_t i = 0; i < zip->count; i++) {
		struct ckpt_error err = CKPT_ERROR_INIT;
		struct ckpt_zip_entry *entry = &zip->entries[i];
		uint8_t *bytes;
		int rc = ckpt_zip_read(zip, entry, MOST_RECORD, &bytes, &err);

		fuzz_check_error(rc, &err);
		REQUIRE((rc == 0) == (bytes != NULL));
		if (rc == 0)
			REQUIRE(entry->usize <= MOST_RECORD);
		free(bytes);
		if (entry->name_len <= 1024)
			REQUIRE(ckpt_zip_find(zip, entry->name, entry->name_len) == entry);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	struct ckpt_source *source;
	struct ckpt_zip *zip;
	int rc;

	REQUIRE(ckpt_source_from_memory(data, size, &source, NULL) == 0);
	rc = ckpt_zip_open(source, &zip, &err);
	fuzz_check_error(rc, &err);
	REQUIRE((rc == 0) == (zip != NULL));
	if (zip) {
		struct ckpt_error again = CKPT_ERROR_INIT;

		rc = ckpt_zip_locate_all(zip, &again);
		fuzz_check_error(rc, &again);
		read_records(zip);
	}
	ckpt_zip_close(zip);
	ckpt_source_unref(source);
	return 0;
}
