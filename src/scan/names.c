/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a class or function by its name: the table of plain data first (table.c), then
 * objects that are understood (OBJECTS here), then the many names of torch's dtypes, storages and
 * tensors, then the lists of what runs code.
 *
 * What must stay true: the order in ckpt_scan_rule(). A name that nothing here knows is an object
 * (STRANGER) or a function, never data.
 */
#include "scan/names.h"

#include "base/ascii.h"
#include "base/text.h"
#include "scan/row_index.h"
#include "tensor/dtype.h"

#include <pthread.h>
#include <string.h>

/* Beyond the table: objects, of which it is known what a call of them has to look like. */
#define OBJECT(m, n, how, from, to, ...) \
	{ \
		.module = m, .name = n, .call = CKPT_CALL_##how, .least = from, .most = to, .kind = CKPT_SCAN_OBJECT, \
		.args = { __VA_ARGS__ } \
	}
/* What an object's row does not say: data, but no function of which nobody knows what calls it. */
#define DATA (CKPT_TYPE_DATA | CKPT_TYPE_CLASS)
/* of an enumeration, whose class does it */
#define MEMBER (DATA | CKPT_TYPE_OBJECT | CKPT_TYPE_ATTRIBUTE)
/* ... but for what they do with one kind of argument */
#define CODE(m, n, how, from, to) \
	{ \
		.module = m, .name = n, .call = CKPT_CALL_##how, .least = from, .most = to, .kind = CKPT_SCAN_CODE, \
		.call_runs_code = true \
	}
