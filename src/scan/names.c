/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/names.h"

#include "base/text.h"
#include "tensor/dtype.h"

#include <ctype.h>
#include <string.h>

/* What torch, numpy and Python's own types write for data. Argument lists: those of torch 0.1 to 2.14, seen in files. */
#define DATA(module, name, call, least, most) \
	{ \
		module, name, CKPT_CALL_##call, least, most, CKPT_SCAN_DATA, false \
	}
#define OBJECT(module, name, call, least, most) \
	{ \
		module, name, CKPT_CALL_##call, least, most, CKPT_SCAN_OBJECT, false \
	}
/* ... but for what they do with one kind of argument */
#define CODE(module, name, call, least, most) \
	{ \
		module, name, CKPT_CALL_##call, least, most, CKPT_SCAN_CODE, true \
	}
static const struct ckpt_scan_rule rules[] = {
	DATA("torch._utils", "_rebuild_tensor", PLAIN, 4, 4),
	DATA("torch._utils", "_rebuild_tensor_v2", PLAIN, 6, 7),
	DATA("torch._utils", "_rebuild_tensor_v3", PLAIN, 7, 8),
	DATA("torch._utils", "_rebuild_parameter", PLAIN, 3, 3),
	DATA("torch._utils", "_rebuild_parameter_with_state", PLAIN, 4, 4),
	DATA("torch._utils", "_rebuild_qtensor", PLAIN, 7, 7),
	DATA("torch._utils", "_rebuild_sparse_tensor", PLAIN, 2, 2),
	DATA("torch._utils", "_rebuild_sparse_csr_tensor", PLAIN, 2, 2),
	DATA("torch._utils", "_rebuild_nested_tensor", PLAIN, 4, 4),
	DATA("torch._utils", "_rebuild_meta_tensor_no_storage", PLAIN, 4, 4),
	DATA("torch._utils", "_rebuild_device_tensor_from_numpy", PLAIN, 4, 4),
	DATA("torch._utils", "_rebuild_device_tensor_from_cpu_tensor", PLAIN, 4, 4),
	DATA("torch._utils", "_rebuild_xla_tensor", PLAIN, 4, 4),
	DATA("torch._utils", "_rebuild_mlc_tensor", PLAIN, 4, 4),
	DATA("torch._utils", "_rebuild_wrapper_subclass", PLAIN, 8, 8),
	DATA("torch._utils", "torch", NEVER, 0, 0), /* the module; see CKPT_CALL_GETATTR */
	DATA("torch._tensor", "_rebuild_from_type_v2", FROM_TYPE, 4, 4),
	DATA("torch._tensor", "_rebuild_from_type", FROM_TYPE, 4, 4),
	DATA("torch.tensor", "_rebuild_from_type", FROM_TYPE, 4, 4),
	DATA("torch.storage", "_load_from_bytes", FROM_BYTES, 1, 1),
	DATA("torch.serialization", "_get_layout", PLAIN, 1, 1),
	DATA("torch", "Size", PLAIN, 0, 1),
	DATA("torch", "device", PLAIN, 1, 2),
	DATA("torch", "Tensor", PLAIN, 0, 0),
	DATA("torch", "per_tensor_affine", NEVER, 0, 0),
	DATA("torch", "per_tensor_symmetric", NEVER, 0, 0),
	DATA("torch", "per_channel_affine", NEVER, 0, 0),
	DATA("torch", "per_channel_symmetric", NEVER, 0, 0),
	DATA("torch", "per_channel_affine_float_qparams", NEVER, 0, 0),
	DATA("torch", "strided", NEVER, 0, 0),
	DATA("torch", "sparse_coo", NEVER, 0, 0),
	DATA("torch", "contiguous_format", NEVER, 0, 0),
	DATA("torch", "channels_last", NEVER, 0, 0),
	DATA("torch", "channels_last_3d", NEVER, 0, 0),
	DATA("torch", "preserve_format", NEVER, 0, 0),
	DATA("torch", "Generator", PLAIN, 0, 1),
	DATA("torch._C", "Generator", PLAIN, 0, 1),
	DATA("torch.nn.parameter", "Parameter", PLAIN, 0, 2),
	DATA("torch.nn.parameter", "Buffer", PLAIN, 0, 2),
	DATA("torch.nn.parameter", "UninitializedParameter", PLAIN, 0, 1),
	DATA("torch.nn.parameter", "UninitializedBuffer", PLAIN, 0, 1),
	DATA("torch.autograd.variable", "Variable", PLAIN, 0, 0),
	DATA("torch.torch_version", "TorchVersion", PLAIN, 1, 1),
	DATA("torch.storage", "UntypedStorage", NEVER, 0, 0),
	DATA("torch.storage", "TypedStorage", NEVER, 0, 0),
	/* what C++ writes for its lists, and for dicts that have a type */
	DATA("torch.jit._pickle", "build_intlist", PLAIN, 1, 1),
	DATA("torch.jit._pickle", "build_doublelist", PLAIN, 1, 1),
	DATA("torch.jit._pickle", "build_boollist", PLAIN, 1, 1),
	DATA("torch.jit._pickle", "build_tensorlist", PLAIN, 1, 1),
	DATA("torch.jit._pickle", "restore_type_tag", PLAIN, 2, 2),
	DATA("torch.jit._pickle", "build_tensor_from_id", PLAIN, 1, 1),
	DATA("torch.distributed.tensor", "DTensor", NEVER, 0, 0),
	DATA("torch.distributed._tensor", "DTensor", NEVER, 0, 0),
	DATA("torch.distributed._tensor.api", "DTensor", NEVER, 0, 0),
	DATA("collections", "OrderedDict", PLAIN, 0, 1),
	DATA("collections", "Counter", PLAIN, 0, 1),
	DATA("collections", "defaultdict", PLAIN, 0, 2),
	DATA("collections", "deque", PLAIN, 0, 2),
	DATA("_codecs", "encode", ENCODE, 1, 2),
	DATA("builtins", "bytes", SIZED, 0, 1),
	DATA("builtins", "bytearray", SIZED, 0, 2),
	DATA("builtins", "set", PLAIN, 0, 1),
	DATA("builtins", "frozenset", PLAIN, 0, 1),
	DATA("builtins", "complex", PLAIN, 0, 2),
	DATA("builtins", "list", PLAIN, 0, 1),
	DATA("builtins", "tuple", PLAIN, 0, 1),
	DATA("builtins", "dict", PLAIN, 0, 1),
	DATA("builtins", "int", PLAIN, 0, 1),
	DATA("builtins", "long", PLAIN, 0, 1),
	DATA("builtins", "float", PLAIN, 0, 1),
	DATA("builtins", "bool", PLAIN, 0, 1),
	DATA("builtins", "str", PLAIN, 0, 1),
	DATA("builtins", "unicode", PLAIN, 0, 1),
	DATA("builtins", "slice", PLAIN, 1, 3),
	DATA("builtins", "range", PLAIN, 1, 3),
	DATA("builtins", "xrange", PLAIN, 1, 3),
	DATA("builtins", "object", PLAIN, 0, 0),
	DATA("builtins", "type", TYPE, 1, 1),
	DATA("builtins", "Ellipsis", NEVER, 0, 0),
	DATA("builtins", "NotImplemented", NEVER, 0, 0),
	DATA("builtins", "NoneType", NEVER, 0, 0),
	DATA("datetime", "datetime", PLAIN, 1, 8),
	DATA("datetime", "date", PLAIN, 1, 3),
	DATA("datetime", "time", PLAIN, 1, 5),
	DATA("datetime", "timedelta", PLAIN, 0, 3),
	DATA("datetime", "timezone", PLAIN, 1, 2),
	DATA("decimal", "Decimal", PLAIN, 1, 1),
	DATA("fractions", "Fraction", PLAIN, 1, 2),
	DATA("uuid", "UUID", PLAIN, 0, 0),
	DATA("pathlib", "PosixPath", PLAIN, 0, -1),
	DATA("pathlib", "PurePosixPath", PLAIN, 0, -1),
	DATA("pathlib", "WindowsPath", PLAIN, 0, -1),
	DATA("pathlib", "PureWindowsPath", PLAIN, 0, -1),
	DATA("array", "array", PLAIN, 2, 2),
	DATA("array", "_array_reconstructor", PLAIN, 4, 4),
	DATA("numpy.core.multiarray", "_reconstruct", NUMPY_ARRAY, 3, 3),
	DATA("numpy.core.multiarray", "scalar", NUMPY_SCALAR, 2, 2),
	DATA("numpy.core.numeric", "_frombuffer", NUMPY_BUFFER, 4, 4),
	DATA("numpy", "ndarray", NEVER, 0, 0),
	DATA("numpy", "dtype", NUMPY_DTYPE, 1, 3),
	/* objects, of which it is known that making one runs nothing but their own code */
	OBJECT("copyreg", "_reconstructor", NEW, 3, 3),
	OBJECT("copyreg", "__newobj__", NEW, 1, -1),
	OBJECT("copyreg", "__newobj_ex__", NEW, 3, 3),
	OBJECT("functools", "partial", PARTIAL, 1, -1),
	OBJECT("argparse", "Namespace", PLAIN, 0, 0),
	OBJECT("types", "SimpleNamespace", PLAIN, 0, 1),
	OBJECT("types", "MappingProxyType", PLAIN, 1, 1),
	OBJECT("collections", "ChainMap", PLAIN, 0, -1),
	OBJECT("collections", "UserDict", PLAIN, 0, 1),
	OBJECT("collections", "UserList", PLAIN, 0, 1),
	OBJECT("random", "Random", PLAIN, 0, 1),
	OBJECT("re", "_compile", PLAIN, 2, 2),
	OBJECT("logging", "getLogger", PLAIN, 0, 1),
	OBJECT("zoneinfo", "ZoneInfo._unpickle", PLAIN, 2, 2),
	OBJECT("ipaddress", "IPv4Address", PLAIN, 1, 1),
	OBJECT("ipaddress", "IPv6Address", PLAIN, 1, 1),
	OBJECT("uuid", "SafeUUID", PLAIN, 1, 1),
	OBJECT("signal", "Signals", PLAIN, 1, 1),
	CODE("builtins", "getattr", GETATTR, 2, 2),
	CODE("operator", "getitem", GETITEM, 2, 2),
	CODE("_operator", "getitem", GETITEM, 2, 2),
	OBJECT("operator", "or_", PLAIN, 2, 2),
	OBJECT("_operator", "or_", PLAIN, 2, 2),
	OBJECT("numpy.random._pickle", "__randomstate_ctor", PLAIN, 0, 2),
	OBJECT("numpy.random._pickle", "__generator_ctor", PLAIN, 0, 2),
	OBJECT("numpy.random._pickle", "__bit_generator_ctor", PLAIN, 0, 1),
	OBJECT("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence", PLAIN, 3, 3),
	OBJECT("numpy.random", "__RandomState_ctor", PLAIN, 0, 0),
	OBJECT("numpy.ma.core", "_mareconstruct", PLAIN, 4, 4),
	OBJECT("torch.nested._internal.nested_tensor", "_rebuild_njt", PLAIN, 1, 1),
	OBJECT("torch._dynamo.decorators", "_DimRange", PLAIN, 0, 3),
	OBJECT("torch.distributed.checkpoint.filesystem", "_StorageInfo", PLAIN, 0, 0),
	OBJECT("torch.distributed.checkpoint.filesystem", "_StoragePrefix", PLAIN, 0, 0),
};

