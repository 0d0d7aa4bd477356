/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <ckpt/find.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder; /* of one test */

static int make_folder(void **state)
{
	(void)state;
	folder = unit_folder_new();
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	unit_folder_remove(folder);
	return 0;
}

static void write_name(const char *name, const char *text)
{
	char *path = unit_path(folder, name);

	unit_write_file(path, text, strlen(text));
	free(path);
}

static void make(const char *name)
{
	char *path = unit_path(folder, name);

	assert_int_equal(mkdir(path, 0777), 0);
	free(path);
}

static void copy_fixture(const char *name)
{
	char *from = unit_fixture("ddp/ddp_model.pt"), *to = unit_path(folder, name);
	struct ckpt_buf bytes = unit_read_file(from);

	unit_write_file(to, bytes.data, bytes.len);
	ckpt_buf_clear(&bytes);
	free(from);
	free(to);
}

static void link_name(const char *to, const char *name)
{
	char *path = unit_path(folder, name);

	assert_int_equal(symlink(to, path), 0);
	free(path);
}

static int note_found(void *ctx, const char *path, enum ckpt_found found,
		      const struct ckpt_error *why)
{
	static const char signs[] = "+-!";
	char *text = ctx;
	size_t len = strlen(text);

	assert_int_equal(why != NULL, found == CKPT_FOUND_UNREADABLE);
	snprintf(text + len, 2000 - len, "%c%s\n", signs[found],
		 path[strlen(folder)] ? path + strlen(folder) + 1 : ".");
	return 0;
}

static void finds(const char *wanted)
{
	char text[2000] = "";

	assert_int_equal(ckpt_find_checkpoints(folder, note_found, text, NULL), 0);
	assert_string_equal(text, wanted);
}

static void files_are_known_by_their_bytes_and_by_their_names(void **state)
{
	(void)state;
	copy_fixture("no-suffix");
	copy_fixture("training_args.bin");
	write_name("page.pt", "<html>not found</html>");
	write_name("empty.safetensors", "");
	write_name("config.json", "{}");
	write_name("tokenizer.bin", "nothing of torch");
	write_name("half.ckpt-staged", "PK\x03\x04");
	make(".out.0123.ckpt-tmp");
	copy_fixture(".out.0123.ckpt-tmp/a.pt");
	finds("-.out.0123.ckpt-tmp\n-config.json\n+empty.safetensors\n-half.ckpt-staged\n+no-suffix\n+page.pt\n-tokenizer.bin\n+training_args.bin\n");
}

static void a_directory_that_is_one_checkpoint_is_one(void **state)
{
	(void)state;
	make("dcp");
	write_name("dcp/.metadata", "");
	write_name("dcp/__0_0.distcp", "");
	make("dcp/more");
	copy_fixture("dcp/more/x.pt");
	make("hub");
	write_name("hub/model.safetensors.index.json", "{}");
	write_name("hub/model-00001-of-00001.safetensors", "");
	make("hub/step");
	copy_fixture("hub/step/a.pt");
	make("lost");
	write_name("lost/__0_0.distcp", "");
	make("trainer");
	write_name("trainer/model.safetensors", "");
	copy_fixture("trainer/optimizer.pt");
	finds("+dcp\n+hub\n+hub/step/a.pt\n+lost\n+trainer/model.safetensors\n+trainer/optimizer.pt\n");
}

static void a_folder_that_opens_as_one_is_visited_as_one(void **state)
{
	(void)state;
	write_name("any.safetensors", "");
	write_name("README", "text");
	finds("+.\n");
	copy_fixture("other.pt");
	finds("-README\n+any.safetensors\n+other.pt\n");
	write_name("model.safetensors", "");
	finds("+.\n");
}

static void links_are_followed_to_files_and_never_in_circles(void **state)
{
	char *elsewhere = unit_folder_new();

	(void)state;
	make("a");
	copy_fixture("a/x.pt");
	link_name("x.pt", "a/link.pt");
	link_name("..", "a/up");
	link_name("a", "again");
	link_name("nowhere", "lost.pt");
	link_name(elsewhere, "out");
	finds("+a/link.pt\n+a/x.pt\n!lost.pt\n!out\n");
	unit_folder_remove(elsewhere);
}

static int stop(void *ctx, const char *path, enum ckpt_found found, const struct ckpt_error *why)
{
	(void)path;
	(void)found;
	(void)why;
	return --*(int *)ctx ? 0 : CKPT_E_CANCELLED;
}

static void a_visit_may_stop_it_and_a_file_is_visited_unseen(void **state)
{
	char *file = unit_path(folder, "nothing.txt");
	int left = 2;

	(void)state;
	copy_fixture("a.pt");
	copy_fixture("b.pt");
	copy_fixture("c.pt");
	assert_int_equal(ckpt_find_checkpoints(folder, stop, &left, NULL), CKPT_E_CANCELLED);
	assert_int_equal(left, 0);
	left = 9;
	assert_int_equal(ckpt_find_checkpoints(file, stop, &left, NULL), 0);
	assert_int_equal(left, 8);
	free(file);
}

UNIT_SUITE(test_find)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
	const struct CMUnitTest tests[] = {
		TEST(files_are_known_by_their_bytes_and_by_their_names),
		TEST(a_directory_that_is_one_checkpoint_is_one),
		TEST(a_folder_that_opens_as_one_is_visited_as_one),
		TEST(links_are_followed_to_files_and_never_in_circles),
		TEST(a_visit_may_stop_it_and_a_file_is_visited_unseen),
	};

	return cmocka_run_group_tests_name("find", tests, NULL, NULL);
}