/* ... of functions of packages */
#define CLASS_OF_IT CKPT_TYPE_ANY_CLASS
#define NUMBER CKPT_TYPE_LITERAL(CKPT_INT)
#define NOTHING CKPT_TYPE_LITERAL(CKPT_NONE)
#define ARRAY (CKPT_TYPE_NUMPY_ARRAY | CKPT_TYPE_OBJECT)
#define ZONE (NOTHING | CKPT_TYPE_TIMEZONE | CKPT_TYPE_OBJECT)
#define KEYWORDS CKPT_TYPE_LITERAL(CKPT_DICT)
static const struct ckpt_scan_rule objects[] = {
	OBJECT("copyreg", "_reconstructor", NEW, 3, 3),
	OBJECT("copyreg", "__newobj__", NEW, 1, -1),
	OBJECT("copyreg", "__newobj_ex__", NEW, 3, 3),
	OBJECT("functools", "partial", PARTIAL, 1, -1),
	OBJECT("argparse", "Namespace", PLAIN, 0, 0),
	OBJECT("types", "SimpleNamespace", PLAIN, 0, 1),
	OBJECT("types", "MappingProxyType", PLAIN, 1, 1),
	OBJECT("collections", "ChainMap", PLAIN, 0, 0), /* it writes into the dict that it is given */
	OBJECT("collections", "UserDict", PLAIN, 0, 1),
	OBJECT("collections", "UserList", PLAIN, 0, 1),
	OBJECT("random", "Random", PLAIN, 0, 1),
	OBJECT("re", "_compile", PLAIN, 2, 2),
	OBJECT("pytz", "_p", PLAIN, 0, 4),
	OBJECT("pytz", "_UTC", PLAIN, 0, 0),
	OBJECT("logging", "getLogger", PLAIN, 0, 1),
	OBJECT("zoneinfo", "ZoneInfo._unpickle", PLAIN, 2, 2, CKPT_TYPE_LITERAL(CKPT_STR), CKPT_TYPE_LITERAL(CKPT_INT) | CKPT_TYPE_LITERAL(CKPT_BOOL)),
	OBJECT("ipaddress", "IPv4Address", PLAIN, 1, 1),
	OBJECT("ipaddress", "IPv6Address", PLAIN, 1, 1),
	OBJECT("uuid", "SafeUUID", PLAIN, 1, 1),
	/* enumerations, in modules of which other names may run code */
	OBJECT("signal", "Signals", PLAIN, 1, 1, CKPT_TYPE_LITERAL(CKPT_INT)),
	OBJECT("signal", "Handlers", PLAIN, 1, 1, CKPT_TYPE_LITERAL(CKPT_INT)),
	OBJECT("signal", "Sigmasks", PLAIN, 1, 1, CKPT_TYPE_LITERAL(CKPT_INT)),
	OBJECT("re", "RegexFlag", PLAIN, 1, 1, CKPT_TYPE_LITERAL(CKPT_INT)),
	OBJECT("http", "HTTPStatus", PLAIN, 1, 1, CKPT_TYPE_LITERAL(CKPT_INT)),
	OBJECT("http", "HTTPMethod", PLAIN, 1, 1, CKPT_TYPE_LITERAL(CKPT_STR)),
	OBJECT("inspect", "_ParameterKind", PLAIN, 1, 1, CKPT_TYPE_LITERAL(CKPT_INT)),
	OBJECT("calendar", "Month", PLAIN, 1, 1, CKPT_TYPE_LITERAL(CKPT_INT)),
	OBJECT("calendar", "Day", PLAIN, 1, 1, CKPT_TYPE_LITERAL(CKPT_INT)),
	CODE("builtins", "getattr", GETATTR, 2, 2),
	CODE("operator", "getitem", GETITEM, 2, 2),
	CODE("_operator", "getitem", GETITEM, 2, 2),
	OBJECT("operator", "or_", PLAIN, 2, 2, MEMBER),
	OBJECT("_operator", "or_", PLAIN, 2, 2, MEMBER),
	OBJECT("numpy.random._pickle", "__randomstate_ctor", PLAIN, 0, 2),
	OBJECT("numpy.random._pickle", "__generator_ctor", PLAIN, 0, 2),
	OBJECT("numpy.random._pickle", "__bit_generator_ctor", PLAIN, 0, 1),
	OBJECT("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence", PLAIN, 3, 3),
	OBJECT("numpy.random", "__RandomState_ctor", PLAIN, 0, 0),
	OBJECT("numpy.ma.core", "_mareconstruct", PLAIN, 4, 4, CKPT_TYPE_ANY_CLASS, CKPT_TYPE_ANY_CLASS, CKPT_TYPE_ZERO, CKPT_TYPE_LETTER_B),
	OBJECT("numpy.core._internal", "_convert_to_stringdtype_kwargs", PLAIN, 1, 2),
	/* pandas 0.17 to 3.1 */
	OBJECT("pandas._libs.internals", "_unpickle_block", OF_PACKAGE, 3, 3, ARRAY, CKPT_TYPE_VALUE | ARRAY, NUMBER),
	OBJECT("pandas.core.indexes.base", "_new_Index", OF_PACKAGE, 2, 2, CLASS_OF_IT, KEYWORDS),
	OBJECT("pandas.indexes.base", "_new_Index", OF_PACKAGE, 2, 2, CLASS_OF_IT, KEYWORDS),
	OBJECT("pandas.core.index", "_new_Index", OF_PACKAGE, 2, 2, CLASS_OF_IT, KEYWORDS),
	OBJECT("pandas.core.indexes.datetimes", "_new_DatetimeIndex", OF_PACKAGE, 2, 2, CLASS_OF_IT, KEYWORDS),
	OBJECT("pandas.tseries.index", "_new_DatetimeIndex", OF_PACKAGE, 2, 2, CLASS_OF_IT, KEYWORDS),
	OBJECT("pandas.core.indexes.period", "_new_PeriodIndex", OF_PACKAGE, 2, 2, CLASS_OF_IT, KEYWORDS),
	OBJECT("pandas.tseries.period", "_new_PeriodIndex", OF_PACKAGE, 2, 2, CLASS_OF_IT, KEYWORDS),
	OBJECT("pandas.core.indexes.interval", "_new_IntervalIndex", OF_PACKAGE, 2, 2, CLASS_OF_IT, KEYWORDS),
	OBJECT("pandas.core.indexes.timedeltas", "_new_TimedeltaIndex", OF_PACKAGE, 2, 2, CLASS_OF_IT, KEYWORDS),
	OBJECT("pandas._libs.tslibs.timestamps", "_unpickle_timestamp", OF_PACKAGE, 3, 4, NUMBER, NOTHING | CKPT_TYPE_OBJECT, ZONE, NUMBER),
	OBJECT("pandas._libs.tslibs.timedeltas", "_timedelta_unpickle", OF_PACKAGE, 2, 2, NUMBER),
	OBJECT("pandas._libs.tslibs.nattype", "__nat_unpickle", OF_PACKAGE, 0, 1, NOTHING),
	OBJECT("pandas._libs.tslibs.nattype", "_nat_unpickle", OF_PACKAGE, 0, 1, NOTHING),
	/* scikit-learn's trees and distances, of a class */
	OBJECT("sklearn.metrics._dist_metrics", "newObj", OF_PACKAGE, 1, 1, CLASS_OF_IT),
	OBJECT("sklearn.neighbors._dist_metrics", "newObj", OF_PACKAGE, 1, 1, CLASS_OF_IT),
	OBJECT("sklearn.neighbors.dist_metrics", "newObj", OF_PACKAGE, 1, 1, CLASS_OF_IT),
	OBJECT("sklearn.neighbors._ball_tree", "newObj", OF_PACKAGE, 1, 1, CLASS_OF_IT),
	OBJECT("sklearn.neighbors.ball_tree", "newObj", OF_PACKAGE, 1, 1, CLASS_OF_IT),
	OBJECT("sklearn.neighbors._kd_tree", "newObj", OF_PACKAGE, 1, 1, CLASS_OF_IT),
	OBJECT("sklearn.neighbors.kd_tree", "newObj", OF_PACKAGE, 1, 1, CLASS_OF_IT),
	OBJECT("torch.nested._internal.nested_tensor", "_rebuild_njt", PLAIN, 1, 1),
	/* of torch.package, which gives it itself first: the TorchScript that has this number */
	OBJECT("torch.jit._script", "unpackage_script_module", PLAIN, 1, 1, CKPT_TYPE_LITERAL(CKPT_STR)),
	/* modules until 1.2 keep it */
	OBJECT("torch.nn.backends.thnn", "_get_thnn_function_backend", PLAIN, 0, 0),
	OBJECT("torch._dynamo.decorators", "_DimRange", PLAIN, 0, 3),
	OBJECT("torch.distributed.checkpoint.filesystem", "_StorageInfo", PLAIN, 0, 0),
	OBJECT("torch.distributed.checkpoint.filesystem", "_StoragePrefix", PLAIN, 0, 0),
};