/* Which kind a name has for which there is no rule of its own. */
static const struct ckpt_scan_rule tensor_name = DATA("torch", "", NEVER, 0, 0),
				   tensor_class = DATA("torch", "", PLAIN, 0, 0),
				   named_tuple = DATA("torch.return_types", "", PLAIN, 1, 2),
				   exception = DATA("builtins", "", PLAIN, 0, -1),
				   stranger = OBJECT("", "", PLAIN, 0, -1),
				   function = { "",  "", CKPT_CALL_PLAIN, 0, -1, CKPT_SCAN_OBJECT,
						true },
				   runs_code = { "",  "", CKPT_CALL_PLAIN, 0, -1, CKPT_SCAN_CODE,
						 true };

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

static const char *present_name(const char *module)
{
	for (size_t i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++)
		if (!strcmp(module, renamed[i][0]))
			return renamed[i][1];
	return module;
}

static bool is_identifier_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
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
					   (empty && isdigit((unsigned char)*text)))
			return false;
		empty = *text == '.';
	}
	return !empty;
}

bool ckpt_scan_is_name(const char *module, const char *name, const char **why)
{
	*why = NULL;
	if (!is_dotted(module))
		*why = "the name of the module is none that Python can import";
	else if (!is_dotted(name))
		*why = "it is no name that anything in a module can have";
	return !*why;
}

