/* SPDX-License-Identifier: Apache-2.0 */
#include "pickle/owners.h"

#include "base/text.h"

#include <string.h>

/* torch.float32 and the like: values that carry their own names. */
static bool is_dtype(const struct ckpt_global *g)
{
	static const char *const begin[] = { "float",	 "int",	 "uint",  "complex", "bfloat",
					     "bcomplex", "qint", "quint", "bits",    NULL };

	if (strcmp(g->module, "torch") != 0)
		return false;
	if (!strcmp(g->name, "bool") || !strcmp(g->name, "double") || !strcmp(g->name, "half") ||
	    !strcmp(g->name, "long") || !strcmp(g->name, "short"))
		return true;
	for (const char *const *b = begin; *b; b++)
		if (!strncmp(g->name, *b, strlen(*b)) && g->name[strlen(*b)] >= '0' &&
		    g->name[strlen(*b)] <= '9')
			return true;
	return false;
}

char ckpt_owner_of_module(const struct ckpt_global *g, bool python311, bool python313)
{
	static const char *const functions[] = {
		"abs",	  "all",	"any",	      "ascii",	 "bin",	   "breakpoint", "callable",
		"chr",	  "compile",	"delattr",    "dir",	 "divmod", "eval",	 "exec",
		"format", "getattr",	"globals",    "hasattr", "hash",   "hex",	 "id",
		"input",  "isinstance", "issubclass", "iter",	 "len",	   "locals",	 "max",
		"min",	  "next",	"oct",	      "ord",	 "pow",	   "print",	 "repr",
		"round",  "setattr",	"sorted",     "sum",	 "vars",   NULL
	};
	/* classes that are made when their module is loaded have a string each */
	static const char *const collections[] = { "defaultdict", "deque", NULL };

	if (!strcmp(g->module, "builtins") && ckpt_is_one_of(g->name, functions))
		return 'b';
	if ((python311 || python313) && is_dtype(g))
		return 'd';
	if ((python311 || python313) &&
	    (!strcmp(g->module, "operator") ||
	     (!strcmp(g->module, "array") && !strcmp(g->name, "array")) ||
	     (!strcmp(g->module, "functools") && !strcmp(g->name, "partial"))))
		return 0;
	return python313 && !strcmp(g->module, "collections") &&
			       ckpt_is_one_of(g->name, collections)
		       ? 0
		       : 's';
}

bool ckpt_is_named_by_c(const struct ckpt_global *g)
{
	static const char *const modules[] = { "builtins",
					       "datetime",
					       "array",
					       "operator",
					       "_codecs",
					       "numpy",
					       "numpy.core.multiarray",
					       "numpy._core.multiarray",
					       "torch._C",
					       "itertools",
					       "math",
					       "zoneinfo",
					       NULL };
	static const char *const collections[] = { "OrderedDict", "defaultdict", "deque", NULL };
	static const char *const torch[] = { "Size",	  "device", "dtype",
					     "Generator", "layout", "memory_format",
					     "qscheme",	  "finfo",  "iinfo",
					     NULL };

	return ckpt_is_one_of(g->module, modules) ||
	       (!strcmp(g->module, "collections") && ckpt_is_one_of(g->name, collections)) ||
	       (!strcmp(g->module, "functools") && !strcmp(g->name, "partial")) ||
	       (!strcmp(g->module, "torch") && (ckpt_is_one_of(g->name, torch) || is_dtype(g)));
}