/* Which kind a name has for which there is no rule of its own. */
static const struct ckpt_scan_rule storage_class = { .module = "torch",
						     .name = "",
						     .call = CKPT_CALL_NEVER,
						     .kind = CKPT_SCAN_DATA,
						     .result = CKPT_TYPE_CLASS },
				   dtype = { .module = "torch",
					     .name = "",
					     .call = CKPT_CALL_NEVER,
					     .kind = CKPT_SCAN_DATA,
					     .result = CKPT_TYPE_DTYPE },
				   tensor_class = { .module = "torch",
						    .name = "",
						    .call = CKPT_CALL_PLAIN,
						    .kind = CKPT_SCAN_DATA,
						    .then = CKPT_THEN_TENSOR,
						    .cost = 730,
						    .result = CKPT_TYPE_TENSOR },
				   sparse_tensor_class = { .module = "torch",
							   .name = "",
							   .call = CKPT_CALL_PLAIN,
							   .kind = CKPT_SCAN_DATA,
							   .then = CKPT_THEN_TENSOR,
							   .cost = 1480,
							   .result = CKPT_TYPE_TENSOR },
				   named_member = OBJECT("signal", "SIGINT", NEVER, 0, 0),
				   stranger = OBJECT("", "", PLAIN, 0, -1),
				   function = { .module = "",
						.name = "",
						.call = CKPT_CALL_PLAIN,
						.most = -1,
						.kind = CKPT_SCAN_OBJECT,
						.call_runs_code = true },
				   runs_code = { .module = "",
						 .name = "",
						 .call = CKPT_CALL_PLAIN,
						 .most = -1,
						 .kind = CKPT_SCAN_CODE,
						 .call_runs_code = true };

/* ---- names ---- */

/* Those of Python 2 whose new modules run code are listed as such. */
static const char *const renamed[][2] = {
	{ "__builtin__", "builtins" },
	{ "exceptions", "builtins" },
	{ "copy_reg", "copyreg" },
	{ "UserDict", "collections" },
	{ "UserList", "collections" },
	{ "UserString", "collections" },
	{ "pathlib._local", "pathlib" },
	{ "numpy._core.multiarray", "numpy.core.multiarray" },
	{ "numpy._core.numeric", "numpy.core.numeric" },
	{ "numpy._core", "numpy.core" },
};

/*
 * Of these modules of Python 2 the unpickler knows some names only, and imports the module itself for others.
 * Source: NAME_MAPPING and PYTHON2_EXCEPTIONS of Lib/_compat_pickle.py.
 */