/* "Outer.Inner", as nested classes are called, but not "Outer.method", "os.system" or "Outer.__dict__". */
static bool is_class_path(const char *name)
{
	while (*name) {
		while (*name == '_')
			name++;
		if (!isupper((unsigned char)*name))
			return false;
		name += strcspn(name, ".");
		name += *name == '.';
	}
	return true;
}

static bool has_suffix(const char *text, const char *suffix)
{
	size_t len = strlen(text), end = strlen(suffix);

	return len >= end && !strcmp(text + len - end, suffix);
}

static bool is_exception(const char *name)
{
	static const char *const others[] = { "StopIteration", "StopAsyncIteration",
					      "GeneratorExit", "KeyboardInterrupt", "SystemExit" };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (!strcmp(name, others[i]))
			return true;
	return isupper((unsigned char)*name) && !strchr(name, '.') &&
	       (has_suffix(name, "Error") || has_suffix(name, "Exception") ||
		has_suffix(name, "Warning"));
}

/* ---- torch's many names of one kind ---- */

/* "FloatTensor", of the dtypes that had classes of their own. */
static bool is_tensor_class(const char *name)
{
	char storage[32];
	size_t len = strlen(name);

	if (!has_suffix(name, "Tensor") || len + 2 > sizeof(storage) || len <= 6)
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
		return &tensor_name;
	if (cpu && ((ckpt_dtype_find(name) != CKPT_DTYPE_UNKNOWN &&
		     !strcmp(ckpt_dtype_name(ckpt_dtype_find(name)), name)) ||
		    is_small_int(name)))
		return &tensor_name;
	if ((cpu || !strcmp(module, "torch.cuda") || !strcmp(module, "torch.sparse") ||
	     !strcmp(module, "torch.cuda.sparse")) &&
	    is_tensor_class(name))
		return &tensor_class;
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

static const struct ckpt_scan_rule *find_rule(const char *module, const char *name)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (!strcmp(rules[i].name, name) && !strcmp(rules[i].module, module))
			return &rules[i];
	return NULL;
}

const struct ckpt_scan_rule *ckpt_scan_rule(const char *module, const char *name)
{
	const struct ckpt_scan_rule *rule;

	module = present_name(module);
	rule = find_rule(module, name);
	if (!rule && is_of(module, "torch"))
		rule = rule_of_torch(module, name);
	if (!rule && !strcmp(module, "torch.return_types") && !strchr(name, '.'))
		rule = &named_tuple;
	if (!rule && !strcmp(module, "builtins") && is_exception(name))
		rule = &exception;
	if (rule)
		return rule;
	if (ckpt_scan_runs_code(module, name) || !strncmp(name, "__", 2))
		return &runs_code;
	if (strchr(name, '.') && !is_class_path(name))
		return &runs_code;
	if (ckpt_scan_is_stdlib(module) || is_of(module, "numpy"))
		return &function;
	if (is_of(module, "torch"))
		return is_class_path(name) && has_harmless_classes(module) ? &stranger : &function;
	return &stranger;
}
