/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains messages of torch.load, torch.jit.load and pickle by what is in the file.
 *
 * Each function first asks the causes that the file itself shows, since one that is seen in the
 * file is certain; what the message alone means is only likely. A message names what an unknown
 * program asked for, so its captures are escaped (ckpt_why_show()) before they are printed.
 */
#include "why/why.h"

#include <ckpt/edit.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- devices ---- */

bool ckpt_why_explain_device(struct ckpt_why *w, const struct ckpt_match *match)
{
	if (ckpt_why_check_file(w, match) || ckpt_why_check_devices(w, match))
		return true;
	if (!w->facts.model)
		return false;
	/* the file is on the CPU: the call asks for the device */
	if (ckpt_why_begin(
		    w, "device", CKPT_CAUSE_LIKELY,
		    "the call asks for a device that is not there (map_location=...), for in the file all "
		    "tensors are on the CPU")) {
		ckpt_why_fact(w, "%" PRIu64 " tensors, all on 'cpu'",
			      ckpt_tensor_count(w->facts.model));
		ckpt_why_python_load(w, "%s", ckpt_why_load(w, ", map_location='cpu'"));
		ckpt_why_end(w);
	}
	return true;
}

/* The first device with an index that is not there. */
static const char *find_device_beyond(const struct ckpt_model *model, const char *type,
				      uint64_t count)
{
	uint64_t n = ckpt_tensor_count(model);
	size_t len = strlen(type);

	for (uint64_t i = 0; i < n; i++) {
		struct ckpt_tensor_info info = CKPT_TENSOR_INFO_INIT;

		if (ckpt_tensor_get(model, i, &info) == 0 && !strncmp(info.device, type, len) &&
		    info.device[len] == ':' && strtoull(info.device + len + 1, NULL, 10) >= count)
			return info.device;
	}
	return NULL;
}

bool ckpt_why_explain_device_count(struct ckpt_why *w, const struct ckpt_match *match)
{
	const char *tag = NULL;
	char type[16] = "";

	for (size_t i = 0; i + 1 < sizeof(type) && match->part[0][i]; i++)
		type[i] = (char)(match->part[0][i] | 0x20);
	if (w->facts.model)
		tag = find_device_beyond(w->facts.model, type, strtoull(match->part[2], NULL, 10));
	if (!tag)
		return ckpt_why_explain_device(w, match);
	if (ckpt_why_begin(w, "device", CKPT_CAUSE_CERTAIN,
			   "its tensors were saved on '%s', and this machine has %s such device%s",
			   ckpt_why_show(w, tag), match->part[2],
			   strcmp(match->part[2], "1") ? "s" : "")) {
		const char *map = ckpt_why_print(w, "%s:*=%s:0", type, type);

		ckpt_why_python_load(w, "%s", ckpt_why_load(w, ", map_location='cpu'"));
		ckpt_why_command(w, "ckpt remap %s %s %s", ckpt_why_quote(w, map), ckpt_why_in(w),
				 ckpt_why_out(w));
		ckpt_why_end(w);
	}
	return true;
}

/* ---- weights_only ---- */

/* Globals of the newer torch that an older one does not allow are no objects. */
bool ckpt_why_explain_global(struct ckpt_why *w, const struct ckpt_match *match)
{
	bool newer = strstr(match->part[0], "torch._utils._rebuild") ||
		     !strncmp(match->part[0], "torch.float", 11) ||
		     !strncmp(match->part[0], "torch.uint", 10);

	if (newer && ckpt_why_check_versions(w, match))
		return true;
	if (!newer && ckpt_why_check_objects(w, match))
		return true;
	if (!ckpt_why_begin(
		    w, newer ? "torch_too_old" : "weights_only", CKPT_CAUSE_LIKELY,
		    newer ? "a newer torch wrote it: '%s' is not known here"
			  : "there is more in the file than tensors and plain data ('%s'), and torch.load "
			    "refuses that since 2.6 (weights_only=True is the default)",
		    ckpt_why_show(w, match->part[0])))
		return true;
	if (w->facts.model && !newer)
		ckpt_why_fact(w, "in this file there is nothing that torch 2.6 or later refuses");
	if (newer || w->facts.model)
		ckpt_why_words(w, "load it with a newer torch");
	else
		ckpt_why_words(w, "'ckpt sanitize IN OUT' makes plain data of it");
	ckpt_why_end(w);
	return true;
}

/* weights_only stops at the first byte of a file that is no pickle. */
bool ckpt_why_explain_operand(struct ckpt_why *w, const struct ckpt_match *match)
{
	static const char *const texts[] = { "", "a float", "an integer of 256 bytes or more" };
	int code = atoi(match->part[0]), text = code == 71 ? 1 : code == 139 ? 2 : 0;

	if (ckpt_why_check_file(w, match))
		return true;
	if (text == 1 && w->facts.model) {
		if (ckpt_why_begin(
			    w, "torch_too_old", CKPT_CAUSE_LIKELY,
			    "there is %s in the file, which weights_only=True of torch 1.13 does not know",
			    texts[text])) {
			ckpt_why_words(w, "load it with torch 2.1 or later");
			ckpt_why_python_load(w, "%s", ckpt_why_load(w, ", weights_only=False"));
			ckpt_why_end(w);
		}
		return true;
	}
	return ckpt_why_check_objects(w, match);
}

/* ---- classes ---- */

static bool is_of_torch(const char *module)
{
	return !strcmp(module, "torch") || !strncmp(module, "torch.", 6);
}

/* Can what weights_only refuses be made plain data? */
static bool can_be_plain(const struct ckpt_why *w)
{
	struct ckpt_model *plain = NULL;
	bool can = w->facts.model && ckpt_sanitize(w->facts.model, &plain, NULL, NULL) == 0;

	ckpt_close(plain);
	return can;
}