static bool is_known_of_python2(const char *module, const char *name)
{
	static const char *const exceptions[] = {
		"ArithmeticError", "AssertionError", "AttributeError", "BaseException", "BufferError", "BytesWarning", "DeprecationWarning",
		"EOFError", "EnvironmentError", "Exception", "FloatingPointError", "FutureWarning", "GeneratorExit", "IOError", "ImportError",
		"ImportWarning", "IndentationError", "IndexError", "KeyError", "KeyboardInterrupt", "LookupError", "MemoryError", "NameError",
		"NotImplementedError", "OSError", "OverflowError", "PendingDeprecationWarning", "ReferenceError", "RuntimeError",
		"RuntimeWarning", "StandardError", "StopIteration", "SyntaxError", "SyntaxWarning", "SystemError", "SystemExit", "TabError",
		"TypeError", "UnboundLocalError", "UnicodeDecodeError", "UnicodeEncodeError", "UnicodeError", "UnicodeTranslateError",
		"UnicodeWarning", "UserWarning", "ValueError", "Warning", "ZeroDivisionError", NULL
	};

	if (!strcmp(module, "exceptions"))
		return ckpt_is_one_of(name, exceptions);
	if (!strcmp(module, "UserDict") || !strcmp(module, "UserList") || !strcmp(module, "UserString"))
		return !strcmp(name, module) || !strcmp(name, "IterableUserDict");
	return true;
}

/* The classes of an index, until torch 1.13, whose module torch still has. */
static bool is_of_old_index(const char *module, const char *name)
{
	return !strcmp(module, "torch.distributed._shard.checkpoint.metadata") ||
	       (!strcmp(module, "torch.distributed._shard.checkpoint.filesystem") && !strcmp(name, "_StorageInfo"));
}

/* By its first letter: a pickle asks for each of its calls, most of which are torch's. */
static bool may_have_another_name(const char *module)
{
	return *module == 't' ? !strncmp(module, "torch.distributed._shard.", strlen("torch.distributed._shard.")) : strchr("_ceUpn", *module) != NULL;
}

static const char *present_name(const char *module, const char *name)
{
	if (!may_have_another_name(module))
		return module;
	if (is_of_old_index(module, name))
		return ckpt_ends_with(module, ".metadata") ? "torch.distributed.checkpoint.metadata" : "torch.distributed.checkpoint.filesystem";
	if (!is_known_of_python2(module, name))
		return module;
	for (size_t i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++)
		if (!strcmp(module, renamed[i][0]))
			return renamed[i][1];
	return module;
}

bool ckpt_scan_is_of_python2(const char *module)
{
	static const char *const modules[] = { "__builtin__", "exceptions", "copy_reg",
					       "UserDict",    "UserList",   "UserString",
					       NULL };

	return ckpt_is_one_of(module, modules);
}

static bool is_identifier_char(char c)
{
	return ckpt_is_alnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* Parts of identifiers, with single dots between them. */
static bool is_dotted(const char *text)
{
	bool empty = true;

	if (!ckpt_utf8_ok(text, strlen(text)))
		return false;
	for (; *text; text++) {
		if (*text == '.' ? empty
				 : !is_identifier_char(*text) ||
					   (empty && ckpt_is_digit((unsigned char)*text)))
			return false;
		empty = *text == '.';
	}
	return !empty;
}

bool ckpt_scan_is_name(const char *module, const char *name, const char **why)
{
	*why = NULL;
	if (!is_dotted(module))
		*why = "the name of the module is none that a program has";
	else if (!is_dotted(name))
		*why = "it is no name that anything in a module can have";
	return !*why;
}

/*
 * "Outer.Inner", as nested classes are called, but not "Outer.method", "os.system" or
 * "Outer.__dict__".
 */
static bool is_class_path(const char *name)
{
	while (*name) {
		while (*name == '_')
			name++;
		if (!ckpt_is_upper((unsigned char)*name))
			return false;
		name += strcspn(name, ".");
		name += *name == '.';
	}
	return true;
}

/* ---- torch's many names of one kind ---- */

/* "FloatTensor", of the dtypes that had classes of their own. */
static bool is_tensor_class(const char *name)
{
	char storage[32];
	size_t len = strlen(name);

	if (!ckpt_ends_with(name, "Tensor") || len + 2 > sizeof(storage) || len <= 6)
		return false;
	memcpy(storage, name, len - 6);
	memcpy(storage + len - 6, "Storage", 8);
	return ckpt_dtype_of_storage(storage) != CKPT_DTYPE_UNKNOWN;
}

/* int4 and the like have names, and no values. */
static bool is_small_int(const char *name)
{
	if (!strncmp(name, "uint", 4))
		name++;
	return !strncmp(name, "int", 3) && name[3] >= '1' && name[3] <= '7' && !name[4];
}

static const struct ckpt_scan_rule *rule_of_torch(const char *module, const char *name)
{
	bool cpu = !strcmp(module, "torch");

	if ((cpu || !strcmp(module, "torch.cuda")) &&
	    ckpt_dtype_of_storage(name) != CKPT_DTYPE_UNKNOWN)
		return &storage_class;
	if (cpu && ((ckpt_dtype_find(name) != CKPT_DTYPE_UNKNOWN &&
		     !strcmp(ckpt_dtype_name(ckpt_dtype_find(name)), name)) ||
		    is_small_int(name)))
		return &dtype;
	if ((cpu || !strcmp(module, "torch.cuda") || !strcmp(module, "torch.sparse") ||
	     !strcmp(module, "torch.cuda.sparse")) &&
	    is_tensor_class(name))
		return ckpt_ends_with(module, ".sparse") ? &sparse_tensor_class : &tensor_class;
	return NULL;
}

/* Modules of torch whose classes may be made: layers, optimizers, what tensors are spread by. */
static bool has_harmless_classes(const char *module)
{
	static const char *const modules[] = {
		"torch.nn",
		"torch.optim",
		"torch.distributions",
		"torch.distributed.tensor",
		"torch.distributed._tensor",
		"torch.distributed._shard.sharded_tensor",
		"torch.distributed._shard.sharding_spec",
		"torch.distributed._shard.metadata",
		"torch.distributed.device_mesh",
		"torch.distributed.checkpoint.metadata",
		"torch.distributed.checkpoint.planner",
		"torch.distributed.fsdp",
		"torch.distributed.remote_device",
		"torch.ao",
		"torch.quantization",
		"torch.amp",
		"torch.cuda.amp",
		"torch.masked",
		"torch.nested",
		"torch.utils.hooks",
		"torch.distributed._mesh_layout",
	};

	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
		size_t len = strlen(modules[i]);

		if (!strncmp(module, modules[i], len) && (!module[len] || module[len] == '.'))
			return true;
	}
	return false;
}

static bool is_of(const char *module, const char *package)
{
	size_t len = strlen(package);

	return !strncmp(module, package, len) && (!module[len] || module[len] == '.');
}

/* ---- the whole ---- */

/* SIGINT, SIG_IGN: members of enumerations, by their own names. */
static bool is_signal(const char *module, const char *name)
{
	return !strcmp(module, "signal") && !strncmp(name, "SIG", 3) && name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] == '\0';
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct ckpt_row_index index_of_objects;

static void index_objects(void)
{
	ckpt_row_index_build(&index_of_objects, objects, sizeof(objects) / sizeof(objects[0]));
}

static const struct ckpt_scan_rule *find_object(const char *module, const char *name)
{
	if (is_signal(module, name))
		return &named_member;
	pthread_once(&once, index_objects);
	return ckpt_row_index_find(&index_of_objects, module, name);
}

const struct ckpt_scan_rule *ckpt_scan_rule(const char *module, const char *name)
{
	const struct ckpt_scan_rule *rule;

	module = present_name(module, name);
	rule = ckpt_scan_find_row(module, name);
	if (!rule)
		rule = find_object(module, name);
	if (!rule && is_of(module, "torch"))
		rule = rule_of_torch(module, name);
	if (rule)
		return rule;
	/* which Cython writes for its classes */
	if (ckpt_scan_runs_code(module, name) || (!strncmp(name, "__", 2) && strncmp(name, "__pyx_unpickle_", 15)))
		return &runs_code;
	if (strchr(name, '.') && !is_class_path(name))
		return &runs_code;
	if (ckpt_scan_is_of_library(module))
		return &function;
	if (is_of(module, "torch"))
		return is_class_path(name) && has_harmless_classes(module) ? &stranger : &function;
	return &stranger;
}

bool ckpt_scan_has_enumerations(const char *module)
{
	static const char *const modules[] = { "torch.distributed.checkpoint.metadata",
					       "torch.distributed.tensor.placement_types",
					       "torch.distributed._tensor.placement_types",
					       "torch.distributed._shard.sharded_tensor.metadata",
					       "torch.distributed._shard.metadata",
					       "torch.distributed._shard.sharding_spec._internals",
					       "torch.distributed.fsdp.api",
					       "torch.distributed.fsdp.fully_sharded_data_parallel",
					       "torch.distributed.remote_device",
					       "torch.distributed.checkpoint.planner",
					       "torch.nn.attention",
					       "torch.nn.modules.utils",
					       "torch.ao.quantization.quant_type",
					       "torch.ao.quantization.qconfig_mapping",
					       NULL };

	return ckpt_is_one_of(module, modules);
}