static bool report_numpy(struct ckpt_why *w, const char *module)
{
	if (strncmp(module, "numpy._core", 11))
		return false;
	if (ckpt_why_begin(
		    w, "numpy_version", CKPT_CAUSE_LIKELY,
		    "there are arrays or numbers of numpy in it, written by numpy 2: numpy 1 has no module "
		    "'%s'",
		    ckpt_why_show(w, module))) {
		if (!w->facts.path || can_be_plain(w))
			ckpt_why_command(w, "ckpt sanitize %s %s", ckpt_why_in(w), ckpt_why_out(w));
		ckpt_why_words(w, "or load it where numpy 2 is installed");
		ckpt_why_end(w);
	}
	return true;
}

static bool report_missing_class(struct ckpt_why *w, const struct ckpt_match *match,
				 const char *what)
{
	if (ckpt_why_check_module(w, match))
		return true;
	if (!ckpt_why_begin(
		    w, "needs_code", w->facts.model ? CKPT_CAUSE_CERTAIN : CKPT_CAUSE_LIKELY,
		    "objects of the program that saved it are in it, and Python does not find their class "
		    "where it was: %s",
		    what))
		return true;
	if (!w->facts.path || can_be_plain(w))
		ckpt_why_command(w, "ckpt sanitize %s %s", ckpt_why_in(w), ckpt_why_out(w));
	ckpt_why_words(w, "or make that module importable, under the same name, before torch.load");
	ckpt_why_end(w);
	return true;
}

/* No module named 'X'; module 'X' has no attribute 'Y'; Can't get attribute 'Y' on <module 'X'. */
bool ckpt_why_explain_import(struct ckpt_why *w, const struct ckpt_match *match)
{
	const char *module = match->part[0], *name = match->part[1];

	if (ckpt_why_check_file(w, match) || report_numpy(w, module))
		return true;
	if (is_of_torch(module)) {
		if (ckpt_why_check_versions(w, match))
			return true;
		if (ckpt_why_begin(
			    w, "torch_too_old", CKPT_CAUSE_LIKELY,
			    "a newer torch wrote it, or one that no longer has this: '%s%s%s'",
			    ckpt_why_show(w, module), *name ? "." : "", ckpt_why_show(w, name))) {
			if (w->facts.model && w->facts.file.profile[0])
				ckpt_why_fact(w, "it is a file of %s", w->facts.file.writer);
			ckpt_why_words(w, "load it with the torch that saved it, or a later one");
			ckpt_why_end(w);
		}
		return true;
	}
	return report_missing_class(w, match,
				    *name ? ckpt_why_print(w, "'%s' in '%s'",
							   ckpt_why_show(w, name),
							   ckpt_why_show(w, module))
					  : ckpt_why_print(w, "'%s'", ckpt_why_show(w, module)));
}

/* ---- records of archives ---- */

static bool report_not_torchscript(struct ckpt_why *w)
{
	if (!w->facts.model || w->facts.file.is_program)
		return false;
	if (ckpt_why_begin(
		    w, "not_torchscript", CKPT_CAUSE_CERTAIN,
		    "torch.jit.load wants a TorchScript program, and this holds weights or objects "
		    "(torch.save)")) {
		ckpt_why_fact(w, "it is a %s, as %s writes it", w->facts.file.format,
			      w->facts.file.writer);
		ckpt_why_python_load(w, "%s", ckpt_why_load(w, ""));
		ckpt_why_end(w);
	}
	return true;
}

/* "PytorchStreamReader failed locating file X: file not found" */
bool ckpt_why_explain_record(struct ckpt_why *w, const struct ckpt_match *match)
{
	const char *record = *match->part[0] ? match->part[0] : match->part[1];

	if (!strcmp(record, "constants.pkl") && report_not_torchscript(w))
		return true;
	if (ckpt_why_check_repacked(w, match) || ckpt_why_check_file(w, match) ||
	    ckpt_why_check_program(w, match))
		return true;
	if (ckpt_why_begin(
		    w, "damaged", CKPT_CAUSE_LIKELY,
		    "the archive has no record '%s': it was written by something else than torch.save, "
		    "packed anew, or its writing broke off",
		    ckpt_why_show(w, record))) {
		if (w->facts.model)
			ckpt_why_fact(
				w,
				"this file has all that it needs: is it the one that was loaded?");
		ckpt_why_words(w, "download or copy it again");
		ckpt_why_end(w);
	}
	return true;
}

/*
 * "Attempted to read a PyTorch file with version 10, but the maximum supported version for reading
 * is 5"
 */
bool ckpt_why_explain_version(struct ckpt_why *w, const struct ckpt_match *match)
{
	long is = strtol(match->part[0], NULL, 10), most = strtol(match->part[2], NULL, 10);

	if (!strcmp(match->part[1], "minimum"))
		return ckpt_why_check_file(w, match);
	if (ckpt_why_check_program(w, NULL))
		return true;
	if (!w->facts.opening.record[0] &&
	    ckpt_why_check_file(w, match)) /* else it is that record */
		return true;
	if (ckpt_why_begin(
		    w, "torch_too_old", CKPT_CAUSE_LIKELY,
		    "a newer torch wrote it: its archive is of version %ld, this torch reads up to %ld",
		    is, most)) {
		if (most < 3 || (w->facts.model && is <= 3)) /* the zip form began with it */
			ckpt_why_command(w, "ckpt convert --to torch-legacy %s %s", ckpt_why_in(w),
					 ckpt_why_out(w));
		ckpt_why_words(w, "load it with a newer torch");
		ckpt_why_end(w);
	}
	return true;
}
